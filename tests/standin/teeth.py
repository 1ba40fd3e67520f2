"""Where a Mac differs from software Metal: aborts, nil answers, the compiler's language, what older systems lack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mlx_native_py import softmetal
from mlx_native_py.softmetal import constants as c
from mlx_native_py.softmetal.objects.foundation import NSError

from .profiles import Profile

__all__ = ["Aborted", "answer"]

_COMPILE = "newLibraryWithSource:options:error:"
_PIPELINE = "newComputePipelineStateWithDescriptor:options:reflection:error:"
_FIRST_BFLOAT = (3, 1)


class Aborted(BaseException):
    """On a Mac the process would be gone now; no `except Exception` may hide it."""


_ONLY_FROM_ARCHIVE = c.MTLPipelineOptionFailOnBinaryArchiveMiss


def answer(profile: Profile, soft: Any, selector: str, arguments: Sequence[Any]) -> Any:
    """What the object says to a message whose arguments are in order."""
    if selector in profile.aborts:
        raise Aborted(f"{selector}: nobody may send this to {profile.device.name}")
    if selector in profile.answers:
        return profile.answers[selector]
    if selector in profile.nil:
        missing = NSError("StandIn", 1, "this Mac has none")
        return (None, missing) if selector.endswith("error:") else None
    if selector == _COMPILE and (problem := _refused_source(profile, *arguments[:2])):
        return None, problem
    if profile.debug_layer:
        _validate(soft, selector, arguments)
    try:
        result = getattr(soft, selector.replace(":", "_"))(*arguments)
    except softmetal.MetalMisuse as misuse:
        raise Aborted(f"{selector}: failed assertion: {misuse}") from misuse
    if selector == _PIPELINE and not profile.archive_reflection and arguments[1] & _ONLY_FROM_ARCHIVE:
        return result[0], None, result[2]
    return result


def _refused_source(profile: Profile, source: str, options: Any) -> NSError | None:
    """Metal takes the language version from the host executable, unless the options name one."""
    chosen = None if options is None else vars(options).get("_languageVersion")
    language = profile.host_language if chosen is None else (chosen >> 16, chosen & 0xFFFF)
    if language > profile.language:
        return NSError("MTLLibraryErrorDomain", 3, f"language version {language[0]}.{language[1]} is not supported")
    match = re.search(r"\bbfloat", source)
    if match is None or language >= _FIRST_BFLOAT:
        return None
    line = source.count("\n", 0, match.start()) + 1
    column = match.start() - source.rfind("\n", 0, match.start())
    return NSError("MTLLibraryErrorDomain", 3, f"program_source:{line}:{column}: error: unknown type name 'bfloat'\n")


def _validate(soft: Any, selector: str, arguments: Sequence[Any]) -> None:
    """What only the debug layer minds; software Metal minds the rest by itself."""
    if selector == "newBufferWithLength:options:" and not 0 < arguments[0] <= soft.maxBufferLength():
        raise Aborted(f"{selector}: failed assertion: length {arguments[0]} is not from 1 to {soft.maxBufferLength()}")
