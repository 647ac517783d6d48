"""A definition of a Python file, with what it stands on, and nothing else of that file run.

Files without ``if __name__ == "__main__":`` launch their kernels, read data, and print when they are imported. Of such
a file only those statements run that the definition needs: imports, and what binds or changes the names that it uses,
directly or through other definitions. Modules that only the rest of the file uses may be missing, and ``cuda.tile`` is
tilewright.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.cli.files import in_its_packages, module_spec, new_module
from tilewright.compat import install

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_SETTINGS = {"sys", "os", "warnings"}  # modules whose state imports depend on: statements about it run


def load_definition(path: Path, name: str) -> Any:
    """What ``name`` is at the top of the file ``path``; None where it is nothing. UsageError for what is no Python."""
    spec = module_spec(path)
    tree = ast.parse(path.read_bytes(), str(path))
    tree.body = list(_needed(tree.body, name))
    spec.name = in_its_packages(path)
    module = new_module(spec)
    install(replace=True)
    exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))
    return vars(module).get(name)


def kernel_names(path: Path) -> list[str]:
    """The functions at the top of the file that a decorator called ``kernel`` marks, in order."""
    body = ast.parse(path.read_bytes()).body
    return [
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef) and any(_ends_in_kernel(d) for d in node.decorator_list)
    ]


def _ends_in_kernel(decorator: ast.expr) -> bool:
    while isinstance(decorator, ast.Call):
        decorator = decorator.func
    return (decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")) == "kernel"


def _needed(body: list[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """The statements of ``body`` that the definition of ``name`` stands on, in their order."""
    imports = {bound for statement in body if isinstance(statement, _IMPORTS) for bound in _bound(statement)}
    wanted, known = {name}, set[int]()
    grown = True
    while grown:
        grown = False
        for number, statement in enumerate(body):
            if number not in known and _concerns(statement, wanted, imports):
                known.add(number)
                wanted |= _used(statement)
                grown = True
    for number, statement in enumerate(body):
        if number in known:
            yield statement if _bound(statement) & wanted else _if_found(statement)


def _if_found(statement: ast.stmt) -> ast.stmt:
    """``statement``; an import, without an error for what is not there."""
    if not isinstance(statement, _IMPORTS) or getattr(statement, "module", None) == "__future__":
        return statement
    missing = ast.ExceptHandler(ast.Name("ImportError", ast.Load()), None, [ast.Pass()])
    return ast.fix_missing_locations(ast.copy_location(ast.Try([statement], [missing], [], []), statement))


def _concerns(statement: ast.stmt, wanted: set[str], imports: set[str]) -> bool:
    if isinstance(statement, _IMPORTS) or _is_setting(statement):
        return True
    if isinstance(statement, ast.If) and _is_main_guard(statement.test):
        return False
    return bool(_bound(statement) & wanted) or bool(_changed(statement) & (wanted - imports))


def _is_setting(statement: ast.stmt) -> bool:
    """Whether a simple statement sets what imports depend on, as ``sys.path.insert(0, "..")`` does."""
    if isinstance(statement, ast.Expr):
        return bool(_changed(statement) & _SETTINGS)
    return isinstance(statement, ast.Assign) and any(_root(target) in _SETTINGS for target in statement.targets)


def _is_main_guard(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds in the module."""
    if isinstance(statement, _FUNCTIONS):
        return {statement.name}
    if isinstance(statement, _IMPORTS):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    found = set()
    for node in _outside_functions(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (*_FUNCTIONS, *_IMPORTS)):
            found |= _bound(node)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            found.add(_root(node))
    return found


def _changed(statement: ast.stmt) -> set[str]:
    """The names of what a statement that is a call may change: ``table`` of ``table.update(...)``."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        return {_root(function)} if isinstance(function, ast.Attribute) else set()
    return set()


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes, subscripts and calls begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _used(statement: ast.stmt) -> set[str]:
    """The names of the module that a statement uses, in the functions that it defines, too."""
    tables, names = [symtable.symtable(ast.unparse(statement), "statement", "exec")], set[str]()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        outermost = table.get_type() == "module"
        names |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (outermost or s.is_global())}
    # Annotations may be written as text.
    texts = [
        node.value for node in ast.walk(statement) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return names.union(*(_names_in(text) for text in texts))


def _names_in(text: str) -> set[str]:
    try:
        return {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError):
        return set()


def _outside_functions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, but for those inside the functions and classes that it defines."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            left += ast.iter_child_nodes(node)
