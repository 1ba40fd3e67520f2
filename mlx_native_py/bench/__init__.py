"""Benchmarks on this machine, each beside other libraries in the same run."""
