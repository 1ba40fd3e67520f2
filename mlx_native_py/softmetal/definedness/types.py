"""The layout of variables, from debug information; bytes outside members are padding."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NODE = re.compile(r"^(!\d+) = (?:distinct )?(!DI\w+\(.*\)|!\{.*\})$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): ("[^"]*"|[^,)]+)')
_VECTOR = re.compile(r'"(?:packed_)?vec<.*, (\d)>"')
_WHOLE = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_enumeration_type")
_ALIASES = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")
_MEMBERS = ("DW_TAG_member", "DW_TAG_inheritance")

Span = tuple[int, int]  # the first byte and the one behind the last


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

    def padding(self, variable: str, size: int) -> list[Span]:
        """The bytes of a variable that are no member's, and unions, of which any member may be the one with a value."""
        end, gaps = 0, []
        for start, stop in [*self._members(self._fields(variable).get("type", ""), 0), (size, size)]:
            if start > end:
                gaps.append((end, min(start, size)))
            end = max(end, stop)
        return gaps

    def _fields(self, node: str) -> dict[str, str]:
        return dict(_FIELD.findall(self._nodes.get(node, "")))

    def _members(self, node: str, start: int) -> Iterator[Span]:
        fields = self._fields(node)
        tag, size = fields.get("tag", ""), int(fields.get("size", 0)) // 8
        vector = _VECTOR.fullmatch(fields.get("name", ""))
        if vector and size:
            count = int(vector[1])
            stored = 4 if count == 3 and "packed" not in fields["name"] else count
            yield start, start + size // stored * count
        elif self._nodes.get(node, "").startswith("!DIBasicType") or tag in _WHOLE:
            yield start, start + size
        elif tag in _ALIASES:
            yield from self._members(fields.get("baseType", ""), start)
        elif tag == "DW_TAG_array_type":
            yield from self._elements(fields["baseType"], start, size, "DIFlagVector" in fields.get("flags", ""))
        elif tag in ("DW_TAG_structure_type", "DW_TAG_class_type"):
            yield from self._of_struct(fields.get("elements", ""), start)

    def _named(self, node: str, start: int, names: frozenset[str]) -> Iterator[Span]:
        fields = self._fields(node)
        if fields.get("tag") in _ALIASES:
            yield from self._named(fields.get("baseType", ""), start, names)
        elif fields.get("tag") == "DW_TAG_array_type":
            inside = list(self._named(fields["baseType"], 0, names))
            places = range(start, start + self._size(node), self._size(fields["baseType"])) if inside else ()
            yield from ((place + first, place + end) for place in places for first, end in inside)
        for member in re.findall(r"!\d+", self._nodes.get(fields.get("elements", ""), "")):
            of = self._fields(member)
            first = start + int(of.get("offset", 0)) // 8
            if of.get("tag") in _MEMBERS and of.get("name", "").strip('"') in names:
                yield first, first + self._size(member)
            elif of.get("tag") in _MEMBERS and "DIFlagStaticMember" not in of.get("flags", ""):
                yield from self._named(of.get("baseType", ""), first, names)

    def _elements(self, node: str, start: int, size: int, whole: bool) -> Iterator[Span]:
        stride = self._size(node)
        inside = list(self._members(node, 0)) if stride else []
        if whole or inside == [(0, stride)]:
            yield start, start + size
            return
        for place in range(start, start + size, stride or size or 1):
            yield from ((place + first, place + end) for first, end in inside)

    def _size(self, node: str) -> int:
        fields = self._fields(node)
        if fields.get("tag") in _ALIASES:
            return self._size(fields.get("baseType", ""))
        return int(fields.get("size", 0)) // 8

    def _of_struct(self, elements: str, start: int) -> Iterator[Span]:
        for node in re.findall(r"!\d+", self._nodes.get(elements, "")):
            fields = self._fields(node)
            flags = fields.get("flags", "")
            if fields.get("tag") in _MEMBERS and "DIFlagStaticMember" not in flags and "DIFlagBitField" not in flags:
                yield from self._members(fields.get("baseType", ""), start + int(fields.get("offset", 0)) // 8)
