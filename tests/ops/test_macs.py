"""A case of each op on a Mac that the stand-in plays, another one for the next op; the long run has all pairs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selection import MACS, opened

from mlx_native_py import MlxDevice

from .bench import Bench
from .cases import CASES
from .table import Case

ONE_OF_EACH = {case.op: case for case in CASES if not case.long}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    pairs = [
        pytest.param(*mac.values, case, marks=mac.marks, id=f"{mac.values[0]}-{op}")
        for at, mac in enumerate(MACS)
        for number, (op, case) in enumerate(ONE_OF_EACH.items())
        if metafunc.config.getoption("--full") or number % len(MACS) == at
    ]
    metafunc.parametrize(("device", "case"), pairs, indirect=["device"], scope="module")


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(opened(request.param)) as opened_device:
        yield opened_device


def test_op(device: MlxDevice, case: Case) -> None:
    case.run(Bench(device, case.number))
