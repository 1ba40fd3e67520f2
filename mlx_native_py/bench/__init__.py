"""Measurements of this machine, each compared with peers in the same run."""
