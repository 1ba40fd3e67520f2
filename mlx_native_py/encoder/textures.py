"""Texture and sampler arguments of a dispatch: separated from buffers by type, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..memory.texture import MlxSampler, MlxTexture
from ..pipelines.pipeline import Binding, Pipeline

__all__ = ["TextureArgument", "arranged", "check_textures", "split_textures", "texture_threads"]

TextureArgument = tuple[Binding, MlxTexture | MlxSampler]
"""A texture or sampler and the kernel argument that takes it."""

_ELEMENTS = {3: "float", 16: "float", 29: "int", 37: "int", 33: "uint", 41: "uint"}  # by MTLDataType
_FLAT = 2  # MTLTextureType2D


def split_textures(pipeline: Pipeline, args: Sequence[Any]) -> tuple[Sequence[Any], tuple[TextureArgument, ...]]:
    """Splits arguments into buffers and values in slot order, and textures and samplers with their bindings."""
    if not pipeline.textures:
        return args, ()
    groups: dict[str, list[Any]] = {"buffer": [], "texture": [], "sampler": []}
    for given in args:
        groups[_kind(given)].append(given)
    pairs: list[TextureArgument] = []
    for kind in ("texture", "sampler"):
        wanted = [binding for binding in pipeline.textures if binding.kind == kind]
        if len(wanted) != len(groups[kind]):
            names = ", ".join(f"{each.name!r}" for each in wanted) or "none"
            hint = "; device.texture(array) makes one" if kind == "texture" else ""
            raise InvalidArgument(
                f"kernel {pipeline.label!r} takes {len(wanted)} {kind}s ({names}); {len(groups[kind])} were given{hint}"
            )
        pairs += zip(wanted, groups[kind], strict=True)
    return groups["buffer"], tuple(pairs)


def arranged(pipeline: Pipeline, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Positional and named arguments in dispatch order: buffers, textures, samplers."""
    left = {kind: [given for given in args if _kind(given) == kind] for kind in ("buffer", "texture", "sampler")}
    arguments: list[Any] = []
    for binding in (*pipeline.buffers, *pipeline.textures):
        if binding is None:
            arguments.append(None)
        elif binding.name in named:
            arguments.append(named[binding.name])
        elif left[binding.kind]:
            arguments.append(left[binding.kind].pop(0))
        else:
            raise InvalidArgument(f"kernel {pipeline.label!r} lacks {binding.name!r}")
    known = {binding.name for binding in (*pipeline.buffers, *pipeline.textures) if binding is not None}
    if strange := [name for name in named if name not in known]:
        raise InvalidArgument(f"kernel {pipeline.label!r} has no argument {strange[0]!r}; it has {sorted(known)}")
    if rest := [given for kind in left.values() for given in kind]:
        raise InvalidArgument(f"kernel {pipeline.label!r}: {rest[0]!r} is one argument too many")
    return tuple(arguments)


def check_textures(pipeline: Pipeline, textures: Sequence[TextureArgument]) -> tuple[list[MlxBuffer], list[MlxBuffer]]:
    """The buffers of the textures that are read and written; raises if a texture does not fit its argument."""
    reads, writes = [], []
    for binding, given in textures:
        if isinstance(given, MlxSampler):
            continue
        if problem := _mismatch(binding, given):
            raise InvalidArgument(f"kernel {pipeline.label!r}: {binding} {problem}")
        given.buffer.allocation.require_live()
        if binding.reads:
            reads.append(given.buffer)
        if binding.writes:
            writes.append(given.buffer)
    return reads, writes


def texture_threads(textures: Sequence[TextureArgument]) -> tuple[int, int] | None:
    """One thread per texel of the first written texture, or of the first texture; None without textures."""
    given = [(binding, each) for binding, each in textures if isinstance(each, MlxTexture)]
    chosen = next((each for binding, each in given if binding.writes), given[0][1] if given else None)
    return None if chosen is None else (chosen.width, chosen.height)


def _kind(given: Any) -> str:
    return "texture" if isinstance(given, MlxTexture) else "sampler" if isinstance(given, MlxSampler) else "buffer"


def _mismatch(binding: Binding, given: MlxTexture) -> str:
    if binding.texture_type != _FLAT:
        return f"is no texture2d, which {given!r} is"
    wanted = _ELEMENTS.get(binding.data_type)
    if wanted is not None and wanted != given.format.kind:
        return f"holds {wanted}; kernels see {given.format.kind} in {given!r}, whose format= can be another"
    if binding.writes and given.buffer.readonly:
        return f"may be written, but {given!r} is over memory that is read-only"
    return ""
