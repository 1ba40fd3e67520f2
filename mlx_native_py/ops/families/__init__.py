"""The families of ops: a module for each file of kernels, of the same name."""
