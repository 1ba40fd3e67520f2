"""The layout of variables, from debug information; bytes outside members are padding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

_NODE = re.compile(r"^(!\d+) = (?:distinct )?(!DI\w+\(.*\)|!\{.*\})$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): ("[^"]*"|[^,)]+)')
_VECTOR = re.compile(r'"(?:packed_)?vec<.*, (\d)>"')
_WHOLE = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_enumeration_type")
_ALIASES = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")
MOST_GAPS = 1024  # of a variable, each by itself
_MEMBERS = ("DW_TAG_member", "DW_TAG_inheritance")

Span = tuple[int, int]  # the first byte and the one behind the last


@dataclass(frozen=True)
class Padding:
    """Bytes that are no member's, bytes of which only some bits are, and arrays whose elements have such."""

    gaps: list[Span]
    bits: list[tuple[int, int]]
    repeats: list[Repeat]


@dataclass(frozen=True)
class Repeat:
    """The elements of a large array: where they begin, how many they are, and their size."""

    start: int
    count: int
    stride: int
    padding: Padding


class Types:
    """The types of a module."""

    def __init__(self, text: str) -> None:
        self._nodes: dict[str, str] = dict(_NODE.findall(text))

    def name(self, variable: str) -> str:
        """What the source calls the variable of a node."""
        return self._fields(variable).get("name", "").strip('"')

    def size(self, variable: str) -> int:
        """Its bytes."""
        return self._size(self._fields(variable).get("type", ""))

    def is_constant(self, variable: str) -> bool:
        """Whether it is `const`, or an array of what is."""
        fields = self._fields(self._fields(variable).get("type", ""))
        while fields.get("tag") in ("DW_TAG_typedef", "DW_TAG_volatile_type", "DW_TAG_array_type"):
            fields = self._fields(fields.get("baseType", ""))
        return fields.get("tag") == "DW_TAG_const_type"

    def is_parameter(self, variable: str) -> bool:
        return "arg" in self._fields(variable)

    def without(self, variable: str, names: frozenset[str]) -> list[Span]:
        """Its bytes but for members of these names."""
        node = self._fields(variable).get("type", "")
        spans: list[Span] = []
        start = 0
        for first, end in sorted(self._named(node, 0, names)) if names else []:
            if first > start:
                spans.append((start, first))
            start = max(start, end)
        return [*spans, *[(start, self._size(node))] * (start < self._size(node))]

    def padding(self, variable: str, size: int) -> Padding:
        """What of a variable is no member's."""
        repeats: list[Repeat] = []
        return _uncovered(self._covered(self._fields(variable).get("type", ""), 0, repeats), size, repeats)

    def _fields(self, node: str) -> dict[str, str]:
        return dict(_FIELD.findall(self._nodes.get(node, "")))

    def _covered(self, node: str, start: int, repeats: list[Repeat]) -> int:
        """The bits of members in a type; with the padding of large arrays, which count as a whole."""
        fields = self._fields(node)
        tag, size = fields.get("tag", ""), int(fields.get("size", 0)) // 8
        vector = _VECTOR.fullmatch(fields.get("name", ""))
        if vector and size:
            count = int(vector[1])
            stored = 4 if count == 3 and "packed" not in fields["name"] else count
            return _ones(size // stored * count)
        if self._nodes.get(node, "").startswith("!DIBasicType") or tag in _WHOLE:
            return _ones(size)
        if tag in _ALIASES:
            return self._covered(fields.get("baseType", ""), start, repeats)
        if tag == "DW_TAG_array_type":
            whole = "DIFlagVector" in fields.get("flags", "")
            return _ones(size) if whole else self._elements(fields["baseType"], start, size, repeats)
        if tag in ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"):
            if tag == "DW_TAG_union_type":
                return self._any_member(fields)
            return reduce(or_, (self._member(each, start, repeats) for each in self._members(fields)), 0)
        return 0

    def _named(self, node: str, start: int, names: frozenset[str]) -> Iterator[Span]:
        fields = self._fields(node)
        if fields.get("tag") in _ALIASES:
            yield from self._named(fields.get("baseType", ""), start, names)
        elif fields.get("tag") == "DW_TAG_array_type":
            inside = list(self._named(fields["baseType"], 0, names))
            places = range(start, start + self._size(node), self._size(fields["baseType"])) if inside else ()
            yield from ((place + first, place + end) for place in places for first, end in inside)
        for member in self._members(fields):
            first = start + int(member.get("offset", 0)) // 8
            if member.get("name", "").strip('"') in names:
                yield first, first + int(member["size"]) // 8
            else:
                yield from self._named(member.get("baseType", ""), first, names)

    def _elements(self, node: str, start: int, size: int, repeats: list[Repeat]) -> int:
        stride, inner = self._size(node), list[Repeat]()
        element = self._covered(node, 0, inner)
        if not stride or (element == _ones(stride) and not inner):
            return _ones(size)
        count, padding = size // stride, _uncovered(element, stride, inner)
        if inner or count * len(padding.gaps + padding.bits) > MOST_GAPS:
            repeats.append(Repeat(start, count, stride, padding))
            return _ones(size)
        return sum(element << 8 * stride * number for number in range(count))

    def _size(self, node: str) -> int:
        fields = self._fields(node)
        if fields.get("tag") in _ALIASES:
            return self._size(fields.get("baseType", ""))
        return int(fields.get("size", 0)) // 8

    def _members(self, fields: Mapping[str, str]) -> Iterator[dict[str, str]]:
        for node in re.findall(r"!\d+", self._nodes.get(fields.get("elements", ""), "")):
            member = self._fields(node)
            if member.get("tag") in _MEMBERS and "DIFlagStaticMember" not in member.get("flags", ""):
                yield member

    def _member(self, member: Mapping[str, str], start: int, repeats: list[Repeat]) -> int:
        offset = int(member.get("offset", 0))
        if "DIFlagBitField" in member.get("flags", ""):
            return ((1 << int(member["size"])) - 1) << offset
        return self._covered(member.get("baseType", ""), start + offset // 8, repeats) << offset

    def _any_member(self, union: Mapping[str, str]) -> int:
        """The bits that have a value if any member has one."""
        covered = -1
        for member in self._members(union):
            repeats: list[Repeat] = []
            own = self._member(member, 0, repeats)
            covered &= 0 if repeats else own
        return max(covered, 0)


def _ones(size: int) -> int:
    return (1 << 8 * size) - 1


def _uncovered(covered: int, size: int, repeats: list[Repeat]) -> Padding:
    data = (covered & _ones(size)).to_bytes(size, "little")
    gaps = [found.span() for found in re.finditer(rb"\x00+", data)]
    return Padding(gaps, [(found.start(), found[0][0]) for found in re.finditer(rb"[^\x00\xff]", data)], repeats)
