"""Joining the variables of several control-flow paths.

Where paths meet, a variable keeps its compile-time value if every path gives the same one; otherwise its run-time
parts are passed along as IR values, if the paths agree on their types; otherwise it becomes unusable, which is an
error only for code that reads it.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from tilewright.frontend.python.scope import LocalFunction, Scope, Unusable
from tilewright.frontend.python.values import Array, ArrayList, BoundMethod, PartlyFixed, Tile, TiledView
from tilewright.frontend.signature import shared_spec
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Value
from tilewright.ir.dtypes import DType, with_article
from tilewright.ir.ops.memory import MakePartitionView, MakeTensorView
from tilewright.ir.ops.shape import Undefined
from tilewright.ir.promotion import loose_dtype
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType, Type, tensor_view
from tilewright.records import dataclass


@dataclass
class Path:
    """The end of one path: the block that ops can still be added to, and the variables there."""

    block: Block
    names: dict[str, Any]
    leaves: list[Value] = field(default_factory=list)


Rebuild = Callable[[Iterator[Value]], Any]


@dataclass
class Merged:
    """The result of ``merge``: the types of the IR values that every path passes on, and how to bind the names."""

    types: list[Type]
    rebuild: dict[str, Rebuild]

    def bind(self, values: Iterable[Value]) -> dict[str, Any]:
        """The merged variables, given the IR values after the join."""
        iterator = iter(values)
        return {name: make(iterator) for name, make in self.rebuild.items()}


def same(a: Any, b: Any) -> bool:
    """Whether two compile-time values are one and the same: 1, 1.0 and True differ."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Tile):
        return a.value is b.value and same(a.constant, b.constant)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, (bool, int, str, Unusable)):
        return bool(a == b)
    return False


def merge(paths: Sequence[Path], outer: Mapping[str, Any], builder: Builder) -> Merged:
    """Join the variables of ``paths`` that differ from ``outer``, the variables before the paths split.

    Adds to each path the IR values (``leaves``) that it passes on.
    """
    merger = _Merger(paths, builder)
    changed: dict[str, None] = {}  # an ordered set
    for path in paths:
        path.leaves = []
        for name, value in path.names.items():
            if name not in outer or not same(value, outer[name]):
                changed[name] = None
    for name in changed:
        missing = Unusable(f"{name!r} may be undefined here: not every path assigns it. Assign it before them")
        merger.merged.rebuild[name] = merger.join(name, [p.names.get(name, missing) for p in paths])
    return merger.merged


class _Merger:
    """Joins values of ``paths``, one of each: what their names are called is for messages."""

    def __init__(self, paths: Sequence[Path], builder: Builder) -> None:
        self.paths, self.builder = paths, builder
        self.merged = Merged([], {})

    def join(self, name: str, values: list[Any]) -> Rebuild:
        first = values[0]
        # A run-time value may be defined inside the paths, so even a common one has to be passed out of them.
        if not has_parts(first) and all(same(first, v) for v in values[1:]):
            return lambda _: first
        for v in values:
            if isinstance(v, Unusable):
                return lambda _, unusable=v: unusable  # type: ignore[misc]
        if all(isinstance(v, tuple) and type(v) is tuple and len(v) == len(first) for v in values):
            parts = [self.join(name, [v[i] for v in values]) for i in range(len(first))]
            return lambda it: tuple(part(it) for part in parts)
        if all(isinstance(v, (Tile, bool, int, float)) for v in values):
            return self.tiles(name, values)
        if all(type(v) is type(first) for v in values):
            joined = self.alike(name, values)
            if joined is not None:
                return joined
        if all(isinstance(v, Value) for v in values) and len({v.type for v in values}) == 1:
            return self.leaf(values, lambda value: value)
        if all(same(first, v) for v in values[1:]):
            return lambda _: first
        return _conflict(name, values)

    def alike(self, name: str, values: list[Any]) -> Rebuild | None:
        """The join of composite values of one class, or of functions; None for other values."""
        first = values[0]
        if isinstance(first, LocalFunction):
            return self.functions(name, values) or _conflict(name, values)
        fields = fields_of(first)
        if fields is None:
            return None
        found = generalized(values, [p.block for p in self.paths], self.builder) if fixed_alike(values) else None
        if found is None:
            return _conflict(name, values)
        parts = {f: self.join(name, [getattr(v, f) for v in found]) for f in fields}
        return lambda it: with_fields(found[0], {f: part(it) for f, part in parts.items()})

    def functions(self, name: str, values: list[LocalFunction]) -> Rebuild | None:
        """Functions of one definition, made by calls that have ended: their variables are joined. Else None.

        Functions of a call that goes on are one with its variables, which may change yet.
        """
        first = values[0]
        chains = [list(v.scope.chain()) for v in values]
        active = next((s for s in chains[0] if all(s in c for c in chains)), None)
        ended = [list(itertools.takewhile(lambda s: s is not active, c)) for c in chains]
        if not all(ended) or any(v.source.node is not first.source.node for v in values):
            return None
        read = {n.id for n in ast.walk(first.source.node) if isinstance(n, ast.Name)}
        seen = [{n: x for s in reversed(scopes) for n, x in s.names.items() if n in read} for scopes in ended]
        roots = [scopes[-1] for scopes in ended]
        alike = all(c.keys() == seen[0].keys() for c in seen) and all(
            r.free.keys() == roots[0].free.keys() and all(r.free[n] is x for n, x in roots[0].free.items())
            for r in roots
        )
        if not alike or any(x is v for c, v in zip(seen, values) for x in c.values()):
            return None
        captured = {n: self.join(n, [c[n] for c in seen]) for n in seen[0]}
        defaults = self.join(name, [v.defaults for v in values])
        by_keyword = {n: self.join(n, [v.keyword_defaults[n] for v in values]) for n in first.keyword_defaults}

        def rebuild(it: Iterator[Value]) -> LocalFunction:
            names = {n: part(it) for n, part in captured.items()}
            scope = Scope(names, active, roots[0].free, roots[0].module)
            return LocalFunction(first.source, scope, defaults(it), {n: part(it) for n, part in by_keyword.items()})

        return rebuild

    def leaf(self, values: list[Value], wrap: Callable[[Value], Any]) -> Rebuild:
        for path, value in zip(self.paths, values):
            path.leaves.append(value)
        self.merged.types.append(values[0].type)
        return lambda it: wrap(next(it))

    def tiles(self, name: str, values: list[Any]) -> Rebuild:
        wanted = common_type(values)
        if wanted is None:
            return _conflict(name, values)
        tiles = [concrete(v, p.block, wanted, self.builder) for v, p in zip(values, self.paths)]
        return self.leaf(tiles, functools.partial(Tile, constant=_common_constant(values)))


def has_parts(value: Any) -> bool:
    """Whether ``value`` may contain run-time data."""
    return isinstance(value, (Tile, Array, TiledView, Value, tuple)) or is_record(value)


def is_record(value: Any) -> bool:
    """Whether ``value`` is joined field by field. A closure is not: it is one with the variables it sees."""
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, LocalFunction))


def fixed_alike(values: Sequence[Any]) -> bool:
    """Whether the fixed parts of ``values`` agree, which are of one type."""
    return not isinstance(values[0], PartlyFixed) or all(v.fixed() == values[0].fixed() for v in values[1:])


def with_fields(record: Any, fields: dict[str, Any]) -> Any:
    """A copy of ``record`` with other values in ``fields``, made without running its ``__init__``."""
    copied = object.__new__(type(record))
    for f in dataclasses.fields(record):
        object.__setattr__(copied, f.name, fields.get(f.name, getattr(record, f.name)))
    return copied


def fields_of(value: Any) -> tuple[str, ...] | None:
    """The attributes of a composite value that may hold IR values; None for values without parts."""
    if type(value) in _FIELDS:
        return _FIELDS[type(value)]
    if is_record(value) and not isinstance(value, Tile):
        return tuple(f.name for f in dataclasses.fields(value))
    return None


def generalized(values: Sequence[Any], blocks: Sequence[Block], builder: Builder) -> Sequence[Any] | None:
    """``values`` of one class, one a block, that rely only on what is true of all; None when they are of different
    types."""
    generalize = _GENERALIZED.get(type(values[0]))
    return values if generalize is None else generalize(values, blocks, builder)


def _arrays(arrays: Sequence[Array], blocks: Sequence[Block], builder: Builder) -> list[Array] | None:
    """``arrays`` with those static extents only that all have."""
    if len({(a.dtype, a.ndim, a.index_dtype) for a in arrays}) > 1:
        return None
    found = list(arrays)
    for extents, static in (("shape", "static_shape"), ("strides", "static_strides")):
        shared = tuple(c[0] if len(set(c)) == 1 else None for c in zip(*(getattr(a, static) for a in arrays)))
        visible = [all(isinstance(e, int) for e in c) for c in zip(*(getattr(a, extents) for a in arrays))]
        for i, (a, block) in enumerate(zip(found, blocks)):
            with builder.at(block):
                row = tuple(
                    e if isinstance(e, Tile) or (kept and s is not None) else Tile(builder.constant(e, a.index_dtype))
                    for e, kept, s in zip(getattr(a, extents), visible, shared)
                )
            found[i] = with_fields(found[i], {extents: row, static: shared})
    return found


def _views(views: Sequence[TiledView], blocks: Sequence[Block], builder: Builder) -> list[TiledView] | None:
    """``views`` of arrays that are ``generalized``."""
    arrays = _arrays([v.array for v in views], blocks, builder)
    if arrays is None or len({(v.tile_shape, v.traversal_steps, v.padding_mode) for v in views}) > 1:
        return None
    found = []
    for view, array, block in zip(views, arrays, blocks):
        type_ = TensorViewType(array.dtype, array.static_shape, array.static_strides, array.index_dtype)
        part: PartitionViewType = view.view.type  # type: ignore[assignment]
        if part.view == type_:
            found.append(view)
            continue
        extents = zip((array.shape, array.strides), (array.static_shape, array.static_strides))
        shape, strides = ([e.value for e, s in zip(row, static) if s is None] for row, static in extents)
        with builder.at(block):
            whole = builder.emit(MakeTensorView, array.base, shape, strides, type=type_)
            value = builder.emit(MakePartitionView, whole, type=dataclasses.replace(part, view=type_))
        found.append(dataclasses.replace(view, array=array, view=value))
    return found


def _lists(lists: Sequence[ArrayList], blocks: Sequence[Block], builder: Builder) -> list[ArrayList] | None:
    element = shared_spec([v.element for v in lists])
    return None if element is None else [dataclasses.replace(v, element=element) for v in lists]


_FIELDS = {Array: ("base", "shape", "strides"), TiledView: ("array", "view"), ArrayList: ("table", "length")}
_GENERALIZED: dict[type, Callable[..., list[Any] | None]] = {Array: _arrays, TiledView: _views, ArrayList: _lists}


def _common_constant(values: Sequence[Any]) -> bool | int | float | None:
    """The number that all of ``values`` are, if they are strict constants."""
    numbers = [v.constant if isinstance(v, Tile) else None for v in values]
    known = numbers[0] is not None and all(same(numbers[0], n) for n in numbers[1:])
    return numbers[0] if known else None


def common_type(values: Sequence[Any]) -> TileType | None:
    """The type that the tiles and numbers in ``values`` share; a number takes the dtype of scalars of its category."""
    types = {v.value.tile for v in values if isinstance(v, Tile)}
    numbers = [v for v in values if not isinstance(v, Tile)]
    if not types:
        types = {TileType(loose_dtype(n)) for n in numbers}
        # Integers of different magnitude meet in the wider type.
        if len(types) > 1 and all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            types = {max(types, key=lambda t: (t.element.bitwidth, not t.element.is_signed))}
    if len(types) != 1:
        return None
    (found,) = types
    return found if all(fits(n, found) for n in numbers) else None


def fits(number: bool | int | float, t: TileType) -> bool:
    """Whether a number can take part as a scalar of type ``t``: same category, in range."""
    if t.rank or t.is_pointer:
        return False
    dtype = t.element
    if isinstance(number, bool):
        return dtype.is_bool
    if isinstance(number, int):
        return dtype.is_integer and dtype.min <= number <= dtype.max
    return dtype.is_float


def concrete(value: Any, block: Block, t: TileType, builder: Builder) -> Value:
    """``value``, a tile or a number that fits, as an IR value of type ``t`` available at the end of ``block``."""
    if isinstance(value, Tile):
        return value.value
    with builder.at(block):
        return builder.constant(value, t.dtype)


def undefined(t: Type, block: Block, builder: Builder) -> Value:
    """A placeholder that no path reads."""
    with builder.at(block):
        return _undefined(t, builder)


def _undefined(t: Type, builder: Builder) -> Value:
    if isinstance(t, TileType):
        return builder.emit(Undefined, type=t)
    if isinstance(t, PartitionViewType):
        return builder.emit(MakePartitionView, _undefined(t.view, builder), type=t)
    view = tensor_view(t)
    base = builder.emit(Undefined, type=TileType(PointerType(view.dtype)))
    extent = TileType(view.index_dtype)
    extents = (view.shape, view.strides)
    shape, strides = ([builder.emit(Undefined, type=extent) for e in row if e is None] for row in extents)
    return builder.emit(MakeTensorView, base, shape, strides, type=view)


def describe(value: Any) -> str:
    """What ``value`` is, for messages about types that do not agree."""
    if isinstance(value, Tile):
        t = value.value.tile
        return f"{with_article(t.dtype)} scalar" if not t.shape else f"a tile of {t.dtype} with shape {t.shape}"
    if isinstance(value, Array):
        return f"a {value.ndim}-dimensional array of {value.dtype}"
    if isinstance(value, PartlyFixed):
        return value.described()
    if isinstance(value, ArrayList):
        return f"a list of {value.element.ndim}-dimensional arrays of {value.element.dtype}"
    if isinstance(value, TiledView):
        return f"a tiled view of {value.dtype} with tile shape {value.tile_shape}"
    if isinstance(value, (bool, int, float)):
        return f"the constant {value!r}"
    if value is None:
        return "None"
    return _describe_object(value)


def _describe_object(value: Any) -> str:
    """What a value that only exists at compile time is."""
    if isinstance(value, LocalFunction):
        return "a lambda" if value.name == "<lambda>" else f"the function {value.name}()"
    if isinstance(value, BoundMethod):
        return f"the method {value.stub.__name__}()"
    if isinstance(value, DType):
        return f"the dtype {value}"
    if isinstance(value, enum.Enum):
        return f"the enum member {type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return f"the function {value.__name__}()"
    if isinstance(value, str):
        return "a string"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _conflict(name: str, values: list[Any]) -> Rebuild:
    kinds: list[str] = []
    for v in values:
        if (kind := describe(v)) not in kinds:
            kinds.append(kind)
    if len(kinds) == 1:
        text = f"{name!r} is {kinds[0]} that depends on the path taken to here, which only numbers and tiles can be. "
        marker = Unusable(f"{text}Use it inside the branches, or make the condition a constant")
        return lambda _: marker
    marker = Unusable(
        f"{name!r} has no single type here: it is {' on one path and '.join(kinds)} on another. "
        "Give it the same dtype and shape on every path, with astype(), ct.full() or ct.zeros()"
    )
    return lambda _: marker
