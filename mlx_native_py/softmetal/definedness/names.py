"""Functions and names in LLVM's text."""

from __future__ import annotations

import re

LOCAL = r'%(?:"[^"]*"|[-\w$.]+)'
FUNCTION = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)
