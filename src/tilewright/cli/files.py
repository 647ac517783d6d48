"""Running the Python files that commands are given."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import sys
import tempfile
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from tilewright.cli.errors import UsageError, writing


def check_program(path: Path) -> None:
    """UsageError where ``path`` is no file, or its text no Python; what it does when it runs is its own matter."""
    try:
        source = path.read_bytes() if path.is_file() else None
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    if source is None:
        raise UsageError(f"there is no program {path}")
    try:
        compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as e:
        line = f"\n    {e.text.strip()}" if e.text else ""
        where = f":{e.lineno}:{e.offset or 1}" if e.lineno else ""
        raise UsageError(f"{path}{where}: SyntaxError: {e.msg}{line}") from None
    except ValueError as e:  # null bytes, in older Pythons
        raise UsageError(f"{path}: {e}") from None


def check_writable(path: Path) -> None:
    """UsageError where ``path`` cannot be written, so that a program need not run first to find that out."""
    exists = path.exists()
    with writing(path):
        path.open("ab").close()
        if not exists:
            path.unlink()
    if path.is_file() or not exists:
        with contextlib.suppress(PermissionError):  # of the folder; the file itself can be written
            _check_space(path.parent)


def _check_space(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\n" * 65536)
    except PermissionError:
        raise
    except OSError as e:
        raise UsageError(f"cannot write to the folder {folder}: {e.strerror}") from None


def module_spec(path: Path) -> ModuleSpec:
    """What makes a module of the file ``path``, which finds its neighbours as a program would.

    UsageError without a file of Python.
    """
    check_program(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file, by its name")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return spec


_replaced: list[tuple[str, types.ModuleType | None]] | None = None  # while a command runs: what it put others for


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """The modules that a command makes of files are gone when it ends: they may hold only some of a file."""
    global _replaced
    before, _replaced = _replaced, []
    try:
        yield
    finally:
        for name, module in reversed(_replaced):
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
        _replaced = before


def new_module(spec: ModuleSpec) -> types.ModuleType:
    """An empty module, which imports of its name get: dataclasses look it up, and so does the pickling of kernels."""
    if _replaced is not None:
        _replaced.append((spec.name, sys.modules.get(spec.name)))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    return module


def in_its_packages(path: Path) -> str:
    """The name of the module ``path`` in the packages that it is in, which are there from now on, as the folders that
    they are: what they import first need not be there."""
    folders = list(itertools.takewhile(lambda f: (f / "__init__.py").is_file(), path.resolve().parents))[::-1]
    names = list(itertools.accumulate((f.name for f in folders), "{}.{}".format))
    for name, folder in zip(names, folders):
        if name not in sys.modules:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(folder)]
            new_module(spec)
    return ".".join([*names[-1:], path.stem])


def load_module(path: Path) -> types.ModuleType:
    """The module in the file ``path``. UsageError without a file of Python."""
    spec = module_spec(path)
    module = new_module(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module
