"""The types of a kernel's built-in inputs, which must be consistent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..data_types import DataType
from .aliases import input_type
from .arguments import POSITIONS, Parameter, unfit_input
from .resources import input_spelling
from .unit import Unit

_SAME_TYPE = (
    ("thread_position_in_grid", "threads_per_grid"),
    ("thread_position_in_threadgroup", "threads_per_threadgroup", "dispatch_threads_per_threadgroup"),
    ("threadgroup_position_in_grid", "threadgroups_per_grid"),
)
_OLD_AND_NEW = ("thread_execution_width", "threads_per_simdgroup")


def check_inputs(unit: Unit, parameters: Sequence[Parameter], given: Mapping[str, str]) -> None:
    """Notes an error at the first parameter whose type does not go with those before it.

    `given` has what the names of a template stand for, as far as it is known.
    """
    known: dict[str, DataType] = {}
    for parameter in parameters:
        spelling = input_spelling(unit, parameter.start, parameter.end, parameter.name, given)
        kind = input_type(unit, spelling)
        if not parameter.builtin or kind is None:
            continue
        anchor = parameter.name if parameter.name >= 0 else parameter.start
        message = unfit_input(parameter.builtin, spelling, kind) or _disagreement(parameter.builtin, kind, known)
        if message:
            unit.error(anchor, message)
            return
        known[parameter.builtin] = kind


def _disagreement(name: str, kind: DataType, known: dict[str, DataType]) -> str:
    if name in _OLD_AND_NEW and any(other in known for other in _OLD_AND_NEW if other != name):
        return "'thread_execution_width' and 'threads_per_simdgroup' are the same input: declare one of them"
    if name not in POSITIONS:
        return ""
    for other, its in known.items():
        if other in POSITIONS and its.width != kind.width:
            return (
                "expecting input declarations with either all scalar types or all vector types with the same number "
                f"of elements: '{name}' is '{_shown(kind)}', '{other}' is '{_shown(its)}'"
            )
        if its.scalar != kind.scalar and any(name in same and other in same for same in _SAME_TYPE):
            return f"'{name}' and '{other}' must have the same type: '{_shown(kind)}' is not '{_shown(its)}'"
    return ""


def _shown(kind: DataType) -> str:
    return kind.scalar + (str(kind.width) if kind.width > 1 else "")
