"""The front end: MSL source in, compiled kernels out."""

from .library import SourceLibrary, open_library
from .workshop import Workshop, workshop

__all__ = ["SourceLibrary", "Workshop", "open_library", "workshop"]
