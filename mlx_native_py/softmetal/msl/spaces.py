"""Token-level translation: address spaces, reserved names, and literals that OpenCL lacks."""

from __future__ import annotations

import re

from .lexer import Tokens

SPACES = {
    "device": "__attribute__((opencl_global_device))",
    "constant": "const __global",
    "threadgroup": "__local",
    "thread": "__private",
}
# The same, where a member function has to be told apart by the space of its object.
MEMBER_SPACES = {"device": "__global", "constant": "__global", "threadgroup": "__local", "thread": ""}

_OTHERS = frozenset({"device", "constant", "threadgroup"})
_QUALIFIERS = _OTHERS | {"thread", "const", "volatile"}

_RESERVED = (
    "local global generic pipe read_only write_only read_write event_t clk_event_t queue_t reserve_id_t ndrange_t "
    "atomic_double atomic_flag atomic_intptr_t atomic_ptrdiff_t atomic_size_t atomic_uintptr_t "
    "vec_step sampler_t image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image2d_depth_t "
    "image2d_msaa_t image3d_t"
).split()
# Names of our headers and of what is compiled, which mean nothing in Metal.
_OWN = re.compile(
    r"SOFT_\w+|soft_(?:meet|barrier|log|lane_offset|lanes_\w+|entry_point|tg_size|arguments\w*|handle|bits)"
)
_RENAMED_PREFIX = "soft_name_"
# A constant reference to thread memory may have lost its space, which a const_cast cannot give back.
_WORDS = SPACES | {"const_cast": "soft::without_const"} | {name: _RENAMED_PREFIX + name for name in _RESERVED}
_BFLOAT = re.compile(r"((?:[0-9][0-9']*(?:\.[0-9']*)?|\.[0-9][0-9']*)(?:[eE][+-]?[0-9]+)?)(?:bf|BF)$")
_DIGITS = frozenset(".0123456789")
_PLAIN_FLOAT = re.compile(
    r"(?:[0-9][0-9']*\.[0-9']*|\.[0-9][0-9']*)(?:[eE][+-]?[0-9]+)?|[0-9][0-9']*[eE][+-]?[0-9]+|0[xX][0-9a-fA-F.']*[pP][+-]?[0-9]+"
)
_QUOTED = re.compile(r"'[^']*'")
_SHOWN = (
    (re.compile(r"'[^']*_soft_type' \(aka ('[^']*')\)"), r"\1"),
    (re.compile(r"const __global\b ?(?!_device)"), "constant "),
    (re.compile(r"__global_device\b"), "device"),
    (re.compile(r"__global\b"), "device"),
    (re.compile(r"__local\b"), "threadgroup"),
    (re.compile(r"__private\b"), "thread"),
    (re.compile(r"__generic ?"), ""),
    (re.compile(r"\bsoft_(?:name_|tg_|(?=atomic_))(\w+)"), r"\1"),
    (re.compile(r"\bsoft::(?:detail::)?"), ""),
)


def translate(tokens: Tokens) -> list[str]:
    """What each token becomes by itself; later passes look at more than one."""
    text, out = tokens.text, list(tokens.text)
    for word, indices in tokens.places.items():
        if (translated := _translated(word)) != word:
            for index in indices:
                out[index] = translated
    for index in tokens.places_of(("coherent", "thread")):
        if text[index] == "thread":
            _move_to_pointer(text, out, index)
        elif length := _coherence(text, index):
            out[index : index + length] = [""] * length
    return out


def _translated(word: str) -> str:
    if word[-2:] in ("bf", "BF") and (match := _BFLOAT.match(word)):
        digits = match[1] if "." in match[1] or "e" in match[1].lower() else match[1] + ".0"
        return f"bfloat({digits}f)"
    if word[0] in _DIGITS and _PLAIN_FLOAT.fullmatch(word):
        return word + "f"
    if word[:4] in ("SOFT", "soft") and _OWN.fullmatch(word):
        return _RENAMED_PREFIX + word
    return _WORDS.get(word, word)


def _coherence(text: list[str], index: int) -> int:
    """The length of the qualifier `coherent` or `coherent(device)`; 0 where the word is a name like any other."""
    if text[index + 1] == "(" and text[index + 2] in ("device", "system", "threadgroup"):
        return 4
    return int(text[index + 1] in _QUALIFIERS or (text[index - 1] in _QUALIFIERS and _is_word(text[index + 1])))


def _is_word(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"


def _move_to_pointer(text: list[str], out: list[str], index: int) -> None:
    """In `thread device float *p` the first word speaks of the pointer, or of the last pointer of several."""
    first = last = index
    while text[first - 1] in _QUALIFIERS:
        first -= 1
    while text[last + 1] in _QUALIFIERS:
        last += 1
    if not _OTHERS & set(text[first : last + 1]):
        return
    out[index] = ""
    stars = []
    position = last + 1
    while _is_word(text[position]) or text[position] in ("*", "::", "&"):
        stars += [position] if text[position] in ("*", "&") else []
        position += 1
    if len(stars) > 1 and not _OTHERS & set(text[stars[-2] : stars[-1]]):
        out[stars[-1]] = f"{SPACES['thread']} {text[stars[-1]]}"


def restore(message: str) -> str:
    """A compiler's message with the user's own words in it."""
    for pattern, word in _SHOWN:
        message = pattern.sub(word, message)
    return _QUOTED.sub(_without_own_space, message)


def _without_own_space(quoted: re.Match[str]) -> str:
    """A type as Metal shows it: that a variable itself lives in thread memory is not worth a word."""
    shown = re.sub(r"([*&])thread\b", r"\1", quoted[0])
    return shown if "*" in shown or "&" in shown else re.sub(r"\bthread | thread\b", "", shown)
