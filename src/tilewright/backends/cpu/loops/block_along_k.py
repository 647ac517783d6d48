"""The pass that has loops over K add the products of several steps at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from tilewright.backends.cpu.loops.dot import Product, dot_instruction
from tilewright.backends.cpu.loops.kinds import takes_lines
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.target import Processor
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType, float16
from tilewright.ir.effects import is_ordered
from tilewright.ir.enums import RoundingMode
from tilewright.ir.layouts import log2
from tilewright.ir.ops.arith import Cast, Div, Mul
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView, MakePartitionView, padding_value
from tilewright.ir.ops.shape import Permute, Reshape, constant_of
from tilewright.ir.rewrite import clone_op, stand_for
from tilewright.records import dataclass
from tilewright.transforms.base import InPlacePass

# Bytes of scratch memory for a row of a wide tile, of floats, of those that go by dot instructions, and of bytes:
# accumulators pass between registers and the second-level cache once for each such step
# (benchmarks/results/constants.md; that of bytes is chosen, no measurement is kept).
_ROW_BYTES, _DOT_ROW_BYTES, _BYTE_ROW_BYTES = 2048, 1024, 512
_LONG = 256  # elements of a row of floats that is left as it is: a second loop gains less than it takes to compile
# Bytes of an operand in scratch memory: a part of a second-level cache, in which the accumulators lie, too.
_LARGEST = 256 << 10
# The same for operands whose lines are read where they are: longer ones are fetched ahead better, but copied as a whole
# where they leave their array (benchmarks/results/cpu_notes.md).
_LINE_BYTES, _LARGEST_LINES = 4096, 1 << 20


@dataclass(frozen=True)
class BlockAlongK(InPlacePass):
    """Makes loops that do nothing but load tiles and add their product take wider tiles along K.

    Tiles of a step suit the memory of a GPU. The steps that are left over have a loop of their own behind it. The
    products are added in the same order, so that results are the same bits.
    """

    name: ClassVar[str] = "block-along-k"
    processor: Processor

    def change(self, function: Function) -> bool:
        """Never fails."""
        loops = [_Steps.of(op, self.processor) for op in function.walk() if isinstance(op, For)]
        found = [steps for steps in loops if steps is not None]
        for steps in found:
            steps.emit()
        return bool(found)


@dataclass(eq=False, repr=False)
class _Steps:
    """A loop of products: for each op that makes an operand, the axis of its result that lies along K."""

    loop: For
    axes: dict[Op, int]
    count: int  # of steps that become one

    @classmethod
    def of(cls, loop: For, processor: Processor) -> _Steps | None:
        *body, end = loop.body.ops
        if not body or not isinstance(mma := body[-1], Mma) or mma.acc.tile.element is float16:  # rounded each time
            return None
        step, *carried = loop.body.args
        plain = (constant_of(loop.lower), constant_of(loop.step)) == (0, 1) and carried == [mma.acc]
        if not plain or list(end.operands) != [mma.result] or mma.acc.users != {mma} or mma.result.users != {end}:
            return None
        axes = dict[Op, int]()
        for operand, axis in ((mma.x, mma.x.tile.rank - 1), (mma.y, mma.y.tile.rank - 2)):
            if not _follow(operand, axis, step, loop.body, axes):
                return None
        if {*axes, mma} != set(body):
            return None
        count, most = 1, constant_of(loop.upper)
        depth = mma.x.tile.shape[-1]
        largest = max(v.tile.size * element_bytes(v.tile.dtype) for op in axes for v in op.results)
        row_bytes, limit = _ROW_BYTES, _LARGEST
        if mma.x.tile.element.is_integer:
            row_bytes = _BYTE_ROW_BYTES
        elif dot_instruction(processor, Product.of(mma)) is not None:
            row_bytes = _DOT_ROW_BYTES
        elif takes_lines(mma, processor):
            row_bytes, limit = _LINE_BYTES, _LARGEST_LINES
        elif depth >= _LONG:
            return None
        wanted = row_bytes // element_bytes(mma.x.tile.element)
        while 2 * count * depth <= wanted and 2 * count * largest <= limit and (most is None or 2 * count <= most):
            count *= 2
        return cls(loop, axes, count) if count > 1 else None

    def emit(self) -> None:
        """Put a loop of wide steps before the loop, and one of narrower steps for what is left over, each of which goes
        on where that before it ends. Where nothing is left, there is no more."""
        loop, most = self.loop, constant_of(self.loop.upper)
        for count in dict.fromkeys((self.count, 1 << (log2(self.count) + 1) // 2)):
            self.count = count
            self._emit_wide()
            if most is not None and most % count == 0:
                loop.replace_by(loop.inits)
                return

    def _emit_wide(self) -> None:
        """Put a loop of wide steps before the loop, from where that begins."""
        loop, builder, body = self.loop, Builder.before(self.loop), Block()
        steps = builder.constant(self.count, loop.upper.tile.element)
        first, whole = (  # not above a negative bound
            bound if constant_of(bound) == 0 else builder.emit(Div, bound, steps, rounding=RoundingMode.RZ)
            for bound in (loop.lower, loop.upper)
        )
        values = {old: body.add_arg(old.type, old.name) for old in loop.body.args}
        inner = Builder(body, loop.loc)
        for op in loop.body.ops:
            inner.insert(self._wide(op, values, builder))
        wide = builder.emit_op(For, first, whole, loop.step, loop.inits, body=body)
        loop.set_operand(0, builder.emit(Mul, whole, steps))
        loop.set_operand(3, wide.result)

    def _wide(self, op: Op, values: dict[Value, Value], before: Builder) -> Op:
        """A copy of ``op`` of the body for a wide step; ``before`` makes what is outside of the loop."""
        if op not in self.axes:
            return clone_op(op, values)
        axis, shape = self.axes[op], op.result.tile.shape
        widened = (*shape[:axis], shape[axis] * self.count, *shape[axis + 1 :])
        mapped = dict(values)
        if isinstance(op, LoadView):
            t, made = op.view.partition, op.view.op
            assert isinstance(made, MakePartitionView)
            increments = (*t.steps[:axis], t.steps[axis] * self.count, *t.steps[axis + 1 :])
            view = replace(t, tile_shape=widened, steps=increments)
            mapped[op.view] = before.emit(MakePartitionView, made.view, type=view)
        copied = clone_op(op, mapped)
        if isinstance(copied, Reshape):
            copied.shape = widened
        copied.result.type = op.result.tile.with_shape(widened)
        stand_for(op, copied, values)
        return copied


def _follow(value: Value, axis: int, step: Value, body: Block, axes: dict[Op, int]) -> bool:
    """Note the ops that make ``value``, which lies along K at ``axis``; whether they are a load of the tile at ``step``
    and what changes only its form."""
    while True:
        op = value.op
        if op is None or op.block is not body or len(value.users) != 1 or op in axes:
            return False
        axes[op] = axis
        if isinstance(op, LoadView):
            return _is_step(op, axis, step)
        if isinstance(op, Permute):
            axis = op.axes[axis]
        elif isinstance(op, Reshape):
            before, shape = math.prod(op.shape[:axis]), op.x.tile.shape
            found = [k for k, n in enumerate(shape) if n == op.shape[axis] and math.prod(shape[:k]) == before]
            if not found:
                return False
            axis = found[-1]
        elif not isinstance(op, Cast):
            return False
        value = op.x


def _is_step(load: LoadView, axis: int, step: Value) -> bool:
    """Whether ``load`` takes the tile at ``step`` along ``axis``, and nothing else of it depends on ``step``."""
    t, made, dtype = load.view.partition, load.view.op, load.result.tile.dtype
    return (
        isinstance(made, MakePartitionView)
        and isinstance(dtype, DType)
        and made.block is not load.block
        and not is_ordered(load)
        and [k for k, v in enumerate(load.indices) if v is step] == [axis]
        and all(v is step or v.op is None or v.op.block is not load.block for v in load.indices)
        and t.steps[axis] == t.tile_shape[axis]
        and str(float(padding_value(t.padding, dtype))) == "0.0"
    )
