"""The forms of products and attention: the choice among them, and that those for GPUs compute the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kit.encoding import soft_device

from mlx_native_py import MlxDevice, ops
from mlx_native_py.ops.forms import attends_by_lanes, choose
from mlx_native_py.ops.matmul_shape import Shape
from mlx_native_py.softmetal import DeviceProfile

from .bench import Bench
from .cases import CASES
from .table import Case

pytestmark = pytest.mark.soft
CHOSEN = {name for name in ops.table() if "matmul" in name or name in ("addmm", "sdpa")}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full")
        chosen = [case for case in CASES if case.op in CHOSEN and (full or not case.long)]
        metafunc.parametrize("case", [pytest.param(case, id=case.id) for case in chosen])


@pytest.fixture(scope="module", params=["fibers", pytest.param("lanes", marks=pytest.mark.full)])
def gpu(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    """The software device under the name of a GPU: what is chosen for GPUs runs on it."""
    with soft_device(DeviceProfile(architecture="applegpu_g15s"), engine=request.param) as opened:
        yield opened


def test_forms_for_gpus(gpu: MlxDevice, case: Case) -> None:
    case.run(Bench(gpu, case.number))


def test_what_is_chosen(gpu: MlxDevice) -> None:
    on_gpu = gpu.capabilities
    on_cpu = replace(on_gpu, vector_lanes=True)
    assert not on_gpu.vector_lanes

    def kinds(rows: int, *, packed: bool = True, columns: int = 64, transposed: bool = True) -> tuple[str, str]:
        shape = Shape(rows, columns, 256, transposed=transposed)
        return choose(on_gpu, shape, packed=packed).kind, choose(on_cpu, shape, packed=packed).kind

    assert kinds(1) == ("mv", "quad")
    assert kinds(1, packed=False) == ("mv", "row")
    assert kinds(1, columns=15) == ("mv", "mv")
    assert kinds(1, transposed=False) == ("vm", "vm")
    assert kinds(4) == ("mv", "quads")
    assert kinds(4, packed=False) == ("mv", "lane")
    assert kinds(9) == ("mm", "quads")
    assert kinds(9, columns=15) == ("mm", "lane")
    assert kinds(13) == ("mm", "lane")


def test_rows_go_together_in_even_parts(gpu: MlxDevice) -> None:
    on_cpu = replace(gpu.capabilities, vector_lanes=True)
    shapes = {rows: Shape(rows, 64, 1024) for rows in (2, 4, 5, 9, 12)}
    together = {rows: choose(on_cpu, shape, packed=True).rows for rows, shape in shapes.items()}
    assert together == {2: 2, 4: 4, 5: 3, 9: 3, 12: 4}
    assert choose(on_cpu, shapes[5], packed=True).constants(shapes[5], {}) == {"DEPTH": 1024, "BATCH": 3}


def test_attention_by_lanes_where_it_fits(gpu: MlxDevice) -> None:
    on_cpu = replace(gpu.capabilities, vector_lanes=True)
    assert attends_by_lanes(on_cpu, 128, 128) and not attends_by_lanes(on_cpu, 256, 256)
    assert not attends_by_lanes(gpu.capabilities, 64, 64)


def test_only_large_matrices_are_worth_a_build(gpu: MlxDevice) -> None:
    on_cpu = replace(gpu.capabilities, vector_lanes=True)
    small, large = (Shape(1, columns, 512) for columns in (64, 128))
    assert choose(on_cpu, small, packed=True).constants(small, {}) == {}
    assert choose(on_cpu, large, packed=True).constants(large, {"BITS": 4}) == {"BITS": 4, "DEPTH": 512}
