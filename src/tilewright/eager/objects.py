"""The objects of tile code as Python sees them: tiles, arrays, views. They wrap the values of the front end.

Attributes and methods are those of the front end's tables, evaluated at once; ``wrap`` and ``unwrap`` translate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tilewright import language
from tilewright.backends.reference.values import Pointers
from tilewright.eager.builder import ConcreteValue
from tilewright.eager.session import current
from tilewright.frontend.python import values
from tilewright.frontend.python.constants import define_operators
from tilewright.frontend.python.formatting import Hole, formatted, parts_of, text_of
from tilewright.frontend.python.objects import attribute, find_method
from tilewright.frontend.python.ops.convert import strict_constant, to_condition
from tilewright.frontend.python.ops.load_store import list_element
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, float64, with_article
from tilewright.ir.errors import TileError, TileTypeError
from tilewright.ir.formatting import format_tile
from tilewright.ir.semantics import evaluate
from tilewright.language import array as stubs
from tilewright.runtime.arrays import array_describer


class Eager:
    """A run-time value of tile code. ``owner`` keeps the memory of an array of the host alive."""

    __slots__ = ("_owner", "_value")

    def __init__(self, value: Any, owner: Any = None) -> None:
        self._value = value
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        tracer = current()
        try:
            return wrap(attribute(tracer, self._value, name), self._owner)
        except TileTypeError as e:
            raise AttributeError(e.message) from None


class Tile(Eager, stubs.Tile):
    """An eager tile: immutable, with the dtypes and promotion of the language. NumPy can read it."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves operators with tiles to the tile
    __iter__ = None
    __hash__ = object.__hash__

    @property
    def _data(self) -> Any:
        """The elements, or None inside of a combining function, where tiles stand for elements to come."""
        return data_of(self._value.value)

    def _known(self) -> Any:
        if self._data is None:
            current().fail(
                "a combining function is pure arithmetic on scalars: it cannot branch on them or read them. Choose "
                "between values with ct.where"
            )
        return self._data

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        data = self._known()
        data = data.address if isinstance(data, Pointers) else data
        return np.array(data, dtype)

    def __bool__(self) -> bool:
        self._known()
        condition = to_condition(current(), self._value)
        return condition if isinstance(condition, bool) else bool(data_of(condition))

    def __index__(self) -> int:
        self._scalar("an integer", not self._value.value.tile.is_pointer and self._value.dtype.is_integer)
        return int(self._known())

    def __int__(self) -> int:
        return int(self._number("int"))

    def __float__(self) -> float:
        return float(self._number("float"))

    def _number(self, wanted: str) -> Any:
        self._scalar(with_article(wanted), not self._value.value.tile.is_pointer)
        dtype = self._value.dtype
        return evaluate("cast", dtype, {"dtype": float64}, [self._known()]) if dtype.is_floating else self._known()

    def _scalar(self, wanted: str, suits: bool) -> None:
        if self._value.ndim or not suits:
            _fail(f"{_described(self)} is not {wanted}; only such scalars can be used as one")

    def __repr__(self) -> str:
        if self._data is None:
            return f"<{_described(self)} in a combining function>"
        dtype = self._value.element_type
        if not isinstance(dtype, DType):
            return f"Tile({format_tile(self._data.address, dtype)}, dtype={dtype})"
        data = self._data
        if dtype.is_floating:
            data = evaluate("cast", dtype, {"dtype": float64}, [data])
            data = data.astype(np.float32) if dtype.bitwidth <= 32 else data
        return f"Tile({np.array2string(data, separator=', ', prefix='Tile(')}, dtype={dtype})"

    def __str__(self) -> str:
        return self.__format__("")

    def __format__(self, spec: str) -> str:
        """The text that the compiled kernel prints."""
        self._known()
        return _text(formatted(current(), self._value, spec))

    def __reduce__(self) -> NoReturn:
        raise TypeError("eager tiles cannot be pickled; convert them with np.asarray(tile)")


class Array(Eager, stubs.Array):
    """An array in memory, as tile code sees it."""

    __slots__ = ()

    def __repr__(self) -> str:
        array = self._value
        return f"Array({array.name}: {array.dtype}, shape={tuple(map(_shown, array.shape))})"


class TiledView(Eager, stubs.TiledView):
    """The tile space of an array."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"TiledView({self._value.array.name}: {self._value.dtype}, tile_shape={self._value.tile_shape})"


class RawArrayMemory(Eager, stubs.RawArrayMemory):
    """The memory of an array, addressed by offset."""

    __slots__ = ()


class ArrayList(Eager):
    """A list of arrays passed as one kernel argument."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Array:
        if not 0 <= int(index) < len(self):
            raise IndexError(f"index {int(index)} is out of range for a list of {len(self)} arrays")
        return Array(list_element(current(), self._value, unwrap(index)), self._owner)

    def __len__(self) -> int:
        return int(data_of(self._value.length.value))


class Slice(Eager, language.Slice):
    """Consecutive positions along one dimension."""

    __slots__ = ()

    def __new__(cls, value: Any, owner: Any = None) -> Slice:
        made = object.__new__(cls)
        Eager.__init__(made, value, owner)
        return made

    def __init__(self, *arguments: Any) -> None:
        """Python calls this once more with what ``ct.Slice`` was given."""


_CLASSES: dict[type, type[Eager]] = {
    values.Tile: Tile,
    values.Array: Array,
    values.TiledView: TiledView,
    values.RawMemory: RawArrayMemory,
    values.ArrayList: ArrayList,
    values.SliceIndex: Slice,
}


def wrap(value: Any, owner: Any = None) -> Any:
    """What Python sees of a value of the front end."""
    cls = _CLASSES.get(type(value))
    if cls is not None:
        return cls(value, owner)
    if type(value) is tuple:
        return tuple(wrap(v, owner) for v in value)
    if isinstance(value, values.BoundMethod):
        return lambda *arguments, **keywords: apply(value, arguments, keywords)
    return value


def unwrap(value: Any) -> Any:
    """The value of the front end behind what Python has. Arrays of the host become arrays of tile code."""
    if isinstance(value, Eager):
        return value._value
    if type(value) is tuple:
        return tuple(map(unwrap, value))
    if isinstance(value, np.generic):
        return strict_constant(current(), value)
    if isinstance(value, (bool, int, float, str, DType, type)) or value is None:
        return value
    return current().host_array(value) if array_describer(value) is not None else value


def apply(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """An operation of the front end on what Python has."""
    tracer = current()
    given = tuple(map(unwrap, arguments))
    result = tracer.call(function, given, {name: unwrap(v) for name, v in keywords.items()})
    return wrap(result, owners(*arguments))


def owners(*arguments: Any) -> Any:
    """What must live as long as a result of ``arguments``."""
    found = (a._owner if isinstance(a, Eager) else a for a in arguments)
    return tuple(o for o in found if isinstance(o, tuple) or array_describer(o) is not None) or None


def data_of(value: Value) -> Any:
    """The run-time value of a value of the IR; None inside of a combining function."""
    return value.data if isinstance(value, ConcreteValue) else None


def constant_of(value: Any) -> bool | int | float | None:
    """The number behind a strictly typed constant."""
    return value._value.constant if isinstance(value, Tile) else None


def is_eager(value: Any) -> bool:
    """Whether ``value`` is, or contains, a value of tile code."""
    return any(map(is_eager, value)) if type(value) is tuple else isinstance(value, Eager)


def text(value: Any) -> str:
    """``str(value)`` as compiled code has it."""
    if not is_eager(value) and not dataclasses.is_dataclass(value):
        return str(value)
    own = any(find_method(value, name)[0] for name in ("__str__", "__repr__"))
    return str(value) if own else _text(parts_of(text_of(current(), _bare(value))))


def _bare(value: Any) -> Any:
    """``value`` with every tile in it, also in dataclasses, as the front end has it."""
    if type(value) is tuple:
        return tuple(map(_bare, value))
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return unwrap(value)
    copy: Any = object.__new__(type(value))
    for field in dataclasses.fields(value):
        object.__setattr__(copy, field.name, _bare(getattr(value, field.name)))
    return copy


def _text(parts: tuple[str | Hole, ...]) -> str:
    return "".join(p if isinstance(p, str) else _formatted_hole(p) for p in parts)


def _formatted_hole(hole: Hole) -> str:
    data = data_of(hole.tile.value)
    return format_tile(data.address if isinstance(data, Pointers) else data, hole.tile.element_type, hole.format)


def _shown(extent: Any) -> Any:
    return int(data_of(extent.value)) if isinstance(extent, values.Tile) else extent


def _described(tile: Tile) -> str:
    form = f"tile of shape {tile._value.shape}" if tile._value.ndim else "scalar"
    return f"{with_article(tile._value.element_type)} {form}"


def _fail(message: str) -> NoReturn:
    current().fail(message)


# -- operators


def _takes(other: Any) -> bool:
    return isinstance(other, (Tile, bool, int, float, np.generic))


def _binary(key: str, reflected: bool) -> Callable[[Tile, Any], Any]:
    def method(self: Tile, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            _fail("an array of the host cannot be combined with a tile; load a tile of it with ct.load")
        if not _takes(other):
            return NotImplemented
        x, y = self._value, unwrap(other)
        operands = (y, x) if reflected else (x, y)
        return _result(current().operator, key, *operands)

    return method


def _unary(key: str) -> Callable[[Tile], Any]:
    return lambda self: _result(current().operator, key, self._value)


def _result(operation: Callable[..., Any], *operands: Any) -> Any:
    """What Python sees of ``operation(*operands)``; the traceback of an error ends here."""
    try:
        return wrap(operation(*operands))
    except TileError as e:
        raise e.with_traceback(None) from None


define_operators(Tile, _binary, _unary)
setattr(Tile, "__abs__", _unary("abs"))  # noqa: B010 - like the others
setattr(Tile, "__divmod__", _binary("divmod", False))  # noqa: B010
setattr(Tile, "__rdivmod__", _binary("divmod", True))  # noqa: B010
setattr(Tile, "__getitem__", lambda self, i: _result(current().subscript, self._value, unwrap(i)))  # noqa: B010
