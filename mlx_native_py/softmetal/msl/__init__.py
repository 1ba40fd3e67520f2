"""The front end: MSL source in, compiled kernels out."""

from .compiler import Compiler, open_compiler
from .library import SourceLibrary, open_library

__all__ = ["Compiler", "SourceLibrary", "open_compiler", "open_library"]
