"""Element types of arrays and tiles (data model, "Data Types").

Signedness is part of the type, so the IR needs one ``div`` rather than a signed and an unsigned one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar

import ml_dtypes
import numpy as np


class Kind(enum.Enum):
    """What arithmetic a dtype supports; the order of the first four is the promotion order."""

    BOOL = "bool"
    UINT = "uint"
    INT = "int"
    FLOAT = "float"
    RESTRICTED = "restricted"  # a storage and mma format: numeric, but without general arithmetic


class DType:
    """The type of one element. Immutable and interned: compare with ``is`` or ``==``.

    Attributes: ``name`` (``"float32"``), ``short`` (``"f32"``, the spelling of the IR text form),
    ``bitwidth``, ``kind``, and ``storage``, the NumPy dtype that holds one element in host memory.

    >>> ct.bfloat16.short, ct.bfloat16.bitwidth, ct.float32.storage
    ('bf16', 16, dtype('float32'))
    """

    __slots__ = (
        "bitwidth", "exponent_bits", "is_arithmetic", "is_bool", "is_float", "is_floating", "is_integer",
        "is_restricted", "kind", "mantissa_bits", "name", "short", "storage",
    )  # fmt: skip

    name: str
    short: str
    bitwidth: int
    kind: Kind
    storage: np.dtype[Any]
    exponent_bits: int
    mantissa_bits: int
    is_bool: bool
    is_integer: bool  # signed and unsigned integers, not bool
    is_float: bool  # the floating-point types with arithmetic: float16, bfloat16, float32, float64
    is_restricted: bool  # the formats that can be stored, cast and multiplied in ``mma`` only (tf32, fp8, fp4)
    is_floating: bool  # every floating-point format, restricted or not
    is_arithmetic: bool

    def __init__(self) -> None:
        raise TypeError("dtypes cannot be constructed; use one of the predefined ones, such as float32")

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def is_signed(self) -> bool:
        """True for signed integers and every floating-point format that has a sign bit."""
        return self.kind is Kind.INT or (self.is_floating and self.short not in ("f8e8m0fnu", "f8e5m3fnu"))

    @property
    def bytes(self) -> int:
        """Size of one element in memory. float4 elements take one byte each outside packed arrays."""
        return self.storage.itemsize

    @property
    def min(self) -> int:
        """Smallest value of a bool or integer dtype."""
        if self.is_floating:
            raise TypeError(f"{self.name} is not an integer dtype")
        return -(1 << (self.bitwidth - 1)) if self.kind is Kind.INT else 0

    @property
    def max(self) -> int:
        """Largest value of a bool or integer dtype."""
        if self.is_floating:
            raise TypeError(f"{self.name} is not an integer dtype")
        if self.is_bool:
            return 1
        return (1 << (self.bitwidth - (self.kind is Kind.INT))) - 1

    # What ``dtype(value)`` does, in a module that may know of tiles.
    convert: ClassVar[Callable[..., Any]]

    def __call__(self, *values: Any) -> Any:
        return DType.convert(self, *values)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_from_name, (self.name,))


_BY_NAME: dict[str, DType] = {}
_BY_SHORT: dict[str, DType] = {}


def _make(
    name: str, short: str, bitwidth: int, kind: Kind, storage: Any, exponent_bits: int = 0, mantissa_bits: int = 0
) -> DType:
    dtype = object.__new__(DType)
    dtype.name, dtype.short, dtype.bitwidth, dtype.kind = name, short, bitwidth, kind
    dtype.storage = np.dtype(storage)
    dtype.exponent_bits, dtype.mantissa_bits = exponent_bits, mantissa_bits
    dtype.is_bool, dtype.is_integer = kind is Kind.BOOL, kind in (Kind.INT, Kind.UINT)
    dtype.is_float, dtype.is_restricted = kind is Kind.FLOAT, kind is Kind.RESTRICTED
    dtype.is_floating, dtype.is_arithmetic = kind in (Kind.FLOAT, Kind.RESTRICTED), kind is not Kind.RESTRICTED
    _BY_NAME[name] = _BY_SHORT[short] = dtype
    return dtype


bool_ = _make("bool_", "i1", 8, Kind.BOOL, np.bool_)
uint8 = _make("uint8", "u8", 8, Kind.UINT, np.uint8)
uint16 = _make("uint16", "u16", 16, Kind.UINT, np.uint16)
uint32 = _make("uint32", "u32", 32, Kind.UINT, np.uint32)
uint64 = _make("uint64", "u64", 64, Kind.UINT, np.uint64)
int8 = _make("int8", "i8", 8, Kind.INT, np.int8)
int16 = _make("int16", "i16", 16, Kind.INT, np.int16)
int32 = _make("int32", "i32", 32, Kind.INT, np.int32)
int64 = _make("int64", "i64", 64, Kind.INT, np.int64)
float16 = _make("float16", "f16", 16, Kind.FLOAT, np.float16, 5, 10)
bfloat16 = _make("bfloat16", "bf16", 16, Kind.FLOAT, ml_dtypes.bfloat16, 8, 7)
float32 = _make("float32", "f32", 32, Kind.FLOAT, np.float32, 8, 23)
float64 = _make("float64", "f64", 64, Kind.FLOAT, np.float64, 11, 52)
# tf32 lives in a 32-bit container; its values are float32 values with the low 13 mantissa bits zero.
tfloat32 = _make("tfloat32", "tf32", 32, Kind.RESTRICTED, np.float32, 8, 10)
float8_e4m3fn = _make("float8_e4m3fn", "f8e4m3fn", 8, Kind.RESTRICTED, ml_dtypes.float8_e4m3fn, 4, 3)
float8_e5m2 = _make("float8_e5m2", "f8e5m2", 8, Kind.RESTRICTED, ml_dtypes.float8_e5m2, 5, 2)
float8_e8m0fnu = _make("float8_e8m0fnu", "f8e8m0fnu", 8, Kind.RESTRICTED, ml_dtypes.float8_e8m0fnu, 8, 0)
# NumPy has no 5-exponent, 3-mantissa unsigned format: its bits are kept in a uint8.
float8_e5m3fnu = _make("float8_e5m3fnu", "f8e5m3fnu", 8, Kind.RESTRICTED, np.uint8, 5, 3)
float4_e2m1fn = _make("float4_e2m1fn", "f4e2m1fn", 4, Kind.RESTRICTED, ml_dtypes.float4_e2m1fn, 2, 1)

ALL_DTYPES: tuple[DType, ...] = tuple(_BY_NAME.values())
SIGNED_INTEGERS: tuple[DType, ...] = (int8, int16, int32, int64)
UNSIGNED_INTEGERS: tuple[DType, ...] = (uint8, uint16, uint32, uint64)
INTEGERS: tuple[DType, ...] = UNSIGNED_INTEGERS + SIGNED_INTEGERS
FLOATS: tuple[DType, ...] = (float16, bfloat16, float32, float64)
RESTRICTED_FLOATS: tuple[DType, ...] = tuple(d for d in ALL_DTYPES if d.is_restricted)


def with_article(noun: object) -> str:
    """``noun`` as messages name one: an int32, a uint8."""
    return f"{'an' if str(noun).startswith('int') else 'a'} {noun}"


def dtype_from_name(name: str) -> DType:
    """The dtype called ``name`` (``"float32"``). KeyError when there is none."""
    return _BY_NAME[name]


def dtype_from_short(short: str) -> DType:
    """The dtype whose IR spelling is ``short`` (``"f32"``). KeyError when there is none."""
    return _BY_SHORT[short]
