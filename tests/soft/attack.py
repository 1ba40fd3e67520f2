"""Every faulty program on one engine, checked or not, in one process: it lives, and right kernels stay right."""

from __future__ import annotations

from functools import cache

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.checked import CheckedError
from mlx_native_py.softmetal.program import EngineChoice

from . import checked_driver
from .checked_programs import Program
from .overruns import INNOCENT, Engine
from .test_checked_faults import PROGRAMS
from .test_checked_private import RIGHT, UNWRITTEN

FAULTY = [*PROGRAMS, *UNWRITTEN]


class AttackedEngine(Engine):
    """A device of one engine and mode, on which the programs run too."""

    def __init__(self, engine: EngineChoice, checked: bool) -> None:
        self.device = Metal.open_device(Metal.SoftOptions(engine=engine, checked=checked, watchdog_seconds=5.0))
        self.queue = self.device.newCommandQueue()
        self.pipelines = {name: self._pipeline(text) for name, text in INNOCENT.items()}
        checked_driver.device = cache(lambda schedule="ordered": self.device)

    def outcome(self, program: Program, source: str) -> str:
        """The exception of checked mode, the error of the command buffer, or nothing."""
        commands = checked_driver.submit(program, source)
        try:
            commands.waitUntilCompleted()
        except CheckedError as caught:
            return type(caught).__name__
        return "" if commands.error() is None else "fault"


def main(engine: EngineChoice, checked: bool, step: int) -> None:
    """One line for each program: what came of it, of its right form, and of kernels that have nothing to do with it."""
    on = AttackedEngine(engine, checked)
    for program in FAULTY[::step]:
        print(program.name, flush=True, end=" | ")
        print(on.outcome(program, program.source) or "nothing", flush=True, end=" | ")
        print(program.fix[0] and on.outcome(program, program.fixed) or "nothing", flush=True, end=" | ")
        print("; ".join(on.innocents()) or "fine", flush=True)
    for name, program in [*RIGHT.items()][::step]:
        print(name, on.outcome(program, program.source) or "nothing", "; ".join(on.innocents()) or "fine", sep=" | ")
    print("end", flush=True)
