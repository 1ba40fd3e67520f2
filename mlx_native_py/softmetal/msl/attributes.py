"""Attributes in double brackets: `[[buffer(2), function_constant(x)]]`."""

from __future__ import annotations

from dataclasses import dataclass

from .lexer import Tokens
from .unit import Unit

# Accepted and without meaning for a CPU, or understood by clang itself.
HARMLESS = frozenset(
    {
        "unroll",
        "likely",
        "unlikely",
        "maybe_unused",
        "nodiscard",
        "fallthrough",
        "deprecated",
        "noreturn",
        "clang::always_inline",
        "clang::noinline",
        "gnu::always_inline",
        "gnu::noinline",
        "gnu::unused",
        "always_inline",
        "noinline",
        "no_unique_address",
        "early_fragment_tests",
        "id",
    }
)
# What may stand in __attribute__((...)).
GNU_ATTRIBUTES = frozenset(
    (
        "aligned always_inline cold const deprecated enable_if ext_vector_type fallthrough flatten hot maybe_unused "
        "noinline nothrow packed pure unused vector_size warn_unused_result"
    ).split()
)
# What connects the stages of a render pipeline; on members and parameters of functions that are no kernels.
STAGE_ATTRIBUTES = frozenset(
    """
    attribute barycentric_coord center_no_perspective center_perspective centroid_no_perspective
    centroid_perspective clip_distance color depth flat front_facing index instance_id invariant layer
    payload point_coord point_size position primitive_id raster_order_group render_target_array_index
    sample_id sample_mask sample_no_perspective sample_perspective shared stage_in stencil user vertex_id
    viewport_array_index amplification_count amplification_id base_instance base_vertex patch patch_id
    position_in_patch mesh object imageblock_data
    """.split()
)
# No source is better for having one of these passed over: they say what runs, where, and under which name.
_DANGEROUS = frozenset(
    """
    address_space alias annotate cleanup constructor destructor disable_tail_calls ifunc init_priority interrupt ms_abi
    naked no_sanitize no_stack_protector noreturn retain section target used visibility weak weakref
    """.split()
)
_KEPT = frozenset({"maybe_unused", "nodiscard", "fallthrough", "likely", "unlikely", "noreturn"})


@dataclass(frozen=True)
class Attribute:
    """One attribute; `start` to `end` are the tokens of its brackets, `arguments` those in its parentheses."""

    name: str
    index: int  # of its name
    start: int
    end: int
    arguments: tuple[int, int] | None = None

    @property
    def known(self) -> bool:
        """Whether it may stand anywhere without a word: it changes nothing, or speaks of another stage."""
        return self.name in HARMLESS or self.name in STAGE_ATTRIBUTES

    @property
    def foreign(self) -> bool:
        """Whether it is another compiler's, to be passed over with a note."""
        return "::" in self.name and self.name.rpartition("::")[2].strip("_") not in _DANGEROUS

    @property
    def kept(self) -> bool:
        """Whether clang itself understands it."""
        return self.name in _KEPT


def attributes(tokens: Tokens, start: int, end: int) -> list[Attribute]:
    """The attributes between two tokens, outside nested brackets."""
    text, match = tokens.text, tokens.match
    listed: list[Attribute] = []
    index = start
    while index < end:
        if is_attribute(tokens, index):
            listed += _listed(tokens, index)
            index = match[index] + 1
        elif text[index] in ("(", "[", "{"):
            index = match[index] + 1
        else:
            index += 1
    return listed


def is_attribute(tokens: Tokens, index: int) -> bool:
    """Whether `[[` stands at `index`, and no lambda inside a subscript."""
    text, match = tokens.text, tokens.match
    return (
        text[index] == "["
        and index + 1 < len(text)
        and text[index + 1] == "["
        and match[index + 1] == match[index] - 1
        and text[index + 2] not in ("]", "&", "=", "this")
    )


def _listed(tokens: Tokens, start: int) -> list[Attribute]:
    text, match = tokens.text, tokens.match
    end = match[start] + 1
    listed = []
    index = start + 2
    while index < end - 2:
        name = index
        spelling = text[index]
        while text[index + 1] == "::":
            spelling += "::" + text[index + 2]
            index += 2
        arguments = None
        if text[index + 1] == "(":
            arguments = (index + 2, match[index + 1])
            index = match[index + 1]
        listed.append(Attribute(spelling, name, start, end, arguments))
        index += 1
        if text[index] == ",":
            index += 1
    return listed


def refuse_unknown(unit: Unit, attribute: Attribute) -> None:
    """An attribute that nobody here knows: an error, or a note if it is marked as another compiler's."""
    if attribute.known:
        return
    if attribute.foreign:
        unit.warn(attribute.index, f"attribute '{attribute.name}' is ignored")
    else:
        unit.error(attribute.index, f"unknown attribute '{attribute.name}'")
