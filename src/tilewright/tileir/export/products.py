"""Matrix products as ops of CUDA Tile IR, around what ``tileiras`` 13.5 and its ``ptxas`` compile wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.ir import core
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, int8, int16, int32, tfloat32
from tilewright.ir.ops import arith, control, linear, shape
from tilewright.tileir.export.arith import bitcast, convert
from tilewright.tileir.export.emitter import Emitter, scalar, signedness, tile_of
from tilewright.tileir.export.tiles import along
from tilewright.tileir.module import Value
from tilewright.tileir.types import I32, Tile, Type

_MOST_AXES = 3  # of the operands of a matrix product


def _batched(e: Emitter, value: core.Value) -> Value:
    """``value`` with at most one batch axis."""
    t = value.tile
    if t.rank <= _MOST_AXES:
        return e[value]
    batch = math.prod(t.shape[:-2])
    return e.make["reshape"](e, {"source": e[value]}, e.tile(t.with_shape((batch, *t.shape[-2:]))))


def _mma(e: Emitter, op: linear.Mma) -> Value:
    operands = {"lhs": _batched(e, op.x), "rhs": _batched(e, op.y), "acc": _batched(e, op.acc)}
    dtype, (rows, depth) = op.x.tile.element, op.x.tile.shape[-2:]
    few = dtype is tfloat32 and depth == _FEW
    if few:
        operands |= {"lhs": _with_zeros(e, operands["lhs"], -1), "rhs": _with_zeros(e, operands["rhs"], -2)}
    if rows >= _GROUP_ROWS and (dtype is tfloat32 or dtype.bitwidth <= 16) and (few or not _comes_one_by_one(op.x)):
        operands["lhs"] = _of_hidden_bits(e, operands["lhs"], dtype)
    result = operands["acc"].type
    found = _product(e, op, operands, result)
    return found if result == e.result(op) else e.make["reshape"](e, {"source": found}, e.result(op))


_FEW = 4  # elements along k, of which tileiras 13.5 gives rows 8 to 15 of an instruction those of rows 0 to 7


def _with_zeros(e: Emitter, value: Value, axis: int) -> Value:
    """A tile of ``tfloat32`` with as many zeros behind it along ``axis``."""
    assert isinstance(value.type, Tile)
    extents = value.type.shape
    axis += len(extents)
    wide = (*extents[:axis], 2 * extents[axis], *extents[axis + 1 :])
    sides = {"lhs": value, "rhs": e.constant(tfloat32, 0, extents)}
    return e.make["cat"](e, sides, tile_of(value.type.element, wide), dim=axis)


_GROUP_ROWS = 64  # of the left operand of an instruction of a warp group, which may be in four registers of each thread
_FAR = 10  # ops that are looked through


def _comes_one_by_one(value: core.Value, far: int = _FAR) -> bool | None:
    """Whether each number in ``value`` is loaded or computed by itself, and no other one repeats it; None where they
    are known when the kernel is compiled."""
    op = value.op
    if isinstance(op, (shape.Constant, shape.Iota)):
        return None
    if op is None or not far or not (op.spec.elementwise or isinstance(op, _MOVES)):
        return True
    of = [_comes_one_by_one(v, far - 1) for v in op.operands]
    if of == [None] * len(of):
        return None
    if isinstance(op, arith.Select) and of[0] is None:  # which of the two a register has is known
        return all(of[1:])
    return any(of) and not (isinstance(op, shape.Broadcast) and op.x.tile.shape != value.tile.shape)


_MOVES = (shape.Permute, shape.Broadcast, shape.Reshape)


def _of_hidden_bits(e: Emitter, value: Value, dtype: DType) -> Value:
    """``value`` with the last bit of a product of two numbers that follow each other, which is 0, added to each number.

    Of registers with equal numbers, which are the left operand of several instructions of a warp group, ``ptxas`` 13.5
    fills only one before the first instruction, and the three others behind it.
    """
    assert isinstance(value.type, Tile)
    extents = value.type.shape
    numbers = tile_of(I32, extents)
    rows, columns = (along(e, extents, len(extents) - back) for back in (2, 1))
    thrice = e.make["muli"](e, {"lhs": columns, "rhs": e.constant(int32, 3, extents)}, numbers, overflow="none")
    count = e.make["addi"](e, {"lhs": rows, "rhs": thrice}, numbers, overflow="none")
    following = e.make["addi"](e, {"lhs": count, "rhs": e.constant(int32, 1, extents)}, numbers, overflow="none")
    even = e.make["muli"](e, {"lhs": count, "rhs": following}, numbers, overflow="none")
    last = e.make["andi"](e, {"lhs": even, "rhs": e.constant(int32, 1, extents)}, numbers)
    bits = _INTEGERS[dtype.bytes]
    sides = {"lhs": bitcast(e, value, dtype, bits), "rhs": convert(e, last, int32, bits)}
    return bitcast(e, e.make["xori"](e, sides, tile_of(scalar(bits), extents)), bits, dtype)


_INTEGERS = {1: int8, 2: int16, 4: int32}


def _product(e: Emitter, op: linear.Mma, operands: dict[str, Value], result: Type) -> Value:
    x, y = op.x.tile.element, op.y.tile.element
    if x.is_floating:
        fast = op.fast_acc and e.minor >= 3  # leave to be less exact, which an older file cannot give
        return e.make["mmaf"](e, operands, result, fast_acc=fast)
    signs = {"signedness_lhs": signedness(x), "signedness_rhs": signedness(y)}
    if _begins_at_zero(e, op.acc):
        return e.make["mmai"](e, operands, result, **signs)
    # tileiras 13.5 saturates on Hopper where a sum leaves 32 bits, which the sum of a product alone does not. It makes
    # a product and an addition one, too, but not of what has all bits of both and what has those that they share.
    assert isinstance(result, Tile)
    found = e.make["mmai"](e, {**operands, "acc": e.constant(int32, 0, result.shape)}, result, **signs)
    terms = {"lhs": found, "rhs": operands["acc"]}
    halves = [e.make[name](e, terms, result) for name in ("ori", "andi")]
    return e.make["addi"](e, dict(zip(terms, halves)), result, overflow="none")


def _begins_at_zero(e: Emitter, value: core.Value) -> bool:
    """Whether ``value`` is a sum of products and of nothing else."""
    seen, pending = set[core.Value](), [value]
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        known, sources = e.splats.get(at), [at.op.acc] if isinstance(at.op, linear.Mma) else control.incoming(at)
        if known is not None:
            sources = [] if known[1] == 0 else None
        if sources is None:
            return False
        pending += sources
    return True


def _mma_scaled(e: Emitter, op: linear.MmaScaled) -> Value:
    operands = {"lhs": e[op.x], "rhs": e[op.y], "acc": e[op.acc]}
    operands |= {"lhs_scale": e[op.x_scale], "rhs_scale": e[op.y_scale]}
    return e.make["mmaf_scaled"](e, operands, e.result(op))


HANDLERS: dict[type[Op], Callable[[Emitter, Any], Value]] = {linear.Mma: _mma, linear.MmaScaled: _mma_scaled}
