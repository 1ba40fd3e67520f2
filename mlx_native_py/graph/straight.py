"""Straight-line replay: a generated function with one line per message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .arena import ARENA
from .planned import Message

__all__ = ["Replay", "straight_line"]

Replay = Callable[[Any, Any], None]
"""Takes an MTLComputeCommandEncoder and the arena's MTLBuffer."""

_MAX_LINES = 4096  # lines per generated function; longer ones compile slowly
_SHORT = {
    "setComputePipelineState_": "p",
    "setBuffer_offset_atIndex_": "b",
    "setBufferOffset_atIndex_": "o",
    "setThreadgroupMemoryLength_atIndex_": "m",
    "setTexture_atIndex_": "i",
    "setSamplerState_atIndex_": "s",
    "dispatchThreads_threadsPerThreadgroup_": "t",
    "dispatchThreadgroups_threadsPerThreadgroup_": "g",
    "memoryBarrierWithScope_": "w",
    "declare": "d",
}


def straight_line(messages: Iterable[Message]) -> Replay:
    """Generates a function that sends the messages."""
    sent = list(messages)
    objects: dict[Any, str] = {}
    lines = [_line(message, objects) for message in sent]
    names = {name: value for value, name in objects.items()}
    used = list(dict.fromkeys(selector for selector, _ in sent))
    head = f"def replay(arena, {', '.join(_SHORT[selector] for selector in used)}):\n"
    parts = [_compiled(head, lines[at : at + _MAX_LINES], names) for at in range(0, len(lines), _MAX_LINES)]

    def replay(enc: Any, arena: Any) -> None:
        # Looking up a selector costs as much as sending it, so each is looked up once.
        selectors = [getattr(enc, selector) for selector in used]
        for part in parts:
            part(arena, *selectors)

    return replay


def _line(message: Message, objects: dict[Any, str]) -> str:
    words = []
    selector, arguments = message
    for argument in arguments:
        if argument is ARENA:
            words.append("arena")
        elif isinstance(argument, (int, tuple)):
            words.append(repr(argument))
        else:
            words.append(objects.setdefault(argument, f"x{len(objects)}"))
    return f" {_SHORT[selector]}({', '.join(words)})\n"


def _compiled(head: str, lines: Sequence[str], names: dict[str, Any]) -> Callable[..., None]:
    space: dict[str, Any] = dict(names)
    exec(compile(head + "".join(lines), "<plan>", "exec"), space)
    # Removed from its own globals: the reference cycle would delay freeing the function and its buffers.
    function: Callable[..., None] = space.pop("replay")
    return function
