"""An online softmax that a loop computes is that of each thread until the loop has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.layouts import REGISTER, log2
from tilewright.ir.ops.arith import Cmp, Max, Min, Mul, Select, Sub
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.floats import Exp, Exp2
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat, ThreadReduce
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.shape import Constant, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_block, replace_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.partial_sums import PartialSum, ctas_of, of_all_threads, reduction, sums_of, whole

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class PartialMaxima(InPlacePass):
    """Lets loops carry, in place of the largest number so far and of a sum of exponentials that is scaled as that
    changes, those of what each thread has seen; threads exchange them when the loop has ended.

    A thread may have seen nothing but -inf when others have not: its exponentials are then zero. That all have, after
    the first iteration, makes NaN of the sum, as exponentials of the difference do. In kernels without MMA ops. Runs
    when tiles have layouts, before reductions are lowered.
    """

    name: ClassVar[str] = "partial-maxima"

    def change(self, function: Function) -> bool:
        if function.ops_of((GpuMma, Wgmma)):
            return False
        loops = {op: found for op in function.ops_of(For) if (found := _softmax_of(op)) is not None}
        return replace_ops(function, loops, lambda r, loop, found, b: _Rebuilt(r, loop, found, b).results)


@dataclass(frozen=True)
class _Softmax:
    """Which carried value of a loop is the ``largest`` one so far, what makes the next one, and the sum that is
    scaled: by ``factor``, an exponential of a ``change``. ``shifted`` is what the exponentials that are summed are of,
    and ``gone`` all ops that have others in their place."""

    largest: int
    maximum: Max
    reduced: Reduce
    sum: PartialSum
    factor: Exp | Exp2
    change: Sub
    shifted: Sub
    gone: frozenset[Op]


def _softmax_of(loop: For) -> _Softmax | None:
    sums = sums_of(loop)
    return _of_sum(loop, sums[0]) if len(sums) == 1 else None


def _of_sum(loop: For, s: PartialSum) -> _Softmax | None:
    exponentials = s.reduced.values[0].op
    if s.scaled is None or constant_of(loop.inits[s.index]) != 0 or s.parts.element is not float32:
        return None
    (factor,) = (v.op for v in s.scaled.operands if v is not loop.carried[s.index])
    if not isinstance(factor, (Exp, Exp2)) or not isinstance(exponentials, type(factor)):
        return None
    change, shifted = factor.x.op, exponentials.x.op
    if not isinstance(change, Sub) or not isinstance(shifted, Sub):
        return None
    largest = next((i for i, v in enumerate(loop.carried) if v is change.lhs), None)
    wide, maximum = shifted.rhs.op, change.rhs.op
    if largest is None or change.rhs is not loop.next_values[largest]:
        return None
    if not isinstance(wide, (BroadcastDistributed, Splat)):
        return None
    if not isinstance(maximum, Max) or change.lhs not in maximum.operands or wide.x is not maximum.result:
        return None
    (other,) = (v for v in maximum.operands if v is not change.lhs)
    reduced, between = reduction(other, Max)
    if (
        ctas_of(between) != s.ctas
        or reduced is None
        or reduced.axis != s.reduced.axis
        or reduced.values[0] is not shifted.lhs
    ):
        return None
    alone = {
        change.lhs: {maximum, change}, maximum.result: {change, wide, loop.body.terminator}, wide.result: {shifted},
        shifted.result: {exponentials}, change.result: {factor}, factor.result: {s.scaled},
        exponentials.result: {s.reduced},
    }  # fmt: skip
    if any(set(value.users) != users for value, users in alone.items()):
        return None
    gone = frozenset({change, factor, wide, shifted, *between, *s.ops})
    return _Softmax(largest, maximum, reduced, s, factor, change, shifted, gone)


class _Rebuilt:
    """A loop with parts of threads, which takes the place of one, and its ``results``."""

    def __init__(self, rewriter: Rewriter, loop: For, found: _Softmax, b: Builder) -> None:
        self.rewriter, self.loop, self.found, self.b = rewriter, loop, found, b
        self.axis, self.parts = found.sum.reduced.axis, found.sum.parts
        self.shape = loop.carried[found.largest].tile.shape
        self.lowest = b.emit(Constant, value=_LOWEST, type=self.parts)
        inits = rewriter.all(loop.inits)
        inits[found.largest] = of_all_threads(inits[found.largest], self.parts, b)
        inits[found.sum.index] = b.emit(Constant, value=0.0, type=self.parts)
        inits.append(b.emit(Constant, value=float("inf"), type=self.parts))
        body = Block()
        for old, t in zip(loop.body.args, [loop.body.args[0].type, *(v.type for v in inits)]):
            rewriter.values[old] = body.add_arg(t, old.name)
        least = body.add_arg(self.parts)
        with b.at(body):
            for op in loop.body.ops:
                b.loc = op.loc
                self._op(op, least)
        made = b.emit_op(For, *rewriter.all(loop.bounds), inits, body=body)
        self.results = self._whole(list(made.results))

    def _of_thread(self, reduced: Reduce, values: list[Value]) -> Value:
        """The combination of what a thread has of the tile that is ``reduced``."""
        if values[0].type == self.parts:
            return values[0]
        return self.b.emit_op(ThreadReduce, values, axis=self.axis, body=clone_block(reduced.body, {})).results[0]

    def _of_all(self, reduced: Reduce, parts: Value) -> Value:
        return whole(reduced, parts, self.shape, self.found.sum.ctas, self.b)

    def _or_nan(self, total: Value, first: Value) -> Value:
        """The ``total``, or NaN where the largest number after the ``first`` iteration was none."""
        none, nan = (self.b.emit(Constant, value=x, type=total.tile) for x in (float("-inf"), float("nan")))
        return self.b.emit(Select, self.b.emit(Cmp, first, none, predicate=CmpPredicate.EQ), nan, total)

    def _op(self, op: Op, least: Value) -> None:
        found, b, values = self.found, self.b, self.rewriter.values
        before = values[self.loop.carried[found.largest]]
        if op is found.maximum:
            seen = self._of_thread(found.reduced, self.rewriter.all(found.reduced.values))
            values[op.result] = b.emit(Max, before, seen, **found.maximum.attributes)
            self.least = b.emit(Min, least, values[op.result])
            self.reference = b.emit(Max, values[op.result], self.lowest)
        elif op is found.shifted:
            values[op.result] = b.emit(Sub, self.rewriter.value(op.lhs), self._spread(op.lhs.tile), **op.attributes)
        elif op is found.sum.add:
            values[op.result] = self._sum(before)
        elif isinstance(op, Continue):
            b.emit_op(Continue, [*self.rewriter.all(op.values), self.least])
        elif op not in found.gone:
            self.rewriter.insert(op, b)

    def _sum(self, before: Value) -> Value:
        s, b = self.found.sum, self.b
        assert s.scaled is not None
        factor = self._exponential(before, self.reference)
        scaled = b.emit(Mul, self.rewriter.value(self.loop.carried[s.index]), factor, **s.scaled.attributes)
        added = self._of_thread(s.reduced, self.rewriter.all(s.reduced.values))
        return b.emit(type(s.add), scaled, added, **s.add.attributes)

    def _exponential(self, x: Value, reference: Value) -> Value:
        factor, change = self.found.factor, self.found.change
        return self.b.emit(type(factor), self.b.emit(Sub, x, reference, **change.attributes), **factor.attributes)

    def _spread(self, t: TileType) -> Value:
        """The reference of each thread for all elements that it has of a tile of type ``t``."""
        assert t.layout is not None
        own, n = t.layout.axis_bits(REGISTER, self.axis), t.shape[self.axis]
        wide, narrow = [1], [1]
        for bit in reversed(range(log2(n))):
            if bit + 1 < log2(n) and (own >> bit & 1) != (own >> bit + 1 & 1):
                wide.append(1)
                narrow.append(1)
            wide[-1] *= 2
            narrow[-1] *= 1 if own >> bit & 1 else 2
        before, after, b = t.shape[: self.axis], t.shape[self.axis + 1 :], self.b
        shape = (*before, *wide, *after)
        x = b.emit(Reshape, self.reference, shape=(*before, *narrow, *after))
        x = b.emit(BroadcastDistributed, x, type=TileType(x.tile.dtype, shape, t.layout.reshape(shape)))
        return b.emit(Reshape, x, shape=t.shape)

    def _whole(self, results: list[Value]) -> list[Value]:
        """The results of the loop as those of all threads."""
        found, b, least = self.found, self.b, results.pop()
        parts, i, k = results[found.largest], found.largest, found.sum.index
        results[i] = self._of_all(found.reduced, parts)
        reference = of_all_threads(results[i], self.parts, b)
        factor = self._exponential(parts, b.emit(Max, reference, self.lowest))
        total = self._of_all(found.sum.reduced, b.emit(Mul, results[k], factor))
        results[k] = self._or_nan(total, self._of_all(found.reduced, least))
        return results
