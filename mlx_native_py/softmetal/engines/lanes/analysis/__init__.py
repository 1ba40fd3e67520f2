"""Divergence analysis: how values, branches and accesses differ between the lanes of a simdgroup."""
