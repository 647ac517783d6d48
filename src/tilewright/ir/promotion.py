"""Common dtypes, implicit casts and broadcasting (data model, "Arithmetic Promotion").

A loosely typed constant is a Python bool, int or float.
"""

from __future__ import annotations

from typing import Union

from tilewright.ir.dtypes import DType, Kind, bool_, float32, int32, int64, uint64

Number = Union[bool, int, float]
_CATEGORY = {Kind.BOOL: 0, Kind.UINT: 1, Kind.INT: 1, Kind.FLOAT: 2, Kind.RESTRICTED: 2}


def category(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floating-point types."""
    return _CATEGORY[dtype.kind]


def loose_dtype(number: Number) -> DType:
    """The dtype that a loosely typed constant takes on its own."""
    if isinstance(number, bool):
        return bool_
    if isinstance(number, float):
        return float32
    if int32.min <= number <= int32.max:
        return int32
    return int64 if number <= int64.max else uint64


def common_dtype(x: DType, y: DType) -> DType | None:
    """The dtype to which two typed operands are promoted, or None when there is none."""
    if x is y:
        return x
    if x.is_restricted or y.is_restricted:
        return None
    if category(x) != category(y):
        return x if category(x) > category(y) else y
    if x.is_integer and x.kind is not y.kind:
        return None
    if x.bitwidth == y.bitwidth:
        return None  # float16 and bfloat16
    return x if x.bitwidth > y.bitwidth else y


def common_with_number(x: DType, number: Number) -> DType | None:
    """The dtype to which a typed operand and a constant are promoted; None when the constant does not fit."""
    loose = loose_dtype(number)
    if category(loose) > category(x):
        return loose
    if category(loose) < category(x):
        return x
    return x if fits(number, x) else None


def fits(number: Number, dtype: DType) -> bool:
    """Whether a constant is in the range of ``dtype``; every float fits every floating-point type."""
    return dtype.is_floating or (isinstance(number, int) and dtype.min <= number <= dtype.max)


def casts_implicitly(source: DType, target: DType) -> bool:
    """Whether a store, padding or update converts ``source`` to ``target`` by itself."""
    return common_dtype(source, target) is target


def number_casts_implicitly(number: Number, target: DType) -> bool:
    """Whether a constant becomes ``target`` by itself: its category is not above that of ``target``, and it fits."""
    if target.is_bool:
        return number in (0, 1) and not isinstance(number, float)
    return category(loose_dtype(number)) <= category(target) and fits(number, target)


def broadcast_shapes(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape by NumPy's rules, or None when there is none."""
    rank = max(len(x), len(y))
    result = []
    for m, n in zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y):
        if m != n and 1 not in (m, n):
            return None
        result.append(n if m == 1 else m)
    return tuple(result)
