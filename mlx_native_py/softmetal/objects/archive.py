"""Binary archives: which functions were compiled ahead, in a small readable file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import constants as c
from ..values import answer, instance, maybe, unwanted
from .base import Descriptor, attribute
from .foundation import NSURL, NSError
from .library import FunctionArchive
from .owned import DeviceObject
from .pipeline import MTLComputePipelineDescriptor, build_pipeline

FORMAT = "software Metal binary archive 1"


def archive_error(code: int, message: str) -> NSError:
    return NSError(c.MTLBinaryArchiveDomain, code, message)


class MTLBinaryArchiveDescriptor(Descriptor):
    """The URL of an archive; without one it starts empty."""

    url, setUrl_ = attribute("url", maybe(NSURL), None)


class MTLBinaryArchive(FunctionArchive):
    """A set of function digests; their machine code is in the compiler's cache."""

    def addComputePipelineFunctionsWithDescriptor_error_(self, descriptor: Any, error: None) -> Any:
        unwanted(error, "error")
        asked = instance(descriptor, MTLComputePipelineDescriptor, "descriptor")
        pipeline, problem = build_pipeline(self._device, asked, c.MTLPipelineOptionNone)
        function = asked.computeFunction()
        if pipeline is not None and function is not None:
            self.names[function.state.key()] = function.name()
        return answer(pipeline is not None, (error, problem))

    def serializeToURL_error_(self, url: NSURL, error: None) -> Any:
        unwanted(error, "error")
        place = Path(instance(url, NSURL, "url").path())
        try:
            place.write_text(json.dumps({"format": FORMAT, "functions": self.names}, indent=1))
        except OSError as problem:
            return answer(False, (error, archive_error(c.MTLBinaryArchiveErrorInternalError, str(problem))))
        return answer(True, (error, None))


def open_archive(
    device: DeviceObject,
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
