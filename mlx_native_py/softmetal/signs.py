"""Signs that objects hold, so that weak references tell when nobody can use the objects any more."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np


class Gone(ref[Any]):
    """A weak reference to a sign, equal to itself only."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def sign() -> object:
    """A sign for one object.

    The garbage collector clears weak references to what it tracks before it calls the `__del__` of whatever goes in
    the same cycle, which may still use the object or keep it. Arrays it does not track: they go when their holders do.
    """
    return np.empty(0, np.uint8)
