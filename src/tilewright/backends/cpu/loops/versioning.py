"""The pass that decides in which versions the loops of a nest exist, and which runtime checks pick one."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.alias import are_same_tile
from tilewright.backends.cpu.loops.fused import FusedOps, accessed_views, fused_ops, loop_values, root_of
from tilewright.backends.cpu.loops.kinds import array_axis, by_squares, is_array_tile
from tilewright.backends.cpu.loops.placement import LiveBuffers
from tilewright.backends.cpu.loops.ranges import KnownRanges, largest_search, possible_checks
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import bool_
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.loops import CheckLoad, LoopNest, ReserveScratch
from tilewright.ir.rewrite import Rewriter, clone_block, clone_op, stand_for

# Elements, from which one check of all masks or bounds replaces a check for each. The rows of benchmarks/results/
# constants.md take as long with 1 and with 1024: it spares code for small tiles.
_WORTH_CHECKING = 32


class VersionNests:
    """Sets the ``versions`` of each nest, and puts the checks of loads through pointers in front of it.

    After fusion, which decides what a nest loads and stores; before vectorization only because the checks are nests'
    operands, which later passes only read.
    """

    name: ClassVar[str] = "version-nests"

    def run(self, function: Function) -> Function:
        """Never fails."""
        return _Versioner(function).function(function)


class _Versioner(Rewriter):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.live = LiveBuffers(function)
        self.high_water = 0

    def function(self, function: Function) -> Function:
        made = super().function(function)
        reserve = made.body.ops[0]
        assert isinstance(reserve, ReserveScratch)
        reserve.bytes = max(reserve.bytes, self.high_water)
        return made

    def insert(self, op: Op, builder: Builder) -> None:
        if isinstance(op, LoopNest):
            builder.loc = op.loc
            self._nest(op, builder)
        else:
            super().insert(op, builder)

    def _nest(self, nest: LoopNest, builder: Builder) -> None:
        root = root_of(nest)
        fused = fused_ops(nest, loop_values(nest))
        store = root if isinstance(root, memory.StoreView) and not is_ordered(root) else None
        unmasked, disjoint = self._checks(nest, root, fused, store, builder)
        tiles = [op for op in fused.ops if isinstance(op, memory.LoadView) and _may_overlap(fused, op, store)]
        copied = [*tiles, *disjoint]
        positions = {op: k for k, op in enumerate(nest.body.ops)}
        attributes = nest.attributes | {
            "versions": _versions(nest, root, masked=bool(unmasked), overlapping=bool(copied)),
            "unmasked_loads": tuple(positions[op] for op in unmasked),
            "disjoint_loads": tuple(positions[op] for op in disjoint),
            "same_index": tuple(fused.same_index(op) for op in tiles),
            "copies": self._reserve(nest, [op.result for op in copied]),
            "copy_axes": tuple(map(_copy_axis, copied)),
            "body": clone_block(nest.body, self.values),
        }
        checks = list(unmasked.values()), list(disjoint.values())
        made = builder.emit_op(LoopNest, *checks, self.all(op.result for op in tiles), **attributes)
        stand_for(nest, made, self.values)

    def _checks(
        self, nest: LoopNest, root: Op | None, fused: FusedOps, store: memory.StoreView | None, builder: Builder
    ) -> tuple[dict[Op, Value], dict[Op, Value]]:
        """For loads through pointers: whether the mask is true everywhere; whether nothing that is loaded is stored."""
        unmasked: dict[Op, Value] = {}
        disjoint: dict[Op, Value] = {}
        if _one_by_one(root) or isinstance(root, memory.Store):  # which loads nothing through pointers
            if isinstance(root, memory.PointerMemoryOp) and root.mask is not None and self._worth_checking(nest, root):
                (unmasked[root],) = self._check(nest, root, root.mask, None, builder)
            return unmasked, disjoint
        for op in fused.ops:
            if not isinstance(op, memory.Load) or op.result.tile.size == 1:
                continue
            masked, compared = possible_checks(self._ranges(nest, largest_search(op)), op, store)
            if masked or compared:
                found = self._check(nest, op, op.mask if masked else None, store if compared else None, builder)
                if masked:
                    unmasked[op] = found[0]
                if compared:
                    disjoint[op] = found[-1]
            if store is not None and not compared:
                disjoint[op] = builder.constant(False, bool_)  # nothing tells: the loops always go on a copy
        return unmasked, disjoint

    def _worth_checking(self, nest: LoopNest, root: memory.PointerMemoryOp) -> bool:
        size = root.ptrs.tile.size
        return root.mask is not None and size >= _WORTH_CHECKING and self._ranges(nest, size).all_true(root.mask)

    @staticmethod
    def _ranges(nest: LoopNest, largest: int) -> KnownRanges:
        inside = set(nest.body.ops)
        return KnownRanges(lambda v: v.op not in inside, largest)

    def _check(
        self,
        nest: LoopNest,
        op: memory.PointerMemoryOp,
        mask: Value | None,
        store: memory.StoreView | None,
        builder: Builder,
    ) -> list[Value]:
        """Emit the check of ``op``, an access through pointers: of its mask, and of its pointers against ``store``."""
        asked = [*([] if mask is None else [mask]), *([] if store is None else [op.ptrs])]
        body, values = Block(), dict(self.values)
        for needed in fused_ops(nest, asked).ops:
            if not is_array_tile(needed.result):
                body.append(clone_op(needed, values))
        inner = Builder(body, op.loc)
        inner.emit_op(Yield, [values.get(v, v) for v in asked])
        view = (None, []) if store is None else (self.value(store.view), self.all(store.indices))
        in_bounds = () if store is None else store.promised
        outer, builder.loc = builder.loc, op.loc
        made = builder.emit_op(CheckLoad, *view, in_bounds=in_bounds, masked=mask is not None, body=body)
        builder.loc = outer
        return made.results

    def _reserve(self, nest: LoopNest, values: list[Value]) -> tuple[int, ...]:
        """Offsets for copies of ``values``, of scratch memory that holds nothing that is needed at ``nest``."""
        arena = self.live.arena(nest)
        offsets = tuple(arena.allocate(v.tile.size * element_bytes(v.tile.dtype)) for v in values)
        self.high_water = max(self.high_water, arena.high_water)
        return offsets


def _one_by_one(root: Op | None) -> bool:
    """Whether the loops are for ``root``, a memory operation of one element after the other."""
    return isinstance(root, memory.MemoryOp) and (
        is_ordered(root) or not isinstance(root, (memory.Store, memory.StoreView))
    )


def _versions(nest: LoopNest, root: Op | None, *, masked: bool, overlapping: bool) -> tuple[str, ...]:
    """``masked``: a check tells whether masks are true; ``overlapping``: what is loaded may be what is stored."""
    clipped = any(not all(op.promised) for op in accessed_views(nest))
    if _one_by_one(root):
        tested = clipped or (isinstance(root, memory.PointerMemoryOp) and root.mask is not None)
        large = isinstance(root, memory.ViewMemoryOp) and root.view.partition.tile.size >= _WORTH_CHECKING
        return (*["plain"] * (masked or large or not tested), *["bounds_checked"] * tested)
    return ("plain", *["bounds_checked"] * (masked or clipped), *["on_copies"] * overlapping)


def _copy_axis(load: Op) -> int | None:
    return by_squares(load.result.tile, array_axis(load)) if isinstance(load, memory.LoadView) else None


def _may_overlap(fused: FusedOps, load: memory.LoadView, store: memory.StoreView | None) -> bool:
    """Whether an element of ``load`` may be stored before it is loaded, for all that is known here."""
    if store is None or load.result.tile.size == 1:
        return False
    return not (fused.same_index(load) and are_same_tile(load, store))
