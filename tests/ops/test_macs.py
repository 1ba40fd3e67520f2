"""A case of each op on every Mac that the stand-in plays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selection import MACS, opened

from mlx_native_py import MlxDevice

from .bench import Bench
from .table import Case
from .test_conformance import CASES

ONE_OF_EACH = {case.op: case for case in CASES if not case.long}


@pytest.fixture(scope="module", params=MACS)
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(opened(request.param)) as found:
        yield found


@pytest.mark.parametrize("case", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
def test_op(device: MlxDevice, case: Case) -> None:
    case.run(Bench(device, case.number))
