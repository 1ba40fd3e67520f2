"""The lanes engine: one simdgroup becomes one vector function, by a pass over LLVM's textual IR."""
