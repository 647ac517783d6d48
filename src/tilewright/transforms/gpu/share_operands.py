"""An operand of MMA ops in a loop, the same in each iteration, stays in shared memory where registers are short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.layout_conversion import copy_layout
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import MAX_VECTOR_BYTES, SharedAlloc, SharedLoad, SharedStore, is_vector
from tilewright.ir.ops.gpu.mma import FMA, GpuMma
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.rewrite import Rewriter, replace_ops
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.base import InPlacePass


@dataclass(frozen=True)
class ShareOperands(InPlacePass):
    """Stores an operand of MMA ops from before a loop to shared memory, and loads it where it is multiplied, where a
    thread would have ``words`` registers or more for accumulators of the loop and for it. Two of a loop stay in
    registers: what they would be loaded for costs more than the registers (benchmarks/results/gpu_products.md).

    Runs before conversions are lowered, in whose place it stores.
    """

    name: ClassVar[str] = "share-operands"
    words: int = 64

    def change(self, function: Function) -> bool:
        kept = {op: loops for op in function.ops_of(ConvertLayout) if (loops := _loops(op))}
        of_loop = Counter(loop for loops in kept.values() for loop in loops)
        alone = {op: loops for op, loops in kept.items() if all(of_loop[loop] == 1 for loop in loops)}
        chosen = [op for op, loops in alone.items() if any(_words(loop, op) >= self.words for loop in loops)]
        users = {user: [v.tile for v in user.operands] for op in chosen for user in op.result.users}
        return replace_ops(function, {**dict.fromkeys(chosen, ()), **users}, _shared)


def _loops(op: ConvertLayout) -> set[For]:
    """The loops after ``op`` with the MMA ops that multiply what it makes; none where it has other users."""
    loops: set[For] = set()
    for user in op.result.users:
        if not isinstance(user, GpuMma) or user.instruction == FMA or op.result is user.acc:
            return set()
        if not isinstance(user.parent, For) or user.block is op.block:
            return set()
        loops.add(user.parent)
    return loops


def _words(loop: For, kept: ConvertLayout) -> int:
    """The registers of a thread for accumulators of ``loop``, and for what is ``kept`` for it."""
    mmas = [op for op in loop.body.ops if isinstance(op, GpuMma)]
    added = {op.acc for op in mmas}
    accumulators = [op.result for op in mmas if op.result not in added]
    return sum(v.layout.num_registers * v.tile.element.bytes // 4 for v in (*accumulators, kept.result))


def _shared(rewriter: Rewriter, op: Op, tiles: Sequence[TileType], b: Builder) -> Sequence[Value]:
    """A buffer in place of a conversion, or an MMA op of ``tiles`` that loads from some."""
    given = rewriter.all(op.operands)
    if isinstance(op, GpuMma):
        operands = [
            b.emit(SharedLoad, v, type=t) if isinstance(v.type, SharedType) else v for v, t in zip(given, tiles)
        ]
        return [b.emit(GpuMma, *operands, instruction=op.instruction)]
    (x,) = given
    element, target = x.tile.element, op.results[0].layout
    vector = max(MAX_VECTOR_BYTES // element.bytes, 1)
    while vector > x.layout.num_registers:
        vector //= 2
    layout = copy_layout(x.layout, target, element.bytes, vector)
    if not is_vector(layout, x.layout, vector):
        layout, vector = copy_layout(x.layout, target, element.bytes, 1), 1
    buffer = b.emit(SharedAlloc, type=SharedType(element, layout))
    b.emit_op(SharedStore, buffer, x, vector=vector)
    return [buffer]
