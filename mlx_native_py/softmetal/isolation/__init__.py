"""Isolated devices: kernels run in sandboxed helper processes."""
