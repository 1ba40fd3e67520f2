"""Generates the MSL source around a kernel body, with the same signature as MLX's `fast.metal_kernel`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ..dtypes import DType
from ..errors import ShaderCompilationError

__all__ = ["Body", "Generated", "InputType", "TemplateValue", "generate", "kernel_name"]

TemplateValue = bool | int | DType

CONSTANT_BELOW = 8
"""Inputs with fewer elements go in the constant address space."""

_ATTRIBUTES = {
    "dispatch_quadgroups_per_threadgroup": "uint",
    "dispatch_simdgroups_per_threadgroup": "uint",
    "dispatch_threads_per_threadgroup": "uint3",
    "grid_origin": "uint3",
    "grid_size": "uint3",
    "quadgroup_index_in_threadgroup": "uint",
    "quadgroups_per_threadgroup": "uint",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "thread_execution_width": "uint",
    "thread_index_in_quadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint",
    "threads_per_threadgroup": "uint3",
}
_PLACE = re.compile(r"\bprogram_source:(\d+)(?=:\d+)")


@dataclass(frozen=True)
class InputType:
    """The properties of an input that determine how it is passed."""

    dtype: DType
    ndim: int
    size: int

    @property
    def is_constant(self) -> bool:
        return self.size < CONSTANT_BELOW


@dataclass(frozen=True)
class Body:
    """The arguments of `metal_kernel`."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    source: str
    header: str
    atomic_outputs: bool

    def extras(self, name: str, ndim: int) -> list[str]:
        """Which of shape, strides and ndim of an input the body uses; none for a scalar."""
        return self._asked[name] if ndim else []

    @cached_property
    def _asked(self) -> dict[str, list[str]]:
        words = ("shape", "strides", "ndim")
        return {name: [word for word in words if f"{name}_{word}" in self.source] for name in self.input_names}


@dataclass(frozen=True)
class Generated:
    """A generated source: `text` is what MLX would show, `full` is what is compiled."""

    name: str
    text: str
    body: Body

    @property
    def full(self) -> str:
        return _prelude() + self.text

    def with_own_lines(self, error: ShaderCompilationError) -> ShaderCompilationError:
        """The error with line numbers of the user's body or header instead of the generated text."""
        before = _prelude().count("\n")
        first = before + self.text[: self.text.rindex(") {\n" + self.body.source)].count("\n") + 2

        def own(match: re.Match[str]) -> str:
            line = int(match[1])
            if line >= first:
                return f"{self.body.name} source:{line - first + 1}"
            if before < line <= before + self.body.header.count("\n") + bool(self.body.header):
                return f"{self.body.name} header:{line - before}"
            return f"{self.body.name} generated:{line}"

        return ShaderCompilationError(self.body.name, _PLACE.sub(own, error.message))


@lru_cache(maxsize=1)
def _prelude() -> str:
    """The text before every generated kernel."""
    return Path(__file__).with_name("fast_prelude.metal").read_text()


def generate(
    body: Body,
    inputs: Sequence[InputType],
    outputs: Sequence[DType],
    template: Sequence[tuple[str, TemplateValue]],
) -> Generated:
    """Generates the source for inputs, outputs and template arguments of these types."""
    name, values = kernel_name(body, inputs, outputs, template), _values(template)
    text = body.header
    if template:
        text += f"template <{', '.join(f'{_template_kind(value)} {key}' for key, value in template)}>\n"
    parameters = [*_buffers(body, inputs, outputs), *_attributes(body.source)]
    text += f"[[kernel]] void {name}(\n" + ",\n".join(parameters) + f") {{\n{body.source}\n}}\n"
    if template:
        whole = f"{name}<{values}>"
        text += f'\ntemplate [[host_name("{name}")]] [[kernel]] decltype({whole}) {whole};\n'
    return Generated(name, text, body)


def kernel_name(
    body: Body,
    inputs: Sequence[InputType],
    outputs: Sequence[DType],
    template: Sequence[tuple[str, TemplateValue]],
) -> str:
    """The name of the generated kernel, which encodes everything that the source depends on."""
    return f"custom_kernel_{body.name}" + _suffix(_values(template), inputs, outputs)


def _values(template: Sequence[tuple[str, TemplateValue]]) -> str:
    return ", ".join(_template_value(value) for _, value in template)


def _suffix(values: str, inputs: Sequence[InputType], outputs: Sequence[DType]) -> str:
    """The part of the name that encodes types."""
    parts = [_spelled(each.dtype) + ("s" if each.ndim == 0 else "c" if each.is_constant else "") for each in inputs]
    parts += [_spelled(each) for each in outputs]
    start = "__" + re.sub(r"\W", "_", values.replace(", ", "_")) if values else ""
    return "_".join([start, *parts])


def _template_kind(value: TemplateValue) -> str:
    return "typename" if isinstance(value, DType) else "bool" if isinstance(value, bool) else "int"


def _template_value(value: TemplateValue) -> str:
    return _spelled(value) if isinstance(value, DType) else str(int(value))


def _buffers(body: Body, inputs: Sequence[InputType], outputs: Sequence[DType]) -> list[str]:
    declarations: list[str] = []
    extra_types = {"shape": "int*", "strides": "int64_t*", "ndim": "int&"}
    for name, each in zip(body.input_names, inputs, strict=True):
        space, mark = "constant" if each.is_constant else "device", "*" if each.ndim else "&"
        declarations.append(f"const {space} {_spelled(each.dtype)}{mark} {name}")
        declarations += [f"const constant {extra_types[what]} {name}_{what}" for what in body.extras(name, each.ndim)]
    for name, dtype in zip(body.output_names, outputs, strict=True):
        kind = f"atomic<{_spelled(dtype)}>" if body.atomic_outputs else _spelled(dtype)
        declarations.append(f"device {kind}* {name}")
    return [f"  {declaration} [[buffer({slot})]]" for slot, declaration in enumerate(declarations)]


def _attributes(source: str) -> list[str]:
    return [f"  {kind} {name} [[{name}]]" for name, kind in _ATTRIBUTES.items() if name in source]


def _spelled(dtype: DType) -> str:
    """The type's name in MLX's signatures."""
    return dtype.mtl if dtype in (DType.F32, DType.BOOL) else f"{dtype.numpy.name}_t"
