"""Texture samplers: `device.sampler(filter="linear", address="repeat")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BackendError, InvalidArgument
from ..memory.texture import MlxSampler
from ..metal import Backend

__all__ = ["new_sampler"]

_FILTERS = {"nearest": "MTLSamplerMinMagFilterNearest", "linear": "MTLSamplerMinMagFilterLinear"}
_MIPS = {
    "none": "MTLSamplerMipFilterNotMipmapped",
    "nearest": "MTLSamplerMipFilterNearest",
    "linear": "MTLSamplerMipFilterLinear",
}
_MODES = {
    "clamp_to_edge": "MTLSamplerAddressModeClampToEdge",
    "clamp_to_zero": "MTLSamplerAddressModeClampToZero",
    "clamp_to_border": "MTLSamplerAddressModeClampToBorderColor",
    "repeat": "MTLSamplerAddressModeRepeat",
    "mirrored_repeat": "MTLSamplerAddressModeMirrorRepeat",
}
_BORDERS = {
    "transparent_black": "MTLSamplerBorderColorTransparentBlack",
    "opaque_black": "MTLSamplerBorderColorOpaqueBlack",
    "opaque_white": "MTLSamplerBorderColorOpaqueWhite",
}
_COORDS = {"normalized": True, "pixel": False}


def _chosen(what: str, given: str, words: Mapping[str, Any]) -> Any:
    if given not in words:
        raise InvalidArgument(f"{what}={given!r}; there are {', '.join(words)}")
    return words[given]


def new_sampler(
    backend: Backend, device: Any, *, filter: str, address: str, coord: str, mip_filter: str, border: str
) -> MlxSampler:
    """A sampler with the same address mode for all axes."""
    metal = backend.Metal
    normalized = _chosen("coord", coord, _COORDS)
    if not normalized and (address not in ("clamp_to_edge", "clamp_to_zero") or mip_filter != "none"):
        raise InvalidArgument(
            f"coord='pixel' goes with address 'clamp_to_edge' or 'clamp_to_zero' and no mip_filter, not with "
            f"address={address!r}, mip_filter={mip_filter!r}"
        )
    mode = getattr(metal, _chosen("address", address, _MODES))
    smooth = getattr(metal, _chosen("filter", filter, _FILTERS))
    with backend.autorelease_pool():
        asked = metal.MTLSamplerDescriptor.alloc().init()
        asked.setMinFilter_(smooth)
        asked.setMagFilter_(smooth)
        asked.setMipFilter_(getattr(metal, _chosen("mip_filter", mip_filter, _MIPS)))
        asked.setSAddressMode_(mode)
        asked.setTAddressMode_(mode)
        asked.setRAddressMode_(mode)
        asked.setBorderColor_(getattr(metal, _chosen("border", border, _BORDERS)))
        asked.setNormalizedCoordinates_(normalized)
        mtl = device.newSamplerStateWithDescriptor_(asked)
    if mtl is None:
        raise BackendError("the device could not create a sampler")
    return MlxSampler(mtl, f"{filter}, {address}, {coord}")
