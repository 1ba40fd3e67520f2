"""Kernels by name: found without a list, compiled once, never stale, and refused with the user's own line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.encoding import SOURCE, pipeline, soft_device

from mlx_native_py import MlxDevice, settings
from mlx_native_py.errors import InvalidArgument, KernelNotFound, ShaderCompilationError
from mlx_native_py.pipelines.compile_options import CompileOptions
from mlx_native_py.pipelines.pipeline import Pipeline
from mlx_native_py.pipelines.registry import KernelRegistry

ONE = "#include <metal_stdlib>\nkernel void one(device uint *out [[buffer(0)]]) { out[0] = VALUE; }\n"


def run(device: MlxDevice, made: Pipeline) -> int:
    out = device.alloc_buffer(4, "u32", 1)
    with device.command_encoder() as enc:
        enc.dispatch(made, out, threads=1)
    return int(out.numpy()[0])


def test_a_pipeline_is_made_once(device: MlxDevice) -> None:
    device.kernels.register_source("encoder_kit", SOURCE)
    first = device.kernels.get_pipeline("axpy")
    assert device.kernels.get_pipeline("axpy") is first
    assert device.kernels.get_pipeline("add") is not first
    stats = device.kernels.stats
    assert (stats.libraries, stats.pipelines, stats.hits, stats.misses) == (1, 2, 1, 2)
    assert stats.compile_seconds > 0
    assert device.kernels.is_cached("axpy") and not device.kernels.is_cached("fill")
    assert device.kernels.cached_count() == 2


def test_reflection(device: MlxDevice) -> None:
    axpy = pipeline(device, "axpy")
    x, y, a = axpy.bindings
    assert [(b.index, b.name, b.access, b.size, b.alignment) for b in (x, y, a)] == [
        (0, "x", "read", 4, 4),
        (1, "y", "read_write", 4, 4),
        (2, "a", "read", 4, 4),
    ]
    assert a.scalar is not None and a.scalar.name == "float"
    total = pipeline(device, "total")
    assert [b.kind for b in total.bindings] == ["buffer", "buffer", "threadgroup"]
    assert total.width == 32 and total.max_threads >= 32


def test_shipped_kernels_are_found_without_a_list(device: MlxDevice) -> None:
    assert device.kernels.get_pipeline("self_check").name == "self_check"
    assert device.kernels.source_count() >= 1


def test_an_unknown_kernel_names_close_ones(device: MlxDevice) -> None:
    with pytest.raises(KernelNotFound, match="self_chek.*Did you mean 'self_check'") as caught:
        device.kernels.get_pipeline("self_chek")
    assert caught.value.name == "self_chek"


def test_registering_again_never_serves_stale_code(device: MlxDevice) -> None:
    for value in (3, 4):
        device.kernels.register_source("one", ONE.replace("VALUE", str(value)))
        assert run(device, device.kernels.get_pipeline("one")) == value
    device.kernels.register_source("one", ONE.replace("VALUE", "3"))
    assert run(device, device.kernels.get_pipeline("one")) == 3
    assert device.kernels.stats.libraries == 2


def test_registering_again_drops_specialised_kernels_too(device: MlxDevice) -> None:
    source = "#include <metal_stdlib>\nconstant int K [[function_constant(0)]];\n"
    body = "kernel void one(device int *out [[buffer(0)]]) { out[0] = K OP 2; }\n"
    for op, result in (("+", 9), ("*", 14)):
        device.kernels.register_source("one", source + body.replace("OP", op))
        assert run(device, device.kernels.get_pipeline("one", {0: 7})) == result


def test_a_registered_kernel_goes_before_a_shipped_one(device: MlxDevice) -> None:
    own = "#include <metal_stdlib>\nkernel void self_check(device uint *out [[buffer(0)]]) { out[0] = 5; }\n"
    device.kernels.register_source("self_check", own)
    assert run(device, device.kernels.get_pipeline("self_check")) == 5


def test_constants_are_typed_and_order_free(device: MlxDevice) -> None:
    first = pipeline(device, "special", constants={3: 7, 1: True})
    assert pipeline(device, "special", constants={1: True, 3: 7}) is first
    assert pipeline(device, "special", constants={"FLIP": np.bool_(True), "N": np.int64(7)}) is first
    assert first.label == "special|1:b1|3:u7"
    other = pipeline(device, "special", constants={1: False, 3: 7})
    assert other is not first
    assert (run(device, first), run(device, other)) == (7, 1007)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({3: 7}, "needs values for function constants 'FLIP'"),
        ({1: True, 3: 7, "M": 1}, "no function constant 'M'; it has 'FLIP' .index 1., 'N'"),
        ({1: True, 3: -1}, "'N' .index 3.: -1 does not fit a uint"),
        ({1: True, 3: 1.5}, "1.5 .float. is not a value for a uint"),
        ({1: 2, 3: 7}, "2 does not fit a bool"),
        ({1: True, 3: 7, "N": 8}, "'N' is given twice"),
    ],
)
def test_wrong_constants(device: MlxDevice, constants: dict[int | str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        pipeline(device, "special", constants=constants)


def test_constants_of_other_kernels_are_ignored(device: MlxDevice) -> None:
    assert pipeline(device, "nothing", constants={3: 7, "FLIP": True}) is pipeline(device, "nothing")


def test_a_failed_compile_shows_the_users_line_and_a_caret(device: MlxDevice) -> None:
    device.kernels.register_source("bad", "#include <metal_stdlib>\nkernel void bad() {\n  int x = missing + 1;\n}\n")
    with pytest.raises(ShaderCompilationError) as caught:
        device.kernels.get_pipeline("bad")
    text = str(caught.value)
    assert "'bad'" in text and "program_source:3:11" in text
    lines = text.splitlines()
    row = lines.index("  int x = missing + 1;")
    assert lines[row + 1].index("^") == 10
    assert text.count("int x = missing") == 1
    assert caught.value.name == "bad"


def test_a_failure_is_not_kept(device: MlxDevice) -> None:
    device.kernels.register_source("one", "#include <metal_stdlib>\nkernel void one() { oops; }\n")
    for _ in range(2):
        with pytest.raises(ShaderCompilationError):
            device.kernels.get_pipeline("one")
    device.kernels.register_source("one", ONE.replace("VALUE", "8"))
    assert run(device, device.kernels.get_pipeline("one")) == 8


def test_options_are_part_of_the_key(device: MlxDevice) -> None:
    result = []
    for value in (5, 6):
        library = device.kernels.library(ONE, CompileOptions(macros={"VALUE": value}, math="safe", language=(3, 1)))
        result.append(run(device, device.kernels.get_pipeline("one", library=library)))
    assert result == [5, 6]
    assert device.kernels.library(ONE, CompileOptions(macros={"VALUE": 6}, math="safe", language=(3, 1))) is library
    with pytest.raises(InvalidArgument, match="math is 'wild'"):
        CompileOptions(math="wild")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="'a b' cannot be"):
        CompileOptions(macros={"a b": 1})


@pytest.mark.parametrize(("name", "source"), [("", ONE), ("one", " "), (3, ONE), ("one", None)])
def test_wrong_registrations(device: MlxDevice, name: object, source: object) -> None:
    with pytest.raises(InvalidArgument):
        device.kernels.register_source(name, source)  # type: ignore[arg-type]


def test_warmup_compiles_what_is_broken_once(device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    plain = KernelRegistry._compile

    def compile(self: KernelRegistry, *given: Any) -> Any:
        compiled.append(given[-1])
        return plain(self, *given)

    monkeypatch.setattr(KernelRegistry, "_compile", compile)
    device.kernels.register_source("broken", "kernel void broken(device float *x) { x[0] = nobody; }")
    with pytest.raises(ShaderCompilationError, match="nobody"):
        device.kernels.warmup(["broken"])
    assert compiled == ["broken"]


def test_warmup(device: MlxDevice) -> None:
    device.kernels.register_source("encoder_kit", SOURCE)
    device.kernels.warmup(["axpy", ("special", {1: True, 3: 4})])
    assert device.kernels.is_cached("axpy") and device.kernels.is_cached("special", {3: 4, 1: True})
    before = device.kernels.stats.pipelines
    pipeline(device, "axpy")
    assert device.kernels.stats.pipelines == before


@pytest.mark.soft
def test_the_archive_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "kernels.archive"
    with soft_device() as device:
        first = KernelRegistry(device, archive=path)
        first.register_source("one", ONE.replace("VALUE", "3"))
        first.warmup(["one"])
        assert path.exists() and first.stats.archive_hits == 0
        assert not first.save()
        second = KernelRegistry(device, archive=path)
        second.register_source("one", ONE.replace("VALUE", "3"))
        assert run(device, second.get_pipeline("one")) == 3
        assert (second.stats.archive_hits, second.stats.archive_misses) == (1, 0)
        assert first.stats.archive_misses == 1
        assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.soft
def test_the_flag_names_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "flag.archive"
    with settings.override(kernel_archive=path):
        with soft_device() as device:
            pipeline(device, "axpy")
        assert path.exists(), "closing the device saves it"
        with soft_device() as device:
            pipeline(device, "axpy")
            assert device.kernels.stats.archive_hits == 1


@pytest.mark.soft
def test_a_spoilt_archive_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kernels.archive"
    path.write_bytes(b"\0\1\2")
    with soft_device() as device:
        registry = KernelRegistry(device, archive=path)
        registry.register_source("one", ONE.replace("VALUE", "3"))
        registry.get_pipeline("one")
        assert registry.save()
        assert registry._archive is not None and registry._archive.refused
        assert KernelRegistry(device, archive=path)._archive.refused == ""  # type: ignore[union-attr]


def test_indirect_pipelines_are_pipelines_of_their_own(device: MlxDevice) -> None:
    plain, indirect = pipeline(device, "axpy"), pipeline(device, "axpy", indirect=True)
    assert (plain.supports_indirect, indirect.supports_indirect) == (False, True)
