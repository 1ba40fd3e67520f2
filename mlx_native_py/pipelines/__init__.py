"""Kernels from MSL source to compute pipeline."""
