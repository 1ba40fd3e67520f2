"""The options of the test run itself: what is left out is said, what is required is required."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEST = "tests/metal/test_backend.py::test_metal_gives_back_what_it_hands_out"


def run(*options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", TEST, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_skip_says_so() -> None:
    status, printed = run("--metal=skip")
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "metal: 1 tests not run: --metal=skip" in printed


@pytest.mark.skipif(sys.platform == "darwin", reason="Metal may be here")
def test_auto_says_why() -> None:
    status, printed = run()
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "metal: 1 tests not run: No module named" in printed


@pytest.mark.skipif(sys.platform == "darwin", reason="Metal may be here")
def test_require_fails() -> None:
    status, printed = run("--metal=require", "-m", "metal")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "--metal=require, but Metal is not here: No module named" in printed
