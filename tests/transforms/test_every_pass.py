"""Each pass has a test with text in and text out: one that gives ``check``, or a parsed text, to it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import tilewright.backends.cpu.loops
import tilewright.transforms

TESTS = Path(__file__).parents[1]


def passes() -> Iterator[type]:
    """The classes with a name and a way to run, in the packages whose modules have passes."""
    for package in (tilewright.transforms, tilewright.backends.cpu.loops):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for cls in vars(importlib.import_module(module.name)).values():
                named = inspect.isclass(cls) and isinstance(getattr(cls, "name", None), str)
                if named and cls.__module__ == module.name and hasattr(cls, "run"):
                    yield cls


def names(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def run_on_text(tree: ast.Module) -> set[str]:
    """The names of the passes that a file runs on text: in the first argument of a check, or before ``.run``."""
    found: set[str] = set()
    aliases = {
        t.id: names(n.value)
        for n in tree.body
        if isinstance(n, ast.Assign)
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    reads_text = "parse_function" in names(tree)
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        used: set[str] = set()
        if isinstance(call.func, ast.Name) and call.func.id.startswith("check") and call.args:
            used = names(call.args[0])
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("run", "apply") and reads_text:
            used = names(call.func.value)
        found |= used.union(*(aliases.get(name, set()) for name in used))
    return found


def test_each_pass_has_a_test_with_text() -> None:
    found = {cls.__name__ for cls in passes()}
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    tested = set().union(*(run_on_text(ast.parse(text)) for text in texts if any(name in text for name in found)))
    assert len(found) > 40
    assert sorted(found - tested) == []
