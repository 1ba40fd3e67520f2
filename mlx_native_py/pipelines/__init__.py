"""Kernels from MSL source to pipeline."""
