"""The MSL front end: source to compiled kernels."""

from .compiler import Compiler, open_compiler
from .library import SourceLibrary, open_library

__all__ = ["Compiler", "SourceLibrary", "open_compiler", "open_library"]
