"""Objective-C's side of the stand-in: proxies that check each message against the table and pass it on."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from .bridge import Bridge, Row
from .teeth import answer

_proxies: weakref.WeakValueDictionary[int, Object] = weakref.WeakValueDictionary()


class Object:
    """A proxy such as PyObjC makes for each Objective-C object."""

    def __init__(self, bridge: Bridge, soft: Any, retains: int) -> None:
        self._bridge, self._soft, self._retains = bridge, soft, retains

    def __getattr__(self, name: str) -> Any:
        if not self._bridge.has(name):
            raise AttributeError(f"{type(self._soft).__name__} {name}: not in the selector table")
        return lambda *arguments: _send(self._bridge, self._soft, name, arguments)

    def init(self) -> Object:
        return self

    def retainCount(self) -> int:
        return self._retains

    def respondsToSelector_(self, selector: bytes) -> bool:
        if not isinstance(selector, bytes):
            raise TypeError("a selector is bytes")
        name = selector.decode()
        known = name in self._bridge.profile.offers or bool(self._soft.respondsToSelector_(selector))
        return known and self._bridge.has(name.replace(":", "_"))


class ClassProxy:
    """An Objective-C class."""

    def __init__(self, bridge: Bridge, soft: Any) -> None:
        self._bridge, self._soft = bridge, soft

    def alloc(self) -> Object:
        return Object(self._bridge, self._soft.alloc().init(), 1)

    new = alloc

    def __getattr__(self, name: str) -> Any:
        if not self._bridge.has(name):
            raise AttributeError(f"{self._soft.__name__} {name}: not in the selector table")
        return lambda *arguments: _send(self._bridge, self._soft, name, arguments)


def wrap(bridge: Bridge, value: Any, retains: int = 1) -> Any:
    """What Python sees of a value that software Metal gave."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(wrap(bridge, item) for item in value)
    if isinstance(value, Mapping):
        return {key: wrap(bridge, item) for key, item in value.items()}
    proxy = _proxies.get(id(value))
    if proxy is None or proxy._bridge is not bridge:
        proxy = _proxies[id(value)] = Object(bridge, value, retains)
    return proxy


def unwrap(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(unwrap(item) for item in value)
    return value._soft if isinstance(value, (Object, ClassProxy)) else value


def _send(bridge: Bridge, soft: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    row = bridge.row(name, len(arguments))
    if len(arguments) != len(row.arguments):
        raise TypeError(f"{name}: need {len(row.arguments)} arguments, got {len(arguments)}")
    for i in range(len(arguments)):
        _check(bridge, row, i, arguments)
    bridge.sent.append(row.selector)
    given = [unwrap(argument) for argument in arguments]
    return _result(bridge, row, answer(bridge.profile, soft, row.selector, given))


def _result(bridge: Bridge, row: Row, found: Any) -> Any:
    """Out-parameters come back behind the result; those that PyObjC does not know of are lost."""
    outs = [i for i, kind in enumerate(row.arguments) if kind.startswith("o")]
    pointers = [i for i, kind in enumerate(row.arguments) if kind in ("o^@", "o^Q", "^@")]
    values = list(found) if pointers else [found]
    if pointers and row.result == "v":
        values.insert(0, None)
    if len(values) != 1 + len(pointers):
        raise TypeError(f"{row.selector}: software Metal gave {len(values)} values, the table says {1 + len(pointers)}")
    _check_result(row, values[0])
    if row.makes_new and not row.owned:
        bridge.leaked.append(values[0])
    wrapped = bridge.profile.debug_layer and row.makes_new
    retains = (1 if row.owned or not row.makes_new else 2) + wrapped
    first = wrap(bridge, values[0], retains) if row.result == "@" else values[0]
    if row.result == "^v" and not row.memory:
        return id(values[0])  # a number, which nobody may take for an address
    if isinstance(first, Object) and not row.makes_new and bridge.pool_depth == 0:
        bridge.loose += 1
    given = [wrap(bridge, v) for i, v in zip(pointers, values[1:], strict=True) if i in outs]
    if not given:
        return first
    if row.result == "v":
        return given[0] if len(given) == 1 else tuple(given)
    return (first, *given)


def _check_result(row: Row, value: Any) -> None:
    kinds: dict[str, type | tuple[type, ...]] = {"Q": int, "q": int, "d": float, "Z": bool, "v": type(None)}
    if row.result in kinds and not isinstance(value, kinds[row.result]):
        raise TypeError(f"{row.selector}: software Metal gave {value!r} where the table says {row.result}")


def _check(bridge: Bridge, row: Row, i: int, arguments: tuple[Any, ...]) -> None:
    kind, value = row.arguments[i], arguments[i]

    def refuse(wanted: str) -> TypeError:
        return TypeError(f"{row.selector} argument {i} is {value!r}, needs {wanted}")

    def whole(low: int, high: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refuse(f"a whole number from {low} to {high}")

    if kind == "Q":
        whole(0, 2**64 - 1)
    elif kind == "q":
        whole(-(2**63), 2**63 - 1)
    elif kind == "z":
        whole(-128, 127)
    elif kind == "Z":
        if not isinstance(value, (bool, int)):
            raise refuse("a truth value")
    elif kind == "@":
        if not (value is None or isinstance(value, (Object, ClassProxy, str, dict, list, tuple)) or _is_url(value)):
            raise refuse("an object")
        if isinstance(value, (str, dict, list, tuple)) and bridge.pool_depth == 0:
            bridge.loose += 1  # PyObjC makes an autoreleased proxy of it
    elif kind in ("o^@", "o^Q", "^@"):
        if value is not None and value is not bridge.NULL:
            raise refuse("None, for an out-parameter")
    elif kind == "@?":
        if not (value is None or callable(value)):
            raise refuse("a callable or None")
    elif kind == "f":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse("a number")
    elif kind.startswith("{MTLRegion"):
        if not (isinstance(value, tuple) and [len(part) for part in value] == [3, 3]):
            raise refuse("a tuple of two tuples, origin and size")
    elif kind.startswith("{"):
        count = kind.partition("=")[2].count("Q")
        if not (isinstance(value, tuple) and len(value) == count and all(type(n) is int and n >= 0 for n in value)):
            raise refuse(f"a tuple of {count} whole numbers")
    elif kind == "^v":
        if type(value) is not int:
            raise refuse("an address, for PyObjC knows nothing of this pointer")
        raise refuse("memory: this package sends no addresses")
    elif kind == "o^v":
        if memoryview(value).readonly:
            raise refuse("memory to write to")
    elif kind == "n^v":
        view = memoryview(value)  # raises TypeError for str, int and None, as PyObjC does
        if not view.c_contiguous or (i in row.lengths and view.nbytes < arguments[row.lengths[i]]):
            raise refuse("contiguous memory as long as the length says")
    elif kind in ("n^@", "n^Q"):
        count = arguments[row.lengths[i]]
        count = count[1] if isinstance(count, tuple) else count
        if not isinstance(value, (list, tuple)) or len(value) != count:
            raise refuse(f"a list or tuple of {count}")
    else:
        raise NotImplementedError(f"{row.selector}: argument kind {kind}")


def _is_url(value: Any) -> bool:
    return type(value).__name__ in ("NSURL", "PosixPath")
