"""Element types and their bridges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlx_native_py import DType, InvalidArgument, MlxDevice, fn


@pytest.mark.parametrize(
    ("member", "name", "size", "mtl"),
    [
        (DType.F32, "f32", 4, "float"),
        (DType.F16, "f16", 2, "half"),
        (DType.BF16, "bf16", 2, "bfloat"),
        (DType.U8, "u8", 1, "uchar"),
        (DType.U16, "u16", 2, "ushort"),
        (DType.U32, "u32", 4, "uint"),
        (DType.I32, "i32", 4, "int"),
        (DType.I8, "i8", 1, "char"),
        (DType.I16, "i16", 2, "short"),
        (DType.I64, "i64", 8, "long"),
        (DType.U64, "u64", 8, "ulong"),
        (DType.BOOL, "bool", 1, "bool"),
    ],
)
def test_members(member: DType, name: str, size: int, mtl: str) -> None:
    assert (str(member), f"{member}", member.name_, member.size, member.mtl) == (name, name, name, size, mtl)
    assert member.numpy.itemsize == size
    assert DType.of(member) is DType.of(name) is DType.of(member.numpy) is DType.of(member.numpy.type) is member
    assert DType(name) is member  # type: ignore[call-arg]
    assert {member: 1}[DType.of(name)] == 1


@pytest.mark.parametrize(("given", "member"), [("float32", DType.F32), ("<f4", DType.F32), ("bfloat16", DType.BF16)])
def test_other_names(given: str, member: DType) -> None:
    assert DType.of(given) is member


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    assert DType.BF16.numpy == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "given", ["f64", np.float64, float, ">f4", ">u4", "complex64", "nonsense", None, 3, "S4", object()]
)
def test_what_is_none_is_refused_with_the_list(given: object) -> None:
    with pytest.raises(InvalidArgument, match=r"there are: f32, f16, bf16"):
        DType.of(given)


def test_float64_becomes_float32_wherever_it_is_read(device: MlxDevice) -> None:
    given = np.array([1.0, 1 / 3])
    assert device.buffer(given).dtype is DType.F32
    assert fn.silu(given, stream=device).dtype is DType.F32
    lib = device.compile(
        "kernel void copy(device const float *x, device float *y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }"
    )
    copied = np.zeros(2, np.float32)
    lib.copy(given, copied)
    assert copied.tolist() == given.astype(np.float32).tolist()


def test_float64_is_refused_where_it_would_be_written_or_shared(device: MlxDevice) -> None:
    lib = device.compile("kernel void one(device float *y, uint i [[thread_position_in_grid]]) { y[i] = 1; }")
    with pytest.raises(InvalidArgument, match="is declared float, and the array has float64"):
        lib.one(np.zeros(2))
    with pytest.raises(InvalidArgument, match="cannot use float64 memory as f32 without a copy"):
        device.buffer(np.zeros(4096), copy=False)
