"""What a nest computes: the op that it is for, the values that its loops go over, and the ops fused into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.cpu.loops.kinds import is_array_tile, is_fusible
from tilewright.ir.core import Op, Value
from tilewright.ir.ops.loops import LoopNest, WritePart
from tilewright.ir.ops.memory import Assert, StoreView, ViewMemoryOp
from tilewright.ir.ops.shape import Broadcast, Extract, Permute, Reshape
from tilewright.ir.types import TileType

_MOVING = (Permute, Extract)


class FusedOps:
    """The ops that the same loops compute for ``values``, tiles of one shape, down to the values that ``is_leaf``.

    An op has the *same index* when the loops need its element i together with element i of ``values`` only, and not
    also in some other order.
    """

    def __init__(self, values: Sequence[Value], is_leaf: Callable[[Value], bool]) -> None:
        self.ops: list[Op] = []  # operands first
        self.leaves: dict[Value, bool] = {}  # the values read, and whether at the same index only
        self.users: dict[Value, set[Op]] = {}  # among the ops
        self._is_leaf = is_leaf
        self._same_index: dict[Op, bool] = {}
        self._repeated: dict[Op, int] = {}  # how often each element is needed, of what is broadcast
        for v in values:
            self._visit(v, True)

    def same_index(self, op: Op) -> bool:
        return self._same_index[op]

    def broadcast_operands(self) -> dict[Op, int]:
        """Ops whose elements the loops need several times each, because they are broadcast, and how often."""
        return {op: n for op, n in self._repeated.items() if op.result.tile.size > 1}

    def _visit(self, value: Value, same_index: bool) -> None:
        if self._is_leaf(value):
            self.leaves[value] = same_index and self.leaves.get(value, True)
            return
        op = value.op
        assert op is not None
        seen = self._same_index.get(op)
        if seen is not None and (same_index or not seen):
            return
        self._same_index[op] = same_index
        same_index = same_index and not isinstance(op, _MOVING)
        for v in op.operands:
            if isinstance(op, Broadcast) and v.tile.shape != op.result.tile.shape:
                same_index = False
                if v.op is not None and not self._is_leaf(v):
                    times = op.result.tile.size // v.tile.size
                    self._repeated[v.op] = max(times, self._repeated.get(v.op, 0))
            if isinstance(v.type, TileType):
                self.users.setdefault(v, set()).add(op)
                self._visit(v, same_index)
        if seen is None:
            self.ops.append(op)


def root_of(nest: LoopNest) -> Op | None:
    """The op that the nest is for: a statement, which is last in the body; None where it only computes elements."""
    ops = nest.body.ops
    return None if len(ops) < 2 or is_fusible(ops[-2]) else ops[-2]


def loop_values(nest: LoopNest) -> Sequence[Value]:
    """The tiles whose elements the loops ask for; the first has the shape that they go over."""
    root = root_of(nest)
    if root is None:
        return nest.kept[:1]
    if isinstance(root, StoreView):
        return [root.value, *nest.kept]
    if isinstance(root, WritePart):
        return [root.value]
    if isinstance(root, Assert):
        return [root.condition, *(v for v in root.values if v.tile.rank)]
    return [v for v in root.operands if isinstance(v.type, TileType)]


def fused_ops(nest: LoopNest, values: Sequence[Value]) -> FusedOps:
    """What computes ``values`` in the loops of ``nest``: ops of the body, and loads that read arrays there."""
    inside = set(nest.body.ops)
    return FusedOps(values, lambda v: v.op not in inside and not is_array_tile(v))


def accessed_views(nest: LoopNest) -> list[ViewMemoryOp]:
    """The accesses of views in the loops: the loads that the body reads, and the op that the nest is for."""
    read = [v.op for op in nest.body.ops for v in op.operands if is_array_tile(v)]
    return [op for op in (*read, root_of(nest)) if isinstance(op, ViewMemoryOp)]


def array_tiles(nest: LoopNest) -> list[Value]:
    """The tiles that the loops of ``nest`` read from arrays, in the order in which its body first needs them."""
    return list(dict.fromkeys(v for op in nest.body.ops for v in op.operands if is_array_tile(v)))


def reshapes(nest: LoopNest) -> bool:
    """Whether elements change their coordinates, but for new axes of extent 1."""
    return any(isinstance(op, Reshape) and op.result.tile.size > 1 and not keeps_extents(op) for op in nest.body.ops)


def keeps_extents(op: Reshape) -> bool:
    """Whether ``op`` only adds and removes axes of extent 1."""
    before, after = ([n for n in shape if n > 1] for shape in (op.x.tile.shape, op.result.tile.shape))
    return before == after
