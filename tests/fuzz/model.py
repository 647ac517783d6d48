"""NumPy models of the operations that random programs use, written from the documents and independent of the backends.

A model gets NumPy arrays of the operands' dtypes and returns one of the result's. Only operations whose every bit the
documents fix have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "bool_": np.dtype(np.bool_),
    **{f"{u}int{n}": np.dtype(f"{u}int{n}") for u in ("", "u") for n in (8, 16, 32, 64)},
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
ALL = ("bool_", *INTEGERS, *FLOATS)


def bits(dtype: str) -> int:
    return 8 * int(DTYPES[dtype].itemsize)


def promoted(x: str, y: str) -> str | None:
    """The dtype of an operation on two typed operands, or None where they do not go together."""
    if x == y:
        return x
    for a, b in ((x, y), (y, x)):
        if a == "bool_":
            return b
        if a in INTEGERS and b in FLOATS:
            return b
    if (x in SIGNED) == (y in SIGNED) and x in INTEGERS and y in INTEGERS:
        return max(x, y, key=bits)
    if x in FLOATS and y in FLOATS and bits(x) != bits(y):
        return max(x, y, key=bits)
    return None


def convert(x: Array, dtype: str) -> Array | None:
    """``astype`` where NumPy rounds once; None where it may round twice. Floats become integers only in range."""
    source, target = x.dtype, DTYPES[dtype]
    with np.errstate(all="ignore"):
        if source == target:
            return x
        if dtype == "bool_":
            return np.asarray(x != 0)
        if dtype not in FLOATS:
            return np.asarray(x).astype(target) if source.kind in "biu" else _truncated(x, target)
        if dtype == "float64":
            return x.astype(target)
        if source.kind in "biu":
            wide = x.astype(np.float64)
            if source.itemsize == 8 and not np.all(np.abs(wide) < 2.0**53):
                return x.astype(np.float32) if dtype == "float32" else None
            return _narrow(wide, dtype)
        return _narrow(x.astype(np.float64), dtype)


def _truncated(x: Array, target: Any) -> Array:
    return np.trunc(x.astype(np.float64)).astype(np.int64).astype(target)


def _narrow(x: Array, dtype: str) -> Array | None:
    """float64 to a narrower dtype. ml_dtypes rounds to float32 on the way, which is once where float32 holds the value."""
    if dtype != "bfloat16":
        return x.astype(DTYPES[dtype])
    single = x.astype(np.float32)
    if not np.all((single.astype(np.float64) == x) | np.isnan(x)):
        return None
    return single.astype(DTYPES[dtype])


def _rounded(op: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """An arithmetic operation on two arrays of one dtype; those of 16 bits are computed in float32, which rounds as if once."""

    def model(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
                return np.asarray(op(x.astype(np.float32), y.astype(np.float32))).astype(x.dtype)
            return np.asarray(op(x, y))

    return model


def _floordiv(x: Array, y: Array) -> Array:
    return np.asarray(x // y)


def _mod(x: Array, y: Array) -> Array:
    return np.asarray(x % y)


def _cdiv(x: Array, y: Array) -> Array:
    """Rounds up; divisors are positive and small."""
    return np.asarray(x // y + (x % y != 0)).astype(x.dtype)


ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": _rounded(np.add),
    "-": _rounded(np.subtract),
    "*": _rounded(np.multiply),
    "/": _rounded(np.true_divide),
    "//": _floordiv,
    "%": _mod,
    "cdiv": _cdiv,
}
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
BITWISE: dict[str, Callable[[Array, Array], Array]] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}


def shift_left(x: Array, count: Array) -> Array:
    return np.asarray(np.left_shift(x, count)).astype(x.dtype)


def shift_right(x: Array, count: Array) -> Array:
    return np.asarray(np.right_shift(x, count)).astype(x.dtype)


def extremum(largest: bool, propagate: bool) -> Callable[[Array, Array], Array]:
    """``maximum`` or ``minimum``: NaN loses, or wins with ``propagate``; -0 is less than +0."""

    def model(x: Array, y: Array) -> Array:
        x, y = np.broadcast_arrays(x, y)
        if x.dtype.kind in "biu":
            return np.asarray(np.maximum(x, y) if largest else np.minimum(x, y))
        a, b = x.astype(np.float64), y.astype(np.float64)
        with np.errstate(all="ignore"):
            first = (a > b) if largest else (a < b)
            tie = a == b
            first |= tie & (np.signbit(b) if largest else np.signbit(a))
        if propagate:
            first = np.where(np.isnan(a), True, np.where(np.isnan(b), False, first))
        else:
            first = np.where(np.isnan(b), True, np.where(np.isnan(a), False, first))
        return np.where(first, x, y)

    return model


def reduced(x: Array, axis: int | None, combine: Callable[[Array, Array], Array], keepdims: bool) -> Array:
    """A reduction along one axis or all, by ``combine`` from left to right."""
    moved = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    value = moved[0]
    for item in moved[1:]:
        value = combine(value, item)
    value = np.asarray(value, dtype=x.dtype)
    if not keepdims:
        return value
    return value.reshape((1,) * x.ndim) if axis is None else np.expand_dims(value, axis)


def scanned(x: Array, axis: int, combine: Callable[[Array, Array], Array], reverse: bool) -> Array:
    moved = np.moveaxis(x, axis, 0)
    moved = moved[::-1] if reverse else moved
    rows = [moved[0]]
    for item in moved[1:]:
        rows.append(np.asarray(combine(rows[-1], item)).astype(x.dtype))
    result = np.stack(rows)
    return np.moveaxis(result[::-1] if reverse else result, 0, axis)


def wrapping(op: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def model(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(op(x, y))

    return model


def first_index(x: Array, axis: int | None, largest: bool) -> Array:
    """``argmax`` or ``argmin`` of numbers without NaN: the smallest index of ties, where zeros of either sign tie."""
    found = (np.argmax if largest else np.argmin)(x, axis=axis)
    return np.asarray(found).astype(np.int32)


def padded(array: Array, index: tuple[int, ...], shape: tuple[int, ...], padding: Any, order: tuple[int, ...]) -> Array:
    """The tile of a dense load; what is outside of the array is ``padding``."""
    tile = np.full(shape, padding, dtype=array.dtype)
    positions = np.meshgrid(*[np.arange(n) + i * n for i, n in zip(index, shape, strict=True)], indexing="ij")
    return _take(np.transpose(array, order), positions, tile)


def gathered(array: Array, indices: list[Array], mask: Array | None, padding: Any) -> Array:
    indices = list(np.broadcast_arrays(*indices))
    tile = np.full(indices[0].shape, padding, dtype=array.dtype)
    return _take(array, [i.astype(np.int64) for i in indices], tile, mask)


def _take(array: Array, positions: list[Array], tile: Array, mask: Array | None = None) -> Array:
    inside = np.ones(tile.shape, dtype=bool) if mask is None else np.broadcast_to(mask, tile.shape).copy()
    for p, n in zip(positions, array.shape, strict=True):
        inside &= (p >= 0) & (p < n)
    if not positions:
        return array.copy() if inside else tile
    tile[inside] = array[tuple(p[inside] for p in positions)]
    return tile


def put(array: Array, index: tuple[int, ...], tile: Array, order: tuple[int, ...]) -> None:
    """A dense store: what is outside of the array is left out."""
    view = np.transpose(array, order)
    spans = [(i * n, min((i + 1) * n, size)) for i, n, size in zip(index, tile.shape, view.shape, strict=True)]
    if all(low < high for low, high in spans):
        view[tuple(slice(*s) for s in spans)] = tile[tuple(slice(0, high - low) for low, high in spans)]
