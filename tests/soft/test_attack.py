"""Faulty programs on three engines, and checked: no death, no harm to other kernels, nothing silent if checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .attack import FAULTY
from .test_checked_private import RIGHT

NAMED = {program.name: program for program in FAULTY}
TENTH = 10


@pytest.mark.parametrize(("engine", "checked"), [("flat", False), ("lanes", False), ("fibers", False), ("auto", True)])
def test_faulty_programs_harm_only_themselves(engine: str, checked: bool, request: pytest.FixtureRequest) -> None:
    step = 1 if request.config.getoption("--full") else TENTH
    tests = Path(__file__).parents[1]
    paths = [str(tests), str(tests.parent)]
    script = f"import sys; sys.path[:0] = {paths!r}; from soft.attack import main; main({engine!r}, {checked}, {step})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=1800, check=False)
    *lines, last = done.stdout.splitlines() or [""]
    assert (done.returncode, last) == (0, "end"), (done.stdout[-500:], done.stderr[-2000:])
    faulty = len(FAULTY[::step])
    assert len(lines) == faulty + len([*RIGHT][::step])
    for line in lines[faulty:]:
        assert line.endswith(" | nothing | fine"), line
    for line in lines[:faulty]:
        name, wrong, right, others = line.split(" | ")
        assert others == "fine", line
        assert right == "nothing", line
        assert not checked or wrong == NAMED[name].error.__name__, line
