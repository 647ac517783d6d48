"""Tile IR in memory: a module of entries and globals, as a file holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from tilewright.tileir.debug import Location
from tilewright.tileir.optable import OpSpec
from tilewright.tileir.types import Scalar, Tile, Type


@dataclass(slots=True, eq=False)
class Value:
    """A result of an op, an argument of a block, or a parameter of an entry."""

    type: Type


Operand = Union[Value, list[Value], None]


@dataclass(slots=True, eq=False)
class Operation:
    """An op: operands and attributes by the names of its declaration ``spec``.

    An optional operand or attribute that is absent is None; a variadic operand is a list. ``offset`` is the byte of the
    file, or the line of the text, that it came from.
    """

    spec: OpSpec
    operands: dict[str, Any]
    attributes: dict[str, Any]
    results: Sequence[Value]
    regions: list[Block | None]
    loc: Location | None = None
    offset: int = 0

    @property
    def name(self) -> str:
        return self.spec.name

    def values(self) -> Iterator[Value]:
        """Every operand, in order."""
        for operand in self.operands.values():
            if isinstance(operand, list):
                yield from operand
            elif operand is not None:
                yield operand

    def walk(self) -> Iterator[Operation]:
        """This op and those in its regions, in the order of a file."""
        yield self
        for block in self.regions:
            if block is not None:
                yield from block.walk()


@dataclass(slots=True, eq=False)
class Block:
    """Arguments and ops; the last op is a terminator."""

    args: list[Value] = field(default_factory=list)
    ops: list[Operation] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        for op in self.ops:
            yield from op.walk()


@dataclass
class Entry:
    """A kernel. ``hints`` are its optimization hints by architecture; ``arg_attrs`` come with version 13.5."""

    name: str
    body: Block
    hints: HintsAttr | None = None
    arg_attrs: ArrayAttr | None = None
    loc: Location | None = None
    private: bool = False


@dataclass
class Global:
    """Memory with initial contents that all blocks of all kernels of a module share."""

    name: str
    type: Tile
    value: bytes
    alignment: int = 0
    visibility: str = "public"
    constant: bool = False


class RepeatedConstant(bytes):
    """Data of a constant that the file has before, too, for another type: an object of its own, to stay apart."""


@dataclass
class FileLayout:
    """How a file was laid out, for writing it again byte by byte: its sections, tables and padding."""

    sections: tuple[int, ...] = ()
    strings: tuple[bytes, ...] = ()
    types: tuple[Type, ...] = ()
    constants: tuple[bytes, ...] = ()
    locations: tuple[Location, ...] = ()
    padded: bool = False
    function_lists: tuple[int, ...] = ()


@dataclass
class Module:
    """A file: ``minor`` is its version 13.minor."""

    minor: int
    entries: list[Entry] = field(default_factory=list)
    globals: list[Global] = field(default_factory=list)
    producer: str | None = None
    file: str = ""
    layout: FileLayout | None = None

    def entry(self, name: str) -> Entry:
        """The entry called ``name``. KeyError when there is none."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)


@dataclass(frozen=True)
class IntegerAttr:
    """A number of an integer type, as unsigned bits."""

    type: Type
    value: int


@dataclass(frozen=True)
class FloatAttr:
    """A number of a floating-point type, as its bits."""

    type: Scalar
    bits: int


@dataclass(frozen=True)
class BoolAttr:
    value: bool


@dataclass(frozen=True)
class TypeAttr:
    type: Type


@dataclass(frozen=True)
class StringAttr:
    value: str


@dataclass(frozen=True)
class ArrayAttr:
    items: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class DenseAttr:
    type: Type
    data: bytes


@dataclass(frozen=True)
class DivByAttr:
    """Multiples of ``divisor``; with ``every`` and ``along`` only every so many elements of an axis."""

    divisor: int
    every: int | None = None
    along: int | None = None


@dataclass(frozen=True)
class SameElementsAttr:
    """Equal elements within blocks of these extents."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class BoundedAttr:
    """Numbers from ``lower`` to ``upper``; None leaves a side open."""

    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True)
class DictAttr:
    entries: tuple[tuple[str, Attribute], ...] = ()


@dataclass(frozen=True)
class HintsAttr:
    """Optimization hints: architecture (or ``default``) to its hints."""

    entries: tuple[tuple[str, Attribute], ...] = ()


Attribute = Union[
    IntegerAttr,
    FloatAttr,
    BoolAttr,
    TypeAttr,
    StringAttr,
    ArrayAttr,
    DenseAttr,
    DivByAttr,
    SameElementsAttr,
    BoundedAttr,
    DictAttr,
    HintsAttr,
]
