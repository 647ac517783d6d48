"""Loads whose tiles MMA ops multiply, or that change a state: they may run ahead of a loop through shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.gpu.layout_conversion import copy_layout, in_rows
from tilewright.analysis.mma_graph import mma_ops
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import tfloat32
from tilewright.ir.effects import has_effect
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu import memory
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.ops.shape import Permute, Reshape, constant_of
from tilewright.ir.types import SharedType
from tilewright.transforms.gpu.load_ahead import AheadLoad

_MOST_OF_VECTOR = 256  # elements that change a state
# Registers of a thread for accumulators, with fewer of which several warps would round each operand by several
# instructions.
_FEW_USES = 32
A_VECTOR = 8  # elements at least for each number that is loaded to find them
COPY_BYTES = (4, 8, 16)  # what cp.async takes: PTX ISA, "cp.async"
Path = tuple["Permute | Reshape | Cast", ...]  # ops that give a tile another shape, or round its elements


@dataclass(frozen=True)
class OperandLoad:
    """A load, and the conversions that make operands of it, with the ops between them that give it another shape. With
    none it is read as it was loaded. What is not ``copied`` goes through registers."""

    ahead: AheadLoad
    uses: tuple[tuple[ConvertLayout, Path], ...]
    copied: bool = True

    @property
    def op(self) -> memory.GlobalLoad:
        return self.ahead.op

    @property
    def target(self) -> LinearLayout:
        """The layout in which the first operand has the loaded tile."""
        return _as_loaded(*self.uses[0]) if self.uses else self.source

    @property
    def source(self) -> LinearLayout:
        """The layout in which the tile is copied."""
        return self.op.ptrs.layout

    @property
    def buffer(self) -> LinearLayout:
        """The layout in shared memory."""
        item, vector, source = self.op.result.tile.element.bytes, self.op.vector, self.source
        if not self.copied and (rows := in_rows(source, vector, memory.MAX_VECTOR_BYTES // item)) is not None:
            vector, source = memory.MAX_VECTOR_BYTES // item, rows
        return copy_layout(source, self.target, item, vector)

    @property
    def type(self) -> SharedType:
        """How it lies in shared memory."""
        return SharedType(self.op.result.tile.element, self.buffer)


def _as_loaded(convert: ConvertLayout, path: Path) -> LinearLayout:
    """The layout of the loaded tile that gives that of ``convert`` after ``path``."""
    layout = convert.result.layout
    for op in reversed(path):
        if isinstance(op, Permute):
            layout = layout.permute([op.axes.index(k) for k in range(layout.rank)])
        elif isinstance(op, Reshape):
            layout = layout.reshape(op.x.tile.shape)
    return layout


def after(path: Iterable[Op], layout: LinearLayout) -> LinearLayout:
    """The layout of a tile in ``layout`` after ``path``."""
    for op in path:
        if isinstance(op, Permute):
            layout = layout.permute(op.axes)
        elif isinstance(op, Reshape):
            layout = layout.reshape(op.shape)
    return layout


def operand_loads(loop: For, alias: AliasAnalysis, rounds: bool) -> list[OperandLoad]:
    """The loads of ``loop`` that can run ahead: of operands, which one instruction ``rounds`` or several, of what else
    it loads 16 bytes at once, and of vectors that change a state to which its only MMA op adds."""
    body = loop.body
    nested = [op for op in loop.walk() if op is not loop]
    if not any(isinstance(op, GpuMma) for op in body.ops):
        return []
    if any(isinstance(op, (Continue, For)) and op is not body.terminator for op in nested):
        return []
    writes = [op for op in nested if has_effect(op, Effect.WRITE) and not isinstance(op, memory.SharedMemoryOp)]
    stores = [op for op in writes if isinstance(op, memory.GlobalStore) and op.is_weak]
    if len(stores) != len(writes):
        return []
    written = {alias.underlying_object(op.ptrs) for op in stores}
    mmas = mma_ops(loop)
    state = len(mmas) == 1 and mmas[0].acc.op is not None and mmas[0].acc.op.block is body  # computed in each step
    few_uses = not rounds and all(op.acc.layout.num_registers < _FEW_USES for op in mmas)
    weak = [op for op in body.ops if isinstance(op, memory.GlobalLoad) and op.is_weak]
    unwritten = [op for op in weak if not may_alias(alias.underlying_object(op.ptrs), written)]
    found = []
    for op in unwritten:
        t = op.result.tile
        vector = state and t.element.is_floating and max(t.shape, default=0) == t.size <= _MOST_OF_VECTOR
        copied = can_be_copied(op, of_row=vector)
        if not copied and not _can_be_stored(op):
            continue
        ahead = AheadLoad.of(op, body, numbers_for(op, unwritten))
        if ahead is not None:
            found_uses = list(_operand_uses(op.result))
            uses = [use for use in found_uses if use is not None]
            rounded = any(isinstance(step, Cast) for _, path in uses for step in path)
            operand = len(uses) == len(found_uses) and not (rounded and few_uses)
            load = OperandLoad(ahead, tuple(uses) if operand else (), copied)
            pays = load.uses or (copied and (vector or op.vector * op.result.tile.element.bytes == max(COPY_BYTES)))
            if pays and memory.is_vector(load.buffer, load.source, op.vector):
                found.append(load)
    return found


def numbers_for(load: memory.GlobalLoad, ops: Sequence[Op]) -> list[memory.GlobalLoad]:
    """Loads of few integers among ``ops``, beside what ``load`` loads, by which that may be found."""
    weak = [op for op in ops if isinstance(op, memory.GlobalLoad) and op.is_weak and op.result.tile.element.is_integer]
    return [op for op in weak if op.result.tile.size * A_VECTOR <= load.result.tile.size]


def copied_rows(loads: Iterable[AheadLoad]) -> list[OperandLoad]:
    """The ``loads`` of which threads can copy to shared memory what they read."""
    found = [OperandLoad(x, ()) for x in loads if can_be_copied(x.op, of_row=True)]
    return [x for x in found if memory.is_vector(x.buffer, x.source, x.op.vector)]


def can_be_copied(op: memory.GlobalLoad, *, of_row: bool = False) -> bool:
    """Whether cp.async can copy what ``op`` loads; what is ``of_row`` several threads may load, with any padding."""
    layout = op.ptrs.tile.layout
    padded = is_zero(op.padding) or (of_row and op.padding is not None and constant_of(op.padding) is not None)
    size = op.vector * op.result.tile.element.bytes
    once = layout is not None and (of_row or layout.is_injective)
    return op.is_weak and once and padded and size in COPY_BYTES


def _can_be_stored(op: memory.GlobalLoad) -> bool:
    """Whether threads may store what ``op`` loads to where copies would be, which takes conversions of 8-bit floats."""
    layout = op.ptrs.tile.layout
    return layout is not None and layout.is_injective and op.result.tile.element.bytes > 1


def is_zero(padding: Value | None) -> bool:
    """Whether ``padding`` is what cp.async pads with."""
    number = None if padding is None else constant_of(padding)
    return padding is None or (number == 0 and math.copysign(1, float(number)) > 0)


def _operand_uses(value: Value, path: Path = ()) -> Iterator[tuple[ConvertLayout, Path] | None]:
    """The conversions of its block that ``value`` goes to, directly or in another shape; None for any other use."""
    for op in value.users:
        if op.block is not value.block:
            yield None  # it runs under a condition
        elif isinstance(op, ConvertLayout):
            yield op, path
        elif isinstance(op, (Permute, Reshape)) or (isinstance(op, Cast) and op.dtype is tfloat32):
            yield from _operand_uses(op.result, (*path, op))
        else:
            yield None
