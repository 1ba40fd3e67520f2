"""Kernel parameters: what each is bound to, and Metal's rules for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..data_types import DataType, data_type
from ..program import KernelArgument
from .aliases import input_type
from .attributes import Attribute, attributes, is_attribute
from .evaluate import NotConstant
from .lexer import close_angle, is_name
from .resources import LAST_INDEX, input_spelling, resource_argument
from .unit import Unit
from .values import Values

MAX_INDEX = 30

POSITIONS = (
    "thread_position_in_grid",
    "threads_per_grid",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "grid_origin",
    "grid_size",
)
_SCALARS = (
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
    "thread_index_in_quadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
)
WIDTHS = dict.fromkeys(POSITIONS, 3) | dict.fromkeys(_SCALARS, 1)
_UNSUPPORTED = frozenset({"stage_in", "payload", "visible", "imageblock_data", "color", "position"})
_WITHOUT_MEANING = frozenset({"maybe_unused", "raster_order_group", "user", "access"})
_SPACES = ("device", "constant", "threadgroup", "thread")


@dataclass
class Parameter:
    """One parameter of a kernel, and its item in the entry macro."""

    start: int
    end: int
    name: int
    kind: Literal["buffer", "threadgroup", "texture", "sampler", "in"]
    argument: KernelArgument | None = None
    builtin: str = ""
    condition: int = -1  # token that names the function constant

    def item(self, *, on: bool) -> str:
        """Its item of SOFT_ENTRY."""
        if not on:
            return "SOFT_NOTHING"
        if self.argument is None:
            return f"SOFT_IN({self.builtin})"
        if self.argument.table >= 0:
            return f"SOFT_{self.kind.upper()}({self.argument.table}, {self.argument.index})"
        return f"SOFT_{self.kind.upper()}({self.argument.index})"


def split(unit: Unit, opened: int, closed: int) -> list[tuple[int, int]]:
    """The ranges between the commas of a parameter list."""
    text, match = unit.tokens.text, unit.tokens.match
    parts, start, index = [], opened + 1, opened + 1
    while index < closed:
        if text[index] in ("(", "[", "{"):
            index = match[index]
        elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        elif text[index] == ",":
            parts.append((start, index))
            start = index + 1
        index += 1
    if start < closed:
        parts.append((start, closed))
    return [] if [text[a:b] for a, b in parts] == [["void"]] else parts


def declared_name(unit: Unit, start: int, end: int) -> int:
    """The token that names a parameter, or -1 if it has no name."""
    text, match = unit.tokens.text, unit.tokens.match
    last, index, words = -1, start, 0
    while index < end:
        token = text[index]
        if token in ("[", "=") and words:
            if token == "=" or last >= 0:
                break
        if token in ("[", "("):
            if token == "(" and text[index + 1] in ("&", "*"):
                return declared_name(unit, index + 2, match[index])
            index = match[index]
        elif token == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index, last = close, -1
        elif is_name(token):
            words += token not in ("const", "volatile", "typename", "struct", *_SPACES)
            last = index if words > 1 or (words == 1 and text[index - 1] in ("*", "&")) else last
            last = -1 if text[index - 1] == "::" else last
        elif token in ("*", "&", "::"):
            last, words = -1, max(words, 1)
        index += 1
    return last


class ParameterReader:
    """Parses the parameters of one kernel, and assigns missing indices."""

    def __init__(self, unit: Unit, values: Values) -> None:
        self.unit = unit
        self.values = values

    def read(self, opened: int, closed: int) -> list[Parameter]:
        """The parameters between two parentheses, with indices given out."""
        declared = [self._parameter(start, end) for start, end in split(self.unit, opened, closed)]
        parameters = [parameter for parameter in declared if parameter]
        self._number([p for p in parameters if p.kind == "buffer"], "buffer")
        self._number([p for p in parameters if p.kind == "threadgroup"], "threadgroup")
        self._number([p for p in parameters if p.kind == "texture"], "texture")
        self._number([p for p in parameters if p.kind == "sampler"], "sampler")
        self._place_handles(parameters)
        return parameters

    def _place_handles(self, parameters: list[Parameter]) -> None:
        """Textures and samplers are bound by a table of handles, in a buffer slot that the kernel leaves free."""
        held = [p for p in parameters if p.kind in ("texture", "sampler")]
        taken = {p.argument.index for p in parameters if p.kind == "buffer" and p.argument}
        free = [index for index in range(MAX_INDEX + 1) if index not in taken]
        if held and not free:
            self.unit.error(held[0].start, "software Metal needs a buffer index that is free beside textures")
        for parameter in held if free else ():
            assert parameter.argument
            parameter.argument = replace(parameter.argument, table=free[-1])

    def _parameter(self, start: int, end: int) -> Parameter | None:
        unit = self.unit
        listed = attributes(unit.tokens, start, end)
        by_name = {attribute.name: attribute for attribute in listed}
        name = declared_name(unit, start, end)
        for attribute in listed:
            unit.drop(attribute.start, attribute.end)
        condition = by_name.pop("function_constant", None)
        condition_token = condition.arguments[0] if condition and condition.arguments else -1
        if condition and not self.values.has(unit.tokens.text[condition_token]):
            unit.error(condition.index, f"'{unit.tokens.text[condition_token]}' is not a function constant")
        anchor = name if name >= 0 else start
        space = self._space(start, end, anchor)
        places = [a for a in by_name.values() if a.name in ("buffer", "threadgroup")]
        others = [a for a in by_name.values() if a not in places and a.name not in _WITHOUT_MEANING]
        if space is None:
            return self._builtin(start, end, name, places + others, condition_token)
        if others:
            self._refuse(others[0])
            return None
        parameter = Parameter(
            start, end, name, "threadgroup" if space == "threadgroup" else "buffer", None, "", condition_token
        )
        parameter.argument = self._argument(parameter, space, places[0] if places else None, anchor)
        return parameter if parameter.argument else None

    def _space(self, start: int, end: int, anchor: int) -> str | None:
        """The address space of a pointer or reference; None for a value. Complains where there is none."""
        unit = self.unit
        text = unit.tokens.text
        outside = _outside_angles(unit, start, end)
        spaces = [text[index] for index in outside if text[index] in _SPACES]
        pointer = any(text[index] in ("*", "&") for index in outside) or _is_array(unit, anchor)
        spelling = unit.spelling(start, anchor)
        if sum(text[index] in ("*", "&") for index in outside) > max(len(spaces), not pointer):
            unit.error(anchor, f"pointer or reference type '{spelling}' must have explicit address space qualifier")
            return "device"
        if pointer and "thread" in spaces:
            unit.error(anchor, f"invalid address space 'thread' for kernel argument of type '{spelling}'")
            return "device"
        if spaces and not pointer:
            unit.error(anchor, f"invalid type '{spelling}' for buffer declaration: a pointer or reference is required")
            return "device"
        if not spaces:
            return None
        begin, stop = _pointee(unit, start, end, anchor)
        return next((text[index] for index in outside if begin <= index < stop and text[index] in _SPACES), spaces[0])

    def _refuse(self, attribute: Attribute) -> None:
        if attribute.name in _UNSUPPORTED:
            message = f"'{attribute.name}' attribute is not supported by software Metal"
        elif attribute.name in WIDTHS:
            message = f"'{attribute.name}' attribute cannot be applied to a pointer or reference"
        else:
            message = f"unknown attribute '{attribute.name}'"
        self.unit.error(attribute.index, message)

    def _builtin(self, start: int, end: int, name: int, listed: list[Attribute], condition: int) -> Parameter | None:
        unit = self.unit
        anchor = name if name >= 0 else start
        spelling = input_spelling(unit, start, end, name)
        if spelling.removeprefix("metal::").startswith("tensor<"):
            unit.error(anchor, "tensors as kernel arguments are not supported by software Metal: make one of a buffer")
            return None
        if held := resource_argument(unit, start, end, name, listed, condition):
            place = next((attribute for attribute in listed if attribute.name == held.kind), None)
            index = self._index(place) if place else -1
            return Parameter(start, end, name, held.kind, replace(held, index=index), "", condition)
        if not listed:
            shown = unit.tokens.text[name] if name >= 0 else spelling
            unit.error(
                anchor,
                f"invalid kernel argument declaration '{shown}': type '{spelling}' has no buffer or builtin attribute",
            )
            return None
        attribute = listed[0]
        if attribute.name in ("buffer", "threadgroup"):
            unit.error(
                anchor,
                f"'{attribute.name}' attribute only applies to pointers and references, not to type '{spelling}'",
            )
            return None
        if attribute.name not in WIDTHS:
            self._refuse(attribute)
            return None
        kind = input_type(unit, spelling.removeprefix("packed_"))
        if kind and (message := unfit_input(attribute.name, spelling, kind)):
            unit.error(anchor, message)
            return None
        return Parameter(start, end, name, "in", None, attribute.name, condition)

    def _argument(
        self, parameter: Parameter, space: str, place: Attribute | None, anchor: int
    ) -> KernelArgument | None:
        unit = self.unit
        index = -1
        if place is not None:
            if (place.name == "threadgroup") != (space == "threadgroup"):
                unit.error(place.index, f"'{place.name}' attribute does not fit address space '{space}'")
                return None
            index = self._index(place)
            if index < 0:
                return None
        text = unit.tokens.text
        begin, stop = _pointee(unit, parameter.start, parameter.end, anchor)
        if stop < 0:
            return None
        outside = _outside_angles(unit, begin, stop)
        read = space == "constant" or any(text[i] == "const" for i in outside)
        words = [
            text[i] for i in range(parameter.start, stop) if text[i] not in ("const", "volatile", "restrict", *_SPACES)
        ]
        type_name = unit.join(words)
        kind = data_type(type_name)
        return KernelArgument(
            kind="threadgroup" if space == "threadgroup" else "buffer",
            index=index,
            name=text[parameter.name] if parameter.name >= 0 else "",
            access="read" if read else "read_write",
            type_name=type_name,
            data_type=kind.code if kind else 0,
            is_pointer=text[stop] != "&",
            condition=text[parameter.condition] if parameter.condition >= 0 else None,
        )

    def _index(self, place: Attribute) -> int:
        unit = self.unit
        if place.arguments is None:
            unit.error(place.index, f"'{place.name}' attribute takes one argument")
            return -1
        try:
            index = self.values.integer(place.arguments)
        except NotConstant as reason:
            unit.error(place.index, f"'{place.name}' attribute requires an integer constant ({reason} is not one)")
            return -1
        last = LAST_INDEX.get(place.name, MAX_INDEX)
        if not 0 <= index <= last:
            unit.error(
                place.index, f"'{place.name}' attribute parameter is out of bounds: must be between 0 and {last}"
            )
            return -1
        return index

    def _number(self, parameters: list[Parameter], kind: str) -> None:
        taken: dict[int, Parameter] = {}
        for parameter in parameters:
            assert parameter.argument
            index = parameter.argument.index
            if index < 0:
                continue
            other = taken.get(index)
            # Two arguments may share an index when function constants choose between them.
            if other and parameter.condition < 0 and other.condition < 0:
                anchor = parameter.name if parameter.name >= 0 else parameter.start
                self.unit.error(anchor, f"cannot reserve '{kind}' resource location at index {index}")
            taken[index] = parameter
        free = iter(index for index in range(1000) if index not in taken)
        for parameter in parameters:
            assert parameter.argument
            if parameter.argument.index < 0:
                index = next(free)
                last = LAST_INDEX.get(kind, MAX_INDEX)
                if index > last:
                    self.unit.error(parameter.start, f"no '{kind}' resource location left: the last index is {last}")
                parameter.argument = replace(parameter.argument, index=index)


def unfit_input(name: str, spelling: str, kind: DataType) -> str:
    """Why a built-in input cannot have a type; empty where it can."""
    if kind.scalar in ("uint", "ushort") and kind.width <= WIDTHS[name] and not spelling.startswith("packed_"):
        return ""
    return f"invalid type '{spelling}' of input declaration with attribute '{name}'"


def _is_array(unit: Unit, name: int) -> bool:
    """Whether a parameter is written as an array, which is a pointer."""
    return (
        is_name(unit.tokens.text[name])
        and unit.tokens.text[name + 1] == "["
        and not is_attribute(unit.tokens, name + 1)
    )


def _pointee(unit: Unit, start: int, end: int, anchor: int) -> tuple[int, int]:
    """The tokens that say where and what the memory is that is bound: between the last two `*`; (start, -1) if none."""
    text = unit.tokens.text
    stops = [index for index in _outside_angles(unit, start, end) if text[index] in ("*", "&")]
    if _is_array(unit, anchor):
        stops.append(anchor)
    if not stops:
        return start, -1
    return (stops[-2] + 1 if len(stops) > 1 else start), stops[-1]


def _outside_angles(unit: Unit, start: int, end: int) -> list[int]:
    text, match = unit.tokens.text, unit.tokens.match
    outside, index = [], start
    while index < end:
        if text[index] == "[":
            index = match[index]
        elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        else:
            outside.append(index)
        index += 1
    return outside
