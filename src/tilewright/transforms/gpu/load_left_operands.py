"""Left operands that threads load from where they were fetched, one half while the other one is multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu.memory import SharedExtract, SharedLoad
from tilewright.ir.ops.gpu.tma import Part, part_layout
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.ops.shape import Constant, Permute
from tilewright.ir.rewrite import Rewriter, open_block, replace_ops, stand_for
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.mma_loops import loaded_left, mmas_of

_HALVES = 2


class LoadLeftOperands(InPlacePass):
    """Divides MMA ops that stay in flight, and whose left operand threads load, in two: a half, from which it may be
    computed, stays in registers until the next one is under way, also that of the iteration before, and tensor cores
    wait for no load.

    Runs after ``specialize-warps``, before barriers are inserted.
    """

    name: ClassVar[str] = "load-left-operands"

    def change(self, function: Function) -> bool:
        mmas = [(loop, mma) for loop in function.ops_of(For) for mma in mmas_of(loop.body)]
        loops = {loop: mma for loop, mma in mmas if mma.pending and loaded_left(mma)}
        waits = {wait: loop for loop, mma in loops.items() for wait in _waits(loop, mma)}
        last: dict[Op, Value] = {}  # of the loops: what the last MMA op reads

        def emit(rewriter: Rewriter, op: Op, of: Op, b: Builder) -> Sequence[Value]:
            if isinstance(op, WgmmaWait):
                held = [*rewriter.all(op.held), last[of]]
                return b.emit_op(WgmmaWait, rewriter.all(op.accs), held, rewriter.all(op.after)).results
            assert isinstance(op, For) and isinstance(of, Wgmma)
            *results, last[op] = _divided(rewriter, op, of, b)
            return results

        return replace_ops(function, {**loops, **waits}, emit)


def _waits(loop: For, mma: Wgmma) -> list[WgmmaWait]:
    """The ops that wait for the sum when ``loop`` has ended."""
    return [op for op in loop.results[loop.carried.index(mma.acc)].users if isinstance(op, WgmmaWait)]


def _divided(rewriter: Rewriter, loop: For, mma: Wgmma, b: Builder) -> Sequence[Value]:
    """``loop`` with ``mma`` in two; it also carries what the second one reads."""
    found, values = loaded_left(mma), rewriter.values
    assert found is not None
    load, between = found
    size, half = mma.x.tile.shape[1] // _HALVES, _half(mma.x.tile, 1)
    inits = [*rewriter.all(loop.inits), b.emit(Constant, value=0.0, type=half)]
    body = open_block(loop.body, values)
    reading = body.add_arg(half)
    with b.at(body):
        for op in loop.body.ops:
            b.loc = op.loc
            if op is mma:
                total = rewriter.value(mma.acc)
                for index in range(_HALVES):
                    x = _half_of(rewriter, mma.x, load, between, index, b)
                    total = b.emit(Wgmma, x, rewriter.value(mma.y), total, pending=None, first=index * size)
                    b.emit_op(WgmmaWait, [], [reading], [], pending=1)
                    reading = x
                values[mma.result] = total
            elif isinstance(op, Continue):
                b.emit_op(Continue, [*rewriter.all(op.values), reading])
            elif op is not load and op not in between:
                rewriter.insert(op, b)
    made = b.emit_op(For, *rewriter.all(loop.bounds), inits, body=body)
    stand_for(loop, made, values)
    return made.results


def _half(t: TileType, axis: int) -> TileType:
    """The type of half of a tile along ``axis``, which registers tell apart."""
    assert t.layout is not None
    layout = part_layout(t.layout, axis, t.shape[axis] // _HALVES)
    return TileType(t.dtype, layout.shape, layout)


def _half_of(rewriter: Rewriter, x: Value, load: SharedLoad, between: list[Op], index: int, b: Builder) -> Value:
    """Half ``index`` along k of ``x``, which ``between`` computes of what ``load`` gives."""
    axis = 1 - sum(isinstance(op, Permute) for op in between) % 2
    at = [b.constant(index if k == axis else 0, int32) for k in range(2)]
    halves = {load.result: b.emit(SharedExtract, rewriter.value(load.buffer), at, type=_half(load.result.tile, axis))}
    for op in between:
        if isinstance(op, Permute):
            axis = 1 - axis
            halves[op.result] = b.emit(Permute, halves[op.x], axes=op.axes)
            continue
        size = op.results[0].tile.shape[axis] // _HALVES
        operands = [
            halves.get(v) or b.emit(Part, rewriter.value(v), axis=axis, size=size, index=index) for v in op.operands
        ]
        types = tuple(_half(v.tile, axis) for v in op.results)
        made = b.insert(type(op)(operands, op.segments, dict(op.attributes), (), types, op.loc))
        halves.update(zip(op.results, made.results))
    return halves[x]
