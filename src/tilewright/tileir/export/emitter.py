"""Appends ops of CUDA Tile IR, and keeps what each value of our IR became."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from tilewright.ir import core
from tilewright.ir.dtypes import DType
from tilewright.ir.semantics.conversion import from_float64, to_float64
from tilewright.ir.types import PointerType, TileType
from tilewright.tileir.debug import Location
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.export.make import make
from tilewright.tileir.module import Block, FloatAttr, IntegerAttr, Operation, Value
from tilewright.tileir.numbers import FORMATS, encode
from tilewright.tileir.optable import BY_NAME, NEWEST
from tilewright.tileir.types import I8, I64, SCALARS, Element, Pointer, Scalar, Tile

if TYPE_CHECKING:
    from tilewright.tileir.export.function import Kernel
    from tilewright.tileir.export.tokens import Tokens

_NAMES = {dtype: name for name, dtype in FORMATS.items()}


class _Scalars(dict[DType, Scalar]):
    def __missing__(self, dtype: DType) -> Scalar:
        name = f"i{dtype.bitwidth}" if dtype.is_integer else _NAMES.get(dtype, dtype.short)
        found = self[dtype] = SCALARS[name]
        return found


_SCALARS = _Scalars()


# The element type of a dtype: integers lose their sign, which their ops have instead.
scalar = _SCALARS.__getitem__


def element(dtype: DType | PointerType) -> Scalar | Pointer:
    if isinstance(dtype, DType):
        return scalar(dtype)
    return Pointer(I8 if dtype.pointee is None else scalar(dtype.pointee))


@functools.cache
def tile_of(of: Element, shape: tuple[int, ...] = ()) -> Tile:
    """The type of tiles; equal ones are one object, which its writer needs to look up once."""
    return Tile(of, shape)


class _Signedness(dict[DType, str]):
    def __missing__(self, dtype: DType) -> str:
        found = self[dtype] = "signed" if dtype.is_signed else "unsigned"
        return found


signedness = _Signedness().__getitem__


def number_bits(dtype: DType, value: bool | float) -> int:
    """The bits of ``value`` in the format of ``dtype``."""
    if dtype.is_floating:
        return _float_bits(dtype, value, math.copysign(1.0, value))
    return int(value) & (1 << scalar(dtype).bits) - 1


@functools.lru_cache(maxsize=1024)
def _float_bits(dtype: DType, value: float, sign: float) -> int:
    """As ``number_bits``; ``sign`` tells zeros apart."""
    return encode(dtype, value)


Splat = tuple[Scalar, int, tuple[int, ...]]  # the type of the elements, the bits of one, and the shape


@functools.lru_cache(maxsize=4096, typed=True)
def splat_of(dtype: DType, value: bool | float, sign: float, shape: tuple[int, ...]) -> Splat:
    """A tile of elements that equal ``value``, whose ``sign`` tells zeros apart."""
    return scalar(dtype), number_bits(dtype, value), shape


def number_in(dtype: DType, value: bool | float) -> bool | float:
    """``value`` as the number that ``dtype`` has for it, where that is a restricted float."""
    return float(to_float64(from_float64(np.array(value, np.float64), dtype), dtype)) if dtype.is_restricted else value


def number_attribute(dtype: DType, value: bool | float) -> IntegerAttr | FloatAttr:
    bits = number_bits(dtype, value)
    return FloatAttr(scalar(dtype), bits) if dtype.is_floating else IntegerAttr(scalar(dtype), bits)


# By version, the types of tiles that it has, by what ours are made of.
_TILES: dict[int, dict[tuple[DType | PointerType, tuple[int, ...]], Tile]] = {n: {} for n in range(1, NEWEST + 1)}
_MOST_TILES = 4096


class OpenBlock(NamedTuple):
    """A block of our IR while it is exported. ``append`` takes its ops; they see the constants and views that are
    ``known``."""

    source: core.Block
    append: Callable[[Operation], None]
    known: dict[Hashable, Value]
    is_loop: bool


class Emitter(dict[core.Value, Value]):
    """What each value of our IR became. Ops are added by ``append`` to the block of the innermost of ``frames``."""

    tokens: Tokens

    def __init__(self, minor: int, kernel: Kernel, body: Block) -> None:
        self.minor, self.kernel, self.may_use_tma = minor, kernel, kernel.may_use_tma
        self.frames = [OpenBlock(kernel.function.body, body.ops.append, {}, False)]
        self.append, self.known = self.frames[0].append, self.frames[0].known
        self.tiles = _TILES[minor]
        if len(self.tiles) > _MOST_TILES:
            self.tiles.clear()
        self.depths: dict[core.Value | Value, int] = {}  # of views: the frame that each was made in
        self.loc: Location | None = None
        self.splats: dict[core.Value, Splat] = {}  # values of equal elements, which are made where they are used
        self.op: core.Op | None = None

    def __missing__(self, value: core.Value) -> Value:
        splat = self.splats[value]
        return self.known.get(splat) or self.splat(splat)

    def result(self, op: core.Op) -> Tile:
        """The type of the result of ``op``."""
        type: Any = op.results[0].type
        return self.tiles.get((type.dtype, type.shape)) or self.tile(type)

    def tile(self, type: TileType) -> Tile:
        """The type that becomes of ours. VersionError for one that files of this version do not have."""
        found = self.tiles.get((type.dtype, type.shape))
        if found is None:
            found = tile_of(element(type.dtype), type.shape)
            self.require(found.element)
            self.tiles[type.dtype, type.shape] = found
        return found

    def require(self, element: Element) -> None:
        """VersionError for a type that files of this version do not have."""
        while isinstance(element, Pointer):
            element = element.pointee
        if element.since > self.minor:
            raise VersionError(
                self.where(f"the type {element} needs bytecode 13.{element.since}, which 13.{self.minor} lacks")
            )

    def all(self, values: Sequence[core.Value]) -> list[Value]:
        return list(map(self.__getitem__, values))

    def lacks(self, name: str) -> NoReturn:
        since = BY_NAME[name].since
        raise VersionError(self.where(f"{name} needs bytecode 13.{since}, which 13.{self.minor} lacks"))

    def constant(self, dtype: DType, value: bool | float, shape: tuple[int, ...] = ()) -> Value:
        """A tile of equal elements."""
        return self.splat(splat_of(dtype, value, math.copysign(1.0, value), shape))

    def splat(self, splat: Splat) -> Value:
        """A tile of equal elements; of those that are the same, the first one serves where it is visible."""
        found = self.known.get(splat)
        if found is None:
            s, bits, shape = splat
            if s.since > self.minor:
                self.require(s)
            data = (b"\xff" if bits else b"\0") if s.bits == 1 else bits.to_bytes(s.bytes, "little")
            found = self.known[splat] = make["constant"](self, {}, tile_of(s, shape), value=data)
        return found

    def null(self, type: TileType) -> Value:
        zero = make["constant"](self, {}, tile_of(I64, type.shape), value=bytes(8))
        return make["int_to_ptr"](self, {"source": zero}, self.tile(type))

    def enter(self, source: core.Block, block: Block, known: dict[Hashable, Value], *, is_loop: bool) -> None:
        self.frames.append(OpenBlock(source, block.ops.append, known, is_loop))
        self.append, self.known = block.ops.append, known

    def leave(self) -> None:
        self.frames.pop()
        self.append, self.known = self.frames[-1].append, self.frames[-1].known

    def shared(self, op: core.Op, key: Hashable, build: Callable[[Emitter, Any, Any], Value], made: Any) -> Value:
        """A view of the type ``made``, which is made once for all equal ones, and outside of the loops that it does not
        depend on."""
        found = self.known.get(key)
        if found is not None:
            self.depths[op.results[0]] = self.depths[found]
            return found
        last = depth = len(self.frames) - 1
        if depth:
            depth = self._outermost(op, depth)
        if depth == last:
            found = self.known[key] = build(self, op, made)
        else:
            self.append, self.known = self.frames[depth].append, self.frames[depth].known
            found = build(self, op, made)
            for frame in self.frames[depth:]:
                frame.known[key] = found
            self.append, self.known = self.frames[-1].append, self.frames[-1].known
        self.depths[op.results[0]] = self.depths[found] = depth
        return found

    def _outermost(self, op: core.Op, depth: int) -> int:
        """The frame, not outside of a branch, in which the operands of ``op`` are there already."""
        frames, splats, depths = self.frames, self.splats, self.depths
        if not frames[depth].is_loop:
            return depth
        least, inside = 0, []
        for v in op.operands:
            if v in depths:
                least = max(least, depths[v])
            elif v not in splats:
                inside.append(v.block)
        while depth > least and frames[depth].is_loop and frames[depth].source not in inside:
            depth -= 1
        return depth

    def where(self, message: str) -> str:
        """``message`` after the location in the source of the op that is being exported."""
        return message if self.op is None else f"{self.op.loc}: {message}"

    def error(self, message: str) -> TileIRError:
        """The error that no version has the op which is being exported: ``message`` says what of it."""
        name = "" if self.op is None else f"{self.op.name}: "
        return TileIRError(self.where(f"{name}{message}; no version of CUDA Tile IR up to 13.{NEWEST} can express it"))
