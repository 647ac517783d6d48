"""The numbers by which the headers name element types and tile types (``scalars.h`` and ``tile.h``)."""

from __future__ import annotations

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType, PointerType, TileType

_NUMERIC: tuple[DType, ...] = (
    dtypes.bool_,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.uint16,
    dtypes.uint32,
    dtypes.uint64,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.tfloat32,
    dtypes.float8_e4m3fn,
    dtypes.float8_e5m2,
)
VOID_CODE, POINTER_CODE = 31, 32


def element_type(code: int) -> ElementType:
    """The element type that ``code`` names."""
    if code >= POINTER_CODE:
        pointee = code - POINTER_CODE
        return PointerType(None if pointee == VOID_CODE else _NUMERIC[pointee])
    return _NUMERIC[code]


def llvm_type(code: int) -> str:
    """The type of LLVM in which a number or pointer is kept in memory."""
    type = element_type(code)
    if isinstance(type, PointerType):
        return "ptr"
    floats = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "tfloat32": "float", "float64": "double"}
    return floats.get(type.name, f"i{8 * type.bytes}")


def tile_type(code: int) -> TileType:
    """The tile type packed into ``code``: six bits of element code; then each length as zeros before a one."""
    shape = []
    lengths = code >> 6
    while lengths:
        shape.append(lengths & -lengths)
        lengths //= 2 * shape[-1]
    return TileType(element_type(code & 63), tuple(shape))


# LLVM types -> the dtype that stands for them where nothing says more. LLVM integers have no sign.
LLVM_DTYPES: dict[str, DType] = {
    "i1": dtypes.bool_,
    "i8": dtypes.int8,
    "i16": dtypes.int16,
    "i32": dtypes.int32,
    "i64": dtypes.int64,
    "half": dtypes.float16,
    "bfloat": dtypes.bfloat16,
    "float": dtypes.float32,
    "double": dtypes.float64,
}
UNSIGNED: dict[DType, DType] = dict(zip(dtypes.SIGNED_INTEGERS, dtypes.UNSIGNED_INTEGERS))
SIGNED: dict[DType, DType] = {u: s for s, u in UNSIGNED.items()}


def signed(dtype: DType) -> DType:
    return SIGNED.get(dtype, dtype)


def unsigned(dtype: DType) -> DType:
    return UNSIGNED.get(dtype, dtype)
