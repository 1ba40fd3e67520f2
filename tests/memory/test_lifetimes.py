"""Whatever a program lets go of while the GPU is at work: memory is kept until it is done, or the use is refused."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import pytest

from memory import lifetime_buffers, lifetime_owners
from memory.lifetime_kit import PATTERNS, SOURCE, Scene
from mlx_native_py import MlxDevice, settings

pytestmark = pytest.mark.soft
ROUNDS = 100  # of each pattern, with `--full`


@pytest.fixture(scope="module", params=["plain", "checked"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with settings.override(soft_checked=request.param == "checked"), MlxDevice("soft") as device:
        yield Scene(device, device.compile(SOURCE), tmp_path_factory.mktemp("lifetimes"))


@pytest.mark.parametrize("name", PATTERNS)
def test_memory_is_kept_or_its_use_is_refused(scene: Scene, name: str, request: pytest.FixtureRequest) -> None:
    PATTERNS[name](scene)
    if request.config.getoption("--full"):
        again_with_collections(scene, name)
    scene.device.submissions.wait_all()
    assert repr(scene.device.submissions) == "<Submissions: 0 open, 0 in flight>"


def again_with_collections(scene: Scene, name: str) -> None:
    """Many rounds, in each of which the garbage collector comes at other places."""
    chance, usual = random.Random(name), gc.get_threshold()
    try:
        for _ in range(ROUNDS):
            gc.set_threshold(chance.randint(1, 50), 1, 1)
            PATTERNS[name](scene)
    finally:
        gc.set_threshold(*usual)


def test_there_are_forty_patterns() -> None:
    for module in (lifetime_buffers, lifetime_owners):
        assert len([each for each in vars(module) if each in PATTERNS]) >= 20
