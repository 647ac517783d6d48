"""How elements are held in memory and in registers.

======================  ====================  =================================================
dtype                   in memory (storage)   in a register
======================  ====================  =================================================
bool                    i8, 0 or 1            i1
integers                iN                    iN (signedness lives in the dtype)
float32, float64        float, double         the same
float16, bfloat16       i16, the bits         float, a value of the narrow format
tfloat32                float                 float, a value of the narrow format
float8_*, float4        i8, the bits          float, a value of the narrow format
pointers                i64                   i64
======================  ====================  =================================================

Keeping narrow floats as float32 values makes a chain of float16 operations cost one rounding each, with
conversions at loads and stores only. A vector has ``lanes`` elements of these types; ``lanes=None`` is a scalar.
"""

from __future__ import annotations

import ctypes

from llvmlite import ir

from tilewright.ir.dtypes import DType
from tilewright.ir.semantics import constant_array
from tilewright.ir.semantics.conversion import to_float64
from tilewright.ir.types import ElementType, PointerType

Number = int | float

I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()


def with_lanes(scalar: ir.Type, lanes: int | None) -> ir.Type:
    return scalar if lanes is None else ir.VectorType(scalar, lanes)


def scalar_of(type_: ir.Type) -> ir.Type:
    return type_.element if isinstance(type_, ir.VectorType) else type_


def resized(builder: ir.IRBuilder, x: ir.Value, scalar: ir.IntType, *, signed: bool = False) -> ir.Value:
    """Integers in the width of ``scalar``: cut off, or extended by zeros or, if ``signed``, by their sign."""
    width, lanes = scalar_of(x.type).width, x.type.count if isinstance(x.type, ir.VectorType) else None
    change = builder.trunc if scalar.width < width else builder.sext if signed else builder.zext
    return change(x, with_lanes(scalar, lanes))


def register_type(dtype: ElementType, lanes: int | None = None) -> ir.Type:
    """The LLVM type of a value of ``dtype`` in a register."""
    if isinstance(dtype, PointerType):
        scalar: ir.Type = I64
    elif dtype.is_bool:
        scalar = I1
    elif dtype.is_integer:
        scalar = ir.IntType(dtype.bitwidth)
    else:
        scalar = F64 if dtype.short == "f64" else F32
    return with_lanes(scalar, lanes)


def storage_type(dtype: ElementType, lanes: int | None = None) -> ir.Type:
    """The LLVM type of a value of ``dtype`` in memory."""
    if isinstance(dtype, PointerType):
        scalar: ir.Type = I64
    elif dtype.is_floating and dtype.bytes >= 4:
        scalar = F64 if dtype.bytes == 8 else F32
    else:
        scalar = ir.IntType(8 * dtype.bytes)
    return with_lanes(scalar, lanes)


class Splat(ir.Constant):  # type: ignore[misc]
    """A constant whose lanes are all ``value``, printed in LLVM's short form for that."""

    def __init__(self, type_: ir.Type, value: Number) -> None:
        scalar = scalar_of(type_)
        if isinstance(scalar, ir.IntType):
            text = str(int(value) & ((1 << scalar.width) - 1))
        elif scalar == F32:
            text = scalar.format_constant(ctypes.c_float(value).value)  # infinite beyond the range
        else:
            text = scalar.format_constant(float(value))
        # ir.Constant would spell out every lane of a vector.
        self.type = type_
        self.constant = f"splat ({scalar} {text})" if isinstance(type_, ir.VectorType) else text
        self.value = value

    def _get_reference(self) -> str:
        return self.constant


def constant(dtype: ElementType, value: Number, lanes: int | None = None) -> ir.Constant:
    """``value`` as a register of ``dtype``: integers wrap, floats are rounded to nearest, ties to even."""
    if isinstance(dtype, DType) and dtype.is_bool:
        value = bool(value)
    elif isinstance(dtype, DType) and dtype.is_floating:
        value = float(to_float64(constant_array(value, dtype, ()), dtype))
    return Splat(register_type(dtype, lanes), value)
