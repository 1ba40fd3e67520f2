"""Element types and their bridges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlx_native_py import DType, InvalidArgument


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
    assert DType(name) is member
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
