"""The JSON file of a rehearsal, to attach to a bug report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ..finding import Finding

__all__ = ["ReportFile"]


class ReportFile:
    """Findings in a file that is written after each, because Metal may end the process at the next."""

    def __init__(self, path: Path) -> None:
        self.findings: list[Finding] = []
        self._path = path
        self._texts: list[str] = []

    @property
    def faults(self) -> int:
        return sum(finding.good is False for finding in self.findings)

    def add(self, finding: Finding) -> None:
        self._texts.append(json.dumps(asdict(finding), indent=1, default=str))
        self.findings.append(finding)
        self.write(complete=False)

    def write(self, *, complete: bool) -> None:
        """Writes all of it; `complete` says whether more would have come."""
        facts = json.dumps({"good": not self.faults, "complete": complete})
        self._path.write_text(f'{{"findings": [{", ".join(self._texts)}], {facts[1:]}\n')
