"""Every public name has a docstring of its own, and the examples of the backend run."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from test_docstrings import stage

import mlx_native_py
from mlx_native_py import MlxDevice


def example(name: str) -> tuple[Any, str]:
    """The object, and its docstring; that of a module goes with those of what it exports."""
    thing = getattr(mlx_native_py, name)
    if isinstance(thing, ModuleType):
        members = [getattr(thing, each) for each in getattr(thing, "__all__", ())]
        return thing, "\n".join(each.__doc__ or "" for each in [thing, *members])
    inherited = [base.__doc__ for base in thing.__mro__[1:]] if isinstance(thing, type) else []
    return thing, "" if thing.__doc__ in inherited else thing.__doc__ or ""


@pytest.mark.parametrize("name", mlx_native_py.__all__)
def test_is_documented(name: str) -> None:
    assert example(name)[1].strip()


@pytest.mark.soft
@pytest.mark.parametrize("name", ["Backend"])  # whose module no other test looks through
def test_example_runs(name: str, tmp_path: Path) -> None:
    thing, text = example(name)
    with MlxDevice("soft") as device:
        globs = {**vars(mlx_native_py), **stage(device, tmp_path)}
        test = doctest.DocTestParser().get_doctest(text, globs, name, None, None)
        assert doctest.DocTestRunner().run(test).failed == 0
