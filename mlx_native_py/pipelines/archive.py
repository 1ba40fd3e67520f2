"""Compiled pipelines on disk, in Metal's binary archives."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ..errors import BackendError
from ..forks import Lock
from ..metal import Backend, ns_error

__all__ = ["PipelineArchive"]


class PipelineArchive:
    """A file of compiled pipelines; missing ones are compiled, added, and written by `save()`."""

    def __init__(self, backend: Backend, device: Any, path: Path) -> None:
        self._backend = backend
        self._device = device
        self._lock = Lock()
        self._changed = False
        self.path = path
        self.refused = ""
        """Why an existing file could not be used; the next `save()` replaces it."""
        self._mtl = self._open()

    def build(self, descriptor: Any, options: int) -> tuple[Any, Any, Any, bool]:
        """(pipeline, reflection, error, whether it came from the file)."""
        make = self._device.newComputePipelineStateWithDescriptor_options_reflection_error_
        descriptor.setBinaryArchives_([self._mtl])
        stored = options | self._backend.Metal.MTLPipelineOptionFailOnBinaryArchiveMiss
        pipeline, reflection, error = make(descriptor, stored, None, None)
        if pipeline is not None and reflection is not None:
            return pipeline, reflection, error, True
        if pipeline is not None:
            # A pipeline from an archive may lack reflection, without which arguments cannot be bound safely.
            descriptor.setBinaryArchives_([])
            return *make(descriptor, options, None, None), False
        pipeline, reflection, error = make(descriptor, options, None, None)
        if pipeline is not None:
            with self._lock:
                added, _ = self._mtl.addComputePipelineFunctionsWithDescriptor_error_(descriptor, None)
                self._changed = self._changed or bool(added)
        return pipeline, reflection, error, False

    def save(self) -> bool:
        """Writes pipelines added since the last save; False if there were none."""
        with self._lock, self._backend.autorelease_pool():
            if not self._changed:
                return False
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name, suffix=".part")
            os.close(handle)
            os.unlink(name)  # Metal writes only where nothing is
            try:
                written, error = self._mtl.serializeToURL_error_(self._backend.url(name), None)
                if not written:
                    raise BackendError(f"could not write {self.path}: {ns_error.reason(error)}")
                os.replace(name, self.path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
            self._changed = False
            return True

    def _open(self) -> Any:
        with self._backend.autorelease_pool():
            if self.path.exists():
                archive, error = self._make(self.path)
                if archive is not None:
                    return archive
                self.refused = ns_error.reason(error)
            archive, error = self._make(None)
            if archive is None:
                raise BackendError(f"this device has no binary archives: {ns_error.reason(error)}")
            return archive

    def _make(self, path: Path | None) -> tuple[Any, Any]:
        descriptor = self._backend.Metal.MTLBinaryArchiveDescriptor.alloc().init()
        if path is not None:
            descriptor.setUrl_(self._backend.url(path))
        archive, error = self._device.newBinaryArchiveWithDescriptor_error_(descriptor, None)
        return archive, error
