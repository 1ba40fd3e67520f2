"""What newcomers get wrong: each mistake is told by an exception of ours, with what was given and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mistakes import TABLES, World, anything_of

from mlx_native_py import MlxError, fn, ops, weights

pytestmark = pytest.mark.soft


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    world = World(tmp_path_factory.mktemp("mistakes"))
    yield world
    world.close()


CASES = [
    pytest.param(told, mistake, id=f"{name}-{number}")
    for name, table in TABLES.items()
    for number, (told, mistake) in enumerate(table)
]


def test_there_are_enough() -> None:
    assert len(CASES) >= 150


@pytest.mark.parametrize(("told", "mistake"), CASES)
def test_mistake(world: World, told: str, mistake: Callable[[World], Any]) -> None:
    with pytest.raises(MlxError, match=told):
        mistake(world)


@pytest.mark.parametrize(
    ("builtin", "mistake"),
    [
        (TypeError, lambda w: anything_of(ops.add)(w.enc, w.x)),
        (TypeError, lambda w: len(w.x[0])),
        (ValueError, lambda w: w.device.empty(-1)),
        (AttributeError, lambda w: anything_of(fn).sofmax),
        (AttributeError, lambda w: w.lib.axpyy),
        (LookupError, lambda w: w.lib["nothing"]),
        (IndexError, lambda w: w.x.__setitem__(100, 1)),
        (KeyError, lambda w: w.tensors()["nothing"]),
        (FileNotFoundError, lambda w: w.device.compile(w.folder / "nope.metal")),
        (FileNotFoundError, lambda w: weights.open_gguf(w.folder / "nope.gguf")),
        (MemoryError, lambda w: w.device.empty(1 << 50)),
    ],
)
def test_each_is_what_python_raises_for_it(
    world: World, builtin: type[BaseException], mistake: Callable[[World], Any]
) -> None:
    with pytest.raises(builtin) as caught:
        mistake(world)
    assert isinstance(caught.value, MlxError)
