"""Writes instructions and functions as LLVM's text."""

from __future__ import annotations

from collections.abc import Callable

from .model import Block, Function, Instruction, Value

Refer = Callable[[Value], str]


def _plain(value: Value) -> str:
    return value.text


def render(made: Instruction, refer: Refer = _plain, label: Callable[[Block], str] = lambda block: block.name) -> str:
    """One line for one instruction; `refer` and `label` say how its operands and blocks are called."""
    write = _WRITERS.get(made.opcode, _simple)
    result = f"%{made.name} = " if made.name else ""
    return result + write(made, refer, label)


def render_function(function: Function, linkage: str = "") -> str:
    """The whole definition."""
    parameters = ", ".join(f"{p.type} {p.attributes} {p.text}" for p in function.parameters)
    head = " ".join(filter(None, ("define", linkage, str(function.result), f"@{function.name}({parameters})")))
    lines = [f"{head} {function.attributes} {{"]
    for block in function.blocks:
        lines.append(f"{block.name}:")
        lines += ["  " + render(made) for made in block.instructions]
    return "\n".join([*lines, "}", ""])


def _words(*words: str) -> str:
    return " ".join(filter(None, words))


def _typed(value: Value, refer: Refer) -> str:
    return f"{value.type} {refer(value)}"


def _all(made: Instruction, refer: Refer) -> str:
    return ", ".join(_typed(o, refer) for o in made.operands)


_Label = Callable[[Block], str]


def _simple(made: Instruction, refer: Refer, label: _Label) -> str:
    """Operands of one type, which is written once."""
    kind = str(made.operands[0].type) if made.operands else ""
    values = ", ".join(map(refer, made.operands))
    return _words(made.opcode, *made.flags, made.predicate, kind, values)


def _listed(made: Instruction, refer: Refer, label: _Label) -> str:
    return _words(made.opcode, *made.flags, _all(made, refer))


def _cast(made: Instruction, refer: Refer, label: _Label) -> str:
    return _words(made.opcode, *made.flags, _typed(made.operands[0], refer), "to", str(made.type))


def _phi(made: Instruction, refer: Refer, label: _Label) -> str:
    edges = ", ".join(f"[ {refer(v)}, %{label(b)} ]" for v, b in zip(made.operands, made.blocks, strict=True))
    return _words("phi", *made.flags, str(made.type), edges)


def _aligned(text: str, made: Instruction) -> str:
    return f"{text}, align {made.align}" if made.align else text


def _load(made: Instruction, refer: Refer, label: _Label) -> str:
    access = _words("load", *made.flags, f"{made.type}, {_typed(made.operands[0], refer)}", made.ordering)
    return _aligned(access, made)


def _memory(made: Instruction, refer: Refer, label: _Label) -> str:
    return _aligned(_words(made.opcode, *made.flags, made.predicate, _all(made, refer), made.ordering), made)


def _alloca(made: Instruction, refer: Refer, label: _Label) -> str:
    return _aligned(", ".join(filter(None, (f"alloca {made.element}", _all(made, refer)))), made)


def _getelementptr(made: Instruction, refer: Refer, label: _Label) -> str:
    return _words(made.opcode, *made.flags, f"{made.element}, {_all(made, refer)}")


def _call(made: Instruction, refer: Refer, label: _Label) -> str:
    pairs = zip(made.operands, made.attributes, strict=True)
    arguments = ", ".join(_words(str(o.type), kept, refer(o)) for o, kept in pairs)
    kind = made.signature or str(made.type)
    return _words("call", *made.flags, made.convention, kind, f'@"{made.callee}"({arguments})')


def _br(made: Instruction, refer: Refer, label: _Label) -> str:
    targets = [f"label %{label(b)}" for b in made.blocks]
    return f"br {', '.join([_typed(o, refer) for o in made.operands] + targets)}"


def _switch(made: Instruction, refer: Refer, label: _Label) -> str:
    cases = zip(made.operands[1:], made.blocks[1:], strict=True)
    inside = " ".join(f"{_typed(value, refer)}, label %{label(block)}" for value, block in cases)
    return f"switch {_typed(made.operands[0], refer)}, label %{label(made.blocks[0])} [ {inside} ]"


def _ret(made: Instruction, refer: Refer, label: _Label) -> str:
    return f"ret {_all(made, refer)}" if made.operands else "ret void"


def _indexed(made: Instruction, refer: Refer, label: _Label) -> str:
    return ", ".join([f"{made.opcode} {_all(made, refer)}", *map(str, made.indices)])


def _shuffle(made: Instruction, refer: Refer, label: _Label) -> str:
    mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in made.indices)
    return f"shufflevector {_all(made, refer)}, <{len(made.indices)} x i32> <{mask}>"


_WRITERS: dict[str, Callable[[Instruction, Refer, _Label], str]] = {
    **dict.fromkeys(
        "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint ptrtoaddr inttoptr bitcast "
        "addrspacecast".split(),
        _cast,
    ),
    **dict.fromkeys(("select", "extractelement", "insertelement"), _listed),
    **dict.fromkeys(("store", "atomicrmw", "cmpxchg", "fence"), _memory),
    **dict.fromkeys(("extractvalue", "insertvalue"), _indexed),
    "phi": _phi,
    "load": _load,
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "call": _call,
    "br": _br,
    "switch": _switch,
    "ret": _ret,
    "shufflevector": _shuffle,
}
