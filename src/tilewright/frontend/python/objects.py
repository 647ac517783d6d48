"""Attributes, items and methods of the objects of tile code: tuples, dataclasses, enums, modules, tiles, arrays."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python.constants import DUNDERS
from tilewright.frontend.python.formatting import FormattedString
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops.convert import folded, to_tile
from tilewright.frontend.python.ops.load_store import list_element
from tilewright.frontend.python.ops.table import ATTRIBUTES, METHODS
from tilewright.frontend.python.values import Array, ArrayList, BoundMethod, Tile, TiledView
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileValueError
from tilewright.language import suggestions
from tilewright.language.functions import TileFunction
from tilewright.language.static import static_iter

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics

FUNCTIONS = (types.FunctionType, TileFunction)  # what a class that is looked into has as its methods
FROZEN = "write @dataclass(frozen=True)"


def is_instance(value: Any) -> bool:
    """Whether ``value`` is an instance of a dataclass of the program's own."""
    ours = (Tile, Array, TiledView, ArrayList, BoundMethod, FormattedString)
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and not isinstance(value, ours)


def is_mutable(value: Any) -> bool:
    """Whether ``value`` is an instance of a dataclass that is not frozen, which only host code can use."""
    return is_instance(value) and not type(value).__dataclass_params__.frozen


def find_method(value: Any, *names: str) -> tuple[bool, Any]:
    """The first of the methods ``names`` that the program defined on the dataclass of ``value``."""
    if not is_instance(value):
        return False, None
    for name in names:
        method = inspect.getattr_static(type(value), name, None)
        generated = name in ("__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__")
        if isinstance(method, FUNCTIONS) and not (generated and _is_generated(method)):
            return True, method
    return False, None


def _is_generated(method: types.FunctionType | TileFunction) -> bool:
    """Whether ``dataclass`` wrote the method."""
    wrapped = inspect.unwrap(method)
    return wrapped.__code__.co_filename.startswith("<") or "dataclasses" in wrapped.__code__.co_filename


def binary_method(t: ValueSemantics, key: str, x: Any, y: Any) -> tuple[bool, Any]:
    """The result of an operator that a dataclass defines. A method may give NotImplemented, as in Python."""
    direct, reflected = DUNDERS[key]
    for name, receiver, other in ((direct, x, y), (reflected, y, x)):
        found, method = find_method(receiver, name)
        if found:
            result = t.call(method, (receiver, other), {})
            if result is not NotImplemented:
                return True, result
        elif key == "ne" and find_method(receiver, "__eq__")[0]:
            return True, apply_operator(t, "not_", lambda v: not v, (binary_method(t, "eq", receiver, other)[1],))
    if not is_instance(x) or type(x) is not type(y):
        return False, None
    if key in ("eq", "ne"):
        result = compare_tuples(t, "eq", *_compared(x, y))
        return True, result if key == "eq" else apply_operator(t, "not_", lambda v: not v, (result,))
    if key in _ORDERS and type(x).__dataclass_params__.order:
        return True, _ordered(t, key, *_compared(x, y))
    return False, None


def _compared(*instances: Any) -> Iterator[tuple[Any, ...]]:
    """The fields of each of ``instances``, of one dataclass, that take part in comparisons."""
    return (tuple(getattr(x, f.name) for f in dataclasses.fields(x) if f.compare) for x in instances)


_ORDERS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


def _ordered(t: ValueSemantics, key: str, x: tuple[Any, ...], y: tuple[Any, ...]) -> Any:
    """An order of tuples: that of their first items that differ."""
    if not x:
        return key in ("le", "ge")
    earlier = apply_operator(t, key[0] + "t", _ORDERS[key[0] + "t"], (x[0], y[0]))
    if len(x) == 1 and key[1] == "t":
        return earlier
    later = apply_operator(t, "and_", operator.and_, (apply_equal(t, x[0], y[0]), _ordered(t, key, x[1:], y[1:])))
    return apply_operator(t, "or_", operator.or_, (earlier, later))


def apply_operator(t: ValueSemantics, key: str, function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    """An operator given as a function, such as ``operator.add``."""
    if any(isinstance(v, Tile) for v in values):
        return t.operator(key, *values)
    if key in DUNDERS and len(values) == 2:
        found, result = binary_method(t, key, *values)
        if found:
            return result
    return folded(t, function, function.__name__, *values)


def truth(t: ValueSemantics, value: Any) -> bool | Value:
    if isinstance(value, (Array, TiledView)):
        t.fail(f"{describe(value)} cannot be a condition; compare a loaded scalar")
    found, method = find_method(value, "__bool__")
    if found:
        return t.truth(t.call(method, (value,), {}))
    found, method = find_method(value, "__len__")
    if found:
        return t.truth(t.call(method, (value,), {}))
    if isinstance(value, (tuple, dict)):
        return bool(value)
    if isinstance(value, ArrayList):
        t.fail("a list of arrays cannot be a condition; compare len(...) with 0")
    if isinstance(value, FormattedString):
        return True
    if isinstance(value, enum.Enum):
        return bool(value)
    return value is not None


# -- attributes


def attribute(t: ValueSemantics, value: Any, name: str) -> Any:
    """``value.name``."""
    found, result = _find_attribute(t, value, name)
    if found:
        return result
    if isinstance(value, types.ModuleType):
        t.fail(f"the module {value.__name__} has no {name!r}{_advice_of_module(value, name)}")
    advice = ""
    if isinstance(value, (Tile, bool, int, float)):
        advice = suggestions.instead_of_attribute(name, (*ATTRIBUTES[Tile], *METHODS[Tile]))
    elif isinstance(value, Array):
        advice = suggestions.instead_of_attribute_of_arrays(name, (*ATTRIBUTES[Array], *METHODS[Array]))
    elif type(value) in METHODS:
        advice = f"; it has {', '.join(METHODS[type(value)])}"
    elif isinstance(value, enum.EnumMeta):
        advice = suggestions.instead_of(name, value.__members__, f"{value.__name__}.") or _choices(value)
    elif hasattr(value, name):  # of Python, such as an instance of an ordinary class
        advice = f"; read it while the kernel is compiled, as in ct.static_eval(x.{name})"
    t.fail(f"{describe(value)} has no attribute {name!r} in tile code{advice}")


def _choices(members: enum.EnumMeta) -> str:
    return f"; it has {', '.join(members.__members__)}"


def _advice_of_module(module: types.ModuleType, name: str) -> str:
    """What to write instead of a ``name`` that ``module`` does not have."""
    if hasattr(module, "kernel") and hasattr(module, "bid"):
        return suggestions.instead_of_ours(name, module.__all__)
    return suggestions.instead_of(name, dir(module), f"{module.__name__}.")


def _find_attribute(t: ValueSemantics, value: Any, name: str) -> tuple[bool, Any]:
    if isinstance(value, (bool, int, float)) and not isinstance(value, enum.Enum):
        value = to_tile(t, value)
    kind = type(value)
    if name in ATTRIBUTES.get(kind, ()):
        return True, ATTRIBUTES[kind][name](t, value)
    if name in METHODS.get(kind, ()):
        return True, BoundMethod(value, METHODS[kind][name])
    if kind in ATTRIBUTES or isinstance(value, (DType, tuple, slice, FormattedString)) or value is None:
        return False, None
    if isinstance(value, str):
        return (True, BoundMethod(value, _join_strings)) if name == "join" else (False, None)
    if isinstance(value, dict):
        return (True, BoundMethod(value, _dict_get)) if name == "get" else (False, None)
    if isinstance(value, types.ModuleType):
        return (True, t.imported(getattr(value, name), name)) if hasattr(value, name) else (False, None)
    return _member(t, value, name)


def _member(t: ValueSemantics, value: Any, name: str) -> tuple[bool, Any]:
    """An attribute of a class, an enum member or a dataclass instance."""
    owner = value if isinstance(value, type) else type(value)
    if isinstance(value, enum.Enum):
        return (True, getattr(value, name)) if name in ("name", "value") else (False, None)
    if is_instance(value) and any(f.name == name for f in dataclasses.fields(value)):
        return True, getattr(value, name)
    static = inspect.getattr_static(owner, name, None)
    if static is None and not hasattr(owner, name):
        return False, None
    if isinstance(value, type):
        found = getattr(value, name)
        return True, t.imported(found, name)
    if not is_instance(value):
        return (True, t.imported(getattr(value, name), name)) if hasattr(value, name) else (False, None)
    if isinstance(static, property):
        return True, t.call(static.fget, (value,), {})
    if isinstance(static, staticmethod):
        return True, static.__func__
    if isinstance(static, classmethod):
        return True, BoundMethod(owner, static.__func__)
    if isinstance(static, FUNCTIONS):
        return True, BoundMethod(value, static)
    return True, t.imported(static, name)


def has_attribute(t: ValueSemantics, value: Any, name: str) -> bool:
    return _find_attribute(t, value, name)[0]


def _join_strings(separator: str, items: tuple[str, ...]) -> str:
    """``separator.join(items)``, traced like any function."""
    text = ""
    first = True
    for item in static_iter(items):
        text = text + item if first else text + separator + item
        first = False
    return text


def _dict_get(mapping: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """``mapping.get(key, default)``, traced like any function."""
    return mapping[key] if key in mapping else default  # noqa: SIM401 - traced, so written out


# -- items


def subscript(t: ValueSemantics, value: Any, index: Any) -> Any:
    """``value[index]`` for everything but tiles."""
    if isinstance(value, ArrayList):
        return list_element(t, value, index)
    if isinstance(value, (tuple, str)):
        return _item(t, value, index)
    if isinstance(value, dict):
        if index in value:
            return value[index]
        t.fail(f"there is no keyword argument {index!r}")
    if isinstance(value, Array):
        t.fail(
            f"arrays have no [] in tile code; load a tile with ct.load({value.name}, index, shape), or single elements "
            f"with ct.gather({value.name}, indices)"
        )
    found, method = find_method(value, "__getitem__")
    if found:
        return t.call(method, (value, index), {})
    if isinstance(value, type) and issubclass(value, enum.Enum) and isinstance(index, str):
        if index in value.__members__:
            return value[index]
        t.fail(f"{value.__name__} has no member {index!r}", TileValueError)
    if hasattr(value, "__class_getitem__"):
        return value
    t.fail(f"{describe(value)} has no [] in tile code")


def _item(t: ValueSemantics, value: Any, index: Any) -> Any:
    kind = "string" if isinstance(value, str) else "tuple"
    if isinstance(index, Tile) and index.constant is not None:
        index = index.constant
    if isinstance(index, Tile):
        arrays = kind == "tuple" and all(isinstance(v, Array) for v in value)
        advice = "pass the arrays as a list, which has one" if arrays else "that needs an array and ct.gather"
        t.fail(f"the index of a {kind} must be a constant; for a run-time index {advice}")
    if isinstance(index, slice):
        bounds = (index.start, index.stop, index.step)
        parts = tuple(p.constant if isinstance(p, Tile) and p.constant is not None else p for p in bounds)
        if all(p is None or isinstance(p, int) for p in parts) and parts[2] != 0:
            return value[slice(*parts)]
        t.fail(f"the bounds of a slice of a {kind} must be integer constants")
    if not isinstance(index, int):
        t.fail(f"the index of a {kind} must be an integer, not {describe(index)}")
    if not -len(value) <= index < len(value):
        t.fail(f"index {index} is out of range for a {kind} of {len(value)}")
    return value[index]


def set_item(t: ValueSemantics, receiver: Any, index: Any, value: Any) -> None:
    found, method = find_method(receiver, "__setitem__")
    if not found:
        advice = (
            "ct.store(array, index, tile) or ct.scatter" if isinstance(receiver, Array) else "ct.insert or ct.where"
        )
        t.fail(f"{describe(receiver)} cannot be changed by item assignment in tile code; use {advice}")
    t.call(method, (receiver, index, value), {})


# -- comparisons


def contains(t: ValueSemantics, x: Any, container: Any, negate: bool) -> Any:
    """``x in container`` for tuples, dictionaries of keyword arguments and strings."""
    if isinstance(container, dict) or (isinstance(container, str) and isinstance(x, str)):
        return (x in container) is not negate
    if not isinstance(container, tuple):
        t.fail(f"'in' needs a tuple, not {describe(container)}")
    for tile in (v for v in (x, *container) if isinstance(v, Tile) and v.ndim):
        t.fail(f"'in' compares scalars, and this is {describe(tile)}; compare with == and reduce")
    result: Any = False
    for item in container:
        equal = apply_equal(t, x, item)
        if equal is True:
            result = True
            break
        if equal is not False:
            result = equal if result is False else t.operator("or_", result, equal)
    return apply_operator(t, "not_", lambda v: not v, (result,)) if negate else result


def apply_equal(t: ValueSemantics, x: Any, y: Any) -> Any:
    found, result = binary_method(t, "eq", x, y)
    if found:
        return result
    if isinstance(x, Tile) or isinstance(y, Tile):
        if isinstance(x, (Tile, bool, int, float)) and isinstance(y, (Tile, bool, int, float)):
            return t.operator("eq", x, y)
        return False
    if isinstance(x, tuple) and isinstance(y, tuple):
        return compare_tuples(t, "eq", x, y)
    return compare_constants(t, "eq", operator.eq, "==", x, y)


def compare_tuples(t: ValueSemantics, key: str, x: tuple[Any, ...], y: tuple[Any, ...]) -> Any:
    """``==`` and ``!=`` of tuples that contain run-time scalars."""
    if key not in ("eq", "ne"):
        t.fail("tuples with run-time values can only be compared with == and !=")
    if len(x) != len(y):
        return key == "ne"
    result: Any = True
    for a, b in zip(x, y):
        equal = apply_equal(t, a, b)
        if equal is False:
            return key == "ne"
        if equal is not True:
            result = equal if result is True else t.operator("and_", result, equal)
    return result if key == "eq" else apply_operator(t, "not_", lambda v: not v, (result,))


def compare_constants(t: ValueSemantics, key: str, function: Callable[..., Any], symbol: str, x: Any, y: Any) -> bool:
    if isinstance(x, (Array, TiledView)) or isinstance(y, (Array, TiledView)):
        t.fail(f"{describe(x)} and {describe(y)} cannot be compared; load tiles first")
    try:
        return bool(function(x, y))
    except (TypeError, ValueError):  # ValueError: a host object whose comparison is no bool
        t.fail(f"{describe(x)} and {describe(y)} cannot be compared with {symbol}")


# -- construction


def enum_member(t: ValueSemantics, cls: type[enum.Enum], *arguments: Any) -> enum.Enum:
    if len(arguments) != 1:
        t.fail(f"{cls.__name__}() takes one value")
    (value,) = arguments
    if isinstance(value, Tile):
        if value.constant is None:
            t.fail(f"{cls.__name__}() needs a constant; this value is known only at run time")
        value = value.constant
    try:
        return cls(value)
    except ValueError:
        t.fail(f"{value!r} is no value of {cls.__name__}", TileValueError)


def construct(t: ValueSemantics, cls: type, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """An instance of a frozen dataclass, made without running host code on run-time values."""
    params = cls.__dataclass_params__  # type: ignore[attr-defined]
    if not params.frozen:
        t.fail(f"{cls.__name__} is a mutable dataclass; {FROZEN}")
    if not params.init:
        t.fail(f"{cls.__name__} is a dataclass without __init__, which tile code cannot make")
    fields = dataclasses.fields(cls)
    for name in ("__new__", "__init__"):
        own = getattr(cls, name)
        if isinstance(own, types.FunctionType) and not _is_generated(own):
            t.fail(f"{cls.__name__} has its own {name}, which tile code cannot call")
    if any(f.default_factory is not dataclasses.MISSING or not f.init for f in fields):
        t.fail(f"{cls.__name__} has fields with default_factory or init=False; give plain defaults")
    try:
        bound = inspect.signature(cls).bind(*arguments, **keywords)
    except TypeError as e:
        t.fail(f"{cls.__name__}(): {e}")
    bound.apply_defaults()
    instance: Any = object.__new__(cls)
    for name, value in bound.arguments.items():
        object.__setattr__(instance, name, value)
    found, method = find_method(instance, "__post_init__")
    if found:
        t.call(method, (instance,), {})
    return instance


def replace(t: ValueSemantics, instance: Any, **changes: Any) -> Any:
    """``dataclasses.replace``."""
    if not is_instance(instance):
        t.fail(f"dataclasses.replace() needs a dataclass instance, not {describe(instance)}")
    values = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}
    unknown = set(changes) - set(values)
    if unknown:
        t.fail(f"{type(instance).__name__} has no field {', '.join(sorted(unknown))}")
    return construct(t, type(instance), (), {**values, **changes})
