"""What the import of an entry knows: the builder of our IR, and what each value of Tile IR became."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union

from tilewright.ir import core, dtypes
from tilewright.ir.builder import Builder
from tilewright.ir.location import Loc
from tilewright.ir.opdef import IRError
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.memory import Assume
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import ElementType, PointerType, TensorViewType, TileType
from tilewright.tileir.errors import TileIRError
from tilewright.tileir.module import Module, Operation, Value
from tilewright.tileir.numbers import FORMATS
from tilewright.tileir.types import Pointer, Scalar, TileView, Type
from tilewright.tileir.types import Tile as TileIRTile

NIBBLE = "i4"  # which our IR has no dtype for: int8 with the sign extended
_UNSIGNED = dict(zip(dtypes.SIGNED_INTEGERS, dtypes.UNSIGNED_INTEGERS))


@dataclass(frozen=True)
class TensorView:
    """A tensor view: our value, and the numbers that made it; known ones are Python numbers."""

    value: core.Value
    base: core.Value
    shape: tuple[core.Value | int, ...]
    strides: tuple[core.Value | int, ...]
    type: TensorViewType


@dataclass(frozen=True)
class View:
    """A tensor view with the way it is cut into tiles; ``value`` is our partition view, None for gathering."""

    tensor: TensorView
    type: TileView
    value: core.Value | None


Made = Union[core.Value, TensorView, View]
M = TypeVar("M")


def dtype_of(scalar: Scalar) -> dtypes.DType:
    """The dtype of an element type; integers, of which Tile IR does not know the sign, are signed."""
    if scalar.name == NIBBLE:
        return dtypes.int8
    return FORMATS.get(scalar.name) or dtypes.dtype_from_short(scalar.name)


def unsigned(dtype: dtypes.DType) -> dtypes.DType:
    return _UNSIGNED.get(dtype, dtype)


def element_type(element: Scalar | Pointer) -> ElementType:
    """What elements are in our IR: a pointer to pointers is one to 64-bit integers."""
    if isinstance(element, Scalar):
        return dtype_of(element)
    return PointerType(dtypes.int64 if isinstance(element.pointee, Pointer) else dtype_of(element.pointee))


def tile_type(type: Type) -> TileType:
    """The type of a tile in our IR. TileIRError for what is no tile."""
    if not isinstance(type, TileIRTile):
        raise TileIRError(f"{type} is no tile")
    return TileType(element_type(type.element), type.shape)


def number_type(type: Type) -> dtypes.DType:
    """The dtype of a tile of numbers. TileIRError for others."""
    found = tile_type(type)
    if found.is_pointer:
        raise TileIRError(f"{type} holds pointers; a tile of numbers is expected")
    return found.element


@dataclass
class Context:
    """``checked`` asks for everything that Tile IR leaves undefined to be stated, for the sanitizer."""

    module: Module
    builder: Builder
    checked: bool
    values: dict[Value, Made] = field(default_factory=dict)
    op: Operation | None = None
    memory: dict[str, core.Value] = field(default_factory=dict)  # globals and shared arrays -> their base pointers
    loc: Loc | None = None

    def __getitem__(self, value: Value) -> core.Value:
        """The tile that ``value`` became."""
        return self.made(value, core.Value, "a tile")

    def get(self, value: Value | None) -> core.Value | None:
        return None if value is None else self[value]

    def all(self, values: Sequence[Value]) -> list[core.Value]:
        return [self[v] for v in values]

    def operands(self, op: Operation) -> list[Any]:
        """What the operands of ``op`` became, in order, without tokens, and without what may be a view of any kind."""
        given = [(name, operand) for name, operand in op.operands.items() if name not in ("token", "tokens", "src")]
        return [self.all(o) if isinstance(o, list) else _VIEWS.get(name, Context.get)(self, o) for name, o in given]

    def tensor(self, value: Value) -> TensorView:
        return self.made(value, TensorView, "a tensor view")

    def view(self, value: Value) -> View:
        return self.made(value, View, "a view of tiles")

    def made(self, value: Value, cls: type[M], expected: str) -> M:
        """What ``value`` became, which is ``expected`` to be a ``cls``."""
        found = self.values.get(value)
        if not isinstance(found, cls):
            raise self.error(f"{value.type} is not possible here, where {expected} is expected")
        return found

    def emit(self, cls: type[core.Op], *operands: Any, **attributes: Any) -> core.Value:
        return self.emit_op(cls, *operands, **attributes).result

    def emit_op(self, cls: type[core.Op], *operands: Any, **attributes: Any) -> core.Op:
        """Append an op. TileIRError when the types of Tile IR do not fit the op, which no reader checks."""
        try:
            return self.builder.emit_op(cls, *operands, **attributes)
        except (IRError, TypeError) as e:
            raise self.error(str(e)) from None

    def constant(self, value: bool | int | float, dtype: ElementType, shape: tuple[int, ...] = ()) -> core.Value:
        return self.emit(Constant, value=value, type=TileType(dtype, shape))

    def cast(self, value: core.Value, dtype: dtypes.DType) -> core.Value:
        """``value`` with elements of ``dtype``: integers extend or wrap."""
        return value if value.tile.dtype is dtype else self.emit(Cast, value, dtype=dtype)

    def number(self, value: core.Value | int, dtype: dtypes.DType) -> core.Value:
        """An extent or a stride as a value."""
        return self.constant(value, dtype) if isinstance(value, int) else self.cast(value, dtype)

    def promise(self, condition: core.Value, message: str, *values: core.Value, kind: str = "assumption") -> None:
        """State that ``condition`` holds, where that is wanted."""
        self.emit_op(Assume, condition, values, [], kind=kind, message=message)

    def error(self, message: str) -> TileIRError:
        if self.op is None:
            return TileIRError(message, self.loc)
        if self.loc is not None and self.loc.line:
            return TileIRError(f"{self.op.name}: {message}", self.loc)
        return TileIRError(f"{self.module.file or 'bytecode'}: at byte {self.op.offset}: {self.op.name}: {message}")


_VIEWS: dict[str, Callable[[Context, Any], Any]] = {"view": Context.view, "tensor_view": Context.tensor}


def dtype_in(e: Context, value: core.Value) -> dtypes.DType:
    """The dtype of a tile of numbers. TileIRError for pointers."""
    if value.tile.is_pointer:
        raise e.error(f"{value.type} holds pointers; numbers are expected")
    return value.tile.element


def is_bool(value: core.Value) -> bool:
    return value.tile.dtype is dtypes.bool_


def as_unsigned(e: Context, value: core.Value) -> core.Value:
    """Integers read as unsigned."""
    return e.cast(value, unsigned(dtype_in(e, value)))
