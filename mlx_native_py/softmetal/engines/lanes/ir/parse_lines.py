"""Parses one instruction of LLVM's text."""

from __future__ import annotations

from collections.abc import Callable

from .model import I1, POINTER, VOID, ArrayType, Instruction, IntType, IrConstant, StructType, Type, VectorType
from .reader import Reader

_BINARY = "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split()
_CASTS = (
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint ptrtoaddr inttoptr bitcast "
    "addrspacecast".split()
)
_FAST = "nnan ninf nsz arcp contract afn reassoc fast".split()
_FLAGS = frozenset([*_FAST, "nuw", "nsw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw"])
_ACCESS = frozenset(("atomic", "volatile"))
_ORDERINGS = frozenset(("unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst"))
_CALL_KINDS = frozenset(("tail", "notail"))
_CONVENTIONS = frozenset(("ccc", "fastcc", "coldcc", "preserve_mostcc", "preserve_allcc", "preserve_nonecc"))
# Attributes of arguments and results that only promise something. Kept are alignments, which copies of memory need, and
# those that change how a value is passed.
_PROMISES = frozenset(
    "noundef nonnull nocapture captures readonly readnone writeonly noalias nofree returned align dereferenceable "
    "dereferenceable_or_null range nofpclass writable initializes immarg noext dead_on_unwind dead_on_return".split()
)
_EXTENSIONS = frozenset(("zeroext", "signext"))


def attributes(reader: Reader) -> str:
    """Steps over the attributes of an argument; answers those that matter to the caller."""
    kept = []
    while True:
        word = reader.word
        if word in _EXTENSIONS:
            kept.append(reader.next())
        elif word in _PROMISES:
            reader.next()
            if word == "align":
                kept.append(f"align {reader.number()}")
            elif reader.word == "(":
                reader.text_in_parentheses()
        else:
            return " ".join(kept)


def _binary(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    inst.type = kind = reader.type()
    left = reader.value(kind)
    reader.expect(",")
    inst.operands = [left, reader.value(kind)]


def _unary(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    inst.type = reader.type()
    inst.operands = [reader.value(inst.type)]


def _cast(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    inst.operands = [reader.operand()]
    reader.expect("to")
    inst.type = reader.type()


def _compare(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    inst.predicate = reader.next()
    kind = reader.type()
    left = reader.value(kind)
    reader.expect(",")
    inst.operands = [left, reader.value(kind)]
    inst.type = VectorType(kind.count, I1) if isinstance(kind, VectorType) else I1


def _operands(reader: Reader, inst: Instruction) -> None:
    """Typed values with commas between them, to the end of the line."""
    inst.operands = [reader.operand()]
    while reader.take(","):
        inst.operands.append(reader.operand())


def _select(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    _operands(reader, inst)
    inst.type = inst.operands[1].type


def _phi(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    inst.type = kind = reader.type()
    while True:
        reader.expect("[")
        inst.operands.append(reader.value(kind))
        reader.expect(",")
        inst.blocks.append(reader.block())
        reader.expect("]")
        if not reader.take(","):
            return


def _ordering(reader: Reader) -> str:
    """Memory orderings; threads of a kernel are all in the one scope that matters."""
    scope = ""
    if reader.take("syncscope"):
        scope = f"syncscope{reader.text_in_parentheses()} "
    words = reader.any_of(_ORDERINGS)
    return scope + " ".join(words) if words else ""


def _align(reader: Reader, inst: Instruction) -> None:
    if reader.take(","):
        reader.expect("align")
        inst.align = reader.number()


def _load(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_ACCESS)
    inst.type = reader.type()
    reader.expect(",")
    inst.operands = [reader.operand()]
    inst.ordering = _ordering(reader)
    _align(reader, inst)


def _store(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_ACCESS)
    value = reader.operand()
    reader.expect(",")
    inst.operands = [value, reader.operand()]
    inst.ordering = _ordering(reader)
    _align(reader, inst)


def _alloca(reader: Reader, inst: Instruction) -> None:
    inst.type = POINTER
    inst.element = reader.type()
    while reader.take(","):
        if reader.take("align"):
            inst.align = reader.number()
        else:
            inst.operands = [reader.operand()]


def _getelementptr(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    inst.element = reader.type()
    reader.expect(",")
    _operands(reader, inst)
    inst.type = inst.operands[0].type
    if any(isinstance(o.type, VectorType) for o in inst.operands):
        raise reader.decline("vector of pointers")


def _atomicrmw(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_ACCESS)
    inst.predicate = reader.next()
    pointer = reader.operand()
    reader.expect(",")
    value = reader.operand()
    inst.operands, inst.type = [pointer, value], value.type
    inst.ordering = _ordering(reader)
    _align(reader, inst)


def _cmpxchg(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(frozenset(("weak", "volatile")))
    for _ in range(3):
        inst.operands.append(reader.operand())
        reader.take(",")
    inst.type = StructType((inst.operands[1].type, I1))
    inst.ordering = _ordering(reader)
    _align(reader, inst)


def _fence(reader: Reader, inst: Instruction) -> None:
    inst.ordering = _ordering(reader)


def _call(reader: Reader, inst: Instruction) -> None:
    inst.flags = reader.any_of(_FLAGS)
    convention = [*reader.any_of(_CONVENTIONS)]
    convention.append(attributes(reader))
    inst.convention = " ".join(filter(None, convention))
    inst.type = result = reader.type()
    if reader.word == "(":
        inst.signature = f"{result} {reader.text_in_parentheses()}"
    word = reader.next()
    if word[:1] != "@":
        raise reader.decline("indirect call" if word[:1] == "%" else f"call of {word}")
    inst.callee = word[1:].strip('"')
    reader.expect("(")
    while not reader.take(")"):
        if inst.operands:
            reader.expect(",")
        kind = reader.type()
        kept = attributes(reader)
        if str(kind) == "metadata":
            raise reader.decline("metadata as an argument")
        inst.operands.append(reader.value(kind))
        inst.attributes.append(kept)
    while reader.word[:1] == "#":
        reader.next()


def _branch(reader: Reader, inst: Instruction) -> None:
    if reader.word != "label":
        inst.operands = [reader.operand()]
        reader.expect(",")
        inst.blocks = [reader.label()]
        reader.expect(",")
    inst.blocks.append(reader.label())


def _switch(reader: Reader, inst: Instruction) -> None:
    inst.operands = [reader.operand()]
    reader.expect(",")
    inst.blocks = [reader.label()]
    reader.expect("[")
    while not reader.take("]"):
        inst.operands.append(reader.operand())
        reader.expect(",")
        inst.blocks.append(reader.label())


def _return(reader: Reader, inst: Instruction) -> None:
    kind = reader.type()
    if kind != VOID:
        inst.operands = [reader.value(kind)]


def _unreachable(reader: Reader, inst: Instruction) -> None:
    pass


def _indices(reader: Reader) -> tuple[int, ...]:
    indices = []
    while reader.take(","):
        indices.append(reader.number())
    return tuple(indices)


def part_type(whole: Type, indices: tuple[int, ...]) -> Type:
    """The type of an aggregate's part."""
    for index in indices:
        if isinstance(whole, StructType):
            whole = whole.fields[index]
        elif isinstance(whole, ArrayType):
            whole = whole.element
    return whole


def _extractvalue(reader: Reader, inst: Instruction) -> None:
    inst.operands = [reader.operand()]
    inst.indices = _indices(reader)
    inst.type = part_type(inst.operands[0].type, inst.indices)


def _insertvalue(reader: Reader, inst: Instruction) -> None:
    whole = reader.operand()
    reader.expect(",")
    inst.operands, inst.type = [whole, reader.operand()], whole.type
    inst.indices = _indices(reader)


def _extractelement(reader: Reader, inst: Instruction) -> None:
    vector = reader.type()
    if not isinstance(vector, VectorType):
        raise reader.decline("vector expected")
    whole = reader.value(vector)
    reader.expect(",")
    inst.operands, inst.type = [whole, reader.operand()], vector.element


def _insertelement(reader: Reader, inst: Instruction) -> None:
    vector = reader.type()
    inst.operands, inst.type = [reader.value(vector)], vector
    while reader.take(","):
        inst.operands.append(reader.operand())


def _shufflevector(reader: Reader, inst: Instruction) -> None:
    kind = reader.type()
    left = reader.value(kind)
    reader.expect(",")
    inst.operands = [left, reader.operand()]
    reader.expect(",")
    mask = reader.constant(reader.type())
    if not isinstance(kind, VectorType) or not isinstance(mask.type, VectorType):
        raise reader.decline("vector expected")
    inst.indices = tuple(_lane(element) for element in mask.elements)
    inst.type = VectorType(mask.type.count, kind.element)


def _lane(element: IrConstant) -> int:
    return -1 if element.value is None or not isinstance(element.type, IntType) else element.value


_READERS: dict[str, Callable[[Reader, Instruction], None]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_CASTS, _cast),
    **dict.fromkeys(("fneg", "freeze"), _unary),
    **dict.fromkeys(("icmp", "fcmp"), _compare),
    "select": _select,
    "phi": _phi,
    "load": _load,
    "store": _store,
    "alloca": _alloca,
    "getelementptr": _getelementptr,
    "atomicrmw": _atomicrmw,
    "cmpxchg": _cmpxchg,
    "fence": _fence,
    "call": _call,
    "br": _branch,
    "switch": _switch,
    "ret": _return,
    "unreachable": _unreachable,
    "extractvalue": _extractvalue,
    "insertvalue": _insertvalue,
    "extractelement": _extractelement,
    "insertelement": _insertelement,
    "shufflevector": _shufflevector,
}


def read_instruction(reader: Reader, inst: Instruction) -> None:
    """Fills `inst` from the reader's line, of which the result's name has been read."""
    reader.any_of(_CALL_KINDS)
    inst.opcode = opcode = reader.next()
    read = _READERS.get(opcode)
    if read is None:
        raise reader.decline(f"unknown instruction {opcode!r}")
    read(reader, inst)
    if reader.word:
        raise reader.decline(f"unexpected {reader.word!r}")
