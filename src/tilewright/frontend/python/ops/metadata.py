"""Grid indices, promises, and the attributes of arrays, tiles and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.atomics import COMBINING
from tilewright.frontend.python.ops.convert import constant_of, to_tile
from tilewright.frontend.python.values import Array, RawMemory, Tile, TiledView
from tilewright.ir.core import Op
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
            ctx.fail(f"the constant {known!r} is not divisible by {by}", argument="x")
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


def _fields(*names: str) -> dict[str, Getter]:
    """Attributes that are those of the value itself."""
    return {name: lambda ctx, v, name=name: getattr(v, name) for name in names}  # type: ignore[misc]


def _methods(stub: type, *names: str) -> dict[str, Any]:
    return {name: getattr(stub, name) for name in names}


ATTRIBUTES: dict[type, dict[str, Getter]] = {
    Tile: {"dtype": lambda ctx, v: v.element_type, **_fields("shape", "ndim")},
    Array: {**_fields("dtype", "ndim", "shape", "strides"), "foreign_pointer": lambda ctx, v: Tile(v.base)},
    TiledView: _fields("dtype", "tile_shape", "traversal_steps"),
    RawMemory: {"dtype": lambda ctx, v: v.array.dtype},
}

METHODS: dict[type, dict[str, Any]] = {
    Tile: {
        **_methods(TileStub, "item", "astype"),
        **{operation.__name__: operation for operation in (extract, insert, reshape, permute, transpose)},
    },
    Array: _methods(ArrayStub, "slice", "tiled_view", "get_raw_memory"),
    TiledView: _methods(
        ViewStub,
        *("load", "store", "num_tiles"),
        *(f"{store}_{name}" for store in ("atomic_store", "atomic") for name in COMBINING),
    ),
    RawMemory: _methods(
        RawStub, *("load_offset", "store_offset"), *(f"atomic_{name}_offset" for name in (*COMBINING, "xchg", "cas"))
    ),
}
