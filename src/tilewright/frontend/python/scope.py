"""Variables of the functions being traced."""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from tilewright.frontend.python.source import Source
from tilewright.ir.location import Loc
from tilewright.records import dataclass


@dataclass(frozen=True)
class Unusable:
    """The value of a variable that must not be read, and why: it may be undefined, or of one of two types."""

    reason: str


@dataclass(frozen=True)
class Unbound(Unusable):
    """The value of a local variable that nothing has been assigned to yet."""


@dataclass(eq=False)
class Scope:
    """The local variables of one call. ``names`` is replaced, never changed, when control flow splits.

    A generator expression has a scope ``within`` the one around it: both are of one function.
    """

    names: dict[str, Any]
    parent: Scope | None = None  # the scope of the function that this one was defined in, while tracing it
    free: Mapping[str, Any] = field(default_factory=dict)  # variables captured by a host function
    module: Mapping[str, Any] = field(default_factory=dict)
    within: bool = False

    def find(self, name: str) -> tuple[bool, Any]:
        """Whether ``name`` is bound here, in an enclosing function, the module or the builtins; and its value."""
        for scope in self.chain():
            if name in scope.names:
                return True, scope.names[name]
            if name in scope.free:
                return True, scope.free[name]
        if name in scope.module:
            return True, scope.module[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None

    def visible(self) -> Iterator[str]:
        """The names that ``find`` finds."""
        for scope in self.chain():
            yield from scope.names
            yield from scope.free
        yield from scope.module
        yield from vars(builtins)

    def chain(self) -> Iterator[Scope]:
        """This scope and those of the enclosing functions, outwards."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def holder(self, name: str) -> Scope:
        """The scope of the current function where ``name`` is bound, or would be."""
        scope = self
        while scope.within and name not in scope.names:
            assert scope.parent is not None
            scope = scope.parent
        return scope

    def root(self) -> Scope:
        """The scope of the outermost enclosing function, which knows the module."""
        *_, outermost = self.chain()
        return outermost


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function defined inside tile code: its tree, where it was defined, and its default values."""

    source: Source
    scope: Scope
    defaults: tuple[Any, ...]
    keyword_defaults: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.source.name


def captured(function: types.FunctionType) -> dict[str, Any]:
    """The free variables of a host function. Cells that are still empty are left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def names_of(code: types.CodeType) -> Iterator[str]:
    """The global names and attributes in ``code`` and in the functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


@dataclass
class CallFrame:
    """One call being traced."""

    source: Source
    scope: Scope
    caller: Loc | None
    depth: int
