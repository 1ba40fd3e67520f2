"""What newcomers get wrong, with a pattern of what they are told."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import mlx_native_py as mn
from mlx_native_py import CompileOptions, MlxDevice, Out, fn, ops, settings, weights
from mlx_native_py.testing import fail

SOURCE = """
struct P { uint n; float3 o; };
kernel void axpy(device float *y, device const float *x, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
kernel void with(device float *x, constant P &p, uint i [[thread_position_in_grid]]) { x[i] = p.o.y; }
kernel void shared(device float *x, threadgroup float *t [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  t[0] = 1;
  x[i] = 1;
}
kernel void bytes(device uchar *x, constant uchar &v, uint i [[thread_position_in_grid]]) { x[i] = v; }
constant uint size [[function_constant(0)]];
kernel void sized(device float *x, uint i [[thread_position_in_grid]]) { x[i] = size; }
kernel void paint(metal::texture2d<float, metal::access::write> t, uint2 at [[thread_position_in_grid]]) {
  t.write(1, at);
}
"""

ADD = "kernel void add(device float *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"


def f(*shape: int) -> Any:
    return np.ones(shape, np.float32)


class World:
    """What a newcomer has at hand: an open device and one that is closed, kernels, buffers, arrays, files."""

    def __init__(self, folder: Path) -> None:
        self.folder: Any = folder
        self.device: Any = MlxDevice("soft")
        self.other: Any = MlxDevice("soft")
        self.closed: Any = MlxDevice("soft")
        self.lib: Any = self.device.compile("#include <metal_stdlib>\n" + SOURCE)
        self.gone: Any = self.closed.compile(SOURCE.partition("constant uint size")[0])
        self.k: Any = self.lib.axpy
        self.x: Any = self.device.buffer(f(8))
        self.y: Any = self.device.buffer(f(8))
        self.w: Any = self.device.buffer(f(4, 8))
        self.theirs: Any = self.other.buffer(f(8))
        self.late: Any = self.closed.command_encoder()
        self.closed.close()
        self.enc: Any = self.device.command_encoder()
        self.frozen: Any = f(8)
        self.frozen.setflags(write=False)
        save_file({"weight": f(4)}, folder / "a.safetensors")
        (folder / "text.gguf").write_text("import this")

    def used(self) -> Any:
        """An encoder that was committed."""
        enc = self.device.command_encoder()
        enc.dispatch(self.k, self.y, self.x, 2.0, threads=8)
        enc.commit_and_wait()
        return enc

    def tensors(self) -> Any:
        return weights.open_safetensors(self.folder / "a.safetensors")

    def on_another_thread(self, call: Callable[[], Any]) -> None:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as problem:
                raised.append(problem)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        raise raised[0]

    def recorded(self, use: Callable[[Any], Any]) -> None:
        with self.device.capture(x=self.x) as graph:
            use(graph)

    def close(self) -> None:
        self.enc.discard()
        self.device.close()
        self.other.close()


anything: Any = None
Mistake = tuple[str, Callable[[World], Any]]

OPS: list[Mistake] = [
    (
        r"add: the first argument is an array of float32\[8\], .*call fn\.add",
        lambda w: anything_of(ops.add)(f(8), f(8)),
    ),
    (r"add: the first argument is a buffer of f32\[8\], expected device", lambda w: anything_of(ops.add)(w.x, w.y)),
    (
        r"rms_norm: the first argument is an array of float32\[1000, 8\]",
        lambda w: anything_of(ops.rms_norm)(f(1000, 8), f(8)),
    ),
    (r"add: the first argument is MlxDevice", lambda w: ops.add(w.device, w.x, w.y)),
    (r"add: the first argument is None", lambda w: ops.add(anything, w.x, w.y)),
    (
        r"add: a is an array of float32\[8\], expected a buffer: device\.buffer\(a\)",
        lambda w: ops.add(w.enc, f(8), f(8)),
    ),
    (r"add: b is missing; the call is add\(enc, a, b, out=None\)", lambda w: anything_of(ops.add)(w.enc, w.x)),
    (r"add: 2 too many arguments", lambda w: anything_of(ops.add)(w.enc, w.x, w.y, w.x, w.y, w.y)),
    (r"add: there is no argument 'outt'; the call is", lambda w: anything_of(ops.add)(w.enc, w.x, w.y, outt=w.y)),
    (r"add: b is f32\[4, 8\], expected the shape of a", lambda w: ops.add(w.enc, w.x, w.w)),
    (r"add: b is f16\[8\] and a is f32\[8\]; cast one", lambda w: ops.add(w.enc, w.x, w.device.zeros(8, "f16"))),
    (r"add: b is 2\.0, expected a buffer", lambda w: ops.add(w.enc, w.x, anything_of(2.0))),
    (r"add: out is f32\[3\], expected shape \[8\]", lambda w: ops.add(w.enc, w.x, w.y, out=w.device.empty(3))),
    (r"belongs to another device", lambda w: ops.add(w.enc, w.x, w.theirs)),
    (r"matmul: a is f32\[4, 8\] and b is f32\[4, 8\]; they would sum", lambda w: ops.matmul(w.enc, w.w, w.w)),
    (r"softmax: there is no argument 'axis'", lambda w: anything_of(ops.softmax)(w.enc, w.w, axis=7)),
    (
        r"rms_norm: .*'a' \(str\) is not a value for a float",
        lambda w: ops.rms_norm(w.enc, w.w, w.x, eps=anything_of("a")),
    ),
    (r"there is no op 'rmsnorm'; did you mean rms_norm", lambda w: anything_of(ops).rmsnorm),
    (
        r"add: dispatch: command buffer of 1 dispatch is committed already|committed already",
        lambda w: ops.add(w.used(), w.x, w.y),
    ),
]
FUNCTIONS: list[Mistake] = [
    (
        r"add: f32\[3\] and f32\[4\] do not broadcast|add: f32\[4\] and f32\[3\] do not broadcast",
        lambda w: fn.add(f(3), f(4)),
    ),
    (r"a: dtype\('<U1'\) is not an element type", lambda w: fn.add("a", "b")),
    (r"a: dtype\('O'\) is not an element type", lambda w: fn.add(anything, f(3))),
    (r"a: dtype\('complex128'\) is not an element type", lambda w: fn.add(f(3).astype(complex), f(3))),
    (r"a: this list cannot be made an array", lambda w: fn.add([[1, 2], [3]], f(2))),
    (r"matmul: .*they would sum over 4 and 3 values", lambda w: fn.matmul(f(3, 4), f(3, 4))),
    (r"there is no function 'sofmax'; did you mean softmax", lambda w: anything_of(fn).sofmax),
    (r"softmax: axis is 5, expected axes of f32\[3, 4\]", lambda w: fn.softmax(f(3, 4), axis=5)),
    (r"argmax: axis is 'x', expected a whole number", lambda w: fn.argmax(f(4), axis=anything_of("x"))),
    (r"quantize: 4 bits in groups of 48, expected", lambda w: fn.quantize(f(64, 128), group_size=48)),
    (r"quantize: 7 bits in groups of 64, expected", lambda w: fn.quantize(f(64, 128), group_size=64, bits=7)),
    (r"quantize: w is f32\[64, 100\], expected rows of whole groups", lambda w: fn.quantize(f(64, 100), group_size=64)),
    (r"quantize: 4 bits in groups of '64'", lambda w: fn.quantize(f(64, 128), group_size=anything_of("64"))),
    (r"quantize: w is i64\[64, 128\], expected f32", lambda w: fn.quantize(np.ones((64, 128), np.int64))),
    (
        r"quantized_matmul: x is f32\[2, 64\] and w is",
        lambda w: anything_of(fn.quantized_matmul)(f(2, 64), *fn.quantize(f(64, 128))),
    ),
    (r"rms_norm: weight is f32\[7\], expected shape \[8\]", lambda w: fn.rms_norm(f(2, 8), f(7), 1e-5)),
    (r"concat: .*expected one type and axes that agree", lambda w: fn.concatenate([f(2, 3), f(2, 4)])),
    (r"concat: no buffers were given", lambda w: fn.concatenate([])),
    (r"transpose: axes is \(0, 0\), expected each", lambda w: fn.transpose(f(4, 5), (0, 0))),
    (r"indices is float64\[1\], expected whole numbers", lambda w: fn.take(f(4, 2), [1.5], axis=0)),
    (r"'nope' is not an element type; there are", lambda w: fn.astype(f(3), "nope")),
    (r"stream is 'soft', expected an MlxDevice", lambda w: fn.add(f(3), f(3), stream=anything_of("soft"))),
    (r"is closed", lambda w: fn.add(f(3), f(3), stream=w.closed)),
    (r"silu\(\) missing a required argument: 'x'; the call is", lambda w: anything_of(fn.silu)()),
]
CALLS: list[Mistake] = [
    (r"'axpy' takes 3 arguments by slot \(0: y, 1: x, 2: a\); 0 were given", lambda w: w.k()),
    (r"takes 3 arguments by slot .*; 4 were given", lambda w: w.k(f(8), f(8), 1.0, 2.0)),
    (r"has no argument 'b'; it takes y, x, a", lambda w: w.k(y=f(8), x=f(8), b=1.0)),
    (r"'a' is given twice", lambda w: w.k(f(8), f(8), 1.0, a=1)),
    (r"declared float, and the array has float64; convert it to float32", lambda w: w.k(np.ones(8), f(8), 1.0)),
    (r"declared float, and the array has complex128", lambda w: w.k(np.ones(8, complex), f(8), 1.0)),
    (r"1j \(complex\) is not a value for a float", lambda w: w.k(f(8), f(8), 1j)),
    (r"'2' \(str\) is not a value for a float", lambda w: w.k(f(8), f(8), "2")),
    (r"needs a buffer or an array, not \[1, 2\]", lambda w: w.k([1, 2], f(8), 1.0)),
    (r"'x' \(slot 1\) is None, .*; pass a buffer or a value", lambda w: w.k(f(8), None, 1.0)),
    (r"argument 'y' is written, but the array is read-only", lambda w: w.k(w.frozen, f(8), 1.0)),
    (r"300 does not fit a uchar", lambda w: w.lib.bytes(np.zeros(4, np.uint8), 300)),
    (r"-1 does not fit a uchar", lambda w: w.lib.bytes(np.zeros(4, np.uint8), -1)),
    (r"1\.5\) \(float32\) is not a value for a uchar", lambda w: w.lib.bytes(np.zeros(4, np.uint8), np.float32(1.5))),
    (r"threads=-1, expected numbers from 1 to", lambda w: w.k(f(8), f(8), 1.0, threads=-1)),
    (r"threads is '8', expected whole numbers", lambda w: w.k(f(8), f(8), 1.0, threads="8")),
    (r"threads=\(1, 1, 1, 1\), expected one to three numbers", lambda w: w.k(f(8), f(8), 1.0, threads=(1, 1, 1, 1))),
    (r"has 5000 threads; this kernel allows at most", lambda w: w.k(f(8), f(8), 1.0, group=5000)),
    (r"give either threads= or threadgroups=, and not both", lambda w: w.k(f(8), f(8), 1.0, threads=8, threadgroups=1)),
    (r"has no threadgroup arguments; shared= gives 1", lambda w: w.k(f(8), f(8), 1.0, shared=[16])),
    (r"has threadgroup argument 't' \(slot 0\); shared= gives 0", lambda w: w.lib.shared(f(8))),
    (r"of -16 bytes, expected at least 1", lambda w: w.lib.shared(f(8), shared=[-16])),
    (r"has no argument 'grid'; threads= counts threads", lambda w: w.k(f(8), f(8), 1.0, grid=8)),
    (r"has no function constant 'N'", lambda w: w.k(f(8), f(8), 1.0, constants={"N": 1})),
    (r"needs values for function constants 'size' \(index 0\)", lambda w: w.lib.sized(f(8))),
    (r"'a' \(str\) is not a value for a uint", lambda w: w.lib.sized(f(8), constants={"size": "a"})),
    (r"with wait=False, .*'y' would be copied", lambda w: w.k(f(9)[::-1], f(8), 1.0, wait=False)),
    (r"belongs to another device", lambda w: w.k(w.y, w.theirs, 1.0)),
    (r"is closed", lambda w: w.gone.axpy(f(8), f(8), 1.0)),
    (r"struct P has n, o; what was given lacks o", lambda w: w.lib["with"](f(8), {"n": 1})),
    (r"member 'o' is \(1, 2\), expected f32\[3\]", lambda w: w.lib["with"](f(8), {"n": 1, "o": (1, 2)})),
    (r"holds values of 32 bytes; 3 were given", lambda w: w.lib["with"](f(8), b"abc")),
    (r"expects a buffer or bytes, since its type is a struct", lambda w: w.lib["with"](f(8), 3)),
    (r"takes 1 textures \('t'\); 0 were given; device\.texture\(array\) makes one", lambda w: w.lib.paint(f(8))),
    (
        r"'y' \(slot 0\) is a buffer in the kernel, and .*MlxTexture",
        lambda w: w.k(w.device.texture(f(4, 4)), f(8), 1.0),
    ),
    (r"Kernel not found: 'axpyy'. Did you mean 'axpy'", lambda w: w.lib.axpyy),
    (r"Kernel not found: 'nothing'; there are: axpy, with", lambda w: w.lib["nothing"]),
    (r"Kernel not found: 0; there are: axpy", lambda w: w.lib[0]),
    (r"group=-1, expected numbers from 1", lambda w: w.k.inspect(group=-1)),
    (r"group is 'a', expected whole numbers", lambda w: w.k.inspect(group="a")),
]
SOURCES: list[Mistake] = [
    (r"'x\.metal' is the name of a file; pass pathlib\.Path", lambda w: w.device.compile("x.metal")),
    (r"there is no file .*nope\.metal", lambda w: w.device.compile(w.folder / "nope.metal")),
    (r"cannot be read: Is a directory", lambda w: w.device.compile(w.folder)),
    (r"a source is MSL text or the Path of a file with some, not None", lambda w: w.device.compile(None)),
    (r"MSL text or the Path .*not b'kernel'", lambda w: w.device.compile(b"kernel")),
    (
        r"program_source:1:41: error: .*'y'\nkernel.*\n +\^",
        lambda w: w.device.compile("kernel void k(device float *x) { x[0] = y; }"),
    ),
    (r"there is no kernel in this source", lambda w: w.device.compile("int f() { return 1; }")),
    (r"This looks like CUDA", lambda w: w.device.compile("__global__ void k(float *x) {}")),
    (
        r"options is \{'math': 'fast'\}, expected CompileOptions",
        lambda w: w.device.compile(SOURCE, options={"math": "fast"}),
    ),
    (r"math is 'quick', expected one of safe, relaxed, fast", lambda w: CompileOptions(math=anything_of("quick"))),
    (r"constants is \[1\], expected a dict", lambda w: w.device.compile(SOURCE, constants=[1])),
    (
        r"include is 'inc', expected a list of folders",
        lambda w: w.device.compile(w.folder / "nope.metal", include="inc"),
    ),
    (
        r"there is no folder inc, which include= names",
        lambda w: w.device.compile(w.folder / "nope.metal", include=["inc"]),
    ),
    (r"device is 'soft', expected an MlxDevice", lambda w: mn.kernel(SOURCE, device=anything_of("soft"))),
    (r"Kernel not found: 'scalar_mull_f32'. Did you mean", lambda w: w.device.kernels.get_pipeline("scalar_mull_f32")),
    (r"the name of a kernel is a str, not None", lambda w: w.device.kernels.get_pipeline(None)),
]
BUFFERS: list[Mistake] = [
    (r"dtype\('complex64'\) is not an element type", lambda w: w.device.buffer(np.ones(3, np.complex64))),
    (r"dtype\('O'\) is not an element type", lambda w: w.device.buffer(None)),
    (r"this list cannot be made an array", lambda w: w.device.buffer([[1], [1, 2]])),
    (r"\[300, -1\] is not an array of u8", lambda w: w.device.buffer([300, -1], dtype="u8")),
    (r"\[nan\] is not an array of i32", lambda w: w.device.buffer([float("nan")], dtype="i32")),
    (r"is -1, expected at least 1", lambda w: w.device.empty(-1)),
    (r"is 1\.5, expected a whole number", lambda w: w.device.empty(1.5)),
    (r"is None, expected a whole number", lambda w: w.device.empty(None)),
    (r"a shape of 70 axes, expected at most 64", lambda w: w.device.zeros((1,) * 70)),
    (r"Failed to allocate a buffer of \d+ bytes: the device allows", lambda w: w.device.empty(1 << 50)),
    (r"'float128' is not an element type", lambda w: w.device.empty(4, "float128")),
    (r"'f33' is not an element type; there are", lambda w: anything_of(mn.DType)("f33")),
    (r"arange of 'a'.* expected numbers", lambda w: w.device.arange("a")),
    (r"arange of 0, 5 and 0, expected numbers and a step but 0", lambda w: w.device.arange(0, 5, 0)),
    (r"index 100 is outside the first axis", lambda w: w.x[100]),
    (r"'a' cannot index", lambda w: w.x["a"]),
    (r"slice\(None, None, 0\) cannot index .*step cannot be zero", lambda w: w.x[::0]),
    (r"cannot index .*slice indices must be integers", lambda w: w.x["a":]),
    (r"\[100\] of .*index 100 is out of bounds", lambda w: w.x.__setitem__(100, 1)),
    (r"\[0\] of .*cannot be set: could not convert string", lambda w: w.x.__setitem__(0, "a")),
    (r"cannot be set: could not broadcast", lambda w: w.x.__setitem__(slice(None), f(3))),
    (r"shape \(3, 3\) has 9 elements, and .* has 8", lambda w: w.x.reshape(3, 3)),
    (r"'f99' is not an element type", lambda w: w.x.astype("f99")),
    (r"do not broadcast", lambda w: w.x + f(3)),
    (r"item\(\) takes the one value of a buffer", lambda w: float(w.x)),
    (r"has no length; item\(\) is its value", lambda w: list(w.x[0])),
    (r"copy_from got float32\[3\], expected float32\[8\]", lambda w: w.x.copy_from(f(3))),
    (r"cannot be seen as f32: rows of 3 bytes", lambda w: w.device.zeros(3, "u8").view("f32")),
    (r"label is 3, expected a str", lambda w: w.device.zeros(3, label=3)),
    (r"neither pickled .*: pickle buffer\.numpy\(\), or copy by device\.buffer", lambda w: pickle.dumps(w.x)),
    (r"neither pickled .*: pickle buffer\.numpy\(\), or copy by device\.buffer", lambda w: copy.deepcopy(w.x)),
    (r"byte_len is 8, but f32\[100\] takes 400 bytes", lambda w: w.device.buffer_pool().alloc(8, "f32", 100)),
    (r"format 'nope' is not a supported texture format", lambda w: w.device.texture(f(4, 4), format="nope")),
    (r"an image is \(height, width\)", lambda w: w.device.texture(f(4))),
]
ENCODERS: list[Mistake] = [
    (r"is closed", lambda w: w.closed.empty(4)),
    (r"is closed", lambda w: w.closed.command_encoder()),
    (r"is closed", lambda w: w.late.dispatch(w.k, w.y, w.x, 1.0, threads=8)),
    (r"committed already; make another encoder", lambda w: w.used().dispatch(w.k, w.y, w.x, 1.0, threads=8)),
    (r"committed already; make another encoder", lambda w: w.used().commit()),
    (r"neither was given", lambda w: w.enc.dispatch(w.k, w.y, w.x, 1.0)),
    (r"writes to buffers; pass device\.buffer\(array\)", lambda w: w.enc.dispatch(w.k, f(8), f(8), 1.0, threads=8)),
    (r"dispatch takes a Pipeline .*not 'axpy'", lambda w: w.enc.dispatch("axpy", w.y, w.x, 1.0, threads=8)),
    (r"dispatch\(\) has no option 'grid'", lambda w: w.enc.dispatch(w.k, w.y, w.x, 1.0, grid=8)),
    (r"takes 3 arguments by slot", lambda w: w.enc.dispatch(w.k, w.y, threads=8)),
    (r"is None, and nothing was bound", lambda w: w.enc.dispatch(w.k, Out(anything), w.x, 1.0, threads=8)),
    (r"has no array or buffer whose length", lambda w: w.device.compile(ADD).add(Out(anything))),
    (r"has no array or buffer whose length", lambda w: w.device.compile(ADD).add(Out(anything_of("x")))),
    (r"needs a buffer or an array, not 3", lambda w: w.enc.dispatch(w.k, Out(anything_of(3)), w.x, 1.0, threads=8)),
    (
        r"reads= and writes= take buffers and views, not 5",
        lambda w: w.enc.dispatch(w.k, w.y, w.x, 1.0, threads=8, reads=5),
    ),
    (r"timeout is 'a', expected seconds", lambda w: w.device.command_encoder().commit().wait(timeout="a")),
    (r"was not committed, so waiting for it would never end", lambda w: w.device.command_encoder().ticket.wait()),
    (r"a label is a non-empty str, not 3", lambda w: w.device.command_encoder().commit(label=3)),
    (
        r"this encoder belongs to thread .*; make one per thread",
        lambda w: w.on_another_thread(lambda: w.enc.dispatch(w.k, w.y, w.x, 1.0, threads=8)),
    ),
    (r"x is .*array.*, expected a buffer of this device", lambda w: w.device.capture(x=f(8)).__enter__()),
    (r"out is 3, expected a buffer of this device", lambda w: w.recorded(lambda graph: graph.keep(out=3))),
    (r"count is -3, expected at least 1", lambda w: w.device.schedules(-3).__enter__()),
]
FILES: list[Mistake] = [
    (r"there is no file .*nope\.gguf", lambda w: weights.open_gguf(w.folder / "nope.gguf")),
    (r"cannot be read: Is a directory", lambda w: weights.open_gguf(w.folder)),
    (r"a path is a str or a Path, not None", lambda w: weights.open_gguf(anything)),
    (r"expected b'GGUF', got b'impo'", lambda w: weights.open_gguf(w.folder / "text.gguf")),
    (r"there is no file .*nope\.safetensors", lambda w: weights.open_safetensors(w.folder / "nope.safetensors")),
    (r"there is no \.safetensors file in", lambda w: weights.open_safetensors("/")),
    (r"a\.safetensors has no tensor 'weigth'; did you mean weight\?$", lambda w: w.tensors()["weigth"]),
    (r"device is None, expected an MlxDevice", lambda w: w.tensors()["weight"].buffer(None)),
    (r"is closed", lambda w: w.tensors()["weight"].buffer(w.closed)),
    (r"no model 'nope': neither a path nor one of", lambda w: mn.models.load("nope")),
    (r"config\.json: is missing next to the weights", lambda w: mn.models.load(w.folder)),
    (r"a path is a str or a Path, not None", lambda w: mn.models.load(anything)),
]
SETTINGS: list[Mistake] = [
    (r"device is 'gpu'; allowed: auto, metal, soft", lambda w: MlxDevice(anything_of("gpu"))),
    (r"there is no setting 'soft_checkd'; there are", lambda w: settings.override(soft_checkd=True).__enter__()),
    (r"soft_checked is 'yes'; allowed: 1 \(on\) or 0", lambda w: settings.override(soft_checked="yes").__enter__()),
    (r"soft_engine is 'fast'; allowed: auto, flat", lambda w: settings.override(soft_engine="fast").__enter__()),
    (r"soft_threads is -1; allowed: a whole number", lambda w: settings.override(soft_threads=-1).__enter__()),
    (r"soft_schedule is 'shuffled'; allowed", lambda w: settings.override(soft_schedule="shuffled").__enter__()),
    (r"level='dispach'; allowed: cb, dispatch", lambda w: mn.profile(anything_of("dispach"))),
    (r"fail: there is no 'alloc'; there are: allocation", lambda w: fail(anything_of("alloc")).__enter__()),
    (r"fail: nth is '1', expected a whole number", lambda w: fail("commit", nth=anything_of("1")).__enter__()),
    (r"fail: code is 'x', and Metal has", lambda w: fail("commit", code=anything_of("x")).__enter__()),
]


def anything_of(value: Any) -> Any:
    """Hides a type from the type checker, which would find the mistake."""
    return value


TABLES = {
    "ops": OPS,
    "functions": FUNCTIONS,
    "calls": CALLS,
    "sources": SOURCES,
    "buffers": BUFFERS,
    "encoders": ENCODERS,
    "files": FILES,
    "settings": SETTINGS,
}
