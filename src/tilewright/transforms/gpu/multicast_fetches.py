"""Which tiles the two CTAs of a cluster fetch together: each one half of them, for both (TMA multicast)."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType, int32
from tilewright.ir.effects import SIDE_EFFECTS, has_early_exit, has_effect, is_ordered, is_pure
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.gpu_stage import MULTICAST_PAYS
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Div, Min, Select, Sub, Xor
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.cluster import ClusterSize
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.gpu.tma import OUTSIDE, Fetch, ParameterMap, Put, TensorMap, box_rows, boxes
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.memory import Assert, Bid, NumBlocks, Store, StoreView
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.rewrite import ValueMap, clone_op
from tilewright.ir.structured import emit_if
from tilewright.ir.types import ElementType, SharedType
from tilewright.transforms.base import InPlacePass

_LEAST_ROWS = 8  # of a box: after so many a swizzle repeats


class MulticastFetches(InPlacePass):
    """Gives fetches the condition ``both``: the mate fetches the same tile at the same time.

    That is known of fetches that both CTAs come to equally often: in loops whose bounds are the same in both, and in a
    persistent loop, over the tiles from the number of the block on in steps of the number of blocks. Where their number
    is odd, the mate of the CTA that has the last one fetches it, too, and its results go nowhere. Until the last such
    fetch nothing may make one CTA wait for the other one in another way, and neither may end.
    The hint ``num_ctas = 2`` asks for it. Without, kernels do it where rows do not start on sectors of the L2 cache,
    if all fetches of a first persistent loop, or of the only loop, are such: as measured on an H100, pairs take longer
    where rows do start there: ``benchmarks/results/gpu_products.md``.
    Runs after ``choose-wgmma``.
    """

    name: ClassVar[str] = "multicast-fetches"

    def change(self, function: Function) -> bool:
        asked = function.hints.get("num_ctas")
        wanted = asked == 2 or (asked is None and MULTICAST_PAYS in function.hints)
        if not wanted or any(_forbids(op) for op in function.walk()):
            return False
        lockstep = _Lockstep(function)
        fetches = [op for op in function.ops_of(Fetch) if op.both is None]
        found = [op for op in fetches if lockstep.fetches_together(op)]
        if not found or _waits_before(found[-1], function) or (asked is None and not lockstep.pays(found)):
            return False
        _Sharing(function, lockstep).share(found)
        return True


def _forbids(op: Op) -> bool:
    """Whether ``op`` may end a CTA; or has a left operand in registers, as attention has, whose loops wait for more
    than loads."""
    return isinstance(op, (Assert, Exit)) or (isinstance(op, Wgmma) and not isinstance(op.x.type, SharedType))


def _waits_before(last: Fetch, function: Function) -> bool:
    """Whether one CTA may wait for another one before, or around, the ``last`` of the fetches."""
    outer = last.ancestor_in(function.body)
    assert outer is not None
    ops = function.body.ops
    return any(is_ordered(op) for each in ops[: ops.index(outer) + 1] for op in each.walk())


class _Lockstep:
    """What both CTAs of a cluster do side by side, and which values are the same in both."""

    def __init__(self, function: Function) -> None:
        self.persistent: set[For] = set()
        self._fetches = function.ops_of(Fetch)
        self._alike: dict[Value, bool | None] = {}
        for op in function.body.ops:
            if isinstance(op, For) and self._is_persistent(op):
                self.persistent.add(op)
        self._alike.clear()

    def _is_persistent(self, loop: For) -> bool:
        """Whether ``loop`` goes over the tiles that are left to the block, and does nothing but to store results."""
        lower, upper, step = loop.bounds
        writes = (op for op in loop.walk() if not op.regions and has_effect(op, SIDE_EFFECTS))
        return (
            not loop.inits
            and lower.tile.element is int32
            and _counts_blocks(lower, Bid)
            and _counts_blocks(step, NumBlocks)
            and self.is_alike(upper) is True
            and all(isinstance(op, (Put, Store, StoreView)) for op in writes)
        )

    def pays(self, fetches: list[Fetch]) -> bool:
        """Whether these are the first fetches of the function, and in a persistent loop at first; or all, and in one
        loop that is in no other but one of blocks, of which there is a fixed number."""
        if self._fetches[: len(fetches)] != fetches:
            return False
        around = [tuple(f.ancestors) for f in fetches]
        fixed = (isinstance(op, For) and constant_of(op.upper) is not None for op in around[0][1:])
        only = len(fetches) == len(self._fetches) and len(set(around)) == 1 and len(around[0]) > 0 and all(fixed)
        return only or not self.persistent.isdisjoint(around[0])

    def fetches_together(self, fetch: Fetch) -> bool:
        """Whether both CTAs come to ``fetch`` equally often, and can tell what the other one fetches."""
        return (
            _halves(fetch) is not None
            and all(self._goes_together(around) for around in fetch.ancestors)
            and all(self.is_alike(v) is not None for v in fetch.starts)
        )

    def _goes_together(self, around: Op) -> bool:
        if not isinstance(around, For) or any(has_early_exit(o) for o in around.body.ops if not o.spec.terminator):
            return False
        return around in self.persistent or all(self.is_alike(v) is True for v in around.bounds)

    def is_alike(self, value: Value) -> bool | None:
        """Whether ``value`` is the same in both CTAs; None where one does not know what it is in the other one."""
        if value not in self._alike:
            self._alike[value] = None  # of what control flow carries
            self._alike[value] = self._find(value)
        return self._alike[value]

    def _find(self, value: Value) -> bool | None:
        op, block = value.op, value.block
        if op is None:
            assert block is not None
            loop = block.parent
            if loop is None:
                return True
            if not isinstance(loop, For) or value is not loop.body.args[0]:
                return None
            if loop in self.persistent:
                return False
            return True if all(self.is_alike(v) is True for v in loop.bounds) else None
        if not is_pure(op) or op.regions:
            return None
        if isinstance(op, Bid):
            return op.axis != 0
        if _numbers_pairs(op):
            return True
        found = [self.is_alike(v) for v in op.operands]
        return None if None in found else all(found)


def _halves(fetch: Fetch) -> tuple[int, ...] | None:
    """Boxes of which a tile has an even number: those of its map, or half as high; None where there are none, or the
    map is that of an array of a list."""
    tensor_map = fetch.map.op
    if not isinstance(tensor_map, ParameterMap):
        return None
    if len(boxes(fetch.type, tensor_map)) % 2 == 0:
        return tensor_map.box
    rows = box_rows(tensor_map)
    if rows % (2 * _LEAST_ROWS):
        return None
    return tuple(n // 2 if n != 1 and k < len(tensor_map.box) - 1 else n for k, n in enumerate(tensor_map.box))


class _Sharing:
    """Writes the conditions."""

    def __init__(self, function: Function, lockstep: _Lockstep) -> None:
        self.function, self.lockstep = function, lockstep
        b = Builder(function.body, function.loc, self._first())
        self.paired = b.emit(Cmp, b.emit(ClusterSize), b.constant(2, int32), predicate=CmpPredicate.EQ)
        self.theirs: ValueMap = {}  # what values are in the mate
        self._maps: dict[tuple[Op, tuple[int, ...]], Value] = {}

    def _first(self) -> Op:
        return next(op for op in self.function.body.ops if not isinstance(op, ParameterMap))

    def share(self, fetches: list[Fetch]) -> None:
        loops = dict.fromkeys(o for f in fetches for o in f.ancestors if o in self.lockstep.persistent)
        for loop in loops:
            assert isinstance(loop, For)
            self._run_equally_often(loop)
        for fetch in fetches:
            b = Builder.before(fetch)
            both = self.paired
            for start in fetch.starts:
                if self.lockstep.is_alike(start) is False:
                    other = self._in_the_mate(start, b, self.theirs, fetch.block)
                    both = b.emit(And, both, b.emit(Cmp, start, other, predicate=CmpPredicate.EQ))
            shared = b.emit(Fetch, self._map(fetch), list(fetch.starts), both, type=fetch.type)
            shared.name = fetch.result.name
            fetch.replace_by([shared])

    def _run_equally_often(self, loop: For) -> None:
        """Both CTAs run ``loop`` for a whole number of pairs of tiles; what is none becomes the last tile, of which
        one CTA stores nothing."""
        b = Builder.before(loop)
        lower, upper, step = loop.bounds
        one = b.constant(1, int32)
        even = b.emit(Add, upper, b.emit(And, upper, one))
        loop.set_operands([lower, b.emit(Select, self.paired, even, upper), step], loop.segments)
        tile, first = loop.body.args[0], loop.body.ops[0]
        uses = list(tile.users)
        b = Builder(loop.body, loop.loc, first)
        last = b.emit(Sub, upper, b.constant(1, int32))
        real = b.emit(Min, tile, last)
        mate = b.emit(Min, b.emit(Xor, tile, b.constant(1, int32)), last)
        exists = b.emit(Cmp, tile, last, predicate=CmpPredicate.LE)
        for user in uses:
            for k, v in enumerate(user.operands):
                if v is tile:
                    user.set_operand(k, real)
        self.theirs[real] = mate
        self.lockstep._alike[real] = False
        for op in list(loop.walk()):
            if isinstance(op, Put):
                self._put_if(exists, op)
            elif isinstance(op, (Store, StoreView)):
                self._store_if(exists, op)

    def _store_if(self, exists: Value, store: Store | StoreView) -> None:
        b = Builder.before(store)
        emit_if(b, exists, lambda: b.insert(clone_op(store, {})).results)
        store.erase()

    def _put_if(self, exists: Value, put: Put) -> None:
        """Outside of the array nothing is stored."""
        b, tensor_map = Builder.before(put), put.map.op
        assert isinstance(tensor_map, TensorMap)
        start = put.starts[-1]
        outside = b.constant(OUTSIDE, int32)
        starts = [*put.starts[:-1], b.emit(Select, exists, start, outside)]
        b.emit_op(Put, put.map, put.value, starts, **put.attributes)
        put.erase()

    def _in_the_mate(self, value: Value, b: Builder, known: ValueMap, block: Block | None) -> Value:
        """What ``value`` is in the mate, computed in ``block``."""
        if value in known:
            return known[value]
        if self.lockstep.is_alike(value):
            return value
        op = value.op
        assert op is not None, value
        if isinstance(op, Bid):
            return b.emit(Xor, value, b.constant(1, int32))
        values = {v: self._in_the_mate(v, b, known, block) for v in op.operands}
        return b.insert(clone_op(op, values)).results[value.index]

    def _map(self, fetch: Fetch) -> Value:
        """The map of boxes for two."""
        old, box = fetch.map.op, _halves(fetch)
        assert isinstance(old, ParameterMap) and box is not None
        if (old, box) not in self._maps:
            made = create(ParameterMap, [], {**old.attributes, "box": box, "pairs": True}, old.loc)
            self.function.body.insert(made, old)
            self._maps[old, box] = made.result
        return self._maps[old, box]


def _counts_blocks(value: Value, kind: type[Bid | NumBlocks]) -> bool:
    """Whether ``value`` is the number of the block, or of the blocks, along the first axis of the grid."""
    while isinstance(value.op, Cast) and _holds_all(value.tile.element):
        value = value.op.x
    return isinstance(value.op, kind) and value.op.axis == 0


def _holds_all(dtype: ElementType) -> bool:
    """Whether every number of a block is one of this type."""
    return isinstance(dtype, DType) and dtype.is_integer and dtype.bitwidth >= int32.bitwidth


def _numbers_pairs(op: Op) -> bool:
    """Whether the result of ``op`` is the number of the pair, or of several, that the block is in."""
    if not isinstance(op, Div) or op.rounding not in (RoundingMode.RM, RoundingMode.RZ):
        return False
    count = constant_of(op.rhs)
    return _counts_blocks(op.lhs, Bid) and count is not None and count > 0 and count % 2 == 0
