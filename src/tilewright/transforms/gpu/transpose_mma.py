"""MMA ops in another shape, which loops carry, too: without an axis of batches, or transposed where rows are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.mma_graph import depends, operand_source
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import tfloat32
from tilewright.ir.effects import has_early_exit
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu.wgmma import MOST_COLUMNS, ROWS
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.rewrite import Rewriter
from tilewright.transforms.gpu.staged_operands import is_computed_from_tiles, is_only_added, tiles_loaded_for


class DropUnitBatches:
    """Multiplies without the first axis, where that has the extent 1, and lets loops carry accumulators without it.

    Runs before ``choose-wgmma``; ``canonicalize`` removes the reshapes that meet.
    """

    name: ClassVar[str] = "drop-unit-batches"

    def run(self, function: Function) -> Function:
        return _Dropper().changed(function)


# Multiply-adds of a step of a loop in another one, of which an SM has one: with fewer, loads from shared memory are
# what it waits for (benchmarks/results/gpu_products.md).
LEAST_STEP = 1 << 19


@dataclass(frozen=True)
class TransposeMma:
    """Transposes products of two tiles that are loaded, with fewer rows than a warp group multiplies, and enough
    columns, and lets loops carry their accumulators transposed. In attention the left operand may also be computed from
    such a product: that of the transposes is then the right one, through shared memory.

    So it does those of ``tfloat32`` with a right operand that lies across k, if they have no fewer rows than columns,
    and those of 16 bits whose right operand alone is computed: warp groups read a left one from registers.
    Runs before ``choose-wgmma``; ``canonicalize`` removes the permutations that meet.
    """

    name: ClassVar[str] = "transpose-mma"
    registers: bool = False

    def run(self, function: Function) -> Function:
        few = _are_transposable(function.ops_of(Mma))
        return _Transposer(few, self.registers).changed(function)


class _Shaper(Rewriter):
    """Rewrites the MMA ops that ``takes``."""

    def takes(self, op: Mma) -> bool:
        raise NotImplementedError

    def inward(self, value: Value, b: Builder) -> Value:
        """``value`` as the new MMA op has it."""
        raise NotImplementedError

    def outward(self, value: Value, old: Value, b: Builder) -> Value:
        """``value`` in the shape of ``old``."""
        raise NotImplementedError

    def factors(self, x: Value, y: Value) -> Sequence[Value]:
        """The factors in the order of the new MMA op."""
        return x, y

    def changed(self, function: Function) -> Function:
        """``function``, or a copy with such MMA ops rewritten."""
        found = any(isinstance(op, Mma) and self.takes(op) for op in function.walk())
        return self.function(function) if found else function

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        if isinstance(op, Mma) and self.takes(op):
            factors = self.factors(self.value(op.x), self.value(op.y))
            operands = [self.inward(v, builder) for v in (*factors, self.value(op.acc))]
            made = builder.emit(Mma, *operands, **op.attributes)
            self.values[op.result] = self.outward(made, op.result, builder)
        elif isinstance(op, For) and any(self._accumulators(op)):
            self._loop(op, self._accumulators(op), builder)
        else:
            super().insert(op, builder)

    def _accumulators(self, loop: For) -> list[bool]:
        """Which loop-carried values are accumulators of such MMA ops."""
        if any(has_early_exit(op) for op in loop.body.ops if not op.spec.terminator):
            return [False] * len(loop.carried)
        return [any(isinstance(u, Mma) and u.acc is v and self.takes(u) for u in v.users) for v in loop.carried]

    def _loop(self, op: For, accumulators: list[bool], b: Builder) -> None:
        inits = [self.inward(v, b) if changes else v for changes, v in zip(accumulators, self.all(op.inits))]
        body = Block()
        self.values[op.body.args[0]] = body.add_arg(op.body.args[0].type, op.body.args[0].name)
        args = [body.add_arg(v.type, old.name) for v, old in zip(inits, op.carried)]
        with b.at(body):
            self._bind(op.carried, args, accumulators, b)
            for inner in op.body.ops[:-1]:
                self.insert(inner, b)
            following = self.all(op.next_values)
            b.emit_op(Continue, [self.inward(v, b) if c else v for c, v in zip(accumulators, following)])
        made = b.emit_op(For, *self.all(op.bounds), inits, body=body)
        self._bind(op.results, made.results, accumulators, b)

    def _bind(self, old: list[Value], new: list[Value], accumulators: list[bool], b: Builder) -> None:
        """Let ``new`` stand for ``old``, in another shape where they are accumulators."""
        for was, v, changes in zip(old, new, accumulators):
            self.values[was] = self.outward(v, was, b) if changes else v


def _are_transposable(mmas: Sequence[Mma]) -> bool:
    """Whether those of ``mmas`` with few rows can be transposed: all are of tiles that are loaded, or, where some are
    of what others give, all have few rows."""
    loaded = {op: [_is_loaded(v) for v in (op.x, op.y)] for op in mmas}
    if all(map(all, loaded.values())):
        return True
    if not all(_has_few_rows(op) and y for op, (_, y) in loaded.items()):
        return False
    return all(x or any(depends(op, other) for other in mmas if other is not op) for op, (x, _) in loaded.items())


def _is_loaded(operand: Value) -> bool:
    """Whether ``operand`` is a tile that is loaded, or one of 16 bits that is computed from a single one alone."""
    if isinstance(operand_source(operand), LoadView):
        return True
    computed = operand.tile.element.bytes == 2 and len(tiles_loaded_for(operand)) == 1
    return computed and not any(isinstance(v.op, Mma) for v in reachable([operand], operands_within))


def _has_few_rows(op: Mma) -> bool:
    *batches, rows, columns = op.acc.tile.shape
    turns = op.y.tile.element.bytes == 2 or (op.y.tile.element.bytes == 1 and _lies_along_k(op.y))
    return not batches and rows < ROWS and columns % ROWS == 0 and turns


def _lies_across_k(op: Mma) -> bool:
    """Whether the right operand of a product of tfloat32 is loaded from rows across k, the left one from such along
    it, with enough columns for warp groups, and no fewer rows."""
    *batches, rows, columns = op.acc.tile.shape
    if batches or op.x.tile.element is not tfloat32 or not columns <= rows <= MOST_COLUMNS or columns % ROWS:
        return False
    persistent = op.parent is not None and op.parent.parent is not None
    if persistent and rows * columns * op.x.tile.shape[1] < LEAST_STEP:
        return False
    return is_only_added(op) and [_contiguous_axis(v) for v in (op.x, op.y)] == [1, 1]


def _has_computed_right(op: Mma) -> bool:
    """Whether the right operand of a product of 16 bits is computed from tiles that are loaded for it, and the left one
    is loaded, with columns for a warp group."""
    *batches, rows, columns = op.acc.tile.shape
    suits = not batches and rows % 8 == 0 and rows <= MOST_COLUMNS and columns % ROWS == 0 and is_only_added(op)
    return suits and isinstance(operand_source(op.x), LoadView) and is_computed_from_tiles(op.y)


def _contiguous_axis(value: Value) -> int | None:
    """The axis of a tile of rank 2 along which what is loaded for it lies in memory."""
    turned = False
    while isinstance(value.op, (Cast, Permute)):
        turned ^= isinstance(value.op, Permute)
        value = value.op.x
    if not isinstance(value.op, LoadView) or value.tile.rank != 2:
        return None
    partition = value.op.view.partition
    axes = [k for k, axis in enumerate(partition.order) if partition.view.strides[axis] == 1]
    return axes[0] ^ turned if len(axes) == 1 else None


def _lies_along_k(y: Value) -> bool:
    """Whether a right operand is loaded from rows along k: of 8 bits wgmma reads no others."""
    load = y.op.x.op if isinstance(y.op, Permute) and y.op.axes == (1, 0) else None
    if not isinstance(load, LoadView):
        return False
    partition = load.view.partition
    return partition.view.strides[partition.order[-1]] == 1


class _Dropper(_Shaper):
    def takes(self, op: Mma) -> bool:
        return op.acc.tile.rank == 3 and all(v.tile.shape[0] == 1 for v in (op.x, op.y, op.acc))

    def inward(self, value: Value, b: Builder) -> Value:
        return b.emit(Reshape, value, shape=value.tile.shape[1:])

    def outward(self, value: Value, old: Value, b: Builder) -> Value:
        return b.emit(Reshape, value, shape=old.tile.shape)


class _Transposer(_Shaper):
    def __init__(self, few_rows: bool, registers: bool) -> None:
        super().__init__()
        self.few_rows, self.registers = few_rows, registers

    def takes(self, op: Mma) -> bool:
        if self.few_rows and _has_few_rows(op):
            return True
        return self.registers and (_lies_across_k(op) or _has_computed_right(op))

    def inward(self, value: Value, b: Builder) -> Value:
        return b.emit(Permute, value, axes=(1, 0))

    def outward(self, value: Value, old: Value, b: Builder) -> Value:
        return b.emit(Permute, value, axes=(1, 0))

    def factors(self, x: Value, y: Value) -> Sequence[Value]:
        return y, x
