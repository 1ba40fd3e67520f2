"""Metal's structs, and checked conversion of Python arguments to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Final, NamedTuple, TypeVar

from .misuse import InvalidValue

T = TypeVar("T")
UINT64_END: Final = 1 << 64


class MTLSize(NamedTuple):
    """Three dimensions."""

    width: int
    height: int
    depth: int


class MTLOrigin(NamedTuple):
    """Where a region begins."""

    x: int
    y: int
    z: int


class MTLRegion(NamedTuple):
    """A part of a texture."""

    origin: MTLOrigin
    size: MTLSize


class MTLSizeAndAlign(NamedTuple):
    """The size and alignment of a resource in a heap."""

    size: int
    align: int


@dataclass(frozen=True)
class MTLResourceID:
    """The handle of an object inside an argument buffer."""

    _impl: int


class NSRange(NamedTuple):
    """A range of elements."""

    location: int
    length: int


class Null:
    """Stands for `objc.NULL`: an unwanted out-parameter."""

    def __repr__(self) -> str:
        return "NULL"

    def __bool__(self) -> bool:
        return False


NULL: Final = Null()


def MTLSizeMake(width: int, height: int, depth: int) -> MTLSize:
    return MTLSize(width, height, depth)


def MTLRegionMake2D(x: int, y: int, width: int, height: int) -> MTLRegion:
    return MTLRegion(MTLOrigin(x, y, 0), MTLSize(width, height, 1))


def NSMakeRange(location: int, length: int) -> NSRange:
    return NSRange(location, length)


def natural(value: Any, what: str) -> int:
    """An NSUInteger; floats, booleans and negatives are refused, where PyObjC would bend them."""
    if type(value) is int and 0 <= value < UINT64_END:
        return value
    number = whole(value, what)
    if not 0 <= number < UINT64_END:
        raise InvalidValue(f"{what} is {number}, expected an unsigned 64-bit integer")
    return number


def whole(value: Any, what: str) -> int:
    """An NSInteger."""
    if isinstance(value, bool):
        raise TypeError(f"{what} is {value}, expected an integer")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r} of type {type(value).__name__}, expected an integer") from None


def truth(value: Any, what: str) -> bool:
    """A BOOL."""
    if isinstance(value, bool) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{what} is {value!r}, expected a bool")


def text(value: Any, what: str) -> str:
    """An NSString."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{what} is {value!r}, expected a str")


def optional_text(value: Any, what: str) -> str | None:
    """An NSString or nil."""
    return None if value is None else text(value, what)


def size(value: Any, what: str) -> tuple[int, int, int]:
    """An MTLSize, given as any sequence of three."""
    if type(value) is tuple and len(value) == 3:
        x, y, z = value
        if type(x) is int and type(y) is int and type(z) is int and x >= 0 and y >= 0 and z >= 0:
            return value
    if not _is_sequence(value):
        raise TypeError(f"{what} is {value!r}, expected three integers")
    if len(value) != 3:
        raise InvalidValue(f"{what} is {value!r}, expected three integers")
    return natural(value[0], what), natural(value[1], what), natural(value[2], what)


def _is_sequence(value: Any) -> bool:
    """Of anything but characters; the two usual types come first, since asking an abstract class takes long."""
    return type(value) in (tuple, list) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))


def region(value: Any, what: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """An MTLRegion, given as (origin, size)."""
    if not _is_sequence(value):
        raise TypeError(f"{what} is {value!r}, expected (origin, size)")
    if len(value) != 2:
        raise InvalidValue(f"{what} is {value!r}, expected (origin, size)")
    return size(value[0], f"{what} origin"), size(value[1], f"{what} size")


def span(value: Any, what: str) -> NSRange:
    """An NSRange, given as `(location, length)`."""
    if not _is_sequence(value):
        raise TypeError(f"{what} is {value!r}, expected (location, length)")
    if len(value) != 2:
        raise InvalidValue(f"{what} is {value!r}, expected (location, length)")
    return NSRange(natural(value[0], what), natural(value[1], what))


def within(value: Any, end: int, what: str) -> NSRange:
    """An NSRange that lies inside `[0, end)`."""
    run = span(value, what)
    if run.location + run.length > end:
        raise InvalidValue(f"{what} is ({run.location}, {run.length}), which ends beyond {end}")
    return run


def instance(value: Any, kind: type[T], what: str) -> T:
    """An object of one class, not nil."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"{what} is {value!r}, expected a {kind.__name__}")


def maybe(kind: type[T]) -> Callable[[Any, str], T | None]:
    """A check for an object of one class, or nil."""
    return lambda value, what: None if value is None else instance(value, kind, what)


def handler(value: Any, what: str) -> Callable[..., object]:
    """A block."""
    if callable(value):
        return value  # type: ignore[no-any-return]
    raise TypeError(f"{what} is {value!r}, expected a callable")


def counted(values: Any, count: Any, what: str) -> Sequence[Any]:
    """A C array with its count; PyObjC wants both, and the array may be longer."""
    number = natural(count, f"count of {what}")
    if not _is_sequence(values):
        raise TypeError(f"{what} is {values!r}, expected a list or tuple")
    if len(values) < number:
        raise InvalidValue(f"{what} has {len(values)} elements, but its count says {number}")
    first: Sequence[Any] = values[:number]
    return first


def flat_bytes(data: Any, length: int, what: str) -> memoryview:
    """The first `length` bytes of any C-contiguous buffer."""
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"{what} is a {type(data).__name__}, expected bytes or another buffer") from None
    if not view.c_contiguous:
        raise InvalidValue(f"{what} is not C-contiguous")
    if view.nbytes < length:
        raise InvalidValue(f"{what} has {view.nbytes} bytes, fewer than the {length} asked for")
    return (view if view.format == "B" and view.ndim == 1 else view.cast("B"))[:length]


def unwanted(value: Any, what: str) -> bool:
    """Checks an out-parameter: None asks for the result, NULL refuses it; returns whether it is refused."""
    if value is None or isinstance(value, Null):
        return value is not None
    raise InvalidValue(f"{what} is an out-parameter: pass None (or NULL), not {value!r}")


def answer(value: Any, *outs: tuple[Any, Any]) -> Any:
    """The result tuple of a call with out-parameters; each out is (what the caller passed, result)."""
    return (value, *(NULL if isinstance(passed, Null) else result for passed, result in outs))
