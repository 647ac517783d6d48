"""Checks of elementwise operations, assumptions and subtiles, before they are computed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, Pointers
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.formatting import failure
from tilewright.ir.ops.arith import Abs, Add, Cast, Div, Mul, Neg, Rem, Shl, Shr, Sub
from tilewright.ir.ops.memory import Assert, Assume, AssumeBlocked, AssumeBounded, AssumeDivisible
from tilewright.ir.ops.shape import Extract, Insert, PtrDiff, PtrOffset
from tilewright.ir.semantics.conversion import to_float64
from tilewright.ir.types import PointerType, TileType
from tilewright.sanitizer.undefined import Marks

if TYPE_CHECKING:
    from tilewright.sanitizer.block import CheckedBlock

Check = Callable[["CheckedBlock", Any, list[Any], Marks], None]


def _integer(value: Value) -> DType | None:
    """The signed or unsigned integer dtype of ``value``; None for others."""
    type = value.type
    dtype = type.dtype if isinstance(type, TileType) else None
    return dtype if isinstance(dtype, DType) and dtype.is_integer else None


# -- overflow


def _add_overflows(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        r = a + b
    return np.asarray(((a ^ r) & (b ^ r)) < 0)


def _sub_overflows(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        r = a - b
    return np.asarray(((a ^ b) & (a ^ r)) < 0)


def _mul_overflows(a: Array, b: Array) -> Array:
    info = np.iinfo(a.dtype)
    if a.dtype.itemsize < 8:
        r = a.astype(np.int64) * b.astype(np.int64)
        return np.asarray((r < info.min) | (r > info.max))
    near = np.asarray(np.abs(a.astype(np.float64) * b.astype(np.float64)) > 2.0**62)
    if near.any():
        exact = a.astype(object) * b.astype(object)
        near = near & np.asarray((exact < info.min) | (exact > info.max), bool)
    return near


_BINARY: dict[type[Op], tuple[Callable[[Array, Array], Array], str]] = {
    Add: (_add_overflows, "+"),
    Sub: (_sub_overflows, "-"),
    Mul: (_mul_overflows, "*"),
}


def _binary(block: CheckedBlock, op: Add | Mul | Sub, operands: list[Any], marks: Marks) -> None:
    dtype = _integer(op.lhs)
    if not op.no_signed_wrap or dtype is None or not dtype.is_signed or block.reducing:
        return
    overflows, sign = _BINARY[type(op)]
    a, b = operands
    text = f"{{lhs}} {sign} {{rhs}} does not fit {dtype}"
    block.flag(op, f"{op.name}-overflow", overflows(a, b), text, {"lhs": a, "rhs": b}, marks)


def _least(block: CheckedBlock, op: Abs | Neg, operands: list[Any], marks: Marks) -> None:
    dtype = _integer(op.x)
    if not op.no_signed_wrap or dtype is None or not dtype.is_signed:
        return
    (x,) = operands
    text = "-({x})" if isinstance(op, Neg) else "|{x}|"
    block.flag(op, f"{op.name}-overflow", x == dtype.min, f"{text} does not fit {dtype}", {"x": x}, marks)


# -- division, shifts, conversion


def _divide(block: CheckedBlock, op: Div | Rem, operands: list[Any], marks: Marks) -> None:
    dtype = _integer(op.lhs)
    if dtype is None:
        return
    a, b = operands
    values = {"lhs": a, "rhs": b}
    what = "division" if isinstance(op, Div) else "remainder"
    block.flag(op, "division-by-zero", b == 0, f"{what} of {{lhs}} by zero", values, marks)
    if dtype.is_signed:
        wrong = (a == dtype.min) & (b == -1)
        block.flag(op, "div-overflow", wrong, f"{{lhs}} / {{rhs}} does not fit {dtype}", values, marks)


def _shift(block: CheckedBlock, op: Shl | Shr, operands: list[Any], marks: Marks) -> None:
    dtype = _integer(op.lhs)
    if dtype is None:
        return
    a, b = operands
    values = {"lhs": a, "rhs": b}
    if dtype.is_signed:
        block.flag(op, "shift-negative", b < 0, "shift by {rhs}, which is negative", values, marks)
    width = f"shift by {{rhs}}, but {dtype} has {dtype.bitwidth} bits"
    block.flag(op, "shift-too-wide", b >= dtype.bitwidth, width, values, marks)


def _cast(block: CheckedBlock, op: Cast, operands: list[Any], marks: Marks) -> None:
    target, source = op.dtype, op.x.tile.element
    if op.saturating or not (source.is_floating and target.is_integer):
        return
    (x,) = operands
    with np.errstate(all="ignore"):
        whole = np.trunc(to_float64(x, source))
    # The bounds are powers of two, hence exact in float64, except for the largest value itself.
    wrong = ~((whole >= float(target.min)) & (whole < float(target.max + 1)))
    block.flag(op, "float-to-integer", np.asarray(wrong), f"{{x}} does not fit {target}", {"x": x}, marks)


# -- pointers


def _offset(block: CheckedBlock, op: PtrOffset, operands: list[Any], marks: Marks) -> None:
    if not op.in_array:
        return
    pointers, offset = operands
    dtype = op.ptr.tile.dtype
    assert isinstance(dtype, PointerType)
    size = dtype.pointee.bytes if dtype.pointee is not None else 1
    address = pointers.address + offset.astype(np.int64) * size
    low, high = block.launch.limits(pointers)
    wrong = np.asarray((address < low) | (address > high))
    if not wrong.any():
        block.out_of_bounds_pointers.came_back(op.ptr)
        return
    i = int(np.flatnonzero(wrong)[0])
    owner = int(np.broadcast_to(pointers.allocation, wrong.shape).reshape(-1)[i])
    place = block.launch.place(owner, int(np.asarray(address).reshape(-1)[i]), size)
    found = op, "pointer-arithmetic", wrong, "the pointer leaves its array", {"offset": offset}, marks
    block.out_of_bounds_pointers.left(op, functools.partial(block.flag, *found, place=place))


def _difference(block: CheckedBlock, op: PtrDiff, operands: list[Any], marks: Marks) -> None:
    left, right = operands
    wrong = np.asarray(left.allocation != right.allocation) | (block.part(left) != block.part(right))
    if not wrong.any():
        return
    i = int(np.flatnonzero(wrong)[0])
    names = [block.launch.name(int(np.broadcast_to(p.allocation, wrong.shape).reshape(-1)[i])) for p in (left, right)]
    message = f"the pointers are to different arrays, {names[0]} and {names[1]}"
    if names[0] == names[1]:
        message = f"the pointers are to different arrays in {names[0]}"
    values = {"lhs": left.address, "rhs": right.address}
    block.flag(op, "pointer-difference", wrong, message, values, marks)


# -- subtiles and promises


def _subtile(block: CheckedBlock, op: Extract | Insert, operands: list[Any], marks: Marks) -> None:
    whole = op.x.tile.shape
    part = op.shape if isinstance(op, Extract) else op.value.tile.shape
    indices = operands[1:] if isinstance(op, Extract) else operands[2:]
    for axis, (n, m, index) in enumerate(zip(whole, part, indices)):
        count = n // m
        if not 0 <= int(index) < count:
            message = f"index {{index}} along axis {axis}, where the tile has {count} subtile{'s' * (count != 1)}"
            block.flag(op, "extract-out-of-range", np.asarray(True), message, {"index": index}, ())
            return


def _numbers(x: Any) -> Array:
    return np.asarray(x.address if isinstance(x, Pointers) else x)


def _divisible(block: CheckedBlock, op: AssumeDivisible, operands: list[Any], marks: Marks) -> None:
    (value,) = operands
    if isinstance(value, Pointers) and (value.allocation == UNKNOWN_ALLOCATION).all() and (value.address == 0).all():
        return
    x = _numbers(value)
    divisor, every, along = (op.attributes[k] for k in ("divisor", "every", "along"))
    wrong = np.asarray(x % divisor != 0)
    message = f"{{x}} is no multiple of {divisor}"
    if every is not None:
        first = np.zeros(x.shape, bool)
        first[(slice(None),) * along + (slice(None, None, every),)] = True
        if isinstance(value, Pointers):
            pointee = op.x.tile.pointee.bytes
        else:
            pointee = 1
        start = np.repeat(np.take(x, range(0, x.shape[along], every), along), every, along)
        start = start[(slice(None),) * along + (slice(0, x.shape[along]),)]
        step = np.arange(x.shape[along]) % every * pointee
        runs = x != start + step.reshape((-1,) + (1,) * (x.ndim - along - 1))
        wrong = (wrong & first) | runs
        message = f"{{x}} breaks the promise of runs of {every} consecutive values that start at multiples of {divisor}"
    block.flag(op, "assumption", wrong, message, {"x": x}, marks)


def _bounded(block: CheckedBlock, op: AssumeBounded, operands: list[Any], marks: Marks) -> None:
    (x,) = operands
    lower, upper = op.lower, op.upper
    if lower is not None:
        block.flag(op, "assumption", x < lower, f"{{x}} is below the promised {lower}", {"x": x}, marks)
    if upper is not None:
        block.flag(op, "assumption", x > upper, f"{{x}} is above the promised {upper}", {"x": x}, marks)


def _blocked(block: CheckedBlock, op: AssumeBlocked, operands: list[Any], marks: Marks) -> None:
    x = _numbers(operands[0])
    first = x
    for axis, n in enumerate(op.shape):
        positions = np.arange(x.shape[axis]) // n * n
        first = np.take(first, positions, axis)
    shape = "x".join(map(str, op.shape))
    message = f"{{x}} differs from {{first}}, the first element of its promised {shape} block"
    block.flag(op, "assumption", x != first, message, {"x": x, "first": first}, marks)


_NAMES = {
    "unchecked-bounds": ("index", "last"),
    "out-of-bounds": ("index", "last"),
    "slice-bounds": ("start", "stop", "extent"),
}


def _assume(block: CheckedBlock, op: Assume, operands: list[Any], marks: Marks) -> None:
    condition = operands[0]
    if condition.all():
        return
    split = 1 + op.segments[1]
    values, index = operands[1:split], operands[split:]
    names = _NAMES.get(op.kind, tuple(f"value{i}" for i in range(len(values))))
    names = ("offset", "first", "last") if len(names) < len(values) else names
    message = op.message
    for name in names:
        message = message.replace("{}", "{" + name + "}", 1)
    numbers = {name: _numbers(v) for name, v in zip(names, values)}
    place = None
    if index:
        first = int(np.flatnonzero(~condition)[0])
        at = [int(np.broadcast_to(i, condition.shape).reshape(-1)[first]) for i in index]
        place = block.launch.indexed(op.argument, tuple(at))
    block.flag(op, op.kind, ~condition, message, numbers, marks, place=place)


def _assert(block: CheckedBlock, op: Assert, operands: list[Any], marks: Marks) -> None:
    block.require_defined(op, op.condition, "an assertion depends on it")
    if operands[0].all():
        return
    block.flag(op, "failed-assertion", ~operands[0], failure(op.message, (), 0, ()), {}, marks)
    operands[0] = np.ones_like(operands[0])


CHECKS: dict[type[Op], Check] = {
    **dict.fromkeys(_BINARY, _binary),
    Neg: _least,
    Abs: _least,
    Div: _divide,
    Rem: _divide,
    Shl: _shift,
    Shr: _shift,
    Cast: _cast,
    PtrOffset: _offset,
    PtrDiff: _difference,
    Extract: _subtile,
    Insert: _subtile,
    AssumeDivisible: _divisible,
    AssumeBounded: _bounded,
    AssumeBlocked: _blocked,
    Assume: _assume,
    Assert: _assert,
}


def can_be_undefined(op: Op) -> bool:
    """Whether ``op`` is one that ``CHECKS`` looks at in a reduction, which sums and products of it have been before."""
    has_integers = any(_integer(v) is not None for v in (*op.operands, *op.results))
    return has_integers and type(op) in CHECKS and type(op) not in _BINARY


def born(op: Op, operands: Sequence[Array], result: Array, test: Callable[[Array], Array]) -> Array | None:
    """Where ``test`` holds for a float result though for no operand that it depends on; None when that is nowhere."""
    found = test(result)
    if not found.any():
        return None
    for x, value in zip(operands, op.operands):
        if value.tile.element.is_floating:
            had = test(x)
            found = found & ~(had if op.spec.elementwise else np.asarray(had.any()))
    return found if found.any() else None
