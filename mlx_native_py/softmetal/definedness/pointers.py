"""Where the address of a private variable goes, in modules before optimisation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .names import LOCAL

DECLARED = re.compile(rf"    #dbg_declare\(ptr ({LOCAL}), (!\d+), [^!]*!DIExpression\(\), (!\d+)\)")
LIFETIME = re.compile(rf"  call void @llvm\.lifetime\.(start|end)\.p0\(ptr ({LOCAL})\)")
_STEP = re.compile(rf"  ({LOCAL}) = (?:getelementptr|addrspacecast) .*?ptr ({LOCAL})")
_KEPT = re.compile(rf"  (?:store|ret) ptr ({LOCAL})|  {LOCAL} = (?:phi|select) (.*)")
_CONSTRUCTOR = re.compile(r"_ZN\w*C[12][EI]")
_CALL = re.compile(r'call (.*?)@("[^"]*"|[-\w$.]+)\((.*)\)')
_USERS = re.compile(r'^define [^@\n]*@("[^"]*"|[-\w$.]+)\([^\n]* !dbg ', re.MULTILINE)
_NAMES = re.compile(LOCAL)


def bases_of(lines: list[str]) -> dict[str, str]:
    """For each address of a part, that of which it is one."""
    return {found[1]: found[2] for line in lines if (found := _STEP.match(line))}


def made_by(line: str) -> str | None:
    """What a call gives its first value: a constructor's object, or the result of a function."""
    call = _CALL.search(line)
    first = call[3].split(", ")[0] if call else ""
    if call is None or not ("sret(" in first or _CONSTRUCTOR.match(call[2])):
        return None
    made: list[str] = _NAMES.findall(first)
    return made[-1]


def users_of(text: str) -> frozenset[str]:
    """The functions of the source, not those of our headers."""
    return frozenset(_USERS.findall(text))


class Keepers:
    """What a line of a module stores, returns or chooses, or gives to a function of the source."""

    def __init__(self, text: str) -> None:
        self._users = users_of(text)

    def kept(self, line: str, bases: Mapping[str, str], *, outlives: bool = False) -> Iterator[str]:
        """The variables, themselves or by a part; `outlives`: only if the function can pass their address on."""
        if (call := _CALL.search(line)) and call[2] in self._users:
            passed = not outlives or "ptr" in call[1] or call[3].count("ptr ") > 1
            named = _NAMES.findall(call[3]) if passed else []
        elif found := _KEPT.match(line):
            named = _NAMES.findall(found[1] or found[2])
        else:
            return
        for name in named:
            while name in bases:
                name = bases[name]
            yield name
