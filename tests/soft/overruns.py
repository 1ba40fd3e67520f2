"""A process that runs kernels with stray indices and, after each, innocent ones; it prints a line for each."""

from __future__ import annotations

import sys
from typing import Any, get_args

import numpy as np

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.program import EngineChoice

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
ARGS = "device int* out [[buffer(0)]], device const int* k [[buffer(1)]], uint i [[thread_position_in_grid]]"
POSITION = "uint t [[thread_position_in_threadgroup]]"
STRAY = {
    "private write": f"""kernel void k({ARGS}) {{
        float a[8]; for (int n = 0; n < 8; n++) a[n] = k[n + 1];
        a[k[0]] = 99; out[i] = a[k[1] & 7] + a[k[2] & 7]; }}""",
    "private run of writes": f"""kernel void k({ARGS}) {{
        int a[8]; for (int n = 0; n < 8; n++) a[n] = k[n + 1];
        int step = k[0] < 0 ? -1 : 1;
        for (int n = 0; n != k[0]; n += step) a[n] = 99;
        out[i] = a[k[1] & 7]; }}""",
    "private write between barriers": f"""kernel void k({ARGS}, {POSITION}) {{
        threadgroup int shared[64]; float a[8];
        for (int n = 0; n < 8; n++) a[n] = k[n + 1];
        shared[t] = t; threadgroup_barrier(mem_flags::mem_threadgroup);
        a[k[0]] = 99; threadgroup_barrier(mem_flags::mem_threadgroup);
        out[i] = a[k[1] & 7] + shared[63 - t]; }}""",
    "threadgroup write": f"""kernel void k({ARGS}, {POSITION}) {{
        threadgroup int shared[64];
        shared[t] = t; threadgroup_barrier(mem_flags::mem_threadgroup);
        shared[k[0] + int(t)] = 99; threadgroup_barrier(mem_flags::mem_threadgroup);
        out[i] = shared[63 - t]; }}""",
    "threadgroup run of writes": f"""kernel void k({ARGS}, {POSITION}) {{
        threadgroup int shared[64];
        shared[t] = t; threadgroup_barrier(mem_flags::mem_threadgroup);
        int step = k[0] < 0 ? -1 : 1;
        for (int n = 0; n != k[0]; n += step) shared[n] = -1;
        threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = shared[63 - t]; }}""",
}
INNOCENT = {
    "barrier": f"""kernel void k({ARGS}, {POSITION}) {{
        threadgroup int shared[64]; shared[t] = int(i) + simd_max(k[0]);
        threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = shared[63 - t]; }}""",
    "flat": f"""kernel void k({ARGS}) {{
        int a[4]; for (int n = 0; n < 4; n++) a[n] = k[n];
        out[i] = a[i & 3] + int(i); }}""",
}
DISTANCES = (9, 40, 400, 4000, 20000, 70000, 1 << 20)
COUNT = 256


class Engine:
    """One device and the kernels that it has compiled."""

    def __init__(self, name: EngineChoice) -> None:
        self.device = Metal.open_device(Metal.SoftOptions(engine=name, watchdog_seconds=5.0))
        self.queue = self.device.newCommandQueue()
        self.pipelines = {name: self._pipeline(text) for name, text in {**STRAY, **INNOCENT}.items()}

    def _pipeline(self, text: str) -> Any:
        library, error = self.device.newLibraryWithSource_options_error_(HEAD + text, None, None)
        assert library is not None, error
        state, error = self.device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("k"), None)
        assert state is not None, error
        return state

    def run(self, name: str, values: np.ndarray) -> tuple[np.ndarray, str]:
        """What the kernel wrote, and the error of its command buffer."""
        out = self.device.newBufferWithLength_options_(4 * COUNT, 0)
        given = self.device.newBufferWithBytes_length_options_(values, values.nbytes, 0)
        assert out is not None
        commands = self.queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(self.pipelines[name])
        encoder.setBuffer_offset_atIndex_(out, 0, 0)
        encoder.setBuffer_offset_atIndex_(given, 0, 1)
        encoder.dispatchThreads_threadsPerThreadgroup_((COUNT, 1, 1), (64, 1, 1))
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        error = commands.error()
        text = error.localizedDescription() if error is not None else ""
        return np.frombuffer(out.contents().as_buffer(4 * COUNT), np.int32).copy(), text

    def innocents(self) -> list[str]:
        """What is wrong with kernels that are right."""
        values, i = np.arange(7, 16, dtype=np.int32), np.arange(COUNT)
        wanted = {"barrier": i.reshape(-1, 64)[:, ::-1].ravel() + 7, "flat": i + values[i & 3]}
        found = []
        for name in INNOCENT:
            out, error = self.run(name, values)
            if error or not np.array_equal(out, wanted[name]):
                found.append(f"{name}: {error or 'wrong result'}")
        return found


def main(engine: EngineChoice) -> None:
    on = Engine(engine)
    for name in STRAY:
        for distance in (sign * reach for reach in DISTANCES for sign in (1, -1)):
            values = np.arange(9, dtype=np.int32)
            values[0] = distance
            print(f"{name} {distance}:", flush=True, end=" ")
            _, error = on.run(name, values)
            print(f"{error.partition(': kernel')[0] or 'no error'} | {'; '.join(on.innocents()) or 'fine'}", flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    for choice in get_args(EngineChoice):
        if choice in sys.argv[1:]:
            main(choice)
