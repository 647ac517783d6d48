"""Kernels of ours compiled by cuTile Python to CUDA Tile IR, where ``cuda.tile`` is installed; no GPU is needed."""

from __future__ import annotations

import ast
import enum
import importlib
import linecache
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.ir.dtypes import DType, int64
from tilewright.language.functions import TileFunction

VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")


class Refused(Exception):
    """What cuTile Python said."""


def _reason(error: BaseException) -> str:
    """The first line of what was said, of an internal error what it came from."""
    while not str(error).split("\n")[0] and error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _named(function: types.FunctionType, names: dict[str, Any]) -> types.FunctionType:
    """A lambda as a function with a name, which cuTile Python asks for."""
    code = function.__code__
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    used = {(line, column) for line, _, column, end in code.co_positions() if line and column is not None and end}
    around = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _holds(node.body, used)]
    if not around:
        raise Refused("a lambda whose source is not found")
    found = max(around, key=lambda node: (node.lineno, node.col_offset))
    found.args.defaults = [ast.Constant(None) for _ in found.args.defaults]
    source = f"def named({ast.unparse(found.args)}):\n    return {ast.unparse(found.body)}\n"
    filename = f"<lambda {len(_LAMBDAS)}>"
    _LAMBDAS.append(source)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), names)
    made: types.FunctionType = names["named"]
    return made


def _holds(node: ast.expr, places: set[tuple[int, int]]) -> bool:
    """Whether all places, of lines and columns, are in the text of ``node``."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return all(first <= place < last for place in places)


_LAMBDAS: list[str] = []


def _has_translation(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, TileFunction, DType, enum.Enum))


class CuTile:
    """The front end of ``cuda.tile``; functions that it has seen are kept in their translation."""

    def __init__(self) -> None:
        self.tile: Any = importlib.import_module("cuda.tile")
        self.compilation: Any = importlib.import_module("cuda.tile.compilation")
        self._globals: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    def translated(self, value: Any) -> Any:
        """``value`` with ours replaced by theirs: the module, what it holds, and functions that use it."""
        if value is ct:
            return self.tile
        if type(value) in (tuple, list):
            return type(value)(map(self.translated, value)) if any(map(_has_translation, value)) else value
        if isinstance(value, enum.Enum):
            return getattr(getattr(self.tile, type(value).__name__, None), value.name, value)
        if isinstance(value, TileFunction):
            return self.tile.function(self.function(value.function), host=value.host, tile=value.tile)
        name = getattr(value, "__name__", getattr(value, "name", None))
        if isinstance(name, str) and getattr(ct, name, None) is value and hasattr(self.tile, name):
            return getattr(self.tile, name)
        if isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith("tilewright."):
            return self.function(value)
        return value

    def function(self, function: types.FunctionType) -> types.FunctionType:
        """A function, with what it names translated. Annotations are left out: constraints say what they say."""
        names = function.__globals__
        if id(names) not in self._globals:
            known = dict(names)
            self._globals[id(names)] = known, names
            theirs = [(name, value) for name, value in names.items() if not name.startswith("__")]
            for name, value in sorted(theirs, key=lambda item: isinstance(item[1], (types.FunctionType, tuple, list))):
                known[name] = self.translated(value)  # functions last: of lambdas all names are copied
        known, _ = self._globals[id(names)]
        known.update({n: self.translated(v) for n, v in names.items() if n not in known})
        if function.__name__ == "<lambda>":
            cells = {n: c.cell_contents for n, c in zip(function.__code__.co_freevars, function.__closure__ or ())}
            made = _named(function, {**known, **{n: self.translated(v) for n, v in cells.items()}})
        else:
            closure = tuple(types.CellType(self.translated(cell.cell_contents)) for cell in function.__closure__ or ())
            made = types.FunctionType(function.__code__, known, function.__name__, closure=closure)
            made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__defaults__ = tuple(map(self.translated, function.__defaults__ or ())) or None
        made.__kwdefaults__ = {n: self.translated(v) for n, v in (function.__kwdefaults__ or {}).items()} or None
        return made

    def constraint(self, value: Any, rule: Any, groups: Sequence[str] = ()) -> Any:
        """What callers promise of an argument; ``groups`` when arrays overlap."""
        of, nv = self.compilation, self.tile
        if rule.constant:
            return self.constant(self.translated(value))
        if isinstance(value, tuple):
            return of.TupleConstraint([self.constraint(v, rule.item(i), groups) for i, v in enumerate(value)])
        if isinstance(value, list):
            element = self.array(value, rule.element, groups)
            return of.ListConstraint(element, alias_groups=(), elements_may_alias=bool(groups))
        if isinstance(value, np.ndarray):
            return self.array([value], rule.array, groups)
        if rule.scalar is not None:
            return of.ScalarConstraint(getattr(nv, rule.scalar.name))
        if isinstance(value, bool):
            return of.ScalarConstraint(nv.bool_)
        if isinstance(value, (int, float)):
            wide = isinstance(value, int) and not -(1 << 31) <= value < 1 << 31
            return of.ScalarConstraint(nv.int64 if wide else nv.int32 if isinstance(value, int) else nv.float32)
        raise Refused(f"an argument of type {type(value).__name__}")

    def constant(self, value: Any) -> Any:
        """The constraint of a constant; cuTile Python has none for a tuple but for its items."""
        if isinstance(value, tuple):
            return self.compilation.TupleConstraint([self.constant(v) for v in value])
        return self.compilation.ConstantConstraint(value)

    def array(self, values: Sequence[np.ndarray[Any, Any]], annotation: Any, groups: Sequence[str]) -> Any:
        """What is true of all ``values``."""
        value = values[0]
        dtype = getattr(self.tile, str(value.dtype).replace("bool", "bool_"), None)
        if dtype is None or any(s < 0 or s % v.itemsize for v in values for s in v.strides):
            raise Refused(f"arrays of {value.dtype} with strides {[v.strides for v in values]}")
        strides = [{s // value.itemsize for s in along} for along in zip(*(v.strides for v in values))]
        wide = annotation is not None and annotation.index_dtype is int64
        return self.compilation.ArrayConstraint(
            dtype,
            value.ndim,
            index_dtype=self.tile.int64 if wide else self.tile.int32,
            stride_lower_bound_incl=0,
            alias_groups=tuple(groups),
            may_alias_internally=any(0 in s for s in strides),
            stride_constant=[1 if s == {1} and k == value.ndim - 1 else None for k, s in enumerate(strides)],
        )

    def bytecode(
        self, kernel: Any, arguments: Sequence[Any], version: str, groups: Sequence[str] = (), symbol: str = "kernel"
    ) -> bytes:
        """The file that cuTile Python makes of ``kernel`` for these arguments. Refused when it makes none."""
        rules = [rule for _, rule in kernel.parameters]
        constraints = [self.constraint(v, rule, groups) for v, rule in zip(arguments, rules)]
        conventions = self.compilation.CallingConvention
        tuples = any(isinstance(v, tuple) for v in arguments)
        convention = conventions.cutile_python_v2() if tuples else conventions.cutile_python_v1()
        signature = self.compilation.KernelSignature(constraints, convention, symbol)
        theirs = self.tile.kernel(self.function(kernel.function))
        versions = importlib.import_module("cuda.tile._bytecode.version").BytecodeVersion
        try:
            made = importlib.import_module("cuda.tile._compile").compile_tile(  # export_kernel writes no 13.5
                theirs._annotated_function,
                [signature],
                sm_arch="sm_100" if version < "13.3" else None,
                bytecode_version=versions[f"V_{version.replace('.', '_')}"],
                return_bytecode=True,
                return_cubin=False,
            )
        except Exception as error:
            raise Refused(_reason(error)) from error
        return bytes(made.bytecode)
