"""Left operands that threads load from where they were fetched, one half while the other one is multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu.memory import SharedExtract
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait, left_layout
from tilewright.ir.ops.shape import Constant, Permute
from tilewright.ir.rewrite import Rewriter, open_block, replace_ops, stand_for
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.mma_loops import mmas_of, turned_left

_HALVES = 2


class LoadLeftOperands(InPlacePass):
    """Divides MMA ops that stay in flight, and whose left operand threads load, in two: a half stays in registers until
    the next one is under way, also that of the iteration before, and tensor cores wait for no load.

    Runs after ``specialize-warps``, before barriers are inserted.
    """

    name: ClassVar[str] = "load-left-operands"

    def change(self, function: Function) -> bool:
        mmas = [(loop, mma) for loop in function.ops_of(For) for mma in mmas_of(loop.body)]
        loops = {loop: mma for loop, mma in mmas if mma.pending and turned_left(mma)}
        waits = {wait: loop for loop, mma in loops.items() for wait in _waits(loop, mma)}
        last: dict[Op, Value] = {}  # of the loops: what the last MMA op reads
        warps = num_warps(function)

        def emit(rewriter: Rewriter, op: Op, of: Op, b: Builder) -> Sequence[Value]:
            if isinstance(op, WgmmaWait):
                held = [*rewriter.all(op.held), last[of]]
                return b.emit_op(WgmmaWait, rewriter.all(op.accs), held, rewriter.all(op.after)).results
            assert isinstance(op, For) and isinstance(of, Wgmma)
            *results, last[op] = _divided(rewriter, op, of, warps, b)
            return results

        return replace_ops(function, {**loops, **waits}, emit)


def _waits(loop: For, mma: Wgmma) -> list[WgmmaWait]:
    """The ops that wait for the sum when ``loop`` has ended."""
    return [op for op in loop.results[loop.carried.index(mma.acc)].users if isinstance(op, WgmmaWait)]


def _divided(rewriter: Rewriter, loop: For, mma: Wgmma, warps: int, b: Builder) -> Sequence[Value]:
    """``loop`` with ``mma`` in two; it also carries what the second one reads."""
    found, values, t = turned_left(mma), rewriter.values, mma.x.tile
    assert found is not None
    load, turned = found
    size = t.shape[1] // _HALVES
    layout = left_layout((t.shape[0], size), warps, t.element.bytes)
    half, loaded = TileType(t.dtype, layout.shape, layout), layout.permute((1, 0))
    inits = [*rewriter.all(loop.inits), b.emit(Constant, value=0.0, type=half)]
    body = open_block(loop.body, values)
    reading = body.add_arg(half)
    with b.at(body):
        for op in loop.body.ops:
            b.loc = op.loc
            if op is mma:
                total = rewriter.value(mma.acc)
                for index in range(_HALVES):
                    at, y = [b.constant(index, int32), b.constant(0, int32)], rewriter.value(mma.y)
                    part = TileType(t.dtype, loaded.shape, loaded)
                    x = b.emit(SharedExtract, rewriter.value(load.buffer), at, type=part)
                    x = b.emit(Permute, x, axes=turned.axes)
                    total = b.emit(Wgmma, x, y, total, pending=None, first=index * size)
                    b.emit_op(WgmmaWait, [], [reading], [], pending=1)
                    reading = x
                values[mma.result] = total
            elif isinstance(op, Continue):
                b.emit_op(Continue, [*rewriter.all(op.values), reading])
            elif op not in found:
                rewriter.insert(op, b)
    made = b.emit_op(For, *rewriter.all(loop.bounds), inits, body=body)
    stand_for(loop, made, values)
    return made.results
