"""Templates: graphs over other buffers, without the memory of those that they were recorded over."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from mlx_native_py import InvalidArgument, MlxBuffer, MlxDevice, ops
from mlx_native_py.graph import ComputeGraph, Template


def vector(device: MlxDevice, *values: float) -> MlxBuffer:
    return device.buffer(np.array(values, np.float32))


def doubled_plus(device: MlxDevice, x: MlxBuffer, y: MlxBuffer) -> ComputeGraph:
    with device.capture(x=x, y=y) as graph:
        twice = ops.scalar_mul(graph.encoder, x, 2.0)
        squared = ops.mul(graph.encoder, twice, twice)
        graph.keep(out=ops.add(graph.encoder, squared, y))
    return graph.optimise()


def test_a_template_over_other_buffers(device: MlxDevice) -> None:
    x, y = vector(device, 1, 2), vector(device, 10, 20)
    template = Template(doubled_plus(device, x, y))
    first = template.over(x=vector(device, 3, 4), y=y)
    second = template.over(x=x, y=vector(device, 0, 0))
    first.plan().run()
    second.plan().run()
    assert first.names["out"].numpy().tolist() == [46, 84]
    assert second.names["out"].numpy().tolist() == [4, 16]
    assert not {each.memory for each in first.temporaries} & {each.memory for each in second.temporaries}


def test_it_keeps_no_memory(device: MlxDevice) -> None:
    graph = doubled_plus(device, vector(device, 1, 2), vector(device, 3, 4))
    named = [weakref.ref(each.allocation) for each in graph.names.values()]
    template = Template(graph)
    del graph
    gc.collect()
    assert [each() for each in named] == [None] * 3
    assert template.over(x=vector(device, 1, 1), y=vector(device, 0, 0)).dispatch_count() == 3


def test_buffers_of_one_element_without_axes(device: MlxDevice) -> None:
    x, y = device.buffer(np.float32(1)), device.buffer(np.float32(10))
    assert x.shape == ()
    again = Template(doubled_plus(device, x, y)).over(x=x, y=device.buffer(np.float32(20)))
    again.plan().run()
    assert again.names["out"].numpy() == 24


def test_what_a_template_refuses(device: MlxDevice) -> None:
    x, y = vector(device, 1, 2), vector(device, 3, 4)
    template = Template(doubled_plus(device, x, y))
    with pytest.raises(InvalidArgument, match="share bytes"):
        template.over(x=x, y=x)
    with pytest.raises(InvalidArgument, match="expected f32"):
        template.over(x=vector(device, 1))
    with pytest.raises(InvalidArgument, match="no buffer is called 'z'"):
        template.over(z=x)
