"""Profiling: GPU times of command buffers, dispatches, kernels and regions, traces and reports."""
