"""Binary archives: which functions have been compiled ahead, kept in a small readable file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import constants as c
from .base import Descriptor, Labelled, attribute
from .foundation import NSURL, NSError
from .values import answer, instance, maybe, unwanted

if TYPE_CHECKING:
    from .device import MTLDevice

FORMAT = "software Metal binary archive 1"


def archive_error(code: int, message: str) -> NSError:
    return NSError(c.MTLBinaryArchiveDomain, code, message)


class MTLBinaryArchiveDescriptor(Descriptor):
    """Where an archive comes from; without a place it starts empty."""

    url, setUrl_ = attribute("url", maybe(NSURL), None)


class MTLBinaryArchive(Labelled):
    """A set of functions by digest; their machine code lives in the compiler's own cache."""

    def __init__(self, device: MTLDevice, keys: dict[str, str]) -> None:
        self._device = device
        self._keys = keys

    def device(self) -> MTLDevice:
        return self._device

    def addComputePipelineFunctionsWithDescriptor_error_(self, descriptor: Any, error: None) -> Any:
        from .pipeline import MTLComputePipelineDescriptor, build_pipeline

        unwanted(error, "error")
        asked = instance(descriptor, MTLComputePipelineDescriptor, "descriptor")
        pipeline, problem = build_pipeline(self._device, asked, c.MTLPipelineOptionNone)
        if pipeline is not None:
            self._keys[pipeline._function._key()] = pipeline._function.name()
        return answer(pipeline is not None, (error, problem))

    def serializeToURL_error_(self, url: NSURL, error: None) -> Any:
        unwanted(error, "error")
        place = Path(instance(url, NSURL, "url").path())
        try:
            place.write_text(json.dumps({"format": FORMAT, "functions": self._keys}, indent=1))
        except OSError as problem:
            return answer(False, (error, archive_error(c.MTLBinaryArchiveErrorInternalError, str(problem))))
        return answer(True, (error, None))

    def _holds(self, key: str) -> bool:
        return key in self._keys


def open_archive(
    device: MTLDevice,
    descriptor: MTLBinaryArchiveDescriptor,
) -> tuple[MTLBinaryArchive | None, NSError | None]:
    """An empty archive, or the one in the descriptor's file."""
    url = descriptor.url()
    if url is None:
        return MTLBinaryArchive(device, {}), None
    try:
        stored = json.loads(Path(url.path()).read_text())
        if stored["format"] != FORMAT:
            raise ValueError(f"format is {stored['format']!r}")
        functions = {str(key): str(name) for key, name in stored["functions"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        return None, archive_error(
            c.MTLBinaryArchiveErrorInvalidFile, f"Invalid binary archive {url.path()}: {problem}"
        )
    return MTLBinaryArchive(device, functions), None
