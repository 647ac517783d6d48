"""Checking the arguments of tile operations. Every message names the parameter."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from tilewright.frontend.python.context import Context
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops.convert import constant_of, is_number, to_tile
from tilewright.frontend.python.values import Array, Tile, TiledView
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileValueError
from tilewright.ir.hints import ByTarget
from tilewright.ir.types import check_tile_shape
from tilewright.language.dtypes import to_dtype

_E = TypeVar("_E", bound=enum.Enum)


def wrong(ctx: Context, name: str, text: str) -> NoReturn:
    """TileTypeError at the argument ``name`` of the call, of which ``text`` says what it must be."""
    ctx.fail(f"{name!r} {text}", argument=name)


def const_int(ctx: Context, value: Any, name: str) -> int:
    """An integer constant."""
    known = constant_of(value)
    if isinstance(known, int) and not isinstance(known, bool):
        return known
    if isinstance(value, Tile) and value.constant is None:
        wrong(
            ctx,
            name,
            "must be known at compile time, but it is a run-time value; pass it as a kernel parameter "
            "annotated ct.Constant[int], or write a literal",
        )
    wrong(ctx, name, f"must be an integer constant, not {describe(value)}")


def const_bool(ctx: Context, value: Any, name: str) -> bool:
    known = constant_of(value)
    if isinstance(known, bool):
        return known
    wrong(ctx, name, f"must be True or False, not {describe(value)}")


def ints(ctx: Context, value: Any, name: str) -> tuple[int, ...]:
    """An integer constant, or a tuple of them."""
    if not isinstance(value, tuple):
        return (const_int(ctx, value, name),)
    return tuple(const_int(ctx, v, name) for v in value)


def const_shape(ctx: Context, value: Any, name: str = "shape") -> tuple[int, ...]:
    """A tile shape: constant powers of two."""
    shape = ints(ctx, value, name)
    problem = check_tile_shape(shape)
    if problem is not None:
        advice = ""
        bad = [n for n in shape if n <= 0 or n & (n - 1)]
        if bad and bad[0] > 0:
            up = 1 << bad[0].bit_length()
            advice = f". Use {up // 2} or {up}; loads beyond the array are padded and stores dropped"
        ctx.fail(f"{problem}{advice}", argument=name)
    return shape


def axis(ctx: Context, value: Any, rank: int, name: str = "axis") -> int:
    """An axis of a tile or array of ``rank`` axes; negative ones count from the end."""
    found = const_int(ctx, value, name)
    if not -rank <= found < rank:
        has = f"it must be from {-rank} to {rank - 1}" if rank else "a scalar has no axes"
        wrong(ctx, name, f"is {found}: {has}")
    return found % rank


def dtype(ctx: Context, value: Any, name: str = "dtype") -> DType:
    found = to_dtype(value)
    if found is None:
        plain = isinstance(value, (str, type)) or type(value).__name__ == "dtype"  # such as those of Triton
        hint = "; write ct.float32, ct.int32 and so on" if plain else ""
        shown = repr(value) if plain else describe(value)
        wrong(ctx, name, f"must be a dtype, not {shown}{hint}")
    return found


def member(ctx: Context, cls: type[_E], value: Any, name: str) -> _E:
    """An enum member, or the name of one."""
    if isinstance(value, cls):
        return value
    if isinstance(value, str) and value in cls.__members__:
        return cls[value]
    choices = ", ".join(cls.__members__)
    shown = repr(value) if isinstance(value, str) else describe(value)
    wrong(ctx, name, f"must be a {cls.__name__} ({choices}), not {shown}")


def array(ctx: Context, value: Any, name: str = "array") -> Array:
    if isinstance(value, Array):
        return value
    if isinstance(value, TiledView):
        wrong(ctx, name, "is a tiled view; call its methods load and store instead")
    wrong(ctx, name, f"must be an array, not {describe(value)}")


def tile(ctx: Context, value: Any, name: str) -> Tile:
    if isinstance(value, Tile) or is_number(value):
        return to_tile(ctx, value)
    wrong(ctx, name, f"must be a tile, not {describe(value)}")


def scalar_index(ctx: Context, value: Any, name: str, *, signed: bool = True) -> Value:
    """An integer scalar of run-time or constant value."""
    known = constant_of(value)
    if known is not None and (isinstance(known, bool) or not isinstance(known, int)):
        ctx.fail(f"an entry of {name!r} is {known!r}; it must be an integer", argument=name)
    if not isinstance(value, Tile) and known is None:
        ctx.fail(f"an entry of {name!r} is {describe(value)}; it must be an integer scalar", argument=name)
    found = to_tile(ctx, value)
    if found.ndim or found.value.tile.is_pointer or not found.dtype.is_integer:
        single = found.ndim and found.value.tile.size == 1
        advice = ": write .item(), or load it with the shape ()" if single else ""
        ctx.fail(f"an entry of {name!r} is {describe(found)}; it must be an integer scalar{advice}", argument=name)
    if signed and not found.dtype.is_signed:
        ctx.fail(
            f"an entry of {name!r} is {found.dtype}; indices are signed: write .astype(ct.int32) or .astype(ct.int64)",
            argument=name,
        )
    return found.value


def index(ctx: Context, value: Any, rank: int, what: str, name: str = "index") -> list[Value]:
    """A tuple of ``rank`` integer scalars, or a bare scalar for rank 1."""
    entries: Sequence[Any] = value if isinstance(value, tuple) else (value,)
    if len(entries) != rank:
        plural = "entry" if len(entries) == 1 else "entries"
        wrong(
            ctx,
            name,
            f"has {len(entries)} {plural}, but {what} has {rank} dimension{'s' * (rank != 1)}: write "
            f"one entry per dimension, such as {name}={_example(rank)}",
        )
    return [scalar_index(ctx, e, name) for e in entries]


def _example(rank: int) -> str:
    letters = "ijklmnop"[:rank] if rank <= 8 else "i" * rank
    return f"({', '.join(letters)}{',' if rank == 1 else ''})"


def order(ctx: Context, value: Any, rank: int) -> tuple[int, ...]:
    """``"C"``, ``"F"`` or a permutation: which array axis each tile axis walks."""
    if value == "C":
        return tuple(range(rank))
    if value == "F":
        return tuple(reversed(range(rank)))
    if not isinstance(value, tuple):
        wrong(ctx, "order", f"must be 'C', 'F' or a permutation, not {describe(value)}")
    found = tuple(const_int(ctx, v, "order") for v in value)
    if len(found) == rank:
        found = tuple(v + rank if -rank <= v < 0 else v for v in found)
    if sorted(found) != list(range(rank)):
        wanted = f"a permutation of 0 to {rank - 1}"
        wrong(ctx, "order", f"is {found}; for this array it must be {wanted}")
    return found


def latency(ctx: Context, value: Any) -> Any:
    """The latency hint: None, 1 to 10, or a ByTarget of these."""
    choices = [*value.values.values()] if isinstance(value, ByTarget) else [] if value is None else [value]
    for v in choices:
        found = const_int(ctx, v, "latency")
        if not 1 <= found <= 10:
            ctx.fail(f"'latency' is {found}; it must be between 1 and 10", TileValueError, argument="latency")
    return value if isinstance(value, ByTarget) or value is None else const_int(ctx, value, "latency")


def allow_tma(ctx: Context, value: Any) -> Any:
    if value is None or isinstance(value, ByTarget):
        return value
    return const_bool(ctx, value, "allow_tma")
