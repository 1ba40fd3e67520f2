"""Checks of a compiled kernel before it is loaded: its imports, and that loading runs no code."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from . import image_macho

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<QQ")
_RELOCATION = struct.Struct("<QQq")
_SHARED_OBJECT, _RELA, _DYNAMIC_SECTION, _DYNSYM = 3, 4, 6, 11
_WRITE, _ALLOC = 1, 2
_INDIRECT_SYMBOL = 10  # resolved by code of the object
_INDIRECT_RELOCATIONS = frozenset({37, 1032})  # the same, on x86-64 and AArch64
_INIT_ARRAY, _INIT_ARRAY_SIZE = 0x19, 0x1B
# Where its tables are; not what to load with it, to run at load, or to relocate in its code.
_TAGS = frozenset({0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x14, 0x17, 0x1E, 0x6FFFFEF5, 0x6FFFFFF9, 0x6FFFFFFB})
_WRITABLE = frozenset({".dynamic", ".got", ".got.plt", ".relro_padding", ".data.rel.ro", "soft_tg", ".init_array"})
_FLOAT_FUNCTIONS = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh exp exp10 exp2 expm1 fabs floor fma fmax fmin fmod "
    "frexp ilogb ldexp log log10 log1p log2 modf nearbyint nextafter pow remainder rint round roundeven sin sincos "
    "sinh sqrt tan tanh trunc"
).split()
_MEMORY = ("memcpy", "memmove", "memset", "memcmp", "bcmp")
_CONVERSIONS = ("__truncsfhf2", "__extendhfsf2", "__truncsfbf2", "__gnu_h2f_ieee", "__gnu_f2h_ieee")
# The same functions by names of macOS, and its loader's own.
_MACOS = ("__sincosf_stret", "__exp10f", "bzero", "memset_pattern4", "memset_pattern8", "memset_pattern16")
_LOADER = "dyld_stub_binder"
IMPORTS = frozenset({*(name + "f" for name in _FLOAT_FUNCTIONS), *_MEMORY, *_CONVERSIONS})
# The runtime's own, and the math library's for vectors. A source cannot name either: its functions are mangled.
_FAMILIES = re.compile(
    r"soft_\w+|__tsan_\w+|__ubsan_handle_(?:(?:local_)?out_of_bounds|type_mismatch_v1|missing_return)|_ZGV[bcden]N\d+v+_(\w+)f"
)


class ImageRefused(Exception):
    """A shared object that must not be loaded; `symbol` is the offending one, if any."""

    def __init__(self, reason: str, symbol: str = "") -> None:
        super().__init__(reason)
        self.symbol = symbol

    @property
    def name(self) -> str:
        """The symbol as the source spells it."""
        return source_name(self.symbol)


@dataclass(frozen=True)
class Section:
    """One section of an object file."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int


_FAR_CALL = "a call through a pointer to a function that is known only when the kernel runs is not supported"


def check_image(data: bytes) -> None:
    """Raises ImageRefused unless the object imports what kernels may call, and only that, and runs nothing at load."""
    try:
        if data.startswith(image_macho.MAGIC):
            return _check_macho(image_macho.read_image(data))
        sections = sections_of(data)
        _check_sections(data, sections)
        for section in sections:
            if section.kind == _DYNSYM:
                _check_symbols(data, section, sections[section.link])
            elif section.kind == _RELA:
                _check_relocations(data, section)
            elif section.kind == _DYNAMIC_SECTION:
                _check_tags(data, section)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise ImageRefused(f"not a whole shared object: {error}") from error


def _check_macho(image: image_macho.MachImage) -> None:
    for reason, symbol in image_macho.faults(image):
        raise ImageRefused(reason, symbol)
    for name in sorted(image.imports - {_LOADER, *_MACOS}):
        if not is_allowed(name):
            raise ImageRefused(f"undefined function '{source_name(name)}'", name)


def sections_of(data: bytes) -> list[Section]:
    """All sections of a shared object for a 64-bit machine."""
    head = _HEADER.unpack_from(data)
    if head[0][:6] != b"\x7fELF\x02\x01" or head[1] != _SHARED_OBJECT:
        raise ImageRefused("not a shared object for a 64-bit machine")
    table, count, names = head[6], head[12], head[13]
    raw = [_SECTION.unpack_from(data, table + _SECTION.size * index) for index in range(count)]
    strings = raw[names][4]
    return [Section(_text(data, strings + s[0]), s[1], s[2], s[4], s[5], s[6]) for s in raw]


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _check_sections(data: bytes, sections: list[Section]) -> None:
    for section in sections:
        if section.flags & _WRITE and section.flags & _ALLOC and section.name not in _WRITABLE:
            raise ImageRefused(f"variables that all threads could write to ({section.name})", "static")
        if section.name == ".kcfi_traps" and section.size:
            raise ImageRefused(_FAR_CALL)
        if section.name == ".init_array" and (section.size != 8 or b"\0tsan.module_ctor\0" not in data):
            raise ImageRefused("code that runs when the kernel is loaded")


def _check_symbols(data: bytes, section: Section, strings: Section) -> None:
    for offset in range(section.offset + _SYMBOL.size, section.offset + section.size, _SYMBOL.size):
        start, info, _, home, _, _ = _SYMBOL.unpack_from(data, offset)
        name = _text(data, strings.offset + start)
        if info & 15 == _INDIRECT_SYMBOL:
            raise ImageRefused(f"'{name}' is chosen by code that runs when the kernel is loaded", name)
        if home == 0 and name.startswith("__x86_indirect_thunk_"):
            raise ImageRefused(_FAR_CALL)
        if home == 0 and not is_allowed(name):
            raise ImageRefused(f"undefined function '{source_name(name)}'", name)


def is_allowed(name: str) -> bool:
    """Whether kernels may import a symbol."""
    family = _FAMILIES.fullmatch(name)
    return name in IMPORTS or bool(family and (family[1] is None or family[1] in _FLOAT_FUNCTIONS))


def source_name(symbol: str) -> str:
    """The last part of a mangled name; any other name as it is."""
    name = ""
    if not (prefix := re.match(r"_Z(?:N(?:[rVK]|U3AS\d|U\d+CL[a-z]+)*)?(?:St|L)*", symbol)):
        return symbol
    rest = symbol[prefix.end() :]
    while (digits := re.match(r"L?(\d+)", rest)) and len(rest) >= digits.end() + int(digits[1]):
        name = rest[digits.end() : digits.end() + int(digits[1])]
        rest = rest[digits.end() + int(digits[1]) :]
        if not symbol.startswith("_ZN"):
            break
    return name or symbol


def _check_relocations(data: bytes, section: Section) -> None:
    for offset in range(section.offset, section.offset + section.size, _RELOCATION.size):
        _, info, _ = _RELOCATION.unpack_from(data, offset)
        if info & 0xFFFFFFFF in _INDIRECT_RELOCATIONS:
            raise ImageRefused("an address that is worked out by code when the kernel is loaded")


def _check_tags(data: bytes, section: Section) -> None:
    for offset in range(section.offset, section.offset + section.size, _DYNAMIC.size):
        tag = _DYNAMIC.unpack_from(data, offset)[0]
        if tag not in _TAGS and tag not in (_INIT_ARRAY, _INIT_ARRAY_SIZE):
            raise ImageRefused(f"something that the loader would do beyond placing the kernel (tag {tag:#x})")
