"""Every op against float64, in every variant of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlx_native_py import MlxDevice, ops

from .bench import Bench
from .cases import CASES
from .table import COUNT, Case

LEAST = 1500
"""Cases of the normal run; fewer fail it."""
LEAST_FULL = 10_000


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The long cases become tests in the long run only: thousands of them would slow down every other run."""
    if "case" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full")
        chosen = [case for case in CASES if full or not case.long]
        COUNT["skipped"] += len(CASES) - len(chosen)
        marks = {True: [pytest.mark.full], False: []}
        metafunc.parametrize("case", [pytest.param(case, id=case.id, marks=marks[case.long]) for case in chosen])


def test_case(device: MlxDevice, case: Case) -> None:
    case.run(Bench(device, case.number))


def test_table_has_not_shrunk() -> None:
    usual = sum(not case.long for case in CASES)
    assert usual >= LEAST and len(CASES) >= LEAST_FULL


def test_every_op_and_type_has_a_row() -> None:
    covered = {(case.op, str(value)) for case in CASES for value in case.variant.values()}
    missing = [(op.name, each) for op in ops.table().values() for each in op.types if (op.name, each) not in covered]
    assert not missing
