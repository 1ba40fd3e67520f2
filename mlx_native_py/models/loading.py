"""Model loading: opens the file, reads the config and picks the family by architecture."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..device import MlxDevice
from ..dtypes import DType
from ..errors import BufferAllocationError, InvalidArgument, ModelFileError
from ..json_fields import Fields, read_table
from ..shared_device import default_device
from ..weights import TensorFile, open_gguf, open_safetensors
from ..weights.recognise import is_safetensors
from . import families
from .checkpoint import Checkpoint
from .config import Config, fields_of_gguf
from .names import Names
from .preparation import Preparation

__all__ = [
    "ALIASES",
    "OpenedModel",
    "activation_dtype",
    "architectures",
    "family_of",
    "load",
    "model_place",
    "open_model",
]

ALIASES = {"gemma3_text": "gemma3", "mistral": "llama"}
_FAMILIES = [each.name for each in pkgutil.iter_modules(families.__path__)]


def load(
    path: Path | str,
    device: MlxDevice | None = None,
    *,
    dtype: Any = DType.F32,
    family: type[Any] | None = None,
    prepare: bool = False,
) -> Any:
    """Loads a model from a GGUF file, or from a folder with a config.json and safetensors.

    `dtype` is the activation type. `family` is a class of your own, structured like `llama.Llama`, for other
    architectures. `prepare` compiles the kernels of a text model in the background meanwhile.
    """
    kind = activation_dtype(dtype)
    opened = open_model(path, family)
    device = device or default_device()
    checkpoint = Checkpoint(opened.file, opened.config, device, kind, opened.family.gguf_names)
    if not prepare or not hasattr(opened.family, "make_decoder"):
        return opened.family(checkpoint, opened.metadata)
    preparation = Preparation(opened.family, opened.file, opened.config, device, kind).start()
    try:
        return opened.family(checkpoint, opened.metadata)
    except BufferAllocationError:  # what the preparation holds is gone when it ends
        preparation.wait()
    return opened.family(checkpoint, opened.metadata)


def activation_dtype(dtype: Any) -> DType:
    """A valid activation type."""
    kind = DType.of(dtype)
    if not kind.is_float:
        raise InvalidArgument(f"load: dtype is {kind}, expected f32, f16 or bf16")
    return kind


@dataclass(frozen=True)
class OpenedModel:
    """An opened model file, before any weights are read."""

    family: Any
    """The class of its family."""
    file: TensorFile
    config: Config
    metadata: Mapping[str, Any]
    name: Names
    """Maps a module to its name in the file."""


def open_model(path: Path | str, family: type[Any] | None = None) -> OpenedModel:
    """Opens a file, reads its config, and picks its family."""
    place = model_place(Path(path))
    is_gguf = not place.is_dir()
    file, table, metadata = _opened_gguf(place) if is_gguf else _opened_folder(place)
    name = table.get("model_type")
    model: Any = family or family_of(name, place)
    fields = Fields(place, model.completed(table, is_gguf=is_gguf))
    _check(fields, model.activations)
    config = Config.read(str(name), fields, is_gguf=is_gguf)
    return OpenedModel(model, file, config, metadata, Names(file, is_gguf, model.gguf_names))


def model_place(path: Path) -> Path:
    """A GGUF file or a folder, recognised by content; a safetensors file stands for its folder."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelFileError(path, "config.json", None, "is missing next to the weights")
        return path
    if path.is_file() and is_safetensors(path):
        if not (path.parent / "config.json").is_file():
            raise ModelFileError(
                path,
                "file",
                None,
                "is safetensors, which needs config.json and the tokenizer next to it",
            )
        return path.parent
    return path


def _check(fields: Fields, activations: Sequence[str]) -> None:
    """Raises on options that a family's code would silently ignore."""
    if activations and fields.get("hidden_act", activations[0]) not in activations:
        raise fields.wrong("hidden_act", " or ".join(map(repr, activations)))
    if "quant_method" in (method := fields.table("quantization_config")):
        raise method.wrong("quant_method", "weights that are plain, or quantised by MLX")


def family_of(name: Any, path: Path) -> Any:
    """The class `Model` of the module named after the architecture."""
    module = ALIASES.get(name, name) if isinstance(name, str) else ""
    # Names come from files, so only known families are imported.
    if module not in _FAMILIES:
        known = ", ".join(architectures())
        raise ModelFileError(path, "architecture", None, f"{name!r:.60} is not supported; there are: {known}")
    return importlib.import_module(f"{families.__name__}.{module}").Model


def architectures() -> list[str]:
    """The supported values of `model_type` in config.json and of the architecture in GGUF."""
    return sorted([*_FAMILIES, *ALIASES])


def _opened_gguf(path: Path) -> tuple[TensorFile, dict[str, Any], Mapping[str, Any]]:
    file = open_gguf(path)
    table = fields_of_gguf(file.metadata)
    embedding = file.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        table["vocab_size"] = embedding.shape[0]
    return file, table, file.metadata


def _opened_folder(folder: Path) -> tuple[TensorFile, dict[str, Any], Mapping[str, Any]]:
    metadata = read_table(folder / "config.json")
    table = dict(metadata)
    if isinstance(text := metadata.get("text_config"), dict):
        table.update(text)
    extra = folder / "generation_config.json"
    if extra.is_file() and (stops := read_table(extra).get("eos_token_id")) is not None:
        table["eos_token_id"] = stops
    return open_safetensors(folder), table, metadata
