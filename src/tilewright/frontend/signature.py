"""What a kernel is specialised on: one descriptor per argument, and how each becomes function parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Union

from tilewright.ir.core import Param
from tilewright.ir.dtypes import DType, int32, int64
from tilewright.ir.types import PointerType, TileType
from tilewright.records import NamedTuple, dataclass


class Extent(NamedTuple):
    """An extent or a stride of an array: ``known`` where the machine code relies on it, ``visible`` where the kernel's
    own code does, and what divides it."""

    role: str  # "shape" or "stride"
    axis: int
    known: int | None
    visible: bool
    divisor: int


@dataclass(frozen=True)
class ArraySpec:
    """An array argument.

    ``shape`` and ``strides`` (in elements) hold the extents that the machine code relies on, None where it reads
    them at run time. ``constant_shape`` and ``constant_strides`` name the axes whose extents are constants for the
    kernel's own code too, because an ``ArrayAnnotation`` says so. The ``*_divisible`` facts are divisors: of the base
    address in bytes, 16 or 1; in elements of extents, 16, 16 bytes of a row or 1, and of strides, 32 or 16 bytes or 1.
    """

    dtype: DType
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    index_dtype: DType = int32
    constant_shape: tuple[int, ...] = ()
    constant_strides: tuple[int, ...] = ()
    base_divisible: int = 1
    shape_divisible: tuple[int, ...] = ()
    strides_divisible: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def extents(self) -> Iterator[Extent]:
        """The extents, and after them the strides."""
        for role, known, visible, divisors in (
            ("shape", self.shape, self.constant_shape, self.shape_divisible),
            ("stride", self.strides, self.constant_strides, self.strides_divisible),
        ):
            for axis, number in enumerate(known):
                yield Extent(role, axis, number, axis in visible, divisors[axis] if divisors else 1)


def shared_spec(specs: Sequence[ArraySpec]) -> ArraySpec | None:
    """What is true of the arrays of all ``specs``; None when their dtypes, ranks or index dtypes differ."""
    first = specs[0]
    if len({(s.dtype, s.ndim, s.index_dtype) for s in specs}) > 1:
        return None

    def agreed(rows: list[tuple[int | None, ...]]) -> tuple[int | None, ...]:
        return tuple(column[0] if len(set(column)) == 1 else None for column in zip(*rows))

    def constant(rows: list[tuple[int, ...]], extents: tuple[int | None, ...]) -> tuple[int, ...]:
        return tuple(a for a in rows[0] if extents[a] is not None and all(a in axes for axes in rows))

    def divisors(rows: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(min(column) for column in zip(*rows))

    shape, strides = agreed([s.shape for s in specs]), agreed([s.strides for s in specs])
    return replace(
        first,
        shape=shape,
        strides=strides,
        constant_shape=constant([s.constant_shape for s in specs], shape),
        constant_strides=constant([s.constant_strides for s in specs], strides),
        base_divisible=min(s.base_divisible for s in specs),
        shape_divisible=divisors([s.shape_divisible for s in specs]),
        strides_divisible=divisors([s.strides_divisible for s in specs]),
    )


@dataclass(frozen=True)
class PointerSpec:
    """An array argument of a language whose parameters are typed pointers: its address, a multiple of ``divisible``.

    ``dtype`` is what the parameter points to; None for ``void``. With ``null`` there is no array, and the address is 0.
    """

    dtype: DType | None
    divisible: int = 1
    null: bool = False


@dataclass(frozen=True)
class ScalarSpec:
    """A number that the kernel reads at run time."""

    dtype: DType


@dataclass(frozen=True)
class ConstantSpec:
    """A value embedded in the code. ``key`` is what is compared: it keeps 1, 1.0 and True apart, and NaN equals NaN."""

    value: object = field(compare=False)
    key: object

    @staticmethod
    def of(value: object) -> ConstantSpec:
        return ConstantSpec(value, (type(value).__name__, repr(value) if isinstance(value, float) else value))


@dataclass(frozen=True)
class TupleSpec:
    """A tuple of arguments."""

    items: tuple[ArgumentSpec, ...]


@dataclass(frozen=True)
class ListSpec:
    """A list of arrays with one descriptor; ``length`` is read at run time.

    In memory it is a table of int64 rows: address, extents, strides (see ``list_row``).
    """

    element: ArraySpec


ArgumentSpec = Union[ArraySpec, PointerSpec, ScalarSpec, ConstantSpec, TupleSpec, ListSpec]


@dataclass(frozen=True)
class Signature:
    """The descriptors of all arguments, in order: the key of a specialisation."""

    arguments: tuple[ArgumentSpec, ...]


def parameters(name: str, spec: ArgumentSpec) -> Iterator[tuple[Param, TileType]]:
    """The function parameters that the argument ``name`` becomes, in order.

    Arrays: base pointer, then every extent and every stride that is None in the spec. Lists: table pointer, length.
    """
    if isinstance(spec, ArraySpec):
        yield Param(name, "base"), TileType(PointerType(spec.dtype))
        index = TileType(spec.index_dtype)
        for extent in spec.extents():
            if extent.known is None:
                yield Param(name, extent.role, extent.axis), index
    elif isinstance(spec, PointerSpec):
        yield Param(name, "base"), TileType(PointerType(spec.dtype))
    elif isinstance(spec, ScalarSpec):
        yield Param(name, "scalar"), TileType(spec.dtype)
    elif isinstance(spec, TupleSpec):
        for i, item in enumerate(spec.items):
            yield from parameters(f"{name}[{i}]", item)
    elif isinstance(spec, ListSpec):
        yield Param(name, "table", spec.element.ndim), TileType(PointerType(int64))
        yield Param(name, "length"), TileType(int32)
