"""What is to be done with a module as soon as a program has imported it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


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
