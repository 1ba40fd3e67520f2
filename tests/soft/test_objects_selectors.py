"""Every selector of the table is there on the right class, with its arguments and out-parameters, or is listed here."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.metal.contract import CONTRACT
from mlx_native_py.softmetal.objects import (
    archive,
    argument_encoder,
    blit_encoder,
    buffer,
    capture,
    command_buffer,
    compute_encoder,
    compute_pass,
    counters,
    device,
    encoder,
    events,
    function_constants,
    heap,
    indirect,
    library,
    pipeline,
    queue,
    residency,
    sampler,
    texture,
)

TABLE = json.loads((Path(__file__).parents[1] / "data" / "pyobjc-selectors.json").read_text())
MODULES = (
    archive,
    argument_encoder,
    blit_encoder,
    buffer,
    capture,
    command_buffer,
    compute_encoder,
    compute_pass,
    counters,
    device,
    encoder,
    events,
    function_constants,
    heap,
    indirect,
    library,
    pipeline,
    queue,
    residency,
    sampler,
    texture,
)
CLASSES: dict[str, type[Any]] = {
    name: kind for module in MODULES for name, kind in vars(module).items() if inspect.isclass(kind)
}
CLASSES["MTLResource"] = buffer.Resource

# Metal 4: the device answers no to the family and to these selectors.
METAL4_OWNERS = {
    "MTL4CommandBuffer",
    "MTL4ComputeCommandEncoder",
    "MTL4ArgumentTable",
    "MTL4CommandEncoder",
    "MTL4CommandQueue",
    "MTL4CommitOptions",
    "MTL4CounterHeap",
}
METAL4_FACTORIES = {
    "newMTL4CommandQueue",
    "newCommandAllocator",
    "newCommandBuffer",
    "newArgumentTableWithDescriptor:error:",
    "newCounterHeapWithDescriptor:error:",
    "newCompilerWithDescriptor:error:",
    "queryTimestampFrequency",
    "sizeOfCounterHeapEntry:",
}
# PyObjC's metadata forgets that reflection comes back; the backend registers it, and the software follows the backend.
REFLECTING = {
    "newComputePipelineStateWithFunction:options:reflection:error:",
    "newComputePipelineStateWithDescriptor:options:reflection:error:",
}
OUT_NAMES = {"error", "reflection", "cpu", "gpu"}


def offered(row: dict[str, Any]) -> bool:
    return row["owner"] not in METAL4_OWNERS and row["selector"] not in METAL4_FACTORIES


OFFERED = [row for row in TABLE if offered(row)]


def python_name(row: dict[str, Any]) -> str:
    return str(row["selector"]).replace(":", "_")


def test_the_table_is_whole() -> None:
    assert len(TABLE) >= 218
    assert len(TABLE) - len(OFFERED) == 23


@pytest.mark.parametrize("row", OFFERED, ids=lambda row: f"{row['owner']}-{python_name(row)}")
def test_selector(row: dict[str, Any]) -> None:
    method = getattr(CLASSES[row["owner"]], python_name(row))
    static = inspect.getattr_static(CLASSES[row["owner"]], python_name(row))
    takes_self = 0 if isinstance(static, classmethod) else 1
    parameters = list(inspect.signature(method).parameters)[takes_self:]
    assert len(parameters) == len(row["args"])
    wanted = sum(kind in ("o^@", "o^Q") for kind in row["args"]) + (row["selector"] in REFLECTING)
    assert sum(name in OUT_NAMES for name in parameters if "^" in row["args"][parameters.index(name)]) == wanted


def test_all_that_the_package_sends_is_offered() -> None:
    sent = {(selector.owner, selector.name) for selector in CONTRACT}
    known = {(row["owner"], row["selector"]) for row in OFFERED}
    assert {selector for owner, selector in sent - known} <= METAL4_FACTORIES


def test_metal_4_is_answered_with_no() -> None:
    mtl = Metal.MTLCreateSystemDefaultDevice()
    assert not mtl.supportsFamily_(Metal.MTLGPUFamilyMetal4)
    for selector in METAL4_FACTORIES:
        assert not mtl.respondsToSelector_(selector.encode())


def test_responds_to_selector_is_truthful() -> None:
    mtl = Metal.MTLCreateSystemDefaultDevice()
    assert mtl.respondsToSelector_(b"architecture")
    assert mtl.respondsToSelector_(b"newBufferWithLength:options:")
    assert not mtl.respondsToSelector_(b"newBufferWithLength:")
    assert mtl.respondsToSelector_(b"newTextureWithDescriptor:")
    assert not mtl.respondsToSelector_(b"newRasterizationRateMapWithDescriptor:")
    assert not mtl.respondsToSelector_(b"_charge:")
    old = Metal.open_device(profile=Metal.DeviceProfile(residency_sets=False, missing=frozenset({"architecture"})))
    assert not old.respondsToSelector_(b"architecture")
    assert not old.respondsToSelector_(b"newResidencySetWithDescriptor:error:")
    assert not old.newCommandQueue().respondsToSelector_(b"addResidencySet:")
    assert not hasattr(old, "architecture")


@pytest.mark.parametrize(
    "row", [r for r in OFFERED if r["owner"] == "MTLDevice" and "o^@" in r["args"]], ids=python_name
)
def test_out_parameters_take_only_none_or_null(row: dict[str, Any]) -> None:
    mtl = Metal.MTLCreateSystemDefaultDevice()
    arguments = [None] * (len(row["args"]) - 1) + ["error"]
    with pytest.raises(ValueError, match="out-parameter"):
        getattr(mtl, python_name(row))(*arguments)
