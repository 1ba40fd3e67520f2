"""Kernels as functions on arrays: `kernel(source)` and `fast.metal_kernel`."""
