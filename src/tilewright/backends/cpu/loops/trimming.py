"""The pass that chooses which nests store by loops that end where the array does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tilewright.backends.cpu.loops.fused import keeps_extents, reshapes, root_of
from tilewright.backends.cpu.loops.kinds import is_array_tile
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import StoreView
from tilewright.ir.ops.shape import Broadcast, Extract, Permute, Reshape
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass

Axes = tuple[int | None, ...]


class TrimStores(InPlacePass):
    """Adds trimmed loops to nests that store vectors, and nothing else, to tiles that may leave their array.

    Loops with bounds checks ask for each vector of each tile whether it is inside, and compute what is not stored.
    """

    name: ClassVar[str] = "trim-stores"

    def change(self, function: Function) -> bool:
        """Never fails."""
        nests = [op for op in function.walk() if isinstance(op, LoopNest) and _can_trim(op)]
        for nest in nests:
            nest.add_version("trimmed")
        return bool(nests)


def _can_trim(nest: LoopNest) -> bool:
    root = root_of(nest)
    if not isinstance(root, StoreView) or is_ordered(root) or nest.kept or all(root.promised):
        return False
    return nest.lanes > 1 and root.value.tile.shape[-1:] > (nest.lanes,) and not reshapes(nest)


def read_axes(nest: LoopNest, root: StoreView) -> Mapping[Op, Axes | None]:
    """For each axis of the array tiles that the loops of ``nest`` read, the axis of the stored tile that it goes along,
    or None where it stays at its start. None for a tile of which more may be read."""
    found: dict[Op, Axes | None] = {}
    inside, seen = set(nest.body.ops), set()

    def visit(value: Value, axes: Axes | None) -> None:
        op = value.op
        if (value, axes) in seen or op is None:
            return
        seen.add((value, axes))
        if is_array_tile(value):
            found[op] = axes if found.get(op, axes) == axes else None
        elif op in inside:
            for v in op.operands:
                if isinstance(v.type, TileType):
                    visit(v, None if axes is None else _of_operand(op, v, axes))

    visit(root.value, tuple(range(root.value.tile.rank)))
    return found


def _of_operand(op: Op, operand: Value, axes: Axes) -> Axes | None:
    """``axes`` of the result of ``op``, as those of an operand."""
    shape = operand.tile.shape
    if isinstance(op, Broadcast):
        return tuple(None if n == 1 else axis for n, axis in zip(shape, axes))
    if isinstance(op, Permute):
        source: list[int | None] = [None] * len(axes)
        for axis, along in zip(op.axes, axes):
            source[axis] = along
        return tuple(source)
    if isinstance(op, Reshape):
        if not keeps_extents(op):
            return None
        moving = iter([axis for n, axis in zip(op.result.tile.shape, axes) if n > 1])
        return tuple(next(moving) if n > 1 else None for n in shape)
    return None if isinstance(op, Extract) else axes
