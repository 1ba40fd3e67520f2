"""Whatever is wrong with a file, a source or the machine: the exception is ours and says what to do."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from mlx_native_py import MlxDevice, MlxError, settings
from mlx_native_py.models.tokenizer import Tokenizer
from mlx_native_py.weights import open_gguf, open_safetensors

pytestmark = pytest.mark.soft


def safetensors(folder: Path, header: str) -> None:
    path = folder / "w.safetensors"
    text = header.encode("utf-8", "surrogatepass")
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))
    open_safetensors(path)


def tensor(**changes: object) -> str:
    return json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **changes}})


def sharded(folder: Path, shard: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))
    open_safetensors(folder)


def piped(folder: Path, suffix: str) -> None:
    """A pipe in place of a file: to open it waits for a writer."""
    os.mkfifo(path := folder / f"w.{suffix}")
    (open_gguf if suffix == "gguf" else open_safetensors)(path)


def gguf_with(folder: Path, key: str, value: list[int] | list[str]) -> None:
    path = folder / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b", "ab"])
    if not key.endswith("merges"):
        writer.add_token_merges(["a b"])
    writer.add_array(key, value)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    Tokenizer.from_gguf(open_gguf(path).metadata, path=path)


def compiles(folder: Path, source: str | Path) -> None:
    with MlxDevice("soft") as device:
        device.compile(source)


def compiler(folder: Path, script: str) -> None:
    """A compiler that is not one."""
    path = folder / "clang"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    (cache := folder / "cache").mkdir(mode=0o700)
    with settings.override(soft_clang=path, soft_cache_dir=cache), MlxDevice("soft") as device:
        device.compile("kernel void f(device float *x) { x[0] = 1; }").f(device.zeros(1))


def buffer_of(folder: Path, array: object) -> None:
    with MlxDevice("soft") as device:
        device.buffer(array)


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "dtype is a list": (lambda folder: safetensors(folder, tensor(dtype=["F32"])), "dtype"),
    "dtype is a table": (lambda folder: safetensors(folder, tensor(dtype={})), "dtype"),
    "offset is 1e400": (lambda folder: safetensors(folder, tensor().replace("16", "1e400")), "w"),
    "offset is 10**400": (lambda folder: safetensors(folder, tensor().replace("16", str(10**400))), "w"),
    "offset has 5000 digits": (lambda folder: safetensors(folder, tensor().replace("16", "9" * 5000)), "header"),
    "shape is 10**400": (lambda folder: safetensors(folder, tensor(shape=[10**400])), "shape"),
    "name is half a character": (lambda folder: safetensors(folder, tensor().replace('"w"', '"\\ud800"')), "no text"),
    "header is half a character": (
        lambda folder: safetensors(folder, tensor().replace("w", "\ud800")),
        "header.*utf-8",
    ),
    "metadata is half a character": (
        lambda folder: safetensors(folder, tensor().replace("{", '{"__metadata__": {"a": "\\ud800"}, ', 1)),
        "__metadata__",
    ),
    "model is a pipe": (lambda folder: piped(folder, "safetensors"), "no regular file"),
    "GGUF is a pipe": (lambda folder: piped(folder, "gguf"), "no regular file"),
    "path has NUL": (lambda folder: open_gguf(folder / "a\0b"), "is no path"),
    "path is half a character": (lambda folder: open_safetensors(f"{folder}/\ud800"), "is no path"),
    "path of MSL has NUL": (lambda folder: compiles(folder, folder / "a\0b.metal"), "cannot be read"),
    "header is deep": (lambda folder: safetensors(folder, "[" * 100_000), "header"),
    "shard has no name": (lambda folder: sharded(folder, ""), "weight_map"),
    "shard has NUL in its name": (lambda folder: sharded(folder, "a\0b"), "weight_map"),
    "shard has half a character": (lambda folder: sharded(folder, "\ud800"), "weight_map"),
    "shard is a number": (lambda folder: sharded(folder, 5), "weight_map"),
    "shard is a list": (lambda folder: sharded(folder, ["w"]), "weight_map"),
    "shard has a long name": (lambda folder: sharded(folder, "w" * 5000), "weight_map"),
    "shard is outside": (lambda folder: sharded(folder, "../../etc/passwd"), "weight_map"),
    "shard is a folder": (lambda folder: sharded(folder, "."), "weight_map"),
    "shard is missing": (lambda folder: sharded(folder, "model-00001.safetensors"), "model-00001.safetensors"),
    "eos is an array": (lambda folder: gguf_with(folder, "tokenizer.ggml.eos_token_id", [1, 2]), "eos_token_id"),
    "merges make no token": (lambda folder: gguf_with(folder, "tokenizer.ggml.merges", ["b a"]), "no token 'ba'"),
    "half a character in MSL": (lambda folder: compiles(folder, "\nkernel void f() {} // \ud800"), "line 2 .*UTF-8"),
    "NUL in MSL": (lambda folder: compiles(folder, "kernel void f() { \0 }"), "not allowed in a source"),
    "undefined function": (
        lambda folder: compiles(folder, "\n\nkernel void f(device float *x) { x[0] = nosuch(x[0]); }"),
        r"3:\d+.*'nosuch'",
    ),
    "function without a body": (
        lambda folder: compiles(folder, "float g(float);\nkernel void f(device float *x) { x[0] = g(x[0]); }"),
        r"1:\d+.*'g'",
    ),
    "compiler says nothing": (lambda folder: compiler(folder, "exit 1"), "clang"),
    "compiler is killed": (lambda folder: compiler(folder, "kill -9 $$"), "clang"),
    "compiler is no program": (lambda folder: compiler(folder, "exec /dev/null"), "clang"),
    "complex array": (lambda folder: buffer_of(folder, np.ones(3, np.complex64)), "complex64"),
    "complex numbers": (lambda folder: buffer_of(folder, [1 + 2j]), "complex"),
    "objects": (lambda folder: buffer_of(folder, np.array([{}, None])), "not an element type"),
    "texts": (lambda folder: buffer_of(folder, ["a", "b"]), "<U1|str"),
    "ragged list": (lambda folder: buffer_of(folder, [[1.0], [1.0, 2.0]]), "inhomogeneous|ragged|shape"),
}


@pytest.mark.parametrize("what", CASES)
def test_the_exception_is_ours(what: str, tmp_path: Path) -> None:
    act, names = CASES[what]
    with pytest.raises(MlxError, match=rf"(?s){names}"):
        act(tmp_path)


IN_A_PROCESS = {
    "the disk is full": """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        run()
    """,
    "few file descriptors": """
        import resource
        run()
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(__import__("os").listdir("/proc/self/fd")) - 1,) * 2)
        device.compile(SOURCE.replace("= 1", "= 2")).f(device.zeros(1))
    """,
    "after a fork": """
        import os
        run()
        if (child := os.fork()) == 0:
            try: device.compile(SOURCE).f(device.zeros(1))
            except MlxError as error: print(f"{type(error).__name__}: {error}", flush=True)
            try: MlxDevice("soft")
            except MlxError as error: print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        raise MlxError("fork: told above")
    """,
}


@pytest.mark.parametrize("what", IN_A_PROCESS)
def test_the_exception_is_ours_in_a_process_of_its_own(what: str, tmp_path: Path) -> None:
    program = f"""
from mlx_native_py import MlxDevice, MlxError
SOURCE = "kernel void f(device float *x) {{ x[0] = 1; }}"
device = MlxDevice("soft")
def run(): device.compile(SOURCE).f(device.zeros(1))
try:
{textwrap.indent(textwrap.dedent(IN_A_PROCESS[what]), "    ")}
except MlxError as error:
    print(type(error).__name__, error)
"""
    (tmp_path / "cache").mkdir(mode=0o700)
    environment = {**os.environ, "MLX_SOFT_CACHE_DIR": str(tmp_path / "cache")} if "disk" in what else None
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0 and "Traceback" not in ended.stderr, ended.stderr
    told = {"the disk": "large|space|full|cache", "few": "ulimit -n", "after": "ForkedProcessError.*spawn.*\n.*spawn"}
    expected = next(text for start, text in told.items() if what.startswith(start))
    assert re.search(expected, ended.stdout, re.DOTALL), ended.stdout
