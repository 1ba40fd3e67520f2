"""Generates the stub `fn/derived.pyi`: the signatures of derived functions for type checkers and editors."""

from __future__ import annotations

import re
import sys
from inspect import Parameter
from textwrap import indent
from typing import Literal

from ..fn import derived
from ..fn.derive import derived_signature
from ..ops import Op, table

__all__ = ["stub"]

_OURS = {"Array": ".call", "DTypeLike": "..dtypes", "MlxDevice": "..device", "MlxBuffer": "..memory.buffer"}


def stub() -> str:
    """The text of the file, which `mlx-native ops --stub` prints."""
    ops = [table()[name] for name in derived.__all__]
    sources = {name: module for each in ops for name, module in _sources(each).items()}
    return "\n".join(
        [
            '"""Printed by `mlx-native ops --stub`; not edited by hand."""',
            "",
            *(f"from {module} import {name}" for name, module in sorted(sources.items(), key=lambda item: item[::-1])),
            "",
            "__all__ = [",
            *(f'    "{name}",' for name in derived.__all__),
            "]",
            *map(_function, ops),
            "",
        ]
    )


def _function(op: Op) -> str:
    signature = derived_signature(op)
    lines, keyword = [], False
    for each in signature.parameters.values():
        if each.kind is Parameter.KEYWORD_ONLY and not keyword:
            lines.append("*,")
            keyword = True
        default = "" if each.default is Parameter.empty else f" = {each.default!r}"
        lines.append(f"{each.name}: {each.annotation}{default},")
    doc = indent(getattr(derived, op.name).__doc__, "    ").strip()
    inner = "\n    ".join(lines)
    return f'\ndef {op.name}(\n    {inner}\n) -> {signature.return_annotation}:\n    """{doc}"""'


def _sources(op: Op) -> dict[str, str]:
    """The modules that define the names in an op's derived signature."""
    module = op.function.__module__
    known = {**vars(sys.modules[module]), **dict.fromkeys(_OURS)}
    names = [name for name in re.findall(r"\b[A-Z]\w+", str(derived_signature(op))) if name in known]
    named = {name: known[name].__module__ for name in names if isinstance(known[name], type) or known[name] is Literal}
    return dict.fromkeys(names, module) | named | {name: _OURS[name] for name in names if name in _OURS}
