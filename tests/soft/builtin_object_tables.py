"""The specification's tables of what is called on objects: textures by type, simdgroup matrices, and `as_type`."""

from __future__ import annotations

from collections.abc import Iterator

from .builtin_tables import Family, Row

_ELEMENTS = ("float", "half", "int", "uint", "short", "ushort")
_LEVELS = ("level(1.0f)", "bias(1.0f)", "min_lod_clamp(1.0f)")


def _value(kind: str) -> str:
    """Any value of a type, in an expression that is never evaluated."""
    return f"(*({kind} *)nullptr)"


def _texture(name: str, element: str = "float", access: str = "sample") -> str:
    # OpenCL has a word of its own by this name, for which the front end puts another.
    spelled = access.replace("read_write", "soft_name_read_write")
    return _value(f"{name}<{element}, access::{spelled}>")


def _coordinates(width: int, scalar: str) -> str:
    return f"{scalar}(1)" if width == 1 else f"{scalar}{width}(1)"


class _Shape:
    """A texture type: how wide its coordinates are, to sample it and on a plane, and what stands behind them."""

    def __init__(
        self, name: str, sampled: int, plane: int, *, behind: str = "", gradient: str = "", offset: int = 0
    ) -> None:
        self.name, self.sampled, self.plane = name, sampled, plane
        self.array = ", 0u" if name.endswith("_array") else ""
        self.place = behind + self.array
        self.gradient = f"gradient{gradient}(float{sampled}(0), float{sampled}(0))" if gradient else ""
        self.offset = f"int{offset}(1)" if offset else ""
        self.is_depth = name.startswith("depth")

    def result(self, element: str) -> str:
        return element if self.is_depth else f"{element}4"

    def sample(self, more: str = "", element: str = "float", access: str = "sample", compare: str = "") -> str:
        name = "sample_compare" if compare else "sample"
        start = f"{_texture(self.name, element, access)}.{name}(sampler(), {_coordinates(self.sampled, 'float')}"
        return f"{start}{self.array}{compare}{more})"

    def options(self) -> Iterator[str]:
        """Each list of options that `sample` takes."""
        limited = ("bias(1.0f)", self.gradient)
        plain = ["", *(f", {option}" for option in (*_LEVELS, self.gradient))]
        both = [*plain, *(f", {option}, min_lod_clamp(1.0f)" for option in limited)] if self.gradient else [""]
        yield from both
        yield from (f"{option}, {self.offset}" for option in both if self.offset)

    def read(self, element: str = "float", access: str = "read", scalar: str = "uint", lod: str = ", 0") -> str:
        lod = "" if self.name == "texture_buffer" else lod
        return f"{_texture(self.name, element, access)}.read({_coordinates(self.plane, scalar)}{self.place}{lod})"

    def write(self, element: str = "float", access: str = "write", scalar: str = "uint") -> str:
        where = f"{_coordinates(self.plane, scalar)}{self.place}"
        return f"{_texture(self.name, element, access)}.write({element}4(1), {where})"

    def atomic(self, name: str, element: str, access: str = "read_write", scalar: str = "uint") -> str:
        where = f"{_coordinates(self.plane, scalar)}{self.place}"
        return f"{_texture(self.name, element, access)}.atomic_{name}({where}, {element}4(1))"


_COLOURS = (
    _Shape("texture1d", 1, 1),
    _Shape("texture1d_array", 1, 1),
    _Shape("texture2d", 2, 2, gradient="2d", offset=2),
    _Shape("texture2d_array", 2, 2, gradient="2d", offset=2),
    _Shape("texture3d", 3, 3, gradient="3d", offset=3),
    _Shape("texturecube", 3, 2, behind=", 0u", gradient="cube"),
    _Shape("texturecube_array", 3, 2, behind=", 0u", gradient="cube"),
)
_BUFFER = _Shape("texture_buffer", 1, 1)
_DEPTHS = (
    _Shape("depth2d", 2, 2, gradient="2d", offset=2),
    _Shape("depth2d_array", 2, 2, gradient="2d", offset=2),
    _Shape("depthcube", 3, 2, behind=", 0u", gradient="cube"),
    _Shape("depthcube_array", 3, 2, behind=", 0u", gradient="cube"),
)
_CUBES = tuple(shape for shape in _COLOURS if "cube" in shape.name)
_WITH_ATOMICS = (*(shape for shape in _COLOURS if shape not in _CUBES), _BUFFER)
_FETCHES = tuple(f"fetch_{name}" for name in ("add", "sub", "and", "or", "xor", "min", "max"))


def _gathered(shape: _Shape, *, compare: bool = False) -> str:
    """A gather with everything that it may be told."""
    name = "gather_compare" if compare else "gather"
    reference = ", 0.5f" if compare else ""
    offset = f", {shape.offset}" if shape.offset else ""
    part = "" if shape.is_depth else ", component::y"
    return (
        f"{_texture(shape.name)}.{name}(sampler(), {_coordinates(shape.sampled, 'float')}"
        f"{shape.array}{reference}{offset}{part})"
    )


def _sizes(shape: _Shape) -> Iterator[str]:
    texture = _texture(shape.name)
    yield f"{texture}.get_width(0)"
    yield f"{texture}.get_num_mip_levels()"
    if shape.sampled > 1:
        yield f"{texture}.get_height(0)"
    if shape.array:
        yield f"{texture}.get_array_size()"


def _accepted() -> Iterator[Row]:
    for shape in (*_COLOURS, *_DEPTHS):
        elements = ("float",) if shape.is_depth else _ELEMENTS
        for more in shape.options():
            yield shape.sample(more), shape.result("float")
        for element in elements:
            yield shape.sample(element=element), shape.result(element)
            for access in ("sample", "read"):
                for scalar in ("uint", "ushort"):
                    yield shape.read(element, access, scalar), shape.result(element)
        yield from ((size, "uint") for size in _sizes(shape))
        yield f"is_null_texture({_texture(shape.name)})", "bool"
    for shape in (*_COLOURS, _BUFFER):
        for element in _ELEMENTS:
            yield from ((shape.write(element, access), "void") for access in ("write", "read_write"))
            yield shape.read(element, "read_write"), f"{element}4"
        yield f"{_texture(shape.name, 'float', 'read_write')}.fence()", "void"
    for shape in (*_COLOURS[2:4], *_CUBES, *_DEPTHS):
        yield _gathered(shape), "float4"
    for shape in _DEPTHS:
        yield _gathered(shape, compare=True), "float4"
        for option in ("", *(f", {each}" for each in (*_LEVELS, shape.gradient))):
            yield shape.sample(option, compare=", 0.5f"), "float"
    for shape in _WITH_ATOMICS:
        for element in ("int", "uint"):
            for scalar in ("uint", "ushort"):
                yield from (
                    (shape.atomic(name, element, scalar=scalar), f"{element}4") for name in (*_FETCHES, "exchange")
                )
    yield f"{_texture('texture3d')}.get_depth(0)", "uint"
    yield f"{_texture('texture_buffer', access='read')}.get_width()", "uint"


def _refused() -> Iterator[str]:
    for shape in _COLOURS:
        yield from (shape.sample(access=access) for access in ("read", "write", "read_write"))
        yield shape.sample(compare=", 0.5f")
        yield shape.read(access="write")
        yield from (shape.write(access=access) for access in ("sample", "read"))
        yield f"{_texture(shape.name, 'bfloat')}.get_width()"
        yield f"{_texture(shape.name, 'float4')}.get_width()"
        yield shape.sample(f", {'int2(1)' if shape.offset == 'int3(1)' else 'int3(1)'}")
        yield shape.sample(", level(1.0f), bias(1.0f)")
        yield shape.sample(", level(1.0f), min_lod_clamp(1.0f)")
        yield shape.sample(", min_lod_clamp(1.0f), bias(1.0f)")
        yield from (
            shape.sample(f", {other.gradient}")
            for other in _COLOURS
            if other.gradient and other.gradient[:10] != shape.gradient[:10]
        )
        if shape.offset:
            yield shape.sample(f", {shape.offset}, level(1.0f)")
    yield from (shape.sample(more) for shape in _COLOURS[:2] for more in (", level(1.0f)", ", bias(1.0f)", ", int2(1)"))
    yield from (shape.sample(", int3(0)") for shape in _CUBES)
    yield from (_gathered(shape) for shape in (*_COLOURS[:2], _COLOURS[4]))
    for shape in _DEPTHS:
        yield from (f"{_texture(shape.name, element)}.get_width()" for element in ("half", "int", "uint"))
        yield f"{_texture(shape.name, access='write')}.get_width()"
        yield f"{_texture(shape.name)}.fence()"
        yield shape.sample(", bias(1.0f), min_lod_clamp(1.0f)", compare=", 0.5f")
    for shape in _WITH_ATOMICS:
        yield shape.atomic("fetch_add", "float")
        yield shape.atomic("fetch_add", "ushort")
        yield shape.atomic("fetch_add", "uint", "write")
    yield from (shape.atomic("fetch_add", "uint") for shape in _CUBES)
    yield f"{_texture('texture2d', access='read')}.read(int2(1))"
    yield f"{_texture('texture2d', access='read')}.read(float2(1))"
    yield f"{_texture('texture2d', access='read')}.read(uint3(1))"
    yield f"{_texture('texture2d')}.sample(sampler(), int2(1))"
    yield f"{_texture('texture2d')}.get_depth()"
    yield f"{_texture('texture2d')}.get_array_size()"
    yield f"{_texture('texture1d')}.get_height()"
    yield f"{_texture('texture2d', access='write')}.write(half4(1), uint2(1))"
    yield f"{_texture('texture_buffer')}.get_width()"
    yield f"{_texture('texture_buffer', access='read')}.get_num_mip_levels()"
    yield f"{_texture('texture_buffer', access='read')}.read(1u, 0u)"


TEXTURES = Family("textures", tuple(_accepted()), tuple(_refused()))

_SCALARS = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "bfloat": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
}
_WIDTHS = {
    kind + width: size * count
    for kind, size in _SCALARS.items()
    for width, count in (("", 1), ("2", 2), ("3", 4), ("4", 4))
}
AS_TYPE = Family(
    "as_type",
    tuple(
        (f"as_type<{to}>({of}())", to) for to, size in _WIDTHS.items() for of, same in _WIDTHS.items() if size == same
    ),
    (
        "as_type<uint2>(1.0f)",
        "as_type<half>(1.0f)",
        "as_type<bool>(uchar(1))",
        "as_type<uchar>(true)",
        "as_type<uchar4>(bool4(true))",
        f"as_type<float4>({_value('float2x2')})",
        f"as_type<ulong>({_value('SOFT_DEVICE int *')})",
        "as_type<SOFT_DEVICE int *>(1ul)",
        f"as_type<uint>({_value('array<ushort, 2>')})",
    ),
)

_MATRICES = tuple(f"simdgroup_{kind}8x8" for kind in ("float", "half", "bfloat"))


def _matrix_rows() -> Iterator[Row]:
    for matrix in _MATRICES:
        element = matrix.removeprefix("simdgroup_").removesuffix("8x8")
        made = f"make_filled_simdgroup_matrix<{element}, 8, 8>({element}(1.0f))"
        yield made, matrix
        yield f"{matrix}({element}(1.0f))", matrix
        yield f"{_value(matrix)} * {_value(matrix)}", matrix
        yield f"simdgroup_multiply({_value(matrix)}, {_value(matrix)}, {_value(matrix)})", "void"
        for space in ("SOFT_DEVICE", "__local"):
            pointer = f"({space} {element} *)nullptr"
            yield f"simdgroup_load({_value(matrix)}, {pointer}, 8, ulong2(0), true)", "void"
            yield f"simdgroup_store({_value(matrix)}, {pointer}, 8, ulong2(0), true)", "void"


MATRICES = Family(
    "simdgroup matrices",
    tuple(_matrix_rows()),
    (
        *(f"sizeof(simdgroup_matrix<{kind}, 8, 8>)" for kind in ("int", "uint", "short", "float2")),
        "sizeof(simdgroup_matrix<float, 4, 4>)",
        "sizeof(simdgroup_matrix<float, 8, 16>)",
        f"simdgroup_load({_value('simdgroup_float8x8')}, (SOFT_DEVICE half *)nullptr)",
        f"simdgroup_load({_value('simdgroup_float8x8')}, (SOFT_CONSTANT float *)nullptr)",
        f"simdgroup_load({_value('simdgroup_float8x8')}, (__private float *)nullptr)",
        f"simdgroup_store({_value('simdgroup_half8x8')}, (SOFT_DEVICE float *)nullptr)",
        f"simdgroup_store({_value('simdgroup_half8x8')}, (const SOFT_DEVICE half *)nullptr)",
        f"{_value('simdgroup_float8x8')} * {_value('simdgroup_half8x8')}",
        f"{_value('simdgroup_float8x8')} + {_value('simdgroup_float8x8')}",
    ),
)

OBJECTS = (TEXTURES, AS_TYPE, MATRICES)
