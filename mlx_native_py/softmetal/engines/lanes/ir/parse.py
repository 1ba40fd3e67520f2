"""Parses LLVM's text; functions are parsed on demand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .model import (
    VOID,
    BasicBlock,
    Declined,
    FunctionText,
    Instruction,
    IrFunction,
    IrParameter,
    Module,
    StructType,
    Type,
    Value,
)
from .parse_lines import attributes, read_instruction
from .reader import Reader, label_name, local_name

_NAME = re.compile(r'@("[^"]*"|[-\w$.]+)\(')
_LABEL = re.compile(r'("[^"]*"|[-\w$.]+):')
_RESULT = re.compile(r'  (%(?:"[^"]*"|[-\w$.]+)) = ')
# Calls that only tell optimisers something.
_HINT = re.compile(
    r"  (?:tail )?call void (?:\(.*\) )?"
    r"@llvm\.(?:assume|lifetime\.|experimental\.noalias\.scope|dbg\.|donothing|invariant\.)"
)
_BEFORE_RESULT = frozenset(
    "define declare private internal available_externally linkonce weak linkonce_odr weak_odr external extern_weak "
    "dso_local dso_preemptable hidden protected default local_unnamed_addr unnamed_addr "
    "ccc fastcc coldcc preserve_mostcc preserve_allcc preserve_nonecc".split()
)


def parse_module(text: str) -> Module:
    """Takes the module apart; raises Declined where a part is of an unknown kind."""
    header: list[str] = []
    types: dict[str, str] = {}
    module = Module("", {}, {}, {}, {})
    lines = iter(text.splitlines())
    for line in lines:
        first = line[:1]
        if line.startswith(("define ", "declare ")):
            _take_function(module, line, lines)
        elif first == "@":
            module.globals[line[1 : line.index(" = ")].strip('"')] = line
        elif first == "%":
            name, _, body = line.partition(" = type ")
            types[name] = body
        elif line.startswith("attributes "):
            name, _, body = line[11:].partition(" = ")
            module.attributes[name] = body.strip("{ }")
        elif line.startswith(("target ", "$")):
            header.append(line)
        elif first not in ("", ";", "!") and not line.startswith("source_filename"):
            raise Declined(f"unknown part of a module: {line[:200]}")
    module.header = "\n".join(header)
    structs = _Structs(types)
    module.types = {name: structs[name] for name in types if types[name] != "opaque"}
    return module


def _take_function(module: Module, line: str, lines: Iterator[str]) -> None:
    body = []
    head = line.removesuffix(" {")
    if head != line:
        for inside in lines:
            if inside == "}":
                break
            body.append(inside)
    match = _NAME.search(head)
    if match is None:
        raise Declined(f"function without a name: {head[:200]}")
    name = match[1].strip('"')
    module.functions[name] = FunctionText(name, head, "".join(f"{line}\n" for line in body))


class _Structs(Mapping[str, StructType]):
    """Named structs, parsed on demand, since a definition may follow its use."""

    def __init__(self, bodies: dict[str, str]) -> None:
        self._bodies = bodies
        self._known: dict[str, StructType] = {}

    def __getitem__(self, name: str) -> StructType:
        if name not in self._known:
            body = Reader(self, {}, {}, self._bodies[name]).type()
            if not isinstance(body, StructType):
                raise Declined(f"{name} is no struct")
            self._known[name] = StructType(body.fields, body.packed, name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._bodies

    def __iter__(self) -> Iterator[str]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)


def parse_function(module: Module, name: str, words: dict[Value, str] | None = None) -> IrFunction:
    """The function with its body; `words` learns how the text calls each value. Raises Declined."""
    source = module.functions.get(name)
    if source is None:
        raise Declined(f"no function {name}")
    reader = Reader(module.types, {}, {}, source.head)
    function = _head(reader, source)
    if source.body:
        function.blocks = _body(reader, source.body)
    if words is not None:
        words.update({value: word for word, value in reader.values.items()})
    return function


def _head(reader: Reader, source: FunctionText) -> IrFunction:
    reader.any_of(_BEFORE_RESULT)
    attributes(reader)
    result = reader.type()
    reader.next()
    reader.expect("(")
    parameters: list[IrParameter] = []
    while not reader.take(")"):
        if parameters:
            reader.expect(",")
        if reader.take("..."):
            continue
        parameters.append(_parameter(reader, len(parameters)))
    rest = " ".join(word for word in reader.words[reader.position :] if word[:1] == "#")
    return IrFunction(source.name, result, parameters, [], rest)


def _parameter(reader: Reader, index: int) -> IrParameter:
    kind: Type = reader.type()
    kept = attributes(reader)
    word = reader.next() if reader.word[:1] == "%" else f"%{index}"
    parameter = IrParameter(kind, local_name(word), kept)
    reader.values[word] = parameter
    return parameter


def _body(reader: Reader, text: str) -> list[BasicBlock]:
    blocks, lines = _outline(reader, text)
    for line, inst in lines:
        reader.start(line)
        if inst.name:
            reader.position = 2
        read_instruction(reader, inst)
    for block in blocks:
        if not block.instructions or not block.end.ends:
            raise Declined(f"block {block.name} has no end")
    return blocks


def _outline(reader: Reader, text: str) -> tuple[list[BasicBlock], list[tuple[str, Instruction]]]:
    """Blocks with instructions still empty: text may name a value before the line that makes it."""
    here = BasicBlock("entry")
    blocks: list[BasicBlock] = []
    lines: list[tuple[str, Instruction]] = []
    values: dict[str, Value] = reader.values
    for line, _ in whole_lines(text):
        if not line:
            continue
        if line[0] != " ":
            match = _LABEL.match(line)
            if match is None:
                raise Declined(f"label expected: {line[:200]}")
            here = BasicBlock(label_name(match[1]))
            reader.blocks[here.name] = here
            blocks.append(here)
            continue
        if not blocks:
            # The entry is named only where something else is; its number follows the parameters'.
            here = BasicBlock(label_name(f"%{len(reader.values)}"))
            reader.blocks[here.name] = here
            blocks.append(here)
        result = _RESULT.match(line)
        inst = Instruction("", VOID)
        if result:
            inst.name = local_name(result[1])
            values[result[1]] = inst
        here.instructions.append(inst)
        lines.append((line, inst))
    return blocks, lines


def whole_lines(text: str) -> Iterator[tuple[str, str]]:
    """For each instruction and label a line without metadata and comments, empty for what is neither; and its text."""
    lines = iter(text.splitlines())
    for line in lines:
        if not line or line.startswith(("    #dbg_", ";")) or _HINT.match(line):
            yield "", line
            continue
        rest = [line]
        if line.endswith(" ["):
            for more in lines:
                rest.append(more)
                if more == "  ]" or more.startswith("  ], !"):
                    break
        whole = " ".join(rest)
        tail = whole.find(", !")
        yield whole if tail < 0 else whole[:tail], "\n".join(rest)
