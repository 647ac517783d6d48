"""``dataclass`` and ``NamedTuple`` as in the standard library, for classes that are made in a fraction of the time.

The standard library compiles the methods of every class anew, which is much of what importing small modules takes.
Here the methods of classes with as many fields have their code in common, but for the names in it.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import reprlib
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple

_MOST = 16  # entries of a named tuple
_UNSET = object()  # the default of a parameter whose value a function makes


@functools.cache
def _code(text: str) -> CodeType:
    """The code of the function ``f`` that ``text`` defines."""
    made: dict[str, Any] = {}
    exec(text, made)
    code: CodeType = made["f"].__code__
    return code


def _add_method(cls: type, name: str, text: str, fields: Iterable[str], values: Mapping[str, Any]) -> Any:
    """Give ``cls`` the method that ``text`` defines for fields ``f0``, ``f1``, ..., with these global ``values``."""
    code, names = _code(text), {f"f{i}": field for i, field in enumerate(fields)}
    texts: dict[str, Any] = {
        kind: tuple(names.get(n, n) if type(n) is str else n for n in getattr(code, kind)) for kind in _NAMES
    }
    method = FunctionType(code.replace(**texts), dict(values), name)
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    setattr(cls, name, method)
    return method


_NAMES = ("co_varnames", "co_names", "co_consts")  # where code has names


def _add_init(cls: type, fields: list[dataclasses.Field[Any]], *, frozen: bool) -> None:
    values: dict[str, Any] = {"unset": _UNSET, "put": object.__setattr__}
    parameters, defaults, lines = ["self"], list[Any](), ["pass"]
    for i, field in enumerate(fields):
        value, default = f"f{i}", field.default
        if field.default_factory is not dataclasses.MISSING:
            values[f"make{i}"], default = field.default_factory, _UNSET
            value = f"make{i}() if f{i} is unset else f{i}" if field.init else f"make{i}()"
        if field.init:
            parameters.append(f"f{i}")
            if default is not dataclasses.MISSING:
                defaults.append(default)
            elif defaults:
                raise TypeError(f"{field.name!r} of {cls.__name__} needs a default, as a field before it has one")
        if field.init or default is _UNSET:
            lines.append(f'put(self, "f{i}", {value})' if frozen else f"self.f{i} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def f({', '.join(parameters)}): {'; '.join(lines)}"
    method = _add_method(cls, "__init__", text, [field.name for field in fields], values)
    method.__defaults__ = tuple(defaults)
    method.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _freeze(cls: Any, names: frozenset[str]) -> None:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__


def _entries(of: str, count: int) -> str:
    """The text of a tuple of so many fields."""
    return f"({''.join(f'{of}f{i}, ' for i in range(count))})"


@dataclasses.dataclass
class _Sample:
    field: Any


_FIELD = dataclasses.fields(_Sample)[0]
_GIVEN = ("default", "default_factory", "init", "repr", "hash", "compare", "metadata")


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass, which then knows them, too."""
    known: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        known |= getattr(base, "__dataclass_fields__", {})
    for name, kind in cls.__annotations__.items():
        if kind.startswith("ClassVar"):
            continue
        known[name] = field = copy.copy(_FIELD)
        field.name, field.type = name, kind
        field.default = given = getattr(cls, name, dataclasses.MISSING)
        if isinstance(given, dataclasses.Field):
            assert given.kw_only is not True, "fields by keyword only are for dataclasses of the standard library"
            for attribute in _GIVEN:
                setattr(field, attribute, getattr(given, attribute))
            if given.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, given.default)
    setattr(cls, "__dataclass_fields__", known)  # noqa: B010 - as ``dataclasses`` looks for them
    return list(known.values())


def _complete(cls: Any, *, frozen: bool, eq: bool, repr: bool) -> Any:
    own, hashed = set(vars(cls)), vars(cls).get("__hash__") is not None
    fields = _fields(cls)
    setattr(cls, "__match_args__", tuple(field.name for field in fields if field.init))  # noqa: B010
    cls.__dataclass_params__ = SimpleNamespace(frozen=frozen, eq=eq, repr=repr, init=True)
    cls.__replace__ = dataclasses.replace  # for ``copy.replace``, since Python 3.13
    compared = [field.name for field in fields if field.compare]
    mine, others = (_entries(of, len(compared)) for of in ("self.", "other."))
    if "__init__" not in own:
        _add_init(cls, fields, frozen=frozen)
    if repr and "__repr__" not in own:
        cls.__repr__ = _repr
    if eq and "__eq__" not in own:
        same = f"{mine} == {others} if other.__class__ is self.__class__ else NotImplemented"
        _add_method(cls, "__eq__", f"def f(self, other): return {same}", compared, {})
    if eq and frozen and not hashed:
        _add_method(cls, "__hash__", f"def f(self): return hash({mine})", compared, {})
    elif eq and not hashed:
        cls.__hash__ = None
    if frozen:
        _freeze(cls, frozenset(field.name for field in fields))
    return cls


if not TYPE_CHECKING:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """``dataclasses.dataclass``."""
        complete = functools.partial(_complete, frozen=frozen, eq=eq, repr=repr)
        return complete if cls is None else complete(cls)

    _ENTRIES = collections.namedtuple("Entries", [f"f{i}" for i in range(_MOST)])
    _GETTERS = [vars(_ENTRIES)[name] for name in _ENTRIES._fields]

    class _WithoutDict(type):
        def __new__(meta, name, bases, namespace):
            if not hasattr(bases[0], "_fields"):
                namespace["__slots__"] = ()
            return super().__new__(meta, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_WithoutDict):
        """``typing.NamedTuple``."""

        def __init_subclass__(cls) -> None:
            if hasattr(cls, "_fields"):  # which derives from a named tuple
                return
            fields = cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            assert len(fields) <= _MOST, f"{cls.__name__} has more than {_MOST} fields"
            cls._field_defaults = {name: vars(cls)[name] for name in fields if name in vars(cls)}
            for name, getter in zip(fields, _GETTERS, strict=False):
                setattr(cls, name, getter)
            count = len(fields)
            text = f"def f(cls, {', '.join(f'f{i}' for i in range(count))}): return new(cls, {_entries('', count)})"
            method = _add_method(cls, "__new__", text, fields, {"new": tuple.__new__})
            method.__defaults__ = tuple(cls._field_defaults.values())
            method.__annotations__ = {**cls.__annotations__, "return": cls.__name__}
            cls.__new__ = staticmethod(method)

        @classmethod
        def _make(cls, entries):
            return cls(*entries)

        def _asdict(self):
            return dict(zip(self._fields, self))

        def _replace(self, **changes):
            return type(self)(**{**self._asdict(), **changes})

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)
