"""Private variables of one element, so laid out that a wrong index of a pointer to one stays wrong.

The optimiser takes an index of a pointer to a variable that holds one element for zero. So a few bytes are put before
such a variable. It ends where its memory ends, which is what bounds are checked against.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LOCAL = r'%(?:"[^"]*"|[-\w$.]+)'
FUNCTION = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)
_ALLOCA = re.compile(rf"  ({LOCAL}) = alloca (.+), align (\d+)")
_DECLARED = re.compile(rf"    #dbg_declare\(ptr ({LOCAL}),")
_LIFETIME = re.compile(rf"  call void @llvm\.lifetime\.\w+\.p0\(ptr ({LOCAL})\)")
_STORE = re.compile(r"  store (.*), ptr [^,]*, align")
_NAMES = re.compile(LOCAL)
# Arrays are reached by their elements, and so are vectors and matrices.
_MANY = re.compile(r'\[(?!1 x)|%"?(?:struct|class|union)\.metal::')
# What does no more with an address than to read or write there.
_PLAIN = ("    #dbg_", "  call void @llvm.")


def set_apart(text: str) -> str:
    """The module, before optimisation, with its variables so."""
    return FUNCTION.sub(lambda function: "\n".join(_function(function[0].split("\n"))), text)


def _function(lines: list[str]) -> Iterator[str]:
    declared = {found[1] for line in lines if (found := _DECLARED.match(line))}
    variables = [found for line in lines if (found := _ALLOCA.match(line)) and found[1] in declared]
    single = {found[1] for found in variables if not _MANY.match(found[2])}
    moved = single & set(_pointed_at(lines)) if single else single
    for line in lines:
        variable, lifetime = _ALLOCA.match(line), _LIFETIME.match(line)
        if variable and variable[1] in moved:
            name, kind, align = variable.groups()
            yield f"  {_whole(name)} = alloca {{ [{align} x i8], {kind} }}, align {align}"
            yield f"  {name} = getelementptr inbounds i8, ptr {_whole(name)}, i64 {align}"
        elif lifetime and lifetime[1] in moved:
            yield f"{line[: lifetime.start(1)]}{_whole(lifetime[1])}{line[lifetime.end(1) :]}"
        else:
            yield line


def _pointed_at(lines: list[str]) -> Iterator[str]:
    """The names in all that is more than a load or a store of a variable."""
    for line in lines[1:]:
        if line.startswith(_PLAIN) or " = load " in line or " = alloca " in line:
            continue
        stored = _STORE.match(line)
        yield from _NAMES.findall(stored[1] if stored else line)


def _whole(name: str) -> str:
    return f'{name[:-1]}.whole"' if name.endswith('"') else f"{name}.whole"
