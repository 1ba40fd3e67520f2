"""The lanes engine: vectorises a simdgroup into one function, by a pass over LLVM's textual IR."""
