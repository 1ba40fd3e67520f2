"""Samplers: texture filtering and addressing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from .. import constants as c
from ..misuse import InvalidValue
from ..values import MTLResourceID, instance, natural, optional_text, truth
from .base import Descriptor, attribute
from .owned import DeviceObject, Owned

_VALID = 1 << 23


def _up_to(last: int) -> Callable[[Any, str], int]:
    def check(value: Any, what: str) -> int:
        number = natural(value, what)
        if number > last:
            raise InvalidValue(f"{what} is {number}, expected 0 to {last}")
        return number

    return check


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {value!r}, expected a number")
    return float(value)


class MTLSamplerDescriptor(Descriptor):
    """The parameters of a sampler."""

    label, setLabel_ = attribute("label", optional_text, None)
    minFilter, setMinFilter_ = attribute("minFilter", _up_to(1), c.MTLSamplerMinMagFilterNearest)
    magFilter, setMagFilter_ = attribute("magFilter", _up_to(1), c.MTLSamplerMinMagFilterNearest)
    mipFilter, setMipFilter_ = attribute("mipFilter", _up_to(2), c.MTLSamplerMipFilterNotMipmapped)
    sAddressMode, setSAddressMode_ = attribute("sAddressMode", _up_to(5), c.MTLSamplerAddressModeClampToEdge)
    tAddressMode, setTAddressMode_ = attribute("tAddressMode", _up_to(5), c.MTLSamplerAddressModeClampToEdge)
    rAddressMode, setRAddressMode_ = attribute("rAddressMode", _up_to(5), c.MTLSamplerAddressModeClampToEdge)
    borderColor, setBorderColor_ = attribute("borderColor", _up_to(2), c.MTLSamplerBorderColorTransparentBlack)
    normalizedCoordinates, setNormalizedCoordinates_ = attribute("normalizedCoordinates", truth, True)
    lodMinClamp, setLodMinClamp_ = attribute("lodMinClamp", _number, 0.0)
    lodMaxClamp, setLodMaxClamp_ = attribute("lodMaxClamp", _number, 3.4028234663852886e38)
    lodAverage, setLodAverage_ = attribute("lodAverage", truth, False)
    compareFunction, setCompareFunction_ = attribute("compareFunction", _up_to(7), c.MTLCompareFunctionNever)
    maxAnisotropy, setMaxAnisotropy_ = attribute("maxAnisotropy", natural, 1)
    supportArgumentBuffers, setSupportArgumentBuffers_ = attribute("supportArgumentBuffers", truth, False)


class MTLSamplerState(Owned):
    """A sampler, packed in eight bytes as in include/soft_sampler.h."""

    def __init__(self, device: DeviceObject, descriptor: MTLSamplerDescriptor) -> None:
        super().__init__(device)
        self._label = descriptor.label()
        self.bits = _packed(descriptor)

    def label(self) -> str | None:
        return self._label

    def gpuResourceID(self) -> MTLResourceID:
        return MTLResourceID(self.bits)


def new_sampler(device: DeviceObject, descriptor: Any) -> MTLSamplerState:
    """A sampler for kernels' `sampler` arguments."""
    asked = instance(descriptor, MTLSamplerDescriptor, "descriptor")
    modes = {asked.sAddressMode(), asked.tAddressMode(), asked.rAddressMode()}
    clamps = {c.MTLSamplerAddressModeClampToEdge, c.MTLSamplerAddressModeClampToZero}
    if not asked.normalizedCoordinates() and (asked.mipFilter() or not modes <= clamps):
        raise InvalidValue("coordinates in pixels go with clampToEdge or clampToZero, and without mipmaps")
    if asked.lodMinClamp() > asked.lodMaxClamp() or not 1 <= asked.maxAnisotropy() <= 16:
        raise InvalidValue("lodMinClamp must not exceed lodMaxClamp, and maxAnisotropy is 1 to 16")
    return MTLSamplerState(device, asked)


def with_lod(bits: int, least: float, most: float) -> int:
    """The same sampler with other limits of the level of detail."""
    return bits & 0xFFFFFFFF | _half(_number(least, "lodMinClamp")) << 32 | _half(_number(most, "lodMaxClamp")) << 48


def _packed(asked: MTLSamplerDescriptor) -> int:
    bits = _VALID | (not asked.normalizedCoordinates())
    for at, value in (
        (1, asked.sAddressMode()),
        (4, asked.tAddressMode()),
        (7, asked.rAddressMode()),
        (10, asked.magFilter()),
        (11, asked.minFilter()),
        (12, asked.mipFilter()),
        (14, asked.compareFunction()),
        (18, asked.borderColor()),
    ):
        bits |= value << at
    return with_lod(bits, asked.lodMinClamp(), asked.lodMaxClamp())


def _half(value: float) -> int:
    packed: int = struct.unpack("<H", struct.pack("<e", min(max(value, -65504.0), 65504.0)))[0]
    return packed
