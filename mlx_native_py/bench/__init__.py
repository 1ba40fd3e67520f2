"""Benchmarks on this machine, each next to other libraries in the same run."""
