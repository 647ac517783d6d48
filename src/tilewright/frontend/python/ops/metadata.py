"""Grid indices, promises, and the attributes of arrays, tiles and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import constant_of, to_tile
from tilewright.frontend.python.values import Array, RawMemory, Tile, TiledView
from tilewright.ir.core import Op
from tilewright.ir.errors import TileTypeError
from tilewright.ir.ops.memory import AssumeDivisible, Bid, NumBlocks
from tilewright.language import memory as lang
from tilewright.language.array import Array as ArrayStub
from tilewright.language.array import RawArrayMemory as RawStub
from tilewright.language.array import Tile as TileStub
from tilewright.language.array import TiledView as ViewStub
from tilewright.language.tiles import extract, insert, permute, reshape, transpose


def _grid(cls: type[Op]) -> OpBuilder:
    def build(ctx: Context, axis: Any) -> Tile:
        found = check.const_int(ctx, axis, "axis")
        if found not in (0, 1, 2):
            check.wrong(ctx, "axis", f"is {found}; a grid has the axes 0, 1 and 2")
        return Tile(ctx.builder.emit(cls, axis=found))

    return build


def _assume_divisible_by(ctx: Context, x: Any, divisor: Any) -> Any:
    by = check.const_int(ctx, divisor, "divisor")
    if by < 1:
        check.wrong(ctx, "divisor", f"is {by}; it must be positive")
    known = constant_of(x)
    if known is not None:
        if not isinstance(known, int) or known % by:
            ctx.fail(TileTypeError, f"the constant {known!r} is not divisible by {by}", argument="x")
        return x
    tile = to_tile(ctx, x)
    if tile.ndim or tile.value.tile.is_pointer or not tile.dtype.is_integer:
        check.wrong(ctx, "x", f"must be an integer scalar, not {describe(tile)}")
    return Tile(ctx.builder.emit(AssumeDivisible, tile.value, divisor=by))


def _nothing(ctx: Context) -> None:
    """Dependent launches do not exist on this backend: the previous kernel has ended."""


BUILDERS: dict[Any, OpBuilder] = {
    lang.bid: _grid(Bid),
    lang.num_blocks: _grid(NumBlocks),
    lang.assume_divisible_by: _assume_divisible_by,
    lang.grid_dependency_control_wait: _nothing,
    lang.grid_dependency_control_launch_dependents: _nothing,
}

Getter = Callable[[Context, Any], Any]

ATTRIBUTES: dict[type, dict[str, Getter]] = {
    Tile: {
        "dtype": lambda ctx, v: v.element_type,
        "shape": lambda ctx, v: v.shape,
        "ndim": lambda ctx, v: v.ndim,
    },
    Array: {
        "dtype": lambda ctx, v: v.dtype,
        "ndim": lambda ctx, v: v.ndim,
        "shape": lambda ctx, v: v.shape,
        "strides": lambda ctx, v: v.strides,
        "foreign_pointer": lambda ctx, v: Tile(v.base),
    },
    TiledView: {
        "dtype": lambda ctx, v: v.dtype,
        "tile_shape": lambda ctx, v: v.tile_shape,
        "traversal_steps": lambda ctx, v: v.traversal_steps,
    },
    RawMemory: {"dtype": lambda ctx, v: v.array.dtype},
}

_COMBINING = ("add", "max", "min", "and", "or", "xor")

METHODS: dict[type, dict[str, Any]] = {
    Tile: {
        "item": TileStub.item,
        "extract": extract,
        "insert": insert,
        "reshape": reshape,
        "permute": permute,
        "transpose": transpose,
        "astype": TileStub.astype,
    },
    Array: {
        "slice": ArrayStub.slice,
        "tiled_view": ArrayStub.tiled_view,
        "get_raw_memory": ArrayStub.get_raw_memory,
    },
    TiledView: {
        "load": ViewStub.load,
        "store": ViewStub.store,
        "num_tiles": ViewStub.num_tiles,
        **{f"atomic_store_{n}": getattr(ViewStub, f"atomic_store_{n}") for n in _COMBINING},
        # the guide's spelling
        **{f"atomic_{n}": getattr(ViewStub, f"atomic_store_{n}") for n in _COMBINING},
    },
    RawMemory: {
        "load_offset": RawStub.load_offset,
        "store_offset": RawStub.store_offset,
        **{f"atomic_{n}_offset": getattr(RawStub, f"atomic_{n}_offset") for n in (*_COMBINING, "xchg", "cas")},
    },
}
