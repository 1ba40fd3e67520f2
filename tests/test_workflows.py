"""The workflows: what they run exists, their limits add up, and what they look for in logs is found there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlx_native_py.cli.main import _parser
from mlx_native_py.settings import Settings

ROOT = Path(__file__).parents[1]
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "actions" / "check" / "action.yml").read_text())
COMMANDS = [step["run"] for _, step in STEPS if "run" in step]
ONE_LINE = [re.sub(r"\\\n|2>&1", " ", command) for command in COMMANDS]
MACS = [name for name in JOBS if name.startswith("macos")]
FLAGS = {each.metadata["flag"] for each in fields(Settings) if "flag" in each.metadata}
RETIRED = {"macos-13", "macos-14", "ubuntu-20.04"}
"""Runners that GitHub no longer has."""
NODE_24 = {"actions/cache": 5, "actions/checkout": 5, "actions/setup-python": 6, "actions/upload-artifact": 6}
"""The first version of each action that runs on the Node that runners have."""
DEBUG_LAYER = {"MTL_DEBUG_LAYER": "1", "MTL_DEBUG_LAYER_ERROR_MODE": "nslog"}


def as_word(job: str) -> str:
    """A test's id in one word: "soft" in an id says that it needs the software device."""
    return job.replace("-", "_")


@pytest.mark.parametrize("job", JOBS, ids=as_word)
def test_steps_end_before_their_job(job: str) -> None:
    limits = [step.get("timeout-minutes", 0) for step in JOBS[job]["steps"]]
    assert sum(limits) + 5 <= JOBS[job]["timeout-minutes"]


def test_runners_and_actions_are_there() -> None:
    runners = {each for job in JOBS.values() for each in job.get("strategy", {}).get("matrix", {}).get("runner", ())}
    runners |= {job["runs-on"] for job in JOBS.values() if "${{" not in job["runs-on"]}
    assert len(runners) >= 4 and not runners & RETIRED
    steps = [*(step for _, step in STEPS), *ACTION["runs"]["steps"]]
    used = {tuple(step["uses"].split("@v")) for step in steps if "uses" in step}
    assert used and all(int(version.partition(".")[0]) >= NODE_24[action] for action, version in used)


def test_every_file_that_is_named_is_there() -> None:
    named = {word for command in ONE_LINE for word in shlex.split(command) if re.match(r"(tests|examples|\.ci)/", word)}
    assert len(named) >= 8
    assert [name for name in named if not list(ROOT.glob(name))] == []


def test_every_extra_is_one_of_ours() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    asked = {
        extra for command in COMMANDS for found in re.findall(r"'\.\[(.+?)\]'", command) for extra in found.split(",")
    }
    assert asked and asked <= extras


def test_settings_are_known() -> None:
    named = {name for holder in (*JOBS.values(), *(step for _, step in STEPS)) for name in holder.get("env", {})}
    named |= {name for command in COMMANDS for name in re.findall(r"\b([A-Z][A-Z_]+)=", command)}
    assert named >= {"MLX_NATIVE_DEVICE", "MLX_SOFT_ENGINE"} and named - FLAGS == DEBUG_LAYER.keys()
    assert JOBS["macos-validation"]["env"] == DEBUG_LAYER


def test_our_commands_take_their_options() -> None:
    calls = [part for command in ONE_LINE for part in re.findall(r"mlx-native ([^|&\n]*)", command)]
    assert len(calls) >= 3
    for call in calls:
        arguments = shlex.split(call)
        _parser(arguments).parse_args(arguments)


def test_pytest_takes_its_options() -> None:
    calls = [part for command in ONE_LINE for part in re.findall(r"-m pytest ([^|&\n]*)", command)]
    options = {word for call in calls for word in shlex.split(call) if word.startswith("--")}
    assert options >= {"--max-worker-restart=100", "--metal=require", "--metal=skip"}
    options = {word for word in options if not word.startswith(("--metal=", "--junitxml="))}
    for metal in ("--metal=require", "--metal=skip"):
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--collect-only", metal, *options, __file__]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert run.returncode == 0, run.stdout[-1000:] + run.stderr[-1000:]


@pytest.mark.parametrize("job", MACS, ids=as_word)
def test_a_mac_tells_all_it_can(job: str) -> None:
    steps = JOBS[job]["steps"]
    assert any("mkdir report" in step.get("run", "") for step in steps)
    assert [step["with"]["path"] for step in steps if step.get("if") == "always()"] == ["report"]
    later = [step for step in steps if "report/" in step.get("run", "")][1:]
    assert later and all(step.get("if") == "success() || failure()" for step in later)


def test_an_engine_that_fails_leaves_the_others_their_turn(tmp_path: Path) -> None:
    command = next(command for command in COMMANDS if "for engine in" in command)
    python = tmp_path / ".venv-test" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$MLX_SOFT_ENGINE"\n[ "$MLX_SOFT_ENGINE" != fibers ]\n')
    python.chmod(0o755)
    (tmp_path / "report").mkdir()
    assert shell(command, tmp_path) == 1
    assert {path.name: path.read_text() for path in (tmp_path / "report").iterdir()} == {
        f"{engine}.txt": f"{engine}\n" for engine in ("flat", "fibers", "lanes")
    }


BANNER = "2026-01-02 03:04:05.678 python3.13[123:456] Metal API Validation Enabled\n"
FOUND = "-[MTLDebugComputeCommandEncoder setBytes:length:atIndex:]:400: failed assertion `length(0) must be > 0'\n"


@pytest.mark.parametrize(("log", "code"), [("12 passed\n", 0), (BANNER, 0), (BANNER + FOUND, 1), (FOUND, 1)])
def test_what_the_debug_layer_says_is_found(tmp_path: Path, log: str, code: int) -> None:
    (tmp_path / "report").mkdir()
    for name in ("tests.txt", "doctor-mac.txt"):
        (tmp_path / "report" / name).write_text(log)
    assert shell(next(command for command in COMMANDS if "MTLDebug" in command), tmp_path) == code


def shell(command: str, folder: Path) -> int:
    """Runs a step as GitHub does."""
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command], cwd=folder, capture_output=True, check=False
    ).returncode
