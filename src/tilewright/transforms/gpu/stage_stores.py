"""Stores of tiles by the TMA unit, piece by piece through shared memory; operands that wgmma reads there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

from tilewright.analysis.gpu.group_access import box_offset, group_offset
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Add, Cast
from tilewright.ir.ops.control import block_of
from tilewright.ir.ops.gpu import tma
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedCopy, SharedStore, shared_vector
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.wgmma import StageOperand
from tilewright.ir.ops.shape import Permute
from tilewright.ir.types import SharedType
from tilewright.transforms.base import InPlacePass

_BUFFERS = 2  # one is filled while the other one is stored
MOST_BYTES = 32 * 1024  # of several buffers: more shared memory is better spent on loads
PIECE_ROWS = 32  # of a tile that is larger, and was computed transposed: registers alone choose between these


class StageStores(InPlacePass):
    """Writes what ``gpu.put`` stores to shared memory, and has the TMA unit store it from there.

    What ``gpu.stage_operand`` puts there has a buffer of its own, as an MMA op may read it until the iteration ends, if
    it does not lie where it was fetched to.
    A piece is a box wide, or high, where registers alone choose between pieces, else the tile. Two buffers take turns.
    Results of a block have buffers of their own, which those of other blocks use, too.
    Runs before conversions are lowered, and before ``insert-barriers``, which adds the barriers that this needs.
    """

    name: ClassVar[str] = "stage-stores"

    def change(self, function: Function) -> bool:
        stager = _Stager(function)
        staged = [op for op in function.walk() if isinstance(op, (tma.Put, StageOperand))]
        staged = [op for op in staged if isinstance(op, tma.Put) or not op.is_in_ring]
        for op in staged:
            b = Builder.before(op)
            op.replace_by([stager.operand(op, b)] if isinstance(op, StageOperand) else stager.put(op, b))
        stager.allocate()
        return bool(staged)


def put_buffers(op: tma.Put) -> tuple[SharedType, int]:
    """The shared memory for a piece of what ``op`` stores, and how many of these there are."""
    t, tensor_map = op.value.tile, op.map.op
    assert isinstance(tensor_map, tma.TensorMap)
    shape, sizes = list(t.shape), {op.inner: tensor_map.box[-1], 1 - op.inner: tma.box_rows(tensor_map)}
    axis = next((k for k, size in sizes.items() if tma.can_part(op.value.layout, k, size)), op.inner)
    whole = op.adds and t.shape[axis] <= _BUFFERS * sizes[axis]  # takes no more memory, and one barrier
    if tma.can_part(op.value.layout, axis, sizes[axis]) and not whole:
        shape[axis] = sizes[axis]
    shared = SharedType(t.element, tma.swizzled_layout(shape, op.inner, tensor_map.swizzle, t.element.bytes))
    several = tuple(shape) != t.shape and _BUFFERS * shared.bytes <= MOST_BYTES
    return shared, _BUFFERS if several else 1


def _is_by_group(op: tma.Put) -> bool:
    """Whether each warp group writes a box of its own of what is stored."""
    shared, layout, tensor_map = put_buffers(op)[0], op.value.layout, op.map.op
    assert layout is not None and isinstance(tensor_map, tma.TensorMap)
    axis = next((k for k in (0, 1) if shared.shape[k] != layout.shape[k]), None)
    piece = layout if axis is None else tma.part_layout(layout, axis, shared.shape[axis])
    alone = group_offset(shared.layout, piece)
    return alone is not None and alone == box_offset(shared, tensor_map)


def is_turned(value: Value) -> bool:
    """Whether ``value`` is the transpose of what was computed."""
    turned = False
    while isinstance(value.op, (Cast, Permute)):
        turned ^= isinstance(value.op, Permute)
        value = value.op.x
    return turned


def put_groups(function: Function) -> list[list[tma.Put]]:
    """What ``function`` puts, in groups that use the same buffers: the first ones of all blocks, the second ones. What
    is added has its own, as it is while tiles are multiplied."""
    blocks: dict[Block | None, list[tma.Put]] = {}
    puts = function.ops_of(tma.Put)
    for op in puts:
        if not op.adds:
            blocks.setdefault(op.block, []).append(op)
    stored = [[op for op in group if op is not None] for group in zip_longest(*blocks.values())]
    return [*([op] for op in puts if op.adds), *stored]


def group_buffers(group: Sequence[tma.Put]) -> tuple[SharedType, int]:
    """The shared memory for a piece of the largest of a group, and how many of these there are."""
    types, counts = zip(*map(put_buffers, group))
    return max(types, key=lambda t: t.bytes), max(counts)


class _Stager:
    def __init__(self, function: Function) -> None:
        self.body = function.body
        self.buffers: list[Op] = []  # from the first use to the end: they are read until the last store is waited for
        self.operands: list[Op] = []
        self.added: list[Op] = []
        self.of_puts: dict[Op, tuple[list[Value], bool]] = {}  # buffers, and whether they are those of others, too
        self.by_groups = {op: _is_by_group(op) for op in function.ops_of(tma.Put)}
        kinds = {(op.value.type, put_buffers(op)[0]) for op in self.by_groups}
        if any(op.after_stores for op in self.by_groups) and not (all(self.by_groups.values()) and len(kinds) == 1):
            self.by_groups = dict.fromkeys(self.by_groups, False)  # the thread that has waited stores
        for group in put_groups(function):
            t, count = group_buffers(group)
            attributes = {"type": t, "alignment": tma.SWIZZLED_ALIGNMENT}
            allocations = [create(SharedAlloc, [], dict(attributes), group[0].loc) for _ in range(count)]
            buffers = self.added if group[0].adds else self.buffers
            buffers += allocations
            self.of_puts.update((op, ([a.result for a in allocations], len(group) > 1)) for op in group)
        self.alike = {op: self._alike(op) for op in self.by_groups}
        self.free: set[tma.Put] = set()  # whose buffer has been waited for

    def _alike(self, op: tma.Put) -> int:
        """How many tiles the block of ``op`` stores, by the same threads and in as many pieces; 1 where some differ."""
        beside = [other for other in self.by_groups if other.block is op.block]
        kinds = [(o.value.type, put_buffers(o), o.adds, self.by_groups[o]) for o in beside]
        return len(beside) if all(kind == kinds[0] for kind in kinds) else 1

    def allocate(self) -> None:
        """Insert the buffers: of results, where they may be what others were, before the first of these is stored."""
        roles = next((op for op in self.body.ops if isinstance(op, WarpSpecialize)), None)
        body = self.body if roles is None else roles.consumer
        way = block_of(body, tma.TmaStore) if self.of_puts else body  # operands may be outside of it
        for block, buffers in ((body, self.operands), (way, self.added), (way, self.buffers)):
            found = {op.result for op in buffers}
            users = [op for op in block.ops if any(v in found for o in op.walk() for v in o.operands)]
            for op in buffers:
                block.insert(op, users[0])

    def operand(self, op: StageOperand, b: Builder) -> Value:
        """The shared memory that stands for ``op``."""
        if op.buffer is None:
            allocation = create(SharedAlloc, [], {"type": op.type, "alignment": tma.SWIZZLED_ALIGNMENT}, op.loc)
            self.operands.append(allocation)
            buffer = allocation.result
        else:
            buffer = b.emit(SharedCopy, op.buffer, b.constant(0, int32), type=op.type)
        self._wait_early(op, b)
        b.emit_op(SharedStore, buffer, op.value, vector=shared_vector(op.type, op.value.layout))
        b.emit_op(tma.AsyncFence)
        return buffer

    def _wait_early(self, op: StageOperand, b: Builder) -> None:
        """Wait for the buffer of what the block adds to memory after ``op``, so that the barrier behind that is one for
        it, too."""
        adding = [put for put in self.by_groups if put.adds and put.block is op.block and put not in self.free]
        if len(adding) == 1 and len(self.of_puts[adding[0]][0]) == 1 and not adding[0].after_stores:
            b.emit_op(tma.TmaStoreWait)
            self.free.update(adding)

    def put(self, op: tma.Put, b: Builder) -> list[Value]:
        t, (shared, count), tensor_map = op.value.tile, put_buffers(op), op.map.op
        assert isinstance(tensor_map, tma.TensorMap)
        axis = next((k for k in (0, 1) if shared.shape[k] != t.shape[k]), op.inner)
        size = shared.shape[axis]
        pieces = t.shape[axis] // size
        moving = len(op.starts) - 1 if axis == op.inner else tma.outer_axis(tensor_map)
        buffers, shares = self.of_puts[op]
        if buffers[0].type != shared:
            zero = b.constant(0, int32)
            buffers = [b.emit(SharedCopy, v, zero, type=shared) for v in buffers[:count]]
        for i in range(pieces):
            piece = op.value if pieces == 1 else b.emit(tma.Part, op.value, axis=axis, size=size, index=i)
            written = op.after_stores and not i
            pending = 0 if written or (shares and not i) else count - 1  # others may have used one buffer
            if not written and not shares and i < count:  # used last when the tile before was stored
                pending = (pieces - 1 - i) % count + i + pieces * (self.alike[op] - 1)
            if op not in self.free or i:
                b.emit_op(tma.TmaStoreWait, pending=pending, written=written)
            vector = shared_vector(shared, piece.layout)
            b.emit_op(SharedStore, buffers[i % count], piece, vector=vector)
            b.emit_op(tma.AsyncFence)
            starts = [
                b.emit(Add, v, b.constant(i * size, int32)) if i and k == moving else v for k, v in enumerate(op.starts)
            ]
            b.emit_op(tma.TmaStore, buffers[i % count], op.map, starts, by_group=self.by_groups[op], adds=op.adds)
        return []
