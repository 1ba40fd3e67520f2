"""What ops declare of their reads and writes holds: kernels touch nothing else, and order changes no result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import Dispatch, DType, MlxBuffer, MlxDevice, ops, settings
from mlx_native_py.errors import UndeclaredAccessError
from mlx_native_py.softmetal.checked import DispatchCheck, Footprint
from mlx_native_py.softmetal.checked.intervals import Intervals

from .bench import Bench
from .cases import CASES
from .table import Case

pytestmark = pytest.mark.soft
EACH, EACH_FULL = 1, 10
"""Cases of a check that run here."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cases of each check, from its first to its last; in the normal run only of its usual ones."""
    if "case" not in metafunc.fixturenames:
        return
    full = metafunc.config.getoption("--full")
    by_check: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in CASES:
        if full or not case.long:
            by_check[case.op, case.check.__name__].append(case)
    chosen = [case for cases in by_check.values() for case in spread(cases, EACH_FULL if full else EACH)]
    metafunc.parametrize("case", [pytest.param(case, id=case.id) for case in chosen])


def spread(cases: list[Case], count: int) -> list[Case]:
    """Up to `count` of them, evenly."""
    places = np.linspace(0, len(cases) - 1, min(count, len(cases)))
    return [cases[round(place)] for place in places]


class Watched(Bench):
    """A bench that looks at what each dispatch touched."""

    def __init__(self, device: MlxDevice, number: int, footprints: list[Footprint]) -> None:
        super().__init__(device, number)
        self.footprints = footprints

    def run(self, op: Any, *args: Any, **options: Any) -> Any:
        self.footprints.clear()
        with self.device.command_encoder() as enc:
            enc.start_capture()
            result = op(enc, *args, **options)
            nodes = enc.take_capture() or []
            for node in nodes:
                if isinstance(node, Dispatch):
                    enc.replay_dispatch(node)
                else:
                    enc.memory_barrier()
        dispatches = [node for node in nodes if isinstance(node, Dispatch)]
        assert len(self.footprints) == len(dispatches) > 0
        for node, touched in zip(dispatches, self.footprints, strict=True):
            covered(node, touched)
        self.check_guards()
        return result


def covered(node: Dispatch, touched: Footprint) -> None:
    """Writes are declared; so are reads, but for those of what the dispatch itself has written."""
    read, written = ([each.span[1:] for each in declared] for declared in (node.reads, node.writes))
    own = touched.writes | touched.atomic_writes
    assert not outside(node, own, written), f"{node.pipeline.label} writes what it does not declare"
    more = outside(node, touched.reads | touched.atomic_reads, read)
    assert not outside(node, more, own.spans()), f"{node.pipeline.label} reads what it does not declare"


def outside(node: Dispatch, touched: Intervals, spans: list[tuple[int, int]]) -> Intervals:
    """Bytes of the node's buffers that are in none of the spans."""
    for span in spans:
        touched = touched.without(span)
    buffers = [binding.value for binding in node.bindings if isinstance(binding.value, MlxBuffer)]
    for low, high in touched.spans():
        if any(b.allocation.address <= low < b.allocation.address + b.allocation.nbytes for b in buffers):
            return touched.without((0, low)).without((high, 1 << 63))
    return touched.without((0, 1 << 63))


class Filled(Bench):
    """A bench whose outputs hold other bytes before the op runs."""

    def __init__(self, device: MlxDevice, number: int, filler: int) -> None:
        super().__init__(device, number)
        self.filler = filler

    def out(self, *shape: int, dtype: DType = DType.F32) -> MlxBuffer:
        filler = self.filler & (1 if dtype is DType.BOOL else 0xFF)
        bits = np.full(int(np.prod(shape)) * dtype.size, filler, np.uint8)
        return self.put(bits.view(dtype.numpy).reshape(shape), changes=True)

    def results(self) -> list[bytes]:
        """What may change, but for outputs that were not given to the op."""
        result = [view.numpy().tobytes() for _, view, _, changes in self._made if changes]
        return [each for each in result if set(each) != {self.filler}]


@pytest.fixture(scope="module")
def footprints() -> Iterator[list[Footprint]]:
    """What the dispatches touched, in the order in which they ran."""
    seen: list[Footprint] = []
    plain = DispatchCheck.footprint

    def footprint(self: DispatchCheck) -> Footprint:
        seen.append(plain(self))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DispatchCheck, "footprint", footprint)
        yield seen


@pytest.fixture(scope="module")
def checked() -> Iterator[MlxDevice]:
    with settings.override(soft_checked=True, soft_schedule="ordered"), MlxDevice("soft") as opened:
        yield opened


@pytest.fixture(scope="module", params=["shuffled:7", pytest.param("reversed", marks=pytest.mark.full)])
def devices(request: pytest.FixtureRequest) -> Iterator[tuple[MlxDevice, MlxDevice]]:
    """One that runs dispatches in order, and one that does not where no barrier says so."""
    with settings.override(soft_schedule="ordered"), MlxDevice("soft") as ordered:
        with settings.override(soft_schedule=request.param), MlxDevice("soft") as other:
            yield ordered, other


def test_dispatches_touch_what_they_declare(checked: MlxDevice, footprints: list[Footprint], case: Case) -> None:
    case.run(Watched(checked, case.number, footprints))


@pytest.mark.parametrize(
    ("said", "declared"), [("reads", {"reads": ()}), ("writes", {"writes": ()})], ids=["reads", "writes"]
)
def test_undeclared_bytes_are_found(
    checked: MlxDevice, footprints: list[Footprint], said: str, declared: dict[str, Any]
) -> None:
    def careless(enc: Any, a: MlxBuffer, b: MlxBuffer, out: MlxBuffer) -> None:
        pipeline = enc.device.kernels.get_pipeline("elementwise_add_f32")
        enc.dispatch(pipeline, a, b, out, a.size, threads=a.size, **declared)

    bench = Watched(checked, 0, footprints)
    with pytest.raises(UndeclaredAccessError, match=f"{said} bytes .* which its dispatch does not declare"):
        bench.run(careless, bench.put(bench.normal(9)), bench.put(bench.normal(9)), bench.out(9))


def test_order_and_old_contents_do_not_matter(devices: tuple[MlxDevice, MlxDevice], case: Case) -> None:
    benches = [Filled(device, case.number, filler) for device, filler in zip(devices, (0x7F, 0xFF), strict=True)]
    for bench in benches:
        case.run(bench)
    assert benches[0].results() == benches[1].results()


@pytest.mark.parametrize("schedule", ["ordered", "reversed", "shuffled:1", "shuffled:2", "shuffled:3"])
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_chain(schedule: str, checked: bool) -> None:
    """Ops that read, overwrite and read again the same few buffers, some of them as views."""
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    with settings.override(soft_schedule=schedule, soft_checked=checked), MlxDevice("soft") as device:
        a, b, c = device.buffer(x), device.buffer(x * 0 + 2), device.empty((6, 8), DType.F32)
        with device.command_encoder() as enc:
            ops.mul(enc, a, b, c)
            ops.add(enc, c, a, b)
            turned = ops.transpose_2d(enc, b)
            ops.slice_update(enc, turned, ops.slice(enc, a.reshape(8, 6), (0, 0), (4, 6)), (4, 0))
            ops.fill(enc, a[2:4], -1)
            joined = ops.concat(enc, [turned, a.reshape(8, 6)], axis=1)
            ops.scalar_mul(enc, c[:3], 0.5, c[3:])
            total = ops.add(
                enc, joined, ops.gather(enc, joined, device.buffer(np.arange(8, dtype=np.uint32)[::-1].copy()))
            )
        result = total.numpy().copy(), c.numpy().copy()
    expected_turned = (3 * x).T.copy()
    expected_turned[4:] = x.reshape(8, 6)[:4]
    filled = x.copy()
    filled[2:4] = -1
    both = np.concatenate([expected_turned, filled.reshape(8, 6)], 1)
    halves = 2 * x
    halves[3:] = halves[:3] / 2
    assert np.array_equal(result[0], both + both[::-1]) and np.array_equal(result[1], halves)
