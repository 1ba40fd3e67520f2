"""Prints instructions and functions as LLVM's text."""

from __future__ import annotations

from collections.abc import Callable

from .model import BasicBlock, Instruction, IrFunction, Value

Refer = Callable[[Value], str]


def _plain(value: Value) -> str:
    return value.text


def render(
    inst: Instruction, refer: Refer = _plain, label: Callable[[BasicBlock], str] = lambda block: block.name
) -> str:
    """One line for one instruction; `refer` and `label` say how its operands and blocks are called."""
    write = _WRITERS.get(inst.opcode, _simple)
    result = f"%{inst.name} = " if inst.name else ""
    return result + write(inst, refer, label)


def render_function(function: IrFunction, linkage: str = "") -> str:
    """The whole definition."""
    parameters = ", ".join(f"{p.type} {p.attributes} {p.text}" for p in function.parameters)
    head = " ".join(filter(None, ("define", linkage, str(function.result), f"@{function.name}({parameters})")))
    lines = [f"{head} {function.attributes} {{"]
    for block in function.blocks:
        lines.append(f"{block.name}:")
        lines += ["  " + render(inst) for inst in block.instructions]
    return "\n".join([*lines, "}", ""])


def _words(*words: str) -> str:
    return " ".join(filter(None, words))


def _typed(value: Value, refer: Refer) -> str:
    return f"{value.type} {refer(value)}"


def _all(inst: Instruction, refer: Refer) -> str:
    return ", ".join(_typed(o, refer) for o in inst.operands)


_Label = Callable[[BasicBlock], str]


def _simple(inst: Instruction, refer: Refer, label: _Label) -> str:
    """Operands of one type, which is written once."""
    kind = str(inst.operands[0].type) if inst.operands else ""
    values = ", ".join(map(refer, inst.operands))
    return _words(inst.opcode, *inst.flags, inst.predicate, kind, values)


def _listed(inst: Instruction, refer: Refer, label: _Label) -> str:
    return _words(inst.opcode, *inst.flags, _all(inst, refer))


def _cast(inst: Instruction, refer: Refer, label: _Label) -> str:
    return _words(inst.opcode, *inst.flags, _typed(inst.operands[0], refer), "to", str(inst.type))


def _phi(inst: Instruction, refer: Refer, label: _Label) -> str:
    edges = ", ".join(f"[ {refer(v)}, %{label(b)} ]" for v, b in zip(inst.operands, inst.blocks, strict=True))
    return _words("phi", *inst.flags, str(inst.type), edges)


def _aligned(text: str, inst: Instruction) -> str:
    return f"{text}, align {inst.align}" if inst.align else text


def _load(inst: Instruction, refer: Refer, label: _Label) -> str:
    access = _words(
        "load",
        *inst.flags,
        f"{inst.type}, {_typed(inst.operands[0], refer)}",
        inst.ordering,
    )
    return _aligned(access, inst)


def _memory(inst: Instruction, refer: Refer, label: _Label) -> str:
    return _aligned(
        _words(
            inst.opcode,
            *inst.flags,
            inst.predicate,
            _all(inst, refer),
            inst.ordering,
        ),
        inst,
    )


def _alloca(inst: Instruction, refer: Refer, label: _Label) -> str:
    return _aligned(", ".join(filter(None, (f"alloca {inst.element}", _all(inst, refer)))), inst)


def _getelementptr(inst: Instruction, refer: Refer, label: _Label) -> str:
    return _words(inst.opcode, *inst.flags, f"{inst.element}, {_all(inst, refer)}")


def _call(inst: Instruction, refer: Refer, label: _Label) -> str:
    pairs = zip(inst.operands, inst.attributes, strict=True)
    arguments = ", ".join(_words(str(o.type), kept, refer(o)) for o, kept in pairs)
    kind = inst.signature or str(inst.type)
    return _words("call", *inst.flags, inst.convention, kind, f'@"{inst.callee}"({arguments})')


def _br(inst: Instruction, refer: Refer, label: _Label) -> str:
    targets = [f"label %{label(b)}" for b in inst.blocks]
    return f"br {', '.join([_typed(o, refer) for o in inst.operands] + targets)}"


def _switch(inst: Instruction, refer: Refer, label: _Label) -> str:
    cases = zip(inst.operands[1:], inst.blocks[1:], strict=True)
    inside = " ".join(f"{_typed(value, refer)}, label %{label(block)}" for value, block in cases)
    return f"switch {_typed(inst.operands[0], refer)}, label %{label(inst.blocks[0])} [ {inside} ]"


def _ret(inst: Instruction, refer: Refer, label: _Label) -> str:
    return f"ret {_all(inst, refer)}" if inst.operands else "ret void"


def _indexed(inst: Instruction, refer: Refer, label: _Label) -> str:
    return ", ".join([f"{inst.opcode} {_all(inst, refer)}", *map(str, inst.indices)])


def _shuffle(inst: Instruction, refer: Refer, label: _Label) -> str:
    mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in inst.indices)
    return f"shufflevector {_all(inst, refer)}, <{len(inst.indices)} x i32> <{mask}>"


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
