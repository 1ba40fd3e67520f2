"""Kernels as functions on arrays."""
