"""Modules that a program finds changed: once it has imported them, or others in their place."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def once_imported(name: str, action: Callable[[types.ModuleType], None]) -> Iterator[None]:
    """A context in which ``action`` takes the module ``name``: now, or when that is imported."""
    if name in sys.modules:
        action(sys.modules[name])
        yield
        return
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


@contextmanager
def replaced(modules: Mapping[str, types.ModuleType]) -> Iterator[None]:
    """A context in which these names, of packages before their modules, are imported as these modules."""
    with ExitStack() as undo:

        def put(owner: dict[str, Any], name: str, value: Any) -> None:
            if name in owner:
                undo.callback(owner.__setitem__, name, owner[name])
            else:
                undo.callback(owner.pop, name, None)
            owner[name] = value

        for name, module in modules.items():
            put(sys.modules, name, module)
            parent, _, own = name.rpartition(".")
            if parent:
                put(vars(sys.modules[parent]), own, module)
        yield


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module where it is, and gives it back its own loader once that has loaded it."""

    _own: importlib.abc.Loader

    def __init__(self, name: str, action: Callable[[types.ModuleType], None]) -> None:
        self._name, self._action, self._looking = name, action, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            self._own, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._own
        sys.meta_path.remove(self)
        self._own.exec_module(module)
        self._action(module)
