"""`mlx-native cache`: shows or clears the cache of compiled kernels."""

from __future__ import annotations

import argparse

from ..settings import current
from ..softmetal import cache
from .table import print_json, print_table

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "action", nargs="?", choices=("show", "clear"), default="show", help="what to do (default: show)"
    )
    command.add_argument("--json", action="store_true", help="print it as JSON")


def run(chosen: argparse.Namespace) -> int:
    now = current()
    store = cache.Store(now.kernel_cache or cache.default_directory(), now.soft_cache_limit << 20)
    removed = store.clear() if chosen.action == "clear" else None
    usage = store.usage()
    facts = {"folder": str(store.directory), "files": usage.files, "nbytes": usage.nbytes, "limit": store.limit}
    if removed is not None:
        facts |= {"removed_files": removed.files, "removed_nbytes": removed.nbytes}
    if chosen.json:
        print_json(facts)
    elif removed is not None:
        print(f"removed {removed.files:,} files, {_mib(removed.nbytes)}, from {store.directory}")
    else:
        rows = [
            ("folder", str(store.directory)),
            ("size", f"{_mib(usage.nbytes)} in {usage.files:,} files"),
            ("limit", f"{_mib(store.limit)}; beyond it, what was not used for longest goes"),
        ]
        print_table(("cache", "value"), rows)
    return 0


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):,.1f} MiB"
