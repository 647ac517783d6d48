"""The pass that has loops fetch what the next iteration reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.backends.cpu.loops.fused import array_tiles, root_of
from tilewright.backends.cpu.loops.kinds import array_axis, innermost, is_array_tile
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass

# Bytes of a tile: those of one iteration and of the next have to stay in a first-level cache, with others beside them.
_LARGEST = 8 << 10
# Bytes of a tile that is in no first-level cache, and how far ahead of a reduction of it to fetch: two pages, as the
# units in a processor that fetch ahead stop where a page ends. Half a page was slower when tried by hand, on an EPYC.
_STREAM, _AHEAD = 32 << 10, 8 << 10


@dataclass(frozen=True)
class PrefetchTiles(InPlacePass):
    """Has nests prefetch the tile of the next iteration, and reductions what they read later of a large tile.

    The last one of several nests of an iteration that read a tile does the former: the first one waits for memory, and
    the last one for the processor, and only together they keep both busy.

    After versioning, which makes the nests anew.
    """

    name: ClassVar[str] = "prefetch-tiles"

    def change(self, function: Function) -> bool:
        """Never fails."""
        changed = [_prefetch(op) if isinstance(op, For) else _stream(op) for op in function.walk()]
        return any(changed)


def _prefetch(loop: For) -> bool:
    axes: dict[LoopNest, dict[Value, int]] = {}
    for op in loop.body.ops if constant_of(loop.step) == 1 else ():
        axis = _axis(loop, op) if isinstance(op, LoadView) and is_array_tile(op.result) else None
        readers = (
            []
            if axis is None
            else sorted({loop.body.ops.index(user.ancestor_in(loop.body)) for user in op.result.users})
        )
        last = loop.body.ops[readers[-1]] if len(readers) > 1 else None
        if isinstance(last, LoopNest) and isinstance(root_of(last), (Reduce, StoreView)):
            assert axis is not None
            axes.setdefault(last, {})[op.result] = axis
    for nest, found in axes.items():
        nest.prefetch = tuple(found.get(v) for v in array_tiles(nest))
    return bool(axes)


def _stream(load: Op) -> bool:
    if not isinstance(load, LoadView) or not is_array_tile(load.result) or load.block is None:
        return False
    t, block = load.result.tile, load.block
    if t.size * element_bytes(t.dtype) < _STREAM or array_axis(load) != innermost(t):
        return False
    readers = [op for user in load.result.users if (op := user.ancestor_in(block)) is not None]
    first = min(readers, key=block.ops.index, default=None)
    if not isinstance(first, LoopNest) or not isinstance(root_of(first), Reduce) or first.prefetch_bytes:
        return False
    first.prefetch_bytes = _AHEAD
    return True


def _axis(loop: For, load: LoadView) -> int | None:
    """The axis along which the next iteration loads the next tile; None where it does not, or from elsewhere."""
    t = load.result.tile
    counted = [k for k, v in enumerate(load.indices) if v is loop.body.args[0]]
    others = [v for v in load.indices if v is not loop.body.args[0]]
    if len(counted) != 1 or any(v.op is not None and v.op.ancestor_in(loop.body) for v in others):
        return None
    fits = t.size * element_bytes(t.dtype) <= _LARGEST
    return counted[0] if fits and array_axis(load) == innermost(t) and isinstance(t, TileType) else None
