"""Kernels compiled ahead: those of a model's steps, in the background while its weights are read."""

from __future__ import annotations

import atexit
import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..device import MlxDevice
from ..dtypes import DType
from ..errors import MlxError
from ..weights import TensorFile
from .checkpoint import Checkpoint
from .config import Config

__all__ = ["Preparation"]

_LAYER = re.compile(r"\b(layers?|blk)\.(\d+)\.")
_CHUNK = 32
"""Tokens of a prompt chunk whose kernels longer ones use as well."""
_QUIET_S = 1.0
"""After this time, a line says what is going on."""
_EXIT_S = 1.0
_LOG = logging.getLogger("mlx_native_py.models")
_LEAST_LAYERS = 2  # what joins two layers is compiled, too


class Preparation:
    """Compiles the kernels of a decode step and of a prompt chunk in a thread, for a model that is being loaded.

    It needs no more than a model's header and a few of its layers: a model of those is made, and its steps are recorded
    without being run. Whatever is not compiled when it is needed is waited for, or compiled then.
    """

    def __init__(
        self, family: Any, file: TensorFile, config: Config, device: MlxDevice, dtype: DType = DType.F32
    ) -> None:
        self._model = family, file, config, device, dtype
        self._path = file.path
        self._thread = threading.Thread(target=self._run, name="compile-ahead", daemon=True)
        self._timer = threading.Timer(_QUIET_S, self._announce)
        self._timer.daemon = True

    def start(self) -> Preparation:
        """Begins; without threads, kernels are compiled when they are used."""
        with suppress(RuntimeError):
            self._timer.start()
            self._thread.start()
            atexit.register(self.wait, _EXIT_S)
        return self

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it ends within so many seconds."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        self._timer.cancel()
        return not self._thread.is_alive()

    def _run(self) -> None:
        family, file, config, device, dtype = self._model
        try:
            model = family(_few_layers(file, config, device, dtype, family.gguf_names), {})
            model.make_decoder(model.make_cache(chunk=_CHUNK)).prepare(_CHUNK)
        except MlxError as error:
            _LOG.debug("compiling ahead: %s", error)  # whoever loads the model or uses the kernel is told
        except Exception:
            _LOG.warning("compiling kernels ahead failed; they are compiled when they are used", exc_info=True)
        finally:
            self._timer.cancel()
            atexit.unregister(self.wait)

    def _announce(self) -> None:
        if sys.stderr.isatty():
            line = f"compiling kernels for {self._path.name}, once for this machine"
            sys.stderr.write(f"\r\x1b[K{line}\n")  # a progress bar may be there
            sys.stderr.flush()


class _FewNames:
    """Names of a model that has some layers of a file, in their order."""

    def __init__(self, names: Callable[[str], str], layers: Sequence[int]) -> None:
        self._names = names
        self._layers = layers

    def __call__(self, module: str) -> str:
        return self._names(_LAYER.sub(lambda match: f"{match[1]}.{self._layers[int(match[2])]}.", module))


def _few_layers(
    file: TensorFile, config: Config, device: MlxDevice, dtype: DType, gguf_names: Mapping[str, str]
) -> Checkpoint:
    """A checkpoint of one layer of each kind."""
    chosen = _kinds(file, config)
    few = replace(config, n_layers=len(chosen), sliding=tuple(config.sliding[layer] for layer in chosen))
    checkpoint = Checkpoint(file, few, device, dtype, gguf_names)
    checkpoint.name = _FewNames(checkpoint.name, chosen)
    return checkpoint


def _kinds(file: TensorFile, config: Config) -> list[int]:
    """The first layer of each kind: of the same formats, shapes and window; two at least, if there are two."""
    parts: dict[int, set[tuple[Any, ...]]] = {layer: {(config.sliding[layer],)} for layer in range(config.n_layers)}
    for name in file:
        match = _LAYER.search(name)
        if match is not None and int(match[2]) in parts:
            parts[int(match[2])].add((name[match.end() :], file[name].format, file[name].shape))
    first: dict[frozenset[Any], int] = {}
    for layer in range(config.n_layers):
        first.setdefault(frozenset(parts[layer]), layer)
    others = [layer for layer in range(config.n_layers) if layer not in first.values()]
    return sorted([*first.values(), *others[: max(0, _LEAST_LAYERS - len(first))]])
