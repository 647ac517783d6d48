"""Ops are told apart by their classes, and used through their fields. Names are for the text form and messages."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest
from support.sources import ROOT, trees

import tilewright.ir.ops  # noqa: F401, it declares every op
from tilewright.ir.opdef import OPS

# The parts that do not work on ops of Tile IR, or declare them: the vector emitter takes names, as it computes what
# ``ir.semantics`` defines; the others have instructions of LLVM, and ops of CUDA Tile IR.
EXEMPT = ("ir/", "backends/vector/", "backends/native/", "frontend/cpp/")
EXEMPT += tuple(f"tileir/{part}" for part in ("bytecode/", "importer/", "text/", "rules.py", "types.py"))
LANGUAGE = ("frontend/python/",)  # whose tables are of functions of the language, many of which are called as ops are


def _literals(node: ast.expr) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "name"


def _compared_names(tree: ast.AST) -> Iterator[ast.expr]:
    """Names of anything that are compared with names of ops, in any way."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_is_name, sides)) and any(text in OPS for side in sides for text in _literals(side)):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_name(node.func.value):
            parts = tuple(_literals(node))
            if node.func.attr in ("startswith", "endswith") and any(n.startswith(parts) for n in OPS):
                yield node


def _tables_of_names(tree: ast.AST) -> Iterator[ast.expr]:
    """Collections of names of ops, which the name of an op would be looked up in. Words of PTX may be alike."""
    compared = {side for node in ast.walk(tree) if isinstance(node, ast.Compare) for side in node.comparators}
    for node in ast.walk(tree):
        if node in compared:
            continue
        if isinstance(node, ast.Dict):
            keys = [k.value for k in node.keys if isinstance(k, ast.Constant)]
        elif isinstance(node, (ast.Set, ast.Tuple)):
            keys = [e.value for e in node.elts if isinstance(e, ast.Constant)]
        else:
            continue
        if len(keys) > 1 and all(key in OPS for key in keys):
            yield node


def _is_field_of_op(node: ast.expr, attr: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attr


def _unnamed_fields(tree: ast.AST) -> Iterator[ast.expr]:
    """Operands by their positions, and attributes by their names: both are fields of the op's class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            literal = bool(_literals(node.slice))
            if _is_field_of_op(node.value, "operands") or (literal and _is_field_of_op(node.value, "attributes")):
                yield node
        elif isinstance(node, ast.Attribute) and node.attr == "get" and _is_field_of_op(node.value, "attributes"):
            yield node
        elif isinstance(node, ast.Assign) and _is_field_of_op(node.value, "operands"):
            yield from (target for target in node.targets if isinstance(target, ast.Tuple))


@functools.cache
def _sources() -> list[tuple[str, ast.Module]]:
    named = [(path.relative_to(ROOT).as_posix(), tree) for path, tree in trees().items()]
    return [(name, tree) for name, tree in named if not name.startswith(EXEMPT)]


def test_no_names_of_ops_are_compared() -> None:
    found = [f"{name}:{node.lineno}" for name, tree in _sources() for node in _compared_names(tree)]
    assert not found, "compare classes of ops (isinstance, or a table of classes): " + " ".join(found)


def test_no_table_is_keyed_by_names_of_ops() -> None:
    sources = ((name, tree) for name, tree in _sources() if not name.startswith(LANGUAGE))
    found = [f"{name}:{node.lineno}" for name, tree in sources for node in _tables_of_names(tree)]
    assert not found, "key tables by classes of ops: " + " ".join(found)


def test_operands_and_attributes_are_used_by_name() -> None:
    found = [f"{name}:{node.lineno}" for name, tree in _sources() for node in _unnamed_fields(tree)]
    assert not found, "use the fields that the class of the op declares: " + " ".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "op.operands[0]",
        "op.operands[i]",
        "op.operands[1:]",
        "x, y = op.operands",
        'op.attributes["axis"]',
        'op.attributes.get("axis", 0)',
    ],
)
def test_the_count_sees_unnamed_fields(text: str) -> None:
    assert list(_unnamed_fields(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ['op.name == "for"', 'op.name in ("for", "x")', '"for" != op.name', 'op.name.startswith("assume_")'],
)
def test_the_count_sees_comparisons(text: str) -> None:
    assert list(_compared_names(ast.parse(text)))


@pytest.mark.parametrize("text", ['{"add": 1, "sub": 2}', 'frozenset({"add", "sub"})', '("for", "loop")'])
def test_the_count_sees_tables(text: str) -> None:
    assert list(_tables_of_names(ast.parse(text)))
