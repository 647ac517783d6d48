"""Appends ops of CUDA Tile IR, and keeps what each value of our IR became."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir import core
from tilewright.ir.dtypes import DType, float8_e5m3fnu, tfloat32
from tilewright.ir.semantics.conversion import from_float64
from tilewright.ir.types import PointerType, TileType
from tilewright.tileir.debug import Location
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.module import Attribute, Block, FloatAttr, IntegerAttr, Operation, Value
from tilewright.tileir.optable import BY_NAME, NO_DEFAULT, OpSpec
from tilewright.tileir.types import I8, I64, SCALARS, TOKEN, Element, Pointer, Scalar, Tile, Type

_NAMES = {
    "f8e4m3fn": "f8E4M3FN",
    "f8e5m2": "f8E5M2",
    "f8e8m0fnu": "f8E8M0FNU",
    "f8e5m3fnu": "fnv8E5M3FNU",
    "f4e2m1fn": "f4E2M1FN",
}


@functools.cache
def scalar(dtype: DType) -> Scalar:
    """The element type of ``dtype``: integers lose their sign, which their ops have instead."""
    name = f"i{dtype.bitwidth}" if dtype.is_integer else _NAMES.get(dtype.short, dtype.short)
    return SCALARS[name]


def element(dtype: DType | PointerType) -> Scalar | Pointer:
    if isinstance(dtype, DType):
        return scalar(dtype)
    return Pointer(I8 if dtype.pointee is None else scalar(dtype.pointee))


@functools.lru_cache(maxsize=4096)
def tile(type: TileType) -> Tile:
    return tile_of(element(type.dtype), type.shape)


@functools.lru_cache(maxsize=4096)
def tile_of(of: Element, shape: tuple[int, ...] = ()) -> Tile:
    """The type of tiles; equal ones are one object, which its writer needs to look up once."""
    return Tile(of, shape)


def signedness(dtype: DType) -> str:
    return "signed" if dtype.is_signed else "unsigned"


def number_bits(dtype: DType, value: bool | float) -> int:
    """The bits of ``value`` in the format of ``dtype``."""
    if not dtype.is_floating:
        return int(value) & (1 << scalar(dtype).bits) - 1
    return _float_bits(dtype, value, math.copysign(1.0, value))


@functools.lru_cache(maxsize=1024)
def _float_bits(dtype: DType, value: float, sign: float) -> int:
    """As ``number_bits``; ``sign`` tells zeros apart."""
    if dtype is float8_e5m3fnu:
        return int(from_float64(np.array(value, np.float64), dtype))
    raw = int.from_bytes(np.array(value, dtype.storage).tobytes(), "little")
    return raw >> 13 if dtype is tfloat32 else raw & (1 << scalar(dtype).bits) - 1


Splat = tuple[Scalar, int, tuple[int, ...]]  # the type of the elements, the bits of one, and the shape


def number_attribute(dtype: DType, value: bool | float) -> Attribute:
    bits = number_bits(dtype, value)
    return FloatAttr(scalar(dtype), bits) if dtype.is_floating else IntegerAttr(scalar(dtype), bits)


def _blank(spec: OpSpec) -> tuple[OpSpec, dict[str, Any], tuple[str, ...], dict[str, Any]]:
    """A declaration, operands that are absent, which of them are lists, and attributes as they are by default."""
    defaults = {a.name: None if a.default is NO_DEFAULT else a.default for a in spec.attributes}
    lists = tuple(o.name for o in spec.operands if o.variadic)
    blank = dict.fromkeys(o.name for o in spec.operands)
    return spec, blank, lists, {**defaults, **dict.fromkeys(spec.units, False)}


_BLANK = {name: _blank(spec) for name, spec in BY_NAME.items()}


class Emitter:
    """Appends to ``block``. ``token`` orders the next memory op after all before it, in the order of the program."""

    def __init__(self, minor: int, body: Block) -> None:
        self.minor = minor
        self.block = body
        self.values: dict[core.Value, Value] = {}
        self.token: Value | None = None
        self.loc: Location | None = None
        self.grid: dict[str, list[Value]] = {}
        self.tiles: dict[int, Tile] = {}  # by the identity of what is a tile type in our IR
        self.splats: dict[core.Value, Splat] = {}  # values of equal elements, which are made where they are used
        self.constants: dict[tuple[int, int, tuple[int, ...]], Value] = {}  # those that ``block`` sees
        self.op: core.Op | None = None
        self.negative_strides = False  # that arrays may have

    def __getitem__(self, value: core.Value) -> Value:
        found = self.values.get(value)
        return self.splat(self.splats[value]) if found is None else found

    def result(self, op: core.Op) -> Tile:
        """The type of the result of ``op``, which the function keeps alive."""
        type = op.results[0].type
        found = self.tiles.get(id(type))
        if found is None:
            found = self.tiles[id(type)] = tile(op.result.tile)
            self.require(found.element)
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
        return [self[v] for v in values]

    def add(
        self,
        name: str,
        operands: dict[str, Any],
        results: Sequence[Type] = (),
        regions: Sequence[Block | None] = (),
        **attributes: Any,
    ) -> list[Value]:
        """Append an op; attributes that are left out have their defaults. Returns its results."""
        made = [Value(t) for t in results]
        self.append(name, operands, made, list(regions), attributes)
        return made

    def one(self, name: str, operands: dict[str, Any], result: Type, **attributes: Any) -> Value:
        made = Value(result)
        self.append(name, operands, [made], [], attributes)
        return made

    def append(
        self,
        name: str,
        operands: dict[str, Any],
        results: list[Value],
        regions: list[Block | None],
        attributes: dict[str, Any],
    ) -> None:
        spec, blank, variadic, defaults = _BLANK[name]
        if spec.since > self.minor:
            raise VersionError(self.where(f"{name} needs bytecode 13.{spec.since}, which 13.{self.minor} lacks"))
        if len(operands) != len(blank):
            operands = {**blank, **operands}
            for many in variadic:
                if operands[many] is None:
                    operands[many] = []
        if len(attributes) != len(defaults):
            attributes = {**defaults, **attributes}
        assert len(operands) == len(blank) and len(attributes) == len(defaults), (name, operands, attributes)
        self.block.ops.append(Operation(spec, operands, attributes, results, regions, self.loc))

    def constant(self, dtype: DType, value: bool | float, shape: tuple[int, ...] = ()) -> Value:
        """A tile of equal elements."""
        return self.splat((scalar(dtype), number_bits(dtype, value), shape))

    def splat(self, splat: Splat) -> Value:
        """A tile of equal elements; of those that are the same, the first one serves where it is visible."""
        s, bits, shape = splat
        key = s.tag, bits, shape
        found = self.constants.get(key)
        if found is None:
            self.require(s)
            data = (b"\xff" if bits else b"\0") if s.bits == 1 else bits.to_bytes(s.bytes, "little")
            found = self.constants[key] = self.one("constant", {}, tile_of(s, shape), value=data)
        return found

    def null(self, type: TileType) -> Value:
        zero = self.one("constant", {}, tile_of(I64, type.shape), value=bytes(8))
        return self.one("int_to_ptr", {"source": zero}, tile(type))

    def ordered(
        self, name: str, operands: dict[str, Any], results: Sequence[Type], attributes: dict[str, Any]
    ) -> list[Value]:
        """Append a memory op, after those before it; its last result, the token, orders the next one."""
        operands["token"] = self.token
        found = [Value(t) for t in results]
        self.token = Value(TOKEN)
        self.append(name, operands, [*found, self.token], [], attributes)
        return found

    def where(self, message: str) -> str:
        """``message`` after the place in the source of the op that is being exported."""
        return message if self.op is None else f"{self.op.loc}: {message}"

    def error(self, message: str) -> TileIRError:
        return TileIRError(self.where(message))
