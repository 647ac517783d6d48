"""Appends ops of CUDA Tile IR, and keeps what each value of our IR became."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilewright.ir import core
from tilewright.ir.dtypes import DType
from tilewright.ir.semantics.conversion import from_float64, to_float64
from tilewright.ir.types import PointerType, TileType
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.export.make import MAKERS
from tilewright.tileir.module import FloatAttr, IntegerAttr, Value
from tilewright.tileir.numbers import FORMATS, encode
from tilewright.tileir.optable import BY_NAME, NEWEST
from tilewright.tileir.types import I8, I64, SCALARS, Element, Pointer, Scalar, Tile

if TYPE_CHECKING:
    from tilewright.tileir.bytecode.encode import BodyWriter, WrittenLocation
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
    return encode(dtype, value) if dtype.is_floating else int(value) & (1 << scalar(dtype).bits) - 1


Splat = tuple[Scalar, int, tuple[int, ...]]  # the type of the elements, the bits of one, and the shape


_SPLATS: dict[tuple[Any, ...], Splat] = {}


def splat_of(dtype: DType, value: bool | float, shape: tuple[int, ...]) -> Splat:
    """A tile of elements that equal ``value``."""
    key = dtype, value.__class__, value or repr(value), shape  # zeros may have signs
    found = _SPLATS.get(key)
    if found is None:
        if len(_SPLATS) > _MOST_TILES:
            _SPLATS.clear()
        found = _SPLATS[key] = scalar(dtype), number_bits(dtype, value), shape
    return found


def number_in(dtype: DType, value: bool | float) -> bool | float:
    """``value`` as the number that ``dtype`` has for it, where that is a restricted float."""
    return float(to_float64(from_float64(np.array(value, np.float64), dtype), dtype)) if dtype.is_restricted else value


def number_attribute(dtype: DType, value: bool | float) -> IntegerAttr | FloatAttr:
    bits = number_bits(dtype, value)
    return FloatAttr(scalar(dtype), bits) if dtype.is_floating else IntegerAttr(scalar(dtype), bits)


# By version, the types of tiles that it has, by what ours are made of.
_TILES: dict[int, dict[tuple[DType | PointerType, tuple[int, ...]], Tile]] = {n: {} for n in range(1, NEWEST + 1)}
_MOST_TILES = 4096


class Emitter(dict[core.Value, Value]):
    """What each value of our IR became. Ops are written by ``make``, and see the constants and views that are
    ``known``."""

    tokens: Tokens

    def __init__(self, minor: int, kernel: Kernel, writer: BodyWriter) -> None:
        self.minor, self.kernel, self.writer, self.make = minor, kernel, writer, MAKERS[minor]
        self.may_use_tma, self.divisors = kernel.may_use_tma, kernel.divisors
        self.known: dict[Hashable, Value] = {}
        self.tiles = _TILES[minor]
        if len(self.tiles) > _MOST_TILES:
            self.tiles.clear()
        self.loc: WrittenLocation | None = None
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
        return self.splat(splat_of(dtype, value, shape))

    def splat(self, splat: Splat) -> Value:
        """A tile of equal elements; of those that are the same, the first one serves where it is visible."""
        found = self.known.get(splat)
        if found is None:
            s, bits, shape = splat
            if s.since > self.minor:
                self.require(s)
            data = (b"\xff" if bits else b"\0") if s.bits == 1 else bits.to_bytes(s.bytes, "little")
            found = self.known[splat] = self.make["constant"](self, {}, tile_of(s, shape), value=data)
        return found

    def null(self, type: TileType) -> Value:
        zero = self.make["constant"](self, {}, tile_of(I64, type.shape), value=bytes(8))
        return self.make["int_to_ptr"](self, {"source": zero}, self.tile(type))

    @contextlib.contextmanager
    def region(self, args: Sequence[Value], known: dict[Hashable, Value]) -> Iterator[None]:
        """Meanwhile ops are those of a region, which see what is ``known``."""
        around, self.known = self.known, known
        begun = self.writer.begin(args)
        yield
        self.writer.end(begun)
        self.known = around

    def where(self, message: str) -> str:
        """``message`` after the location in the source of the op that is being exported."""
        return message if self.op is None else f"{self.op.loc}: {message}"

    def error(self, message: str) -> TileIRError:
        """The error that no version has the op which is being exported: ``message`` says what of it."""
        name = "" if self.op is None else f"{self.op.name}: "
        return TileIRError(self.where(f"{name}{message}; no version of CUDA Tile IR up to 13.{NEWEST} can express it"))
