"""Which values of a function may be undefined, and because of which variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from ..engines.lanes.ir.model import Instruction, IrConstant, IrFunction, PointerType, Value, uses
from .received import RECEIVED
from .sources import UNDEFINED

Origins = frozenset[int]  # numbers of variables
NOWHERE: Origins = frozenset()
_STEPS = frozenset(("getelementptr", "phi", "select", "addrspacecast"))
_HARMLESS = frozenset(("icmp", "load", "ptrtoint", "ptrtoaddr"))
_COPIES = ("llvm.memcpy.", "llvm.memmove.")
_FILL = "llvm.memset."
# What has a value of its own whatever it was given: memory of others, and what the runtime answers.
_ANEW = frozenset(("alloca", "atomicrmw", "cmpxchg"))
_RUNTIME = ("soft_", "__")


def is_source(inst: Instruction) -> bool:
    return inst.opcode == "call" and inst.callee.startswith(UNDEFINED)


def is_received(inst: Instruction) -> bool:
    return inst.opcode == "call" and inst.callee.startswith(RECEIVED)


def is_copy(inst: Instruction) -> bool:
    return inst.opcode == "call" and inst.callee.startswith(_COPIES)


def is_fill(inst: Instruction) -> bool:
    return inst.opcode == "call" and inst.callee.startswith(_FILL)


def is_nowhere(pointer: Value) -> bool:
    """Whether nobody can go through it."""
    return isinstance(pointer, IrConstant) and (pointer.text == "null" or pointer.undefined)


class Slice:
    """What uninitialised variables can reach, through values and private memory."""

    def __init__(self, function: IrFunction, defined: Iterable[str]) -> None:
        self.function = function
        self.values: dict[Value, Origins] = {}
        self.memory: dict[Instruction, Origins] = {}  # by alloca
        self._defined = frozenset(defined)
        self._users = uses(function)
        self._loads: dict[Instruction, list[Instruction]] = defaultdict(list)
        self.bases = self._pointers()
        self._sent: Origins = NOWHERE  # what other threads may have received
        self._spread(is_source)
        self._sent = self._given()
        if self._sent:
            self._spread(is_received)
        self.shadowed = self._shadowed()

    def origins(self, values: Iterable[Value]) -> Origins:
        return NOWHERE.union(*(self.values.get(value, NOWHERE) for value in values))

    def calls(self, inst: Instruction) -> bool:
        """Whether a function of the source is called, which has shadows of its own."""
        return inst.callee in self._defined

    def private(self, pointer: Value) -> frozenset[Instruction]:
        """The allocas that a pointer may lead to; none where that is not known."""
        return self.bases.get(pointer, frozenset())

    def _pointers(self) -> dict[Value, frozenset[Instruction]]:
        """Pointers to allocas that nobody else can reach."""
        bases: dict[Value, frozenset[Instruction]] = {}
        allocas = [i for i in self.function.entry.instructions if i.opcode == "alloca" and not i.operands]
        for alloca in allocas:
            waiting: list[Value] = [alloca]
            while waiting:
                value = waiting.pop()
                if alloca in bases.get(value, frozenset()):
                    continue
                bases[value] = bases.get(value, frozenset()) | {alloca}
                waiting += [user for user in self._users.get(value, []) if self._leads_on(user, value)]
        lost = self._escaped(bases)
        return {value: found - lost for value, found in bases.items() if not found & lost}

    def _leads_on(self, user: Instruction, pointer: Value) -> bool:
        if user.opcode == "getelementptr":
            return user.operands[0] is pointer
        return user.opcode in _STEPS and isinstance(user.type, PointerType)

    def _escaped(self, bases: dict[Value, frozenset[Instruction]]) -> frozenset[Instruction]:
        lost: set[Instruction] = set()
        for value, found in bases.items():
            mixed = isinstance(value, Instruction) and self._is_mixed(value, bases)
            if mixed or any(not self._is_harmless(user, value) for user in self._users.get(value, [])):
                lost |= found
        while more := {a for found in bases.values() if found & lost for a in found} - lost:
            lost |= more
        return frozenset(lost)

    def _is_mixed(self, value: Instruction, bases: dict[Value, frozenset[Instruction]]) -> bool:
        """Whether it may lead elsewhere as well."""
        start = 1 if value.opcode == "select" else 0
        return value.opcode in ("phi", "select") and any(
            each not in bases and not is_nowhere(each) for each in value.operands[start:]
        )

    def _is_harmless(self, user: Instruction, pointer: Value) -> bool:
        if user.opcode == "store":
            return user.operands[0] is not pointer and "atomic" not in user.flags
        return user.opcode in _HARMLESS or self._leads_on(user, pointer) or is_copy(user) or is_fill(user)

    def _given(self) -> Origins:
        """The variables whose values leave the thread."""
        stores = [i for i in self.function.instructions() if i.opcode == "store" and not self.private(i.operands[1])]
        copies = [i for i in self.function.instructions() if is_copy(i) and not self.private(i.operands[0])]
        copied = (self.memory.get(a, NOWHERE) for i in copies for a in self.private(i.operands[1]))
        return self.origins(store.operands[0] for store in stores).union(*copied)

    def _spread(self, is_first: Callable[[Instruction], bool]) -> None:
        for inst in self.function.instructions():
            if inst.opcode == "load":
                for alloca in self.private(inst.operands[0]):
                    self._loads[alloca].append(inst)
        waiting = [inst for inst in self.function.instructions() if is_first(inst)]
        while waiting:
            inst = waiting.pop()
            found = self._origins(inst)
            if inst.name and found != self.values.get(inst, NOWHERE):
                self.values[inst] = found
                waiting += self._users.get(inst, [])
            for target, reached in self._written(inst):
                if reached - self.memory.get(target, NOWHERE):
                    self.memory[target] = self.memory.get(target, NOWHERE) | reached
                    waiting += self._loads[target]
                    waiting += [i for i in self.function.instructions() if is_copy(i)]

    def _origins(self, inst: Instruction) -> Origins:
        if is_source(inst):
            number = inst.operands[0]
            return frozenset({number.value or 0} if isinstance(number, IrConstant) else ())
        if is_received(inst):
            return self._sent
        if inst.opcode in _ANEW or (inst.opcode == "call" and not self._passes_on(inst.callee)):
            return NOWHERE
        if inst.opcode == "load":
            return NOWHERE.union(*(self.memory.get(a, NOWHERE) for a in self.private(inst.operands[0])))
        return self.origins(inst.operands)

    def _passes_on(self, callee: str) -> bool:
        """Whether a function's result is made of its arguments: functions of mathematics are."""
        return callee not in self._defined and not callee.startswith(_RUNTIME)

    def _written(self, inst: Instruction) -> Iterator[tuple[Instruction, Origins]]:
        """The allocas that an instruction writes, and what comes there."""
        if inst.opcode == "store":
            pointer, found = inst.operands[1], self.origins(inst.operands[:1])
        elif is_fill(inst):
            pointer, found = inst.operands[0], self.origins(inst.operands[1:2])
        elif is_copy(inst):
            pointer = inst.operands[0]
            found = NOWHERE.union(*(self.memory.get(a, NOWHERE) for a in self.private(inst.operands[1])))
        else:
            return
        for alloca in self.private(pointer) if found else ():
            yield alloca, found

    def _shadowed(self) -> frozenset[Instruction]:
        """The allocas that need a shadow: those that may hold such a value, and all that are reached with them."""
        found = set(self.memory)
        while more := {a for each in self.bases.values() if each & found for a in each} - found:
            found |= more
        return frozenset(found)
