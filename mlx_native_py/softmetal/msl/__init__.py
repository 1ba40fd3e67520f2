"""The front end: MSL source in, compiled kernels out."""

from .compiler import Compiler, open_compiler
from .library import SourceLibrary, open_library

__all__ = ["SourceLibrary", "Compiler", "open_library", "open_compiler"]
