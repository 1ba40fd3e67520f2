"""`mlx-native check`: runs kernels and programs on the software device with every access checked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass

from .. import counters, settings
from ..calls.library import Kernel, declared
from ..device import MlxDevice
from ..errors import InvalidArgument, MlxError
from ..softmetal.checked.errors import CheckedError, observers
from .kernel_launch import add_launch_options, chosen_kernel, launch_from, library_of
from .script import run_script
from .table import print_json

__all__ = ["Verdict", "options", "run"]

_WORDS = {True: "ok", False: "FAULT", None: "not checked"}
_LOOKED_AT = "with every load and store checked"


@dataclass(frozen=True)
class Verdict:
    """The result of one check."""

    subject: str
    good: bool | None
    """None if it could not be checked."""
    detail: str
    kind: str = ""
    """The class of the finding, such as OutOfBounds or DataRace."""


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file",
        nargs="+",
        help="files with MSL source; or a Python program and its arguments (those with dashes after --)",
    )
    add_launch_options(command)
    command.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(chosen: argparse.Namespace) -> int:
    """Returns 0 if nothing was found, 1 if something was, otherwise the program's own status."""
    are_sources = [name.endswith(".metal") for name in chosen.file]
    if not are_sources[0]:
        return _check_program(chosen)
    if not all(are_sources):
        raise InvalidArgument(f"{chosen.file[are_sources.index(False)]} is not a .metal file, but {chosen.file[0]} is")
    launched = chosen.kernel is not None or bool(chosen.arg)
    if launched and len(chosen.file) > 1:
        raise InvalidArgument("--kernel and --arg describe one launch, of a kernel of one file")
    with settings.override(device="soft", soft_checked=True), MlxDevice("soft") as device:
        checks = [check for file in chosen.file for check in _check_file(chosen, file, device, launched)]
    _print(chosen.json, checks)
    if not (launched or chosen.json):
        print("to run a kernel with every access checked, give --kernel and --arg")
    return 1 if any(check.good is False for check in checks) else 0


def _check_file(chosen: argparse.Namespace, file: str, device: MlxDevice, launched: bool) -> Iterator[Verdict]:
    try:
        library = library_of(device, file, chosen)
        kernels = [chosen_kernel(library, chosen.kernel, file)] if launched else [library[name] for name in library]
    except (MlxError, OSError) as problem:
        yield _found(file, problem)
        return
    for kernel in kernels:
        try:
            detail = _checked(chosen, kernel, device) if launched else _compiled(kernel)
        except InvalidArgument as problem:
            if launched:
                raise
            yield Verdict(f"{file}: {kernel.name}", None, f"{problem}; give it with --constant")
        except MlxError as problem:
            yield _found(f"{file}: {kernel.name}", problem, file)
        else:
            yield Verdict(f"{file}: {kernel.name}", True, detail)


def _compiled(kernel: Kernel) -> str:
    arguments = ", ".join(map(declared, kernel.pipeline.bindings))
    return f"compiles: {kernel.name}({arguments})"


def _checked(chosen: argparse.Namespace, kernel: Kernel, device: MlxDevice) -> str:
    launch_from(chosen, kernel, device).run()
    return f"no fault, {_LOOKED_AT}"


def _found(subject: str, problem: BaseException, file: str = "program_source") -> Verdict:
    """The finding of checked mode with its class and source line, or another error."""
    cause = problem.__cause__ or problem
    others = [f"and {type(other).__name__}: {other}" for other in getattr(cause, "others", ())]
    detail = "\n".join([str(cause), *others]).replace("\nprogram_source:", f"\n{file}:")
    return Verdict(subject, False, detail, type(cause).__name__)


def _check_program(chosen: argparse.Namespace) -> int:
    path, *arguments = chosen.file
    settings.export(device="soft", soft_checked=True)
    before = counters.dispatch_count()
    errors: list[CheckedError] = []
    with _heard(errors), redirect_stdout(sys.stderr if chosen.json else sys.stdout):
        status = run_script(path, arguments)
    count = counters.dispatch_count() - before
    checks = [_found(path, each) for each in errors]
    if not checks and status:
        checks = [Verdict(path, False, f"the program ended with status {status} after {count} dispatches")]
    _print(chosen.json, checks or [Verdict(path, True, f"no fault in {count} dispatches, {_LOOKED_AT}")])
    return status or int(bool(errors))


@contextmanager
def _heard(errors: list[CheckedError]) -> Iterator[None]:
    """Collects findings inside the block, including those that the program catches."""
    observers.append(errors.append)
    try:
        yield
    finally:
        observers.remove(errors.append)


def _print(json: bool, checks: list[Verdict]) -> None:
    if json:
        good = all(check.good is not False for check in checks)
        not_checked = [check.subject for check in checks if check.good is None]
        print_json({"good": good, "not_checked": not_checked, "checks": [asdict(check) for check in checks]})
        return
    for check in checks:
        kind = f"{check.kind}: " if check.kind else ""
        print(f"{_WORDS[check.good]:13}{check.subject}: {kind}{check.detail}")
    counts = [f"{sum(check.good is good for check in checks)} {word}" for good, word in _WORDS.items()]
    if len(checks) > 1:
        print(", ".join(counts))
