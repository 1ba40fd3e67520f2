"""Functions, names and a declaration in LLVM's text."""

from __future__ import annotations

import re

LOCAL = r'%(?:"[^"]*"|[-\w$.]+)'
FUNCTION = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)
OBJECT_SIZE = "declare i64 @llvm.objectsize.i64.p0(ptr, i1, i1, i1)"
