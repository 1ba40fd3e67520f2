"""The same checks for Mach-O, the format of macOS: load commands, sections, symbols, indirect calls."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"\xcf\xfa\xed\xfe"
_HEADER = struct.Struct("<4sIIIIIII")
_COMMAND = struct.Struct("<II")
_SEGMENT = struct.Struct("<II16sQQQQIIII")
_SECTION = struct.Struct("<16s16sQQIIIIIIII")
_SYMTAB = struct.Struct("<IIIIII")
_SYMBOL = struct.Struct("<IBBHQ")
_ARM64, _DYLIB = 0x0100000C, 6
_WRITE = 2
_SEGMENT_64, _SYMBOLS, _LOAD_DYLIB = 0x19, 2, 0xC
# Where its tables are, what it is called, and its signature; nothing that would be run or loaded.
_COMMANDS = frozenset({2, 0xB, 0xC, 0xD, 0xE, 0x19, 0x1B, 0x1D, 0x26, 0x29, 0x2A, 0x32, 0x80000022})
_STAB, _TYPE, _UNDEFINED, _EXTERNAL = 0xE0, 0x0E, 0, 1
_CALL_REGISTER, _CALL_MASK = 0xD63F0000, 0xFFFFFC1F  # blr
LIBRARY = "/usr/lib/libSystem.B.dylib"


@dataclass(frozen=True)
class MachSection:
    """One section of a dynamic library."""

    segment: str
    name: str
    address: int
    offset: int
    size: int
    writable: bool


@dataclass(frozen=True)
class MachSymbol:
    """One symbol, without its leading underscore."""

    name: str
    defined: bool
    external: bool
    address: int


@dataclass(frozen=True)
class MachImage:
    """A dynamic library for Apple silicon, from its load commands."""

    data: bytes
    commands: tuple[int, ...]
    libraries: tuple[str, ...]
    sections: tuple[MachSection, ...]
    symbols: tuple[MachSymbol, ...]

    @property
    def imports(self) -> frozenset[str]:
        return frozenset(symbol.name for symbol in self.symbols if not symbol.defined)

    @property
    def exports(self) -> frozenset[str]:
        return frozenset(symbol.name for symbol in self.symbols if symbol.defined and symbol.external)

    def words(self, name: str) -> Iterator[int]:
        """The instructions of a section of code."""
        for section in self.sections:
            if section.name == name:
                whole = self.data[section.offset : section.offset + section.size // 4 * 4]
                yield from (word for (word,) in struct.iter_unpack("<I", whole))


def read_image(data: bytes) -> MachImage:
    """Reads the tables; raises ValueError or struct.error where they do not hold together."""
    magic, machine, _, kind, count, _, _, _ = _HEADER.unpack_from(data)
    if magic != MAGIC or machine != _ARM64 or kind != _DYLIB:
        raise ValueError("not a dynamic library for Apple silicon")
    commands, libraries, sections, symbols = [], [], [], []
    offset = _HEADER.size
    for _ in range(count):
        command, size = _COMMAND.unpack_from(data, offset)
        if size < _COMMAND.size:
            raise ValueError("a load command without a size")
        commands.append(command)
        if command == _SEGMENT_64:
            sections += _sections(data, offset)
        elif command == _SYMBOLS:
            symbols += _symbols(data, offset)
        elif command == _LOAD_DYLIB:
            (start,) = struct.unpack_from("<I", data, offset + _COMMAND.size)
            libraries.append(_text(data, offset + start))
        offset += size
    return MachImage(data, tuple(commands), tuple(libraries), tuple(sections), tuple(symbols))


def faults(image: MachImage) -> Iterator[tuple[str, str]]:
    """What is wrong with a kernel, imports aside: the reason, and the symbol at fault if it is one."""
    for command in sorted({*image.commands} - _COMMANDS):
        yield f"something that the loader would do beyond placing the kernel (command {command:#x})", ""
    for library in image.libraries:
        if library != LIBRARY:
            yield f"another library to load ({library})", ""
    defined = {symbol.name for symbol in image.symbols if symbol.defined}
    for section in image.sections:
        if section.name == "__mod_init_func" and (section.size != 8 or "tsan.module_ctor" not in defined):
            yield "code that runs when the kernel is loaded", ""
        if section.writable and section.size and not _may_be_written(section, image):
            yield f"variables that all threads could write to ({section.name})", "static"
    if any(word & _CALL_MASK == _CALL_REGISTER for word in image.words("__text")):
        yield "a call through a pointer to a function that is known only when the kernel runs is not supported", ""


def _may_be_written(section: MachSection, image: MachImage) -> bool:
    """The linker's own tables, a word of the loader's, and what the compiler tells the checker about arrays."""
    if section.name == "__data":
        return section.size == 8 or "__ubsan_handle_out_of_bounds" in image.imports
    return section.segment == "__DATA_CONST" or section.name in ("__la_symbol_ptr", "soft_tg")


def _sections(data: bytes, offset: int) -> list[MachSection]:
    segment = _SEGMENT.unpack_from(data, offset)
    writable, count = bool(segment[8] & _WRITE), segment[9]
    raw = [_SECTION.unpack_from(data, offset + _SEGMENT.size + _SECTION.size * index) for index in range(count)]
    return [MachSection(_name(s[1]), _name(s[0]), s[2], s[4], s[3], writable) for s in raw]


def _symbols(data: bytes, offset: int) -> list[MachSymbol]:
    _, _, table, count, strings, _ = _SYMTAB.unpack_from(data, offset)
    symbols = []
    for index in range(count):
        name, kind, _, _, value = _SYMBOL.unpack_from(data, table + _SYMBOL.size * index)
        if not kind & _STAB:
            text = _text(data, strings + name).removeprefix("_")
            symbols.append(MachSymbol(text, kind & _TYPE != _UNDEFINED, bool(kind & _EXTERNAL), value))
    return symbols


def _name(field: bytes) -> str:
    return field.rstrip(b"\0").decode()


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
