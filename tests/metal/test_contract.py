"""The contract agrees with PyObjC's selector table, and every correction that the table asks for is made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from standin.bridge import TABLE

from mlx_native_py.metal.contract import CONTRACT, Selector, corrections

ROWS: dict[tuple[str, str], dict[str, Any]] = {(r["owner"], r["selector"]): r for r in json.loads(TABLE.read_text())}
KINDS = {
    "size": "{MTLSize=QQQ}",
    "range": "{_NSRange=QQ}",
    "align": "{MTLSizeAndAlign=QQ}",
    "block": "@?",
    "out@": "o^@",
    "outQ": "o^Q",
    "bytes": "n^v",
    "objects": "n^@",
    "ints": "n^Q",
    "varlist": "^v",
    "region": "{MTLRegion={MTLOrigin=QQQ}{MTLSize=QQQ}}",
    "id": "{MTLResourceID=Q}",
    "room": "o^v",
}


def encoding(kind: str) -> str:
    name = kind.partition(":")[0]
    return KINDS.get(name, name)


def table_kinds(row: dict[str, Any]) -> list[str]:
    """PyObjC's metadata, except where its type has the wrong size, so that the native one wins."""
    native = row.get("header_args", row["args"])
    return [n if n.startswith("{") or (a, n) == ("q", "Q") else a for a, n in zip(row["args"], native, strict=True)]


@pytest.mark.parametrize("selector", CONTRACT, ids=lambda s: f"{s.owner}-{s.name}")
def test_contract_agrees_with_the_table(selector: Selector) -> None:
    row = ROWS[selector.owner, selector.name]
    given = [encoding(kind) for kind in selector.arguments]
    wanted = table_kinds(row)
    if selector.fix:
        assert given != wanted or (selector.result == "varlist" and not row.get("retval_varlen"))
        given = [kind.lstrip("no") if old.startswith("^") else kind for kind, old in zip(given, wanted, strict=True)]
    assert given == wanted
    assert encoding(selector.result) == row["retval"]
    assert selector.result == "varlist" or not row.get("retval_varlen")
    assert selector.owned == row.get("owned", False)
    lengths = {str(i): int(k.partition(":")[2]) for i, k in enumerate(selector.arguments) if ":" in k}
    assert lengths == row.get("array_length_in_arg", {})
    assert selector.name.count(":") == len(selector.arguments)
    if not selector.fix:
        assert list(selector.out_parameters) == row.get("out_params", [])


def test_nothing_is_listed_twice() -> None:
    keys = [(s.owner, s.name) for s in CONTRACT]
    assert len(keys) == len(set(keys))


def test_no_completion_handler_is_ever_sent() -> None:
    assert [s.name for s in CONTRACT if "block" in s.arguments] == [
        "newBufferWithBytesNoCopy:length:options:deallocator:"
    ]


def test_every_owned_result_is_registered() -> None:
    needed = {r["selector"].encode() for r in ROWS.values() if r.get("owned")}
    done = {name for _, name, metadata in corrections() if metadata.get("retval", {}).get("already_retained")}
    assert needed == done
    assert len(needed) >= 28


def test_corrections_restate_every_argument() -> None:
    for owner, name, metadata in corrections():
        assert list(metadata["arguments"]) == list(range(2, 2 + name.count(b":")))
        assert all(isinstance(argument["type"], bytes) for argument in metadata["arguments"].values())
        assert owner in (b"NSObject", b"MTLFunctionConstantValues")


def test_corrections_keep_what_pyobjc_had_right() -> None:
    rows = {r["selector"]: r for r in ROWS.values() if "owner" in r}
    fixed = {s.name for s in CONTRACT if s.fix}
    for _, name, metadata in corrections():
        if (selector := name.decode()) in fixed:
            continue
        arguments = metadata["arguments"]
        shown = [(a.get("type_modifier", b"") + a["type"]).decode() for a in arguments.values()]
        assert shown == rows[selector]["args"]
        lengths = {i - 2: a["c_array_length_in_arg"] - 2 for i, a in arguments.items() if "c_array_length_in_arg" in a}
        assert lengths == {int(k): v for k, v in rows[selector].get("array_length_in_arg", {}).items()}


def test_the_four_fixes() -> None:
    metadata = {name.decode(): m for _, name, m in corrections()}
    out = {"type": b"^@", "type_modifier": b"o"}
    for name in ("Function", "Descriptor"):
        selector = f"newComputePipelineStateWith{name}:options:reflection:error:"
        assert metadata[selector]["arguments"][4] == metadata[selector]["arguments"][5] == out
    memory = {"type": b"^v", "type_modifier": b"n", "c_array_of_variable_length": True}
    for selector in (
        "setConstantValue:type:atIndex:",
        "setConstantValue:type:withName:",
        "setConstantValues:type:withRange:",
    ):
        assert metadata[selector]["arguments"][2] == memory
        assert "retval" not in metadata[selector]
    assert metadata["constantDataAtIndex:"]["retval"] == {"type": b"^v", "c_array_of_variable_length": True}


def test_rows_beyond_the_given_table_say_where_they_are_from() -> None:
    added = [row["added"] for row in ROWS.values() if "added" in row]
    assert set(added) == {"documented", "metadata"}
    assert len(added) == 102
