"""A process that may open no more files: what is compiled already runs, and what is not says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, resource, sys; sys.path.insert(0, sys.argv[1])
import numpy as np
from mlx_native_py import MlxDevice, MlxError
def run(add):
    source = ("#include <metal_stdlib>\\nusing namespace metal;\\n"
              "kernel void k(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] += ADD; }")
    x = device.buffer(np.zeros(64, np.float32))
    device.compile(source.replace("ADD", str(add))).k(x, threads=64)
    return x.numpy().tolist()
device = MlxDevice("soft")
assert run(3) == [3.0] * 64
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
for closed in range(8):
    if closed: assert run(3) == [3.0] * 64
    try:
        run(os.getpid() + closed)
    except MlxError as error:
        print("ulimit -n" in str(error), error)
    os.close(held.pop())
for each in held: os.close(each)
assert run(os.getpid() + 1000) == [float(np.float32(os.getpid() + 1000))] * 64
"""


def test_a_process_without_file_descriptors_is_told_what_to_do() -> None:
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[2])]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    told = result.stdout.splitlines()
    assert told and all(line.startswith("True") for line in told), told
