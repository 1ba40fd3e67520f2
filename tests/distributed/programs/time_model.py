"""Predictions of the time model beside measured times: SmolLM2 on two ranks of one thread each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from mlx_native_py import MlxDevice
from mlx_native_py import distributed as d
from mlx_native_py.models import load_model, model_path
from mlx_native_py.models.loading import open_model
from mlx_native_py.ops import add
from mlx_native_py.parallel import load_pipeline_parallel, load_tensor_parallel
from mlx_native_py.parallel.host_steps import HostSteps
from mlx_native_py.parallel.time_model import Machine, estimate

PROMPT = [504, 3575, 282, 4649, 314]
ROUNDS, SUMS = 25, 60
group, device = d.init(), MlxDevice("soft")
path = model_path("smollm2")
opened = open_model(path)


def least(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of the quickest round: what other programs take away does not count."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def token_time(model: object, batch: int = 1) -> float:
    """Of a step, over as many sequences."""
    decoder = model.make_decoder(model.make_cache(batch=batch))  # type: ignore[attr-defined]
    decoder.prefill([PROMPT] * batch)
    return least(decoder.step)


def exchange_time() -> float:
    """Of a command buffer with next to nothing in it, and a sum of 4 bytes."""
    steps = HostSteps()
    x = device.buffer(np.zeros(1, np.float32))
    with device.capture(x=x) as graph:
        y = x
        for _ in range(SUMS):
            y = add(graph.encoder, y, x)
            steps.add(graph.encoder, partial(d.all_sum, y, out=y, group=group), y)
    return least(steps.plan(graph, "exchange").run) / SUMS


def link_speed() -> float:
    """Bytes a second of a large sum."""
    x = np.zeros(1 << 20, np.float32)
    return x.nbytes / least(lambda: d.all_sum(x, out=x, group=group))


def flight_time(model: object) -> float:
    """From one token to the next of any of two sequences in flight."""
    decoder = model.make_decoder(model.make_cache(batch=2))  # type: ignore[attr-defined]
    short, long = (least(partial(decoder.sequences, [PROMPT] * 2, count, ()), 5) for count in (4, 14))
    return (long - short) / 20


# While one rank measures a whole model, the other waits without using its processor.
alone = token_time(load_model(path, device)) if group.rank == 0 else 0.0
alone = float(d.broadcast(np.array([alone]))[0])
(whole,) = estimate(opened, 1, "tensor", Machine(1, 1, 1)).nbytes
machine = Machine(whole / alone, link_speed(), exchange_time())
pipeline = load_pipeline_parallel(path, device)
measured = {"tensor": token_time(load_tensor_parallel(path, device)), "pipeline": token_time(pipeline)}
measured["in flight"] = flight_time(pipeline)
predicted = {way: estimate(opened, 2, way, machine).token for way in ("tensor", "pipeline")}
predicted["in flight"] = estimate(opened, 2, "pipeline", machine).between
if group.rank == 0:
    told = {"bandwidth": machine.bandwidth, "link": machine.link, "latency": machine.latency, "alone": alone}
    print(json.dumps({"machine": told, "measured": measured, "predicted": predicted}))
