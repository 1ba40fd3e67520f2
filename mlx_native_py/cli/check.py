"""`mlx-native check`: runs kernels and programs on the software device with every access checked."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import counters, settings
from ..calls.library import Kernel, declared
from ..device import MlxDevice
from ..errors import InvalidArgument, MlxError, ShaderCompilationError
from ..softmetal.checked.errors import CheckedError, observers
from .kernel_launch import add_launch_options, chosen_kernel, launch_from, library_of, said_as_options
from .script import run_script
from .table import print_json

__all__ = ["Verdict", "options", "run"]

_WORDS = {True: "ok", False: "FAULT", None: "not checked"}
_LOOKED_AT = "with every load and store checked"
_PLACE = re.compile(r"(?:^|(?<= failed: ))([^\s:][^:\n]*):(\d+):(\d+)\b", re.MULTILINE)
_STAGE = "functions are not supported by software Metal"
_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = _ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})


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
    command.add_argument(
        "--github", action="store_true", help="also print the findings as annotations of GitHub Actions"
    )


def run(chosen: argparse.Namespace) -> int:
    """Returns 0 if nothing was found, 1 if something was or nothing was checked, otherwise the program's own status."""
    if not _are_sources(chosen.file):
        return _check_program(chosen)
    launched = chosen.kernel is not None or bool(chosen.arg)
    if launched and len(chosen.file) > 1:
        raise InvalidArgument("--kernel and --arg describe one launch, of a kernel of one file")
    with settings.override(device="soft", soft_checked=True, soft_isolated=False), MlxDevice("soft") as device:
        checks = [check for file in chosen.file for check in _check_file(chosen, file, device, launched)]
    _print(chosen, checks)
    if not (launched or chosen.json):
        print("to run a kernel with every access checked, give --kernel and --arg")
    return int(not any(check.good for check in checks) or any(check.good is False for check in checks))


def _are_sources(files: list[str]) -> bool:
    """Whether these are files of MSL, not a program with its arguments."""
    others = [file for file in files if not file.endswith(".metal")]
    if Path(files[0]).is_dir():
        raise InvalidArgument(f"{files[0]} is a folder; give its files, such as {files[0].rstrip('/')}/*.metal")
    if others and files[0].endswith(".metal"):
        raise InvalidArgument(f"{others[0]} is not a .metal file, but {files[0]} is")
    return not others


def _check_file(chosen: argparse.Namespace, file: str, device: MlxDevice, launched: bool) -> Iterator[Verdict]:
    folders = [Path(file).parent, *map(Path, chosen.include)]
    try:
        library = library_of(device, file, chosen)
        kernels = [chosen_kernel(library, chosen.kernel, file)] if launched else [library[name] for name in library]
    except (MlxError, OSError) as problem:
        if not launched and _has_no_kernel(problem):
            yield Verdict(file, None, "there is no kernel in it; vertex and fragment functions are not run here")
        else:
            yield _found(file, problem, folders)
        return
    for kernel in kernels:
        try:
            detail = _checked(chosen, kernel, device) if launched else _compiled(kernel)
        except InvalidArgument as problem:
            if launched:
                raise
            yield Verdict(f"{file}: {kernel.name}", None, str(problem))
        except MlxError as problem:
            yield _found(f"{file}: {kernel.name}", problem, folders)
        else:
            yield Verdict(f"{file}: {kernel.name}", True, detail)


def _has_no_kernel(problem: BaseException) -> bool:
    """Whether a source has functions for drawing alone."""
    errors = [line for line in str(problem).splitlines() if ": error: " in line]
    return isinstance(problem, ShaderCompilationError) and bool(errors) and all(_STAGE in line for line in errors)


def _compiled(kernel: Kernel) -> str:
    with said_as_options():
        arguments = ", ".join(map(declared, kernel.pipeline.bindings))
    return f"compiles: {kernel.name}({arguments})"


def _checked(chosen: argparse.Namespace, kernel: Kernel, device: MlxDevice) -> str:
    launch_from(chosen, kernel, device).run()
    return f"no fault, {_LOOKED_AT}"


def _found(subject: str, problem: BaseException, folders: Sequence[Path] = ()) -> Verdict:
    """The finding of checked mode with its class and source line, or another error; its files are in `folders`."""
    cause = problem.__cause__ or problem
    others = [f"and {type(other).__name__}: {other}" for other in getattr(cause, "others", ())]
    return Verdict(subject, False, _from_here("\n".join([str(cause), *others]), folders), type(cause).__name__)


def _from_here(text: str, folders: Sequence[Path]) -> str:
    """Names of files in `folders` as paths from the working directory."""

    def named(place: re.Match[str]) -> str:
        file = next((folder / place[1] for folder in folders if (folder / place[1]).is_file()), place[1])
        return f"{file}:{place[2]}:{place[3]}"

    return _PLACE.sub(named, text)


def _check_program(chosen: argparse.Namespace) -> int:
    path, *arguments = chosen.file
    before = counters.dispatch_count()
    errors: list[CheckedError] = []
    checked = settings.exported(device="soft", soft_checked=True, soft_isolated=False)
    with checked, _heard(errors), redirect_stdout(sys.stderr if chosen.json else sys.stdout):
        status = run_script(path, arguments)
    count = counters.dispatch_count() - before
    checks = [_found(path, each) for each in errors]
    if not checks and status:
        checks = [Verdict(path, False, f"the program ended with status {status} after {count} dispatches")]
    _print(chosen, checks or [Verdict(path, True, f"no fault in {count} dispatches, {_LOOKED_AT}")])
    return status or int(bool(errors))


@contextmanager
def _heard(errors: list[CheckedError]) -> Iterator[None]:
    """Collects findings inside the block, including those that the program catches."""
    observers.append(errors.append)
    try:
        yield
    finally:
        observers.remove(errors.append)


def _print(chosen: argparse.Namespace, checks: list[Verdict]) -> None:
    if chosen.github:
        for check in checks:
            if check.good is False:
                print(_annotation(check), file=sys.stderr if chosen.json else sys.stdout)
    if chosen.json:
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


def _annotation(check: Verdict) -> str:
    """A finding as GitHub Actions shows it beside the line."""
    place = _PLACE.search(check.detail)
    where = f"file={place[1].translate(_IN_PROPERTIES)},line={place[2]},col={place[3]}," if place else ""
    message = check.detail.translate(_ESCAPES)
    return f"::error {where}title={check.kind or 'mlx-native check'}::{check.subject}: {message}"
