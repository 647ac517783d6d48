"""Kernels of our IR as entries of CUDA Tile IR: control flow, parameters and locations."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ir import core
from tilewright.ir.core import Op
from tilewright.ir.location import Loc
from tilewright.ir.ops import control, linear, memory
from tilewright.ir.types import TileType, Type
from tilewright.system import collector
from tilewright.tileir.debug import CallSite, CompileUnit, File, FileLoc, Location, Subprogram
from tilewright.tileir.errors import VersionError
from tilewright.tileir.export import arith, tiles
from tilewright.tileir.export import memory as memory_ops
from tilewright.tileir.export.emitter import Emitter, number_attribute, tile, tile_of
from tilewright.tileir.module import ArrayAttr, Block, BoundedAttr, DivByAttr, Entry, Module, Value
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.types import TOKEN, Tile
from tilewright.tileir.types import Type as TileIRType

HANDLERS: dict[type[Op], Any] = {**arith.HANDLERS, **tiles.HANDLERS, **memory_ops.HANDLERS}
_TERMINATORS: dict[type[Op], str] = {control.Yield: "yield", control.Continue: "continue", control.Break: "break"}
_ENTRY_HINTS = {
    "num_ctas": "num_cta_in_cga",
    "occupancy": "occupancy",
    "num_worker_warps": "num_worker_warps_per_cta",
}


@dataclass(frozen=True)
class Argument:
    """A parameter of an entry: the one of the function that it becomes, if any, and what callers promise of it."""

    type: TileType
    position: int | None
    lower: int | None = None
    divisor: int = 1


@dataclass(frozen=True)
class Kernel:
    """A function to export; without ``symbol`` and ``arguments`` it keeps its name and its parameters. With
    ``negative_strides`` it takes arrays that have some: their extents have 64 bits, and no tile goes through the TMA
    unit."""

    function: core.Function
    symbol: str | None = None
    arguments: Sequence[Argument] | None = None
    negative_strides: bool = False


USUAL_MINOR = 3  # the first version that has hints for every architecture, and whose tools compile for sm_90


def export_module(kernels: Sequence[Kernel], minor: int | None = None) -> Module:
    """``kernels`` as a module of version 13.``minor``, by default of the first one from 13.3 on that can express them.

    VersionError and TileIRError as ``export_function`` has them.
    """
    for version in range(USUAL_MINOR, NEWEST) if minor is None else ():
        try:
            return export_module(kernels, version)
        except VersionError:
            continue
    version = NEWEST if minor is None else minor
    with collector.paused():
        return Module(version, [export_function(k, version) for k in kernels])


def export_function(kernel: Kernel, minor: int) -> Entry:
    """``kernel`` as an entry of a module of version 13.``minor``.

    VersionError for what that version cannot express, TileIRError for what none can.
    """
    function, arguments = kernel.function, kernel.arguments
    name = kernel.symbol or re.sub(r"\W+", "_", function.name)  # which may be "<lambda>"
    if arguments is None:
        arguments = [Argument(a.tile, i) for i, a in enumerate(function.body.args)]
    body = Block([Value(tile(a.type)) for a in arguments])
    places = _DebugLocations(function, name)
    emitter = Emitter(minor, body)
    emitter.negative_strides = kernel.negative_strides
    emitter.loc = places(function.loc)
    for argument, value in zip(arguments, body.args):
        emitter.require(tile(argument.type).element)
        if argument.position is not None:
            emitter.values[function.body.args[argument.position]] = _promised(emitter, argument, value)
    _Control(emitter, places).function(function)
    hints = {_ENTRY_HINTS[k]: v for k, v in function.hints.items() if k in _ENTRY_HINTS}
    return Entry(name, body, memory_ops.by_architecture(hints, minor), loc=places.subprogram_loc)


def _promised(e: Emitter, argument: Argument, value: Value) -> Value:
    assert isinstance(value.type, Tile)
    if argument.divisor > 1:
        value = e.one("assume", {"value": value}, value.type, predicate=DivByAttr(argument.divisor))
    if argument.lower is not None:
        value = e.one("assume", {"value": value}, value.type, predicate=BoundedAttr(argument.lower, None))
    return value


class _DebugLocations:
    """Debug locations of places in the source; equal ones are one object."""

    def __init__(self, function: core.Function, symbol: str) -> None:
        self.symbol = symbol
        self.files: dict[str, File] = {}
        self.units: dict[str, CompileUnit] = {}
        self.scopes: dict[tuple[str, str], Subprogram] = {}
        self.made: dict[tuple[Any, ...], Location] = {}
        self.known: dict[int, Location | None] = {}  # by the identity of what the function keeps alive
        self.kernel = function.loc.file, function.name
        scope = self.scope(*self.kernel, function.loc.line, symbol)
        self.subprogram_loc = FileLoc(scope, function.loc.file, function.loc.line, function.loc.column)

    def file(self, name: str) -> File:
        if name not in self.files:
            self.files[name] = File(os.path.basename(name), os.path.dirname(name))
            self.units[name] = CompileUnit(self.files[name])
        return self.files[name]

    def scope(self, file: str, name: str, line: int, linkage: str) -> Subprogram:
        key = file, linkage
        if key not in self.scopes:
            made = self.file(file)
            self.scopes[key] = Subprogram(made, line, name, linkage, self.units[file], line)
        return self.scopes[key]

    def __call__(self, loc: Loc) -> Location | None:
        try:
            return self.known[id(loc)]
        except KeyError:
            found = self.known[id(loc)] = self.place(loc)
            return found

    def place(self, loc: Loc) -> Location | None:
        if loc.line < 1:
            return self.subprogram_loc
        caller = None if loc.caller is None else self(loc.caller)
        key = loc.file, loc.line, loc.column, loc.function, caller
        made = self.made.get(key)
        if made is None:
            scope = self.scopes[self.kernel[0], self.symbol]
            if loc.caller is not None:
                name = loc.function or "inlined"
                scope = self.scope(loc.file, name, loc.line, f"{name}@{os.path.basename(loc.file)}:{loc.line}")
            made = FileLoc(scope, loc.file, loc.line, loc.column)
            if loc.caller is not None:
                made = CallSite(made, caller)
            self.made[key] = made
        return made


class _Control:
    """Exports blocks. Loops and branches with memory ops carry the token."""

    def __init__(self, emitter: Emitter, places: _DebugLocations) -> None:
        self.e = emitter
        self.places = places
        self.carries: list[bool] = []  # whether each enclosing loop carries the token
        self.ordering: set[Op] = set()  # loops and branches with memory ops
        self.handlers: dict[type[Op], Callable[[Any], None]] = {
            control.For: self.for_,
            control.Loop: self.loop,
            control.If: self.if_,
            control.Return: self.return_,
            linear.Reduce: self.fold,
            linear.Scan: self.fold,
        }

    def function(self, function: core.Function) -> None:
        kinds: set[type[Op]] = set()
        self.survey(function.body, kinds)
        if memory.Bid in kinds:
            self.e.grid["get_tile_block_id"] = tiles.grid_values(self.e, "get_tile_block_id")
        if memory.NumBlocks in kinds:
            self.e.grid["get_num_tile_blocks"] = tiles.grid_values(self.e, "get_num_tile_blocks")
        if not kinds.isdisjoint(memory_ops.ORDERED):
            self.e.token = self.e.one("make_token", {}, TOKEN)
        self.all(function.body.ops)

    def survey(self, block: core.Block, kinds: set[type[Op]]) -> bool:
        """Whether the token orders ops of ``block``. Collects the ``kinds`` of all ops, and those with such regions."""
        ordered = False
        for op in block.ops:
            kind = type(op)
            kinds.add(kind)
            found = kind in memory_ops.ORDERED
            for region in op.regions:
                found |= self.survey(region, kinds)
            if found:
                ordered = True
                if op.regions:
                    self.ordering.add(op)
        return ordered

    def all(self, ops: Sequence[Op]) -> None:
        e, values, handlers, known = self.e, self.e.values, HANDLERS, self.places.known
        for op in ops:
            e.op = op
            loc = op.loc
            e.loc = known[id(loc)] if id(loc) in known else self.places(loc)
            handler = handlers.get(type(op))
            if handler is not None:
                made = handler(e, op)
                if made is not None:
                    values[op.results[0]] = made
                continue
            structured = self.handlers.get(type(op))
            if structured is None:
                raise e.error(f"the op {op.name} cannot be expressed in CUDA Tile IR")
            structured(op)

    def return_(self, op: control.Return) -> None:
        self.e.add("return", {})

    def types(self, types: Sequence[Type]) -> list[TileIRType]:
        found: list[TileIRType] = []
        for t in types:
            if not isinstance(t, TileType):
                raise self.e.error(f"{t} is carried by a loop or a branch, which CUDA Tile IR cannot do with views")
            found.append(tile(t))
        return found

    def body(self, block: core.Block, arguments: list[Value], token: Value | None, carries: bool | None) -> Block:
        """A region with ``block`` in it. ``carries`` says whether its ``yield`` ends with the token."""
        made = Block(arguments if token is None else [*arguments, token])
        outer_block, outer_token, outer_constants = self.e.block, self.e.token, self.e.constants
        self.e.block, self.e.constants = made, dict(outer_constants)
        self.e.token = token if token is not None else outer_token
        for ours, theirs in zip(block.args, arguments):
            self.e.values[ours] = theirs
        self.all(block.ops[:-1])
        self.terminator(block.ops[-1], bool(carries))
        self.e.block, self.e.token, self.e.constants = outer_block, outer_token, outer_constants
        return made

    def terminator(self, op: Op, carries: bool) -> None:
        """The last op of a region, with the token where the branch or the loop ``carries`` it."""
        assert isinstance(op, (control.Yield, control.Continue, control.Break))
        self.e.op = op
        self.e.loc = self.places(op.loc)
        last = carries if isinstance(op, control.Yield) else self.carries[-1]
        self.e.add(_TERMINATORS[type(op)], {"operands": [*self.e.all(op.values), *([self.e.token] if last else [])]})

    def define(self, op: Op, results: list[Value], carries: bool) -> None:
        if carries:
            self.e.token = results[-1]
        for ours, theirs in zip(op.results, results):
            self.e.values[ours] = theirs

    def repeat(self, op: control.For | control.Loop, name: str, **operands: Any) -> None:
        carries = op in self.ordering
        inits = [*self.e.all(op.inits), *([self.e.token] if carries else [])]
        arguments = [Value(t) for t in self.types([a.type for a in op.body.args])]
        results = [*self.types([r.type for r in op.results]), *([TOKEN] if carries else [])]
        attributes = {k: operands.pop(k) for k in ("unsignedCmp",) if k in operands}
        loc = self.e.loc
        self.carries.append(carries)
        body = self.body(op.body, arguments, Value(TOKEN) if carries else None, None)
        self.carries.pop()
        self.e.loc, self.e.op = loc, op
        made = self.e.add(name, {**operands, "initValues": inits}, results, [body], **attributes)
        self.define(op, made, carries)

    def for_(self, op: control.For) -> None:
        bounds = {"lowerBound": self.e[op.lower], "upperBound": self.e[op.upper], "step": self.e[op.step]}
        self.repeat(op, "for", **bounds, unsignedCmp=not op.lower.tile.element.is_signed)

    def loop(self, op: control.Loop) -> None:
        self.repeat(op, "loop")

    def if_(self, op: control.If) -> None:
        carries = op in self.ordering
        results = [*self.types(op.types), *([TOKEN] if carries else [])]
        loc = self.e.loc
        blocks = [self.body(b, [], None, carries) for b in (op.then, op.orelse)]
        self.e.loc, self.e.op = loc, op
        made = self.e.add("if", {"condition": self.e[op.condition]}, results, blocks)
        self.define(op, made, carries)

    def fold(self, op: linear.Reduce | linear.Scan) -> None:
        """The combiner takes an element and what was combined so far for each operand: our right and left scalars."""
        n = len(op.values)
        scalars = [Value(tile_of(tile(v.tile).element)) for v in op.values for _ in range(2)]
        loc = self.e.loc
        ordered = [scalars[2 * i + 1] for i in range(n)] + [scalars[2 * i] for i in range(n)]
        visible, self.e.constants = self.e.constants, {}  # combiners take nothing from around them
        body = self.body(op.body, ordered, None, False)
        body.args, self.e.constants = scalars, visible
        self.e.loc, self.e.op = loc, op
        identities = tuple(number_attribute(v.tile.element, x) for v, x in zip(op.values, op.identities))
        extra = {"reverse": op.reverse} if isinstance(op, linear.Scan) else {}
        name = "scan" if isinstance(op, linear.Scan) else "reduce"
        results = self.types([r.type for r in op.results])
        operands = {"operands": self.e.all(op.values)}
        made = self.e.add(name, operands, results, [body], dim=op.axis, identities=ArrayAttr(identities), **extra)
        self.define(op, made, False)
