"""Isolated devices: kernels run in helper processes that can ask the system for nothing but memory and time."""
