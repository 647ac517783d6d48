"""What the source of a Python function reads besides its arguments."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.frontend.python.scope import captured, names_of

_MOST = 2000  # objects that are looked into; a function that names more is taken to have changed
_EMPTY = object()  # stands for a name that is not bound
_UNCHANGING = ("tilewright", "builtins", "math", "operator")  # modules whose values no program replaces
_OWN_MEMORY = 1 << 9  # the flag of classes that Python code defines
_Read = Callable[[], tuple[Any, ...]]


class Captures:
    """The values that a function names outside of it, as they are now: variables of its module, of the functions around
    it and of other modules, what lists, dictionaries, classes and instances among them hold, and what functions among
    them name in turn.
    """

    def __init__(self, function: types.FunctionType) -> None:
        self._reads: list[tuple[_Read, tuple[Any, ...]]] = []
        self._complete = True
        seen: dict[int, Any] = {}
        pending: list[Any] = [function]
        while pending and self._complete:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen[id(value)] = value
            self._complete = len(seen) <= _MOST
            for read in _reads(value):
                found = read()
                self._reads.append((read, found))
                pending += found

    def unchanged(self) -> bool:
        """Whether each of these values is still the same object."""
        for read, found in self._reads:
            now = read()
            if len(now) != len(found) or any(map(operator.is_not, now, found)):
                return False
        return self._complete


def _reads(value: Any) -> Iterator[_Read]:
    """What fetches the values that ``value`` holds and that a program may replace."""
    if isinstance(value, types.FunctionType):
        if not _unchanging(value.__module__):
            names = tuple(dict.fromkeys(names_of(value.__code__)))
            yield lambda: (value.__code__, value.__defaults__, value.__kwdefaults__)
            yield from _variables(value.__globals__, names, set())
            if value.__closure__:
                yield lambda: tuple(captured(value).values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        if value:
            yield lambda: tuple(value)
    elif isinstance(value, dict):
        yield lambda: (*value, *value.values())
    elif isinstance(value, functools.partial):
        yield lambda: (value.func, value.args, value.keywords)
    elif isinstance(value, (staticmethod, classmethod, types.MethodType)):
        yield lambda: (value.__func__,)
    elif isinstance(value, property):
        yield lambda: (value.fget,)
    elif isinstance(value, type):
        if _has_own_memory(value):
            yield lambda: (*value.__mro__[1:], *vars(value).values())
    elif not isinstance(value, types.ModuleType):
        yield from _instance(value)


def _instance(value: Any) -> Iterator[_Read]:
    held: Mapping[str, Any] = getattr(value, "__dict__", {})
    if _unchanging(type(value).__module__):
        if "__wrapped__" in held:  # a function that is marked as one of tile code
            yield lambda: (held["__wrapped__"],)
    elif _has_own_memory(type(value)):
        yield lambda: (type(value), *held.values())


def _variables(module: Mapping[str, Any], names: tuple[str, ...], seen: set[int]) -> Iterator[_Read]:
    """What fetches those of ``names`` that ``module`` binds, and that the modules among them bind."""
    seen.add(id(module))
    yield lambda: tuple([module.get(name, _EMPTY) for name in names])
    for name in names:
        value = module.get(name)
        if isinstance(value, types.ModuleType) and not _unchanging(value.__name__) and id(vars(value)) not in seen:
            yield from _variables(vars(value), names, seen)


def _unchanging(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _UNCHANGING


def _has_own_memory(cls: type) -> bool:
    return bool(cls.__flags__ & _OWN_MEMORY) and not _unchanging(cls.__module__)
