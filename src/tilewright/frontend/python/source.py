"""The source text and syntax tree of a Python function."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import inspect
import itertools
import linecache
import sys
import textwrap
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tilewright.ir.errors import TileSyntaxError
from tilewright.ir.location import Loc
from tilewright.records import dataclass
from tilewright.system.forks import CODE, fork_aware_lock

_MARGIN_LINES = 20
# Python 3.11 counts the depth of the trees that several threads make in one place, and raises SystemError.
_TREES = fork_aware_lock(CODE)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Source:
    """The tree of a function, and how its positions map to the file it came from."""

    node: ast.FunctionDef | ast.Lambda
    file: str
    first_line: int  # line of the file that line 1 of ``lines`` is
    indent: int  # characters removed from the front of each line
    lines: tuple[str, ...]
    name: str

    def loc(self, node: ast.AST, caller: Loc | None) -> Loc:
        """The location of ``node``, with columns in characters of the file."""
        line, end_line = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        column = self._column(line, getattr(node, "col_offset", 0))
        end_column = getattr(node, "end_col_offset", None)
        if end_line is not None and end_column is not None:
            end_column = self._column(end_line, end_column)
            end_line += self.first_line - 1
        return Loc(self.file, line + self.first_line - 1, column, end_line, end_column, self.name, caller)

    def _column(self, line: int, offset: int) -> int:
        """Characters before byte ``offset`` of ``line``: ``ast`` counts UTF-8 bytes."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return self.indent + (offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")))


def source_of(code: types.CodeType) -> Source:
    """The source of the function that ``code`` belongs to. TileSyntaxError when it cannot be read."""
    by_file = _SOURCES.setdefault(code, {})  # code of two files can compare equal
    found = by_file.get(code.co_filename)
    if found is None:
        found = by_file[code.co_filename] = _source(code, code.co_filename)
    return found


_SOURCES: weakref.WeakKeyDictionary[types.CodeType, dict[str, Source]] = weakref.WeakKeyDictionary()


def _remembered(function: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """``function`` of a syntax tree, computed once as long as the tree lives."""
    known: weakref.WeakKeyDictionary[ast.AST, _T] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def wrapper(node: Any) -> _T:
        found = known.get(node)
        if found is None:
            found = known[node] = function(node)
        return found

    return wrapper


def _source(code: types.CodeType, filename: str) -> Source:
    name = code.co_name
    first = code.co_firstlineno
    linecache.checkcache(filename)  # programs write kernels to a file again, and reload modules
    known = linecache.getlines(filename)
    if not known:  # a module of a zip file, whose text its loader knows
        module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == filename), None)
        known = linecache.getlines(filename, getattr(module, "__dict__", None))
    if filename == "<string>" or not known:  # Python 3.13.0 has the text of ``python -c`` there, whatever asks
        filename, known = _of_input(code)
    following = known[first - 1 :]
    if name == "<lambda>" and following:
        return _lambda_source(code, filename, "".join(known))
    try:
        lines, tree = _definition(following)
    except SyntaxError as e:
        raise TileSyntaxError(f"{name}() cannot be parsed: {e.msg}", Loc(filename, first)) from None
    if not lines:
        loc = Loc(filename, first)
        raise TileSyntaxError(
            f"the source of {name}() cannot be read, so it cannot be compiled; define it in a file that Python is given"
            " by its name, or at a prompt that keeps the source: that of IPython, or of Python from 3.13 on",
            loc,
        )
    node = tree.body[0] if tree.body else ast.Pass()
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        is_async = isinstance(node, ast.AsyncFunctionDef)
        fault = (
            "is an async function; tile code needs an ordinary one"
            if is_async
            else "is not here any more: the file has changed since it was imported"
        )
        raise TileSyntaxError(f"{name}() {fault}", Loc(filename, first, _indentation(lines[0]) if is_async else 0))
    indent = _indentation(lines[0])
    text = textwrap.dedent("".join(lines))
    return Source(node, filename, first, indent, tuple(text.splitlines()), name)


def _of_input(code: types.CodeType) -> tuple[str, list[str]]:
    """The lines of the input of a prompt, of a file that is the standard input, or of the text of ``python -c`` that
    ``code`` comes from, and the name under which ``linecache`` has them from now on; that of its file and no lines
    where it comes from none of them."""
    name = code.co_filename
    of_prompts = getattr(linecache, "_getlines_from_code", None)  # from Python 3.13.1 on
    lines: list[str] = [] if of_prompts is None else of_prompts(code)
    if name == "<string>":  # of texts for exec, too
        given = (textwrap.dedent(word) for word in sys.orig_argv if code.co_name.strip("<>") in word)
        lines = next((text.splitlines(True) for text in given if _has(text, code)), [])
        name = "<python -c>" if lines else name
    elif name == "<stdin>" and not lines and _has(text := _standard_input(), code):
        lines = text.splitlines(True)
    if lines:
        linecache.cache[name] = (0, None, lines, name)
    return name, lines


def _standard_input() -> str:
    """The text of the file that is the standard input, as of ``python - < program.py``; none of pipes and terminals."""
    with contextlib.suppress(OSError, ValueError, SyntaxError), open(0, "rb", closefd=False) as file:
        before = file.tell()
        try:
            file.seek(0)
            return importlib.util.decode_source(file.read())
        finally:
            file.seek(before)
    return ""


def _has(text: str, code: types.CodeType) -> bool:
    """Whether ``text`` compiles to something with ``code`` in it."""
    try:
        parts = [compile(text, code.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    for part in parts:
        parts += [constant for constant in part.co_consts if isinstance(constant, types.CodeType)]
    return code in parts


def _definition(lines: list[str]) -> tuple[list[str], ast.Module]:
    """The lines of the definition that starts with the first of ``lines``, and their tree; no lines where none does.

    It ends before a line at its margin, the first one that makes it complete: decorators, brackets and strings may be
    at the margin too. Where many are, the slower tokenizer finds the end. SyntaxError when it cannot be parsed.
    """
    indent = _indentation(lines[0]) if lines else 0
    margin = (i for i, line in enumerate(lines) if _indentation(line) <= indent and not _is_blank(line))
    for end in itertools.islice(itertools.chain(margin, [len(lines)]), 1, _MARGIN_LINES):
        try:
            return lines[:end], _parsed(lines[:end])
        except SyntaxError:
            continue
    try:
        block = inspect.getblock(lines)
    except (IndentationError, SyntaxError):
        block = []
    return block, _parsed(block)


def _parsed(lines: list[str]) -> ast.Module:
    return _tree(textwrap.dedent("".join(lines)))


def _tree(text: str) -> ast.Module:
    with _TREES:
        return ast.parse(text)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_blank(line: str) -> bool:
    """Whether Python takes no notice of the indentation of ``line``."""
    text = line.lstrip()
    return not text or text.startswith("#")


def _lambda_source(code: types.CodeType, filename: str, text: str) -> Source:
    """The lambda at the line of ``code``; where several start there, the one that encloses its instructions."""
    found = [n for n in _lambdas(text) if n.lineno == code.co_firstlineno]
    if len(found) > 1:
        positions = getattr(code, "co_positions", None)  # from Python 3.11 on
        found = _alike(found, code) if positions is None else _enclosing(found, positions())
    loc = Loc(filename, code.co_firstlineno)
    if not found:
        raise TileSyntaxError("the source of this lambda cannot be found; write it as a named function", loc)
    if len({ast.dump(n) for n in found}) > 1:
        raise TileSyntaxError("several lambdas start in this line: put each in a line of its own", loc)
    return Source(found[0], filename, 1, 0, tuple(text.splitlines()), "<lambda>")


def _enclosing(lambdas: list[ast.Lambda], positions: Iterable[Any]) -> list[ast.Lambda]:
    """The innermost of ``lambdas`` whose body holds all ``positions``: line, last line, column, last column."""
    spans = [p for p in positions if None not in p and p[2] != p[3]]  # the first instruction has no width
    start, end = min((p[0], p[2]) for p in spans), max((p[1], p[3]) for p in spans)

    def begins(n: ast.Lambda) -> tuple[int, int]:
        return n.body.lineno, n.body.col_offset

    around = [n for n in lambdas if begins(n) <= start and end <= (n.body.end_lineno, n.body.end_col_offset)]
    return sorted(around, key=begins)[-1:]


def _alike(lambdas: list[ast.Lambda], code: types.CodeType) -> list[ast.Lambda]:
    """The lambdas that may have compiled to ``code``: all with its parameters if none gives its bytes."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    same = [
        n for n in lambdas if tuple(a.arg for a in (*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs)) == names
    ]
    return [n for n in same if _instructions(_compiled(n)) == _instructions(code)] or same


def _instructions(code: types.CodeType) -> tuple[object, ...]:
    return code.co_code, code.co_names, tuple(c for c in code.co_consts if not isinstance(c, types.CodeType))


@functools.lru_cache(maxsize=16)
def _lambdas(text: str) -> tuple[ast.Lambda, ...]:
    """Every lambda of a file."""
    return tuple(n for n in ast.walk(_tree(text)) if isinstance(n, ast.Lambda))


def _compiled(node: ast.Lambda) -> types.CodeType:
    outer = compile(ast.Expression(node), "<lambda>", "eval")
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType))


@_remembered
def assigned_names(node: ast.AST) -> frozenset[str]:
    """Names that the statements in ``node`` may bind, not looking into nested functions."""
    found: set[str] = set()
    pending = _children(node)
    while pending:
        child = pending.pop()
        kind = type(child)
        if kind is ast.Name:
            if isinstance(child.ctx, ast.Store):  # type: ignore[attr-defined]
                found.add(child.id)  # type: ignore[attr-defined]
        elif kind is ast.FunctionDef:
            found.add(child.name)  # type: ignore[attr-defined]
        elif kind is not ast.Lambda and kind is not ast.GeneratorExp:  # these have variables of their own
            pending += _children(child)
    return frozenset(found)


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below ``node``."""
    pending = [node]
    while pending:
        for child in _children(pending.pop()):
            if not isinstance(child, ast.expr):  # these hold no statements
                pending.append(child)
                if isinstance(child, ast.stmt):
                    yield child


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below ``node``. Faster than ``ast.iter_child_nodes``, for what every first launch does."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [entry for entry in value if isinstance(entry, ast.AST)]
    return found


@_remembered
def leaves_loop(node: ast.For | ast.While) -> bool:
    """Whether the body of the loop ``node`` contains a ``break`` of its own, or a ``return``."""
    pending: list[tuple[ast.AST, bool]] = [(child, True) for child in node.body]
    while pending:
        child, own = pending.pop()
        if isinstance(child, ast.Return) or (own and isinstance(child, ast.Break)):
            return True
        if isinstance(child, (ast.FunctionDef, ast.expr)):
            continue
        inner = own and not isinstance(child, (ast.For, ast.While))
        pending += [(c, inner) for c in _children(child)]
    return False
