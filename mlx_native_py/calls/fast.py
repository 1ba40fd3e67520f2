"""`fast.metal_kernel`: MLX's function of that name, which makes a kernel from its body."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..dtypes import DType, narrowed
from ..encoder import CommandEncoder, DeviceContext
from ..encoder.synchronous import run_and_wait
from ..errors import InvalidArgument, ShaderCompilationError
from ..memory.buffer import Array, MlxBuffer, as_array
from ..memory.shapes import as_shape, whole
from ..memory.signature import signature_of
from ..pipelines.compile_options import CompileOptions
from ..pipelines.pipeline import Pipeline
from ..pipelines.registry import KernelLibrary
from ..shared_device import default_device
from .fast_source import Body, Generated, InputType, TemplateValue, generate

__all__ = ["MetalKernel", "metal_kernel"]

Grid = Sequence[int]
_THREE_INTS = [int, int, int]


def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: Mapping[str, str] | None = None,
) -> MetalKernel:
    """A kernel from its body alone; the signature is generated from the arrays it is called with.

    Arguments and generated signature are those of MLX's function. `compile_options` accepts `"math_mode"`: `"safe"`
    (the default), `"relaxed"` or `"fast"`.

    >>> exp = metal_kernel(name="myexp", input_names=["inp"], output_names=["out"], source='''
    ...     uint elem = thread_position_in_grid.x;
    ...     T tmp = inp[elem];
    ...     out[elem] = metal::exp(tmp);
    ... ''')
    >>> a = np.zeros((2, 3), np.float16)
    >>> out, = exp(inputs=[a], template=[("T", np.float32)], grid=(a.size, 1, 1), threadgroup=(256, 1, 1),
    ...            output_shapes=[a.shape], output_dtypes=[a.dtype])
    >>> out
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float16)
    """
    if not output_names:
        raise InvalidArgument(f"metal_kernel {name!r} needs at least one output name")
    _check_names(name, [*input_names, *output_names])
    body = Body(name, tuple(input_names), tuple(output_names), source, header, atomic_outputs)
    return MetalKernel(body, ensure_row_contiguous, _compile_options(name, compile_options or {}))


def _check_names(kernel: str, names: Sequence[str]) -> None:
    for each in (kernel, *names):
        if not isinstance(each, str) or not f"_{each}".isidentifier():
            raise InvalidArgument(f"metal_kernel {kernel!r}: {each!r} cannot be a name in MSL")
    if len(set(names)) < len(names):
        raise InvalidArgument(f"metal_kernel {kernel!r}: input and output names must differ, not {names}")


def _compile_options(kernel: str, given: Mapping[str, str]) -> CompileOptions:
    options: dict[str, Any] = dict(given)
    math_mode = options.pop("math_mode", "safe")
    if options:
        raise InvalidArgument(f"metal_kernel {kernel!r}: unknown compile option {next(iter(options))!r}")
    return CompileOptions(math=math_mode)


@dataclass(frozen=True, slots=True)
class _Input:
    """A bound input, with the shape and strides (in elements) that the body sees."""

    type: InputType
    value: MlxBuffer | bytes
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    """None if row-major."""

    def extra(self, what: str) -> bytes:
        if what == "ndim":
            return np.int32(len(self.shape)).tobytes()
        if what == "shape":
            return np.array(self.shape, np.int32).tobytes()
        return np.array(_row_major(self.shape) if self.strides is None else self.strides, np.int64).tobytes()


class MetalKernel:
    """A kernel created by `metal_kernel`; call it to run it."""

    def __init__(self, body: Body, ensure_row_contiguous: bool, options: CompileOptions) -> None:
        self._body = body
        self._ensure_row_contiguous = ensure_row_contiguous
        self._options = options
        self._known: WeakKeyDictionary[DeviceContext, dict[Any, tuple[Generated, KernelLibrary]]] = WeakKeyDictionary()
        """Compiled libraries per device, by the types and template arguments of the call."""

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Any],
        grid: Grid,
        threadgroup: Grid,
        template: Sequence[tuple[str, Any]] | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: Any = None,
    ) -> list[Any]:
        """Runs the kernel over `grid` threads in threadgroups of `threadgroup`, and returns the outputs as arrays.

        Inputs are arrays of any library, buffers or numbers; types are numpy's, this package's or MLX's. `stream` is a
        device (default: that of the first buffer), or a `CommandEncoder` to encode into, which then returns buffers. A
        grid with zero threads runs nothing and returns zeros, or `init_value`.
        """
        self._check_counts(inputs, output_shapes, output_dtypes)
        threads = self._three("grid", grid)
        if 0 in threads:
            pairs = zip(output_shapes, output_dtypes, strict=True)
            return [np.full(tuple(shape), init_value or 0, _dtype(dtype).numpy) for shape, dtype in pairs]
        device, encoder = _target(stream, inputs)
        copies: list[MlxBuffer] = []
        brought = [self._bring(device, each, copies) for each in inputs]
        types = [_dtype(each) for each in output_dtypes]
        pipeline = self._pipeline(device, brought, types, self._template(template or ()), verbose)
        group = self._group(pipeline, threads, threadgroup)
        outputs = [_output(device, *each, init_value) for each in zip(output_shapes, types, strict=True)]
        arguments = [*self._arguments(brought), *outputs]
        if encoder is not None:
            encoder.dispatch(pipeline, *arguments, threads=threads, group=group)
            return outputs
        run_and_wait(device, pipeline, arguments, threads=threads, group=group, label=self._body.name)
        results, copies = [each.numpy() for each in outputs], copies + outputs
        del brought, arguments, outputs
        device.recycler.give_back(copies)
        return results

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self._body.input_names), ", ".join(self._body.output_names)
        return f"<MetalKernel {self._body.name}({inputs}) -> {outputs}>"

    def _refusal(self, problem: str) -> InvalidArgument:
        return InvalidArgument(f"metal_kernel {self._body.name!r}: {problem}")

    def _check_counts(self, inputs: Sequence[Any], shapes: Sequence[Any], dtypes: Sequence[Any]) -> None:
        for what, given, names in (
            ("inputs", inputs, self._body.input_names),
            ("output_shapes", shapes, self._body.output_names),
            ("output_dtypes", dtypes, self._body.output_names),
        ):
            if len(given) != len(names):
                raise self._refusal(f"{what} has {len(given)} items, expected {len(names)} for {', '.join(names)}")

    def _bring(self, device: DeviceContext, given: Any, copies: list[MlxBuffer]) -> _Input:
        if isinstance(given, MlxBuffer):
            return _Input(_input_type(given.dtype, given.shape), given, given.shape)
        array = _array(given)
        kind = DType.of(array.dtype)
        if not array.flags.c_contiguous and not self._ensure_row_contiguous and _can_be_strided(array):
            size = array.dtype.itemsize
            strides = tuple(stride // size for stride in array.strides)
            extent = 1 + sum((n - 1) * stride for n, stride in zip(array.shape, strides, strict=True))
            row = np.lib.stride_tricks.as_strided(array, (extent,), (size,), writeable=False)
            return _Input(_input_type(kind, array.shape), _bound(device, row, copies), array.shape, strides)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        return _Input(_input_type(kind, array.shape), _bound(device, array, copies), array.shape)

    def _template(self, given: Sequence[tuple[str, Any]]) -> list[tuple[str, TemplateValue]]:
        values: list[tuple[str, TemplateValue]] = []
        for name, value in given:
            if isinstance(value, (bool, int, np.bool_, np.integer)):
                values.append((name, bool(value) if isinstance(value, (bool, np.bool_)) else int(value)))
                continue
            try:
                values.append((name, _dtype(value)))
            except InvalidArgument:
                raise self._refusal(f"template argument {name!r} is {value!r}, expected a type, int or bool") from None
        return values

    def _pipeline(
        self,
        device: DeviceContext,
        inputs: Sequence[_Input],
        outputs: Sequence[DType],
        template: Sequence[tuple[str, TemplateValue]],
        verbose: bool,
    ) -> Pipeline:
        types = [each.type for each in inputs]
        known = self._known.setdefault(device, {})
        kinds = tuple((each.dtype, each.ndim == 0, each.is_constant) for each in types)
        key = kinds, tuple(outputs), repr(template)
        generated, library = known.get(key) or (generate(self._body, types, outputs, template), None)
        if verbose:
            print(f"Generated source code for `{self._body.name}`:\n```\n{generated.text}\n```")
        try:
            if library is None:
                library = device.kernels.library(generated.full, self._options, name=self._body.name)
                known[key] = generated, library
            return device.kernels.get_pipeline(generated.name, library=library)
        except ShaderCompilationError as error:
            raise generated.with_own_lines(error) from None

    def _arguments(self, brought: Sequence[_Input]) -> list[MlxBuffer | bytes]:
        arguments: list[MlxBuffer | bytes] = []
        for name, each in zip(self._body.input_names, brought, strict=True):
            arguments.append(each.value)
            arguments += [each.extra(what) for what in self._body.extras(name, each.type.ndim)]
        return arguments

    def _group(self, pipeline: Pipeline, threads: tuple[int, ...], threadgroup: Grid) -> tuple[int, ...]:
        group = self._three("threadgroup", threadgroup, 1)
        if math.prod(group) > pipeline.max_threads:
            raise self._refusal(
                f"threadgroup {group} has {math.prod(group)} threads; this kernel allows at most {pipeline.max_threads}"
            )
        return tuple(map(min, group, threads))

    def _three(self, what: str, given: Grid, least: int = 0) -> tuple[int, ...]:
        if type(given) is tuple and [type(each) for each in given] == _THREE_INTS and min(given) >= least:
            return given
        if not isinstance(given, Sequence) or len(given) != 3:
            raise self._refusal(f"{what} is {given!r}, expected three numbers, such as ({_first(given)}, 1, 1)")
        what = f"metal_kernel {self._body.name!r}: {what}"
        return tuple([whole(each, what, least) for each in given])


def _first(given: Any) -> Any:
    return given if isinstance(given, int) else 256


def _target(stream: Any, inputs: Sequence[Any]) -> tuple[DeviceContext, CommandEncoder | None]:
    """The device to run on, and the encoder if one is given; MLX's gpu stands for the default device."""
    if isinstance(stream, CommandEncoder):
        return stream.device, stream
    if isinstance(stream, DeviceContext):
        return stream, None
    if stream is None or (_is_mlx(stream) and "gpu" in str(stream)):
        first = next((each for each in inputs if isinstance(each, MlxBuffer)), None)
        return default_device() if first is None else first.device, None
    raise InvalidArgument(f"metal_kernel runs on a device or in a CommandEncoder; stream is {stream!r}")


def _output(device: DeviceContext, shape: Sequence[int], dtype: DType, value: float | None) -> MlxBuffer:
    axes, _ = as_shape(shape)
    device.require_open()
    buffer = device.recycler.take(signature_of(dtype, axes))
    return buffer if value is None else buffer.fill(value)


def _is_mlx(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "mlx"


def _dtype(given: Any) -> DType:
    """An element type, including MLX's, which numpy knows only by name."""
    return DType.of(str(given).rpartition(".")[2] if _is_mlx(given) else given)


def _array(given: Any) -> Array:
    """An input as an array; Python numbers become 32-bit, as in MLX."""
    return narrowed(as_array(given), python=isinstance(given, (int, list, tuple)))


def _can_be_strided(array: Array) -> bool:
    """Whether all strides are non-negative multiples of the element size."""
    return array.ndim > 0 and all(stride >= 0 and stride % array.dtype.itemsize == 0 for stride in array.strides)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@lru_cache(maxsize=1024)
def _input_type(dtype: DType, shape: tuple[int, ...]) -> InputType:
    return InputType(dtype, len(shape), math.prod(shape))


def _bound(device: DeviceContext, array: Array, copies: list[MlxBuffer]) -> MlxBuffer | bytes:
    """Small arrays are sent inline."""
    return array.tobytes() if array.nbytes <= 64 else device.staged(array, copies)
