"""Emits the vector code of a simdgroup, instruction by instruction."""
