"""The README as package indexes show it, where links to files of the repository lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Makes links absolute where `[project.urls]` has a Source, else leaves their text."""

    def update(self, metadata: dict[str, Any]) -> None:
        source = metadata.get("urls", {}).get("Source", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        shown = _LINK.sub(rf"[\1]({source}/blob/main/\2)" if source else r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
