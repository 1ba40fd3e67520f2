"""Values that come from other threads of a simdgroup: `soft_received_*` of include/soft_meet.h, which mark them."""

from __future__ import annotations

import re

RECEIVED = "soft_received_i"
SHADOW = "soft_undefined_received_"  # answers the shadow of the same place
_BITS = (8, 16, 32)
_VALUE, _PLACE = r"i\d+ (?:[^,\n]* )?(\S+)", r"ptr (?:[^)\n]* )?(\S+)"
_CALL = re.compile(rf"(= )(?:tail )?call [^@\n]*@{RECEIVED}(\d+)\({_VALUE}, {_PLACE}\).*$", re.MULTILINE)
_DECLARED = re.compile(rf"^declare [^@\n]*@{RECEIVED}(\d+)\(.*$", re.MULTILINE)
_READS = "memory(argmem: read, inaccessiblemem: read) nounwind willreturn"

declarations = tuple(f"declare i{bits} @{SHADOW}i{bits}(ptr) {_READS}" for bits in _BITS)


def movable(text: str) -> str:
    """The module with markers that the optimiser may drop, but cannot move to where the place has other contents."""
    text = _CALL.sub(rf"\1call i\2 @{RECEIVED}\2(i\2 \3, ptr \4)", text)
    return _DECLARED.sub(lambda found: f"declare i{found[1]} @{RECEIVED}{found[1]}(i{found[1]}, ptr) {_READS}", text)


def without_markers(text: str) -> str:
    """The module with the values themselves."""
    return _CALL.sub(r"\1freeze i\2 \3", text)
