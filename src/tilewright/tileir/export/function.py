"""Kernels of our IR as entries of CUDA Tile IR: control flow, parameters and locations."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
import re
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tilewright.ir import core
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, float32, int32
from tilewright.ir.hints import UNSPECIFIED, ByTarget
from tilewright.ir.location import Loc
from tilewright.ir.ops import control, linear, memory, shape
from tilewright.ir.types import TileType, Type
from tilewright.system import collector
from tilewright.tileir.bytecode.encode import BodyWriter, WrittenLocation
from tilewright.tileir.bytecode.writer import ModuleWriter
from tilewright.tileir.debug import CallSite, CompileUnit, File, FileLoc, Subprogram
from tilewright.tileir.elementwise import ENTRY_HINTS, TERMINATORS
from tilewright.tileir.errors import VersionError
from tilewright.tileir.export import arith, products, tiles
from tilewright.tileir.export import memory as memory_ops
from tilewright.tileir.export.emitter import Emitter, element, number_attribute, number_in, scalar, tile_of
from tilewright.tileir.export.tokens import Slot, Tokens
from tilewright.tileir.module import ArrayAttr, Block, Entry, HintsAttr, Module, Value
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.types import TOKEN, Tile
from tilewright.tileir.types import Type as TileIRType
from tilewright.transforms.pipelines import TILE_IR, run_passes

_FIRST_WARPS = (4, 8)  # the numbers of worker warps that versions before 13.5 have


Parameter = tuple[TileType, int | None, int | None]  # as of ``Argument``


class Argument(NamedTuple):
    """A parameter of an entry: the one of the function that it becomes, if any, and the least that callers pass."""

    type: TileType
    position: int | None
    lower: int | None = None


@dataclass(frozen=True)
class Kernel:
    """A function to export; without ``symbol`` and ``arguments`` it keeps its name and its parameters. With
    ``negative_strides`` it takes arrays that have some: their extents have 64 bits, and no tile goes through the TMA
    unit, nor does any without ``tma``. In ``program_order`` no memory op may be done before one that the program has
    before it. Without ``divisors`` it is not said what addresses, extents and strides are multiples of. With
    ``keep_loads`` tiles of every size are loaded once, from memory that the kernel writes. With ``ahead`` operands of
    products may be loaded ahead in loops that access again what they have written."""

    function: core.Function
    symbol: str | None = None
    arguments: Sequence[Argument] | None = None
    negative_strides: bool = False
    program_order: bool = False
    tma: bool = True
    divisors: bool = True
    keep_loads: bool = False
    ahead: bool = False

    @property
    def may_use_tma(self) -> bool:
        return self.tma and not self.negative_strides

    def parameters(self) -> Sequence[Parameter]:
        """What the entry takes. Extents are not negative, nor are strides without ``negative_strides``."""
        if self.arguments is not None:
            return self.arguments
        least = {"shape": 0} if self.negative_strides else {"shape": 0, "stride": 0}
        pairs = enumerate(zip(self.function.body.args, self.function.params))
        return [(v.type, i, least.get(param.role)) for i, (v, param) in pairs]  # type: ignore[misc]


# What is looked at before a loop, by the version from which on it may be made there.
_HOISTED: dict[type[Op], int] = {
    control.For: 1,
    control.Loop: 1,
    memory.MakeTensorView: 1,
    memory.MakePartitionView: 3,  # before, it is in the block of the accesses
}
USUAL_MINOR = 3  # the first version that has hints for every architecture, and whose tools compile for sm_90


def export(kernels: Sequence[Kernel], minor: int | None = None) -> bytes:
    """``kernels`` as a file of version 13.``minor``, by default of the first one from 13.3 on that can express them.

    VersionError for what that version cannot express, TileIRError for what none can.
    """
    for version in range(USUAL_MINOR, NEWEST) if minor is None else ():
        try:
            return export(kernels, version)
        except VersionError:
            continue
    version = NEWEST if minor is None else minor
    with collector.paused(leaves=False):
        writer = ModuleWriter(Module(version), version)
        for kernel in kernels:
            _export_function(kernel, writer)
        return writer.file()


def entry_name(function: core.Function) -> str:
    """The name of the entry for ``function``, whose own may be ``<lambda>``."""
    name = function.name
    return name if name.isidentifier() else re.sub(r"\W+", "_", name)


def _export_function(kernel: Kernel, writer: ModuleWriter) -> None:
    function = run_passes(kernel.function, TILE_IR)
    if function is not kernel.function:
        kernel = replace(kernel, function=function)
    name = kernel.symbol or entry_name(function)
    locations, parameters = _DebugLocations(function, name), kernel.parameters()
    args = [Value(tile_of(element(t.dtype), t.shape)) for t, _, _ in parameters]
    entry = Entry(name, Block(args), _entry_hints(function, writer.minor), loc=locations.subprogram_loc)
    body = writer.begin(entry)
    _FunctionEmitter(writer.minor, kernel, body, locations).function(parameters, args)
    writer.end(entry, body)


def _entry_hints(function: core.Function, minor: int) -> HintsAttr | None:
    """The hints of a kernel. ``num_worker_warps`` is left out before 13.3, with a warning, and 4 or 8 before 13.5."""
    if not function.hints:
        return None
    hints = {ENTRY_HINTS[k]: v for k, v in function.hints.items() if k in ENTRY_HINTS}
    warps = function.hints.get("num_worker_warps")
    chosen: set[Any] = {warps.default, *warps.values.values()} if isinstance(warps, ByTarget) else {warps}
    lacking = chosen - {None, UNSPECIFIED, *(_FIRST_WARPS if minor < 5 else chosen)}
    if minor < 3 and chosen - {None, UNSPECIFIED}:
        del hints[ENTRY_HINTS["num_worker_warps"]]
        warnings.warn(
            f"{function.name}(): num_worker_warps needs bytecode 13.3; files of 13.{minor} are without it", stacklevel=2
        )
    elif lacking:
        raise VersionError(
            f"{function.loc}: num_worker_warps={min(lacking)} needs bytecode 13.5; 13.{minor} has 4 and 8"
        )
    return memory_ops.by_architecture(hints, minor)


_split = functools.lru_cache(maxsize=256)(os.path.split)  # the folder and the name of a file


class _DebugLocations:
    """Debug locations of those in the source; equal ones are one object."""

    def __init__(self, function: core.Function, symbol: str) -> None:
        self.units: dict[str, tuple[File, CompileUnit]] = {}
        self.scopes: dict[tuple[str, str, int], Subprogram] = {}  # of calls
        self.made: dict[tuple[Any, ...], CallSite] = {}
        self.known: dict[int, WrittenLocation] = {}  # by the identity of what the function keeps alive
        loc = function.loc
        self.kernel_scope = self.scope(loc, function.name, symbol)
        self.subprogram_loc = FileLoc(self.kernel_scope, loc.file, loc.line, loc.column)

    def scope(self, loc: Loc, name: str, linkage: str) -> Subprogram:
        if loc.file not in self.units:
            folder, base = _split(loc.file)
            made = File(base, folder)
            self.units[loc.file] = made, CompileUnit(made)
        file, unit = self.units[loc.file]
        return Subprogram(file, loc.line, name, linkage, unit, loc.line)

    def call_scope(self, loc: Loc) -> Subprogram:
        """The scope of what is inlined at a call."""
        name = loc.function or "inlined"
        found = self.scopes.get((loc.file, name, loc.line))
        if found is None:
            made = self.scope(loc, name, f"{name}@{_split(loc.file)[1]}:{loc.line}")
            found = self.scopes[loc.file, name, loc.line] = made
        return found

    def __call__(self, loc: Loc) -> WrittenLocation:
        """The location that is not among the ``known`` ones yet."""
        line, caller = loc.line, loc.caller
        if line < 1:
            return self.subprogram_loc
        made: WrittenLocation = self.kernel_scope, loc.file, line, loc.column
        if caller is not None:
            scope, site = self.call_scope(loc), self.known.get(id(caller)) or self(caller)
            key = scope, line, loc.column, site
            made = self.made.get(key) or self.made.setdefault(
                key,
                CallSite(FileLoc(scope, loc.file, line, loc.column), site),  # type: ignore[arg-type]
            )
        self.known[id(loc)] = made
        return made


class _FunctionEmitter(Emitter):
    """Exports a function. Loops and branches with memory ops carry tokens."""

    def __init__(self, minor: int, kernel: Kernel, writer: BodyWriter, locations: _DebugLocations) -> None:
        super().__init__(minor, kernel, writer)
        self.locations = locations
        self.loops: list[list[Slot]] = []  # the tokens that each enclosing loop carries

    def function(self, parameters: Sequence[Parameter], args: list[Value]) -> None:
        function = self.kernel.function
        self.loc = self.locations(function.loc)
        self.parameters(function.body.args, parameters, args)
        self.tokens = Tokens(self)
        kinds = self.tokens.kinds
        self.unrolled = _unrolled(function.body) if self.tokens.has_nests and linear.Mma in kinds else set()
        if memory.Bid in kinds:
            tiles.ask_grid(self, "get_tile_block_id")
        if memory.NumBlocks in kinds:
            tiles.ask_grid(self, "get_num_tile_blocks")
        self.tokens.begin()
        self.ops(function.body.ops)
        del self.tokens  # which knows the emitter: nothing is left to the garbage collector

    def parameters(self, ours: Sequence[core.Value], parameters: Sequence[Parameter], args: list[Value]) -> None:
        assume = self.make["assume"]
        for value, (_, position, lower) in zip(args, parameters):
            self.require(value.type.element)  # type: ignore[union-attr]
            if position is not None:
                argument = ours[position]
                if lower is not None and argument.users:
                    value = assume(self, {"value": value}, value.type, predicate=tiles.bounded(lower, None))
                self[argument] = value

    def ops(self, ops: Sequence[Op]) -> None:
        unused = self.tokens.unused
        if unused:
            ops = [op for op in ops if op not in unused]
        handlers, locations, loc = HANDLERS, self.locations, None
        known, constant, is_splat = locations.known, shape.Constant, tiles.is_splat
        for op in ops:
            kind = type(op)
            if kind is constant and is_splat(self, op):
                continue
            self.op = op
            if op.loc is not loc:
                loc = op.loc
                self.loc = known.get(id(loc)) or locations(loc)
            try:
                handler = handlers[kind]
            except KeyError:
                raise self.error("there is no such op") from None
            made = handler(self, op)
            if made is not None:
                self[op.results[0]] = made

    def return_(self, op: control.Return) -> None:
        self.make["return"](self, {})

    def types(self, types: Sequence[Type]) -> list[TileIRType]:
        for t in types:
            if not isinstance(t, TileType):
                raise self.error(f"it carries {t}, and loops and branches carry tiles only")
        return list(map(self.tile, types))  # type: ignore[arg-type]

    def body(self, block: core.Block, arguments: list[Value], slots: list[Slot], known: dict[Hashable, Value]) -> None:
        """A region with ``block`` in it, which takes ``arguments``, and sees what is ``known``."""
        state = self.tokens.state()
        with self.region(arguments, known):
            if arguments:
                self.tokens.set(slots, arguments[len(block.args) :])
            self.update(zip(block.args, arguments))
            self.ops(block.ops[:-1])
            self.terminator(block.ops[-1], slots)
        self.tokens.restore(state)

    def hoist(self, block: core.Block) -> None:
        """Make the views in the body ``block`` of a loop that do not depend on it, but those of branches, before it."""
        for op in itertools.compress(block.ops, map(_HOISTED.__contains__, map(type, block.ops))):
            if isinstance(op, (control.For, control.Loop)):
                self.hoist(op.regions[0])
            elif self.minor >= _HOISTED[type(op)] and op.results[0] not in self and self.is_known(op):
                self.op, self.loc = op, self.locations.known.get(id(op.loc)) or self.locations(op.loc)
                self[op.results[0]] = HANDLERS[type(op)](self, op)  # type: ignore[assignment]

    def is_known(self, op: Op) -> bool:
        """Whether the operands of ``op``, which something needs, are constants or have been made."""
        return op not in self.tokens.unused and all(
            v in self or v in self.splats or (type(v.owner) is shape.Constant and tiles.is_splat(self, v.owner))
            for v in op.operands
        )

    def terminator(self, op: Op, slots: list[Slot]) -> None:
        """The last op of a region, with the tokens that the branch or the loop carries."""
        assert isinstance(op, (control.Yield, control.Continue, control.Break))
        self.op = op
        self.loc = self.locations(op.loc)
        last = slots if isinstance(op, control.Yield) else self.loops[-1]
        values = self.all(op.values)
        if isinstance(op, control.Continue) and len(set(op.values)) < len(values):
            # tileiras 13.5 takes what is carried equally as one, also where it does not begin so
            values = [tiles.another(self, v) if v in values[:k] else v for k, v in enumerate(values)]
        self.make[TERMINATORS[type(op)]](self, {"operands": [*values, *self.tokens.values(last)]})

    def define(self, op: Op, results: list[Value], slots: list[Slot]) -> None:
        self.writer.define(results)
        self.tokens.set(slots, results[len(op.results) :])
        self.update(zip(op.results, results))

    def repeat(self, op: control.For | control.Loop, name: str, bounds: dict[str, Value], **attributes: Any) -> None:
        slots = self.tokens.carried(op)
        inits = [*self.all(op.inits), *self.tokens.values(slots)]
        types = [*self.types([a.type for a in op.body.args]), *[TOKEN] * len(slots)]
        results = [*self.types([r.type for r in op.results]), *[TOKEN] * len(slots)]
        loc, known = self.loc, self.known.copy()
        self.hoist(op.body)
        self.loc, self.op = loc, op
        if len(known) < len(self.known):
            known.update((key, view) for key, view in self.known.items() if type(key[0]) is int)  # type: ignore[index]
        made = self.make[name](self, {**bounds, "initValues": inits}, results, **attributes)
        self.loops.append(slots)
        self.body(op.body, [*map(Value, types)], slots, known)
        self.loops.pop()
        self.loc, self.op = loc, op
        self.define(op, made, slots)

    def extent(self) -> Value | None:
        """An extent of an array that is a number of int32."""
        given = zip(self.kernel.function.body.args, self.kernel.function.params)
        return next((self[v] for v, p in given if p.role == "shape" and v.tile.element is int32 and v in self), None)

    def for_(self, op: control.For) -> None:
        lower, upper = self[op.lower], self[op.upper]
        extent = self.extent() if op in self.unrolled else None
        if extent is not None:  # it is not negative, which tileiras does not know: this adds 0
            sides = {"lhs": extent, "rhs": self.constant(int32, 31)}
            zero = self.make["shri"](self, sides, upper.type, signedness="signed")
            upper = self.make["addi"](self, {"lhs": upper, "rhs": zero}, upper.type, overflow="none")
        bounds = {"lowerBound": lower, "upperBound": upper, "step": self[op.step]}
        self.repeat(op, "for", bounds, unsignedCmp=not op.lower.tile.element.is_signed)

    def loop(self, op: control.Loop) -> None:
        self.repeat(op, "loop", {})

    def if_(self, op: control.If) -> None:
        slots = self.tokens.carried(op)
        results = [*self.types(op.types), *[TOKEN] * len(slots)]
        loc = self.loc
        made = self.make["if"](self, {"condition": self[op.condition]}, results)
        for block in op.regions:
            self.body(block, [], slots, self.known.copy())
        self.loc, self.op = loc, op
        self.define(op, made, slots)

    def fold(self, op: linear.Reduce | linear.Scan) -> None:
        """The combiner takes a left and a right scalar for each operand; ours all left ones, then all right ones.

        Restricted floats, of which ``tileiras`` takes no combiner, are numbers of float32 outside of it.
        """
        n = len(op.values)
        dtypes = [v.tile.element for v in op.values]
        carriers = [float32 if dtype.is_restricted else dtype for dtype in dtypes]
        operands = [arith.convert(self, self[v], d, c) for v, d, c in zip(op.values, dtypes, carriers)]
        extents, rank = op.values[0].tile.shape, op.values[0].tile.rank
        # tileiras 13.5 refuses scans in layouts of products along an axis but the last, and computes others wrongly.
        apart = (
            isinstance(op, linear.Scan) and linear.Mma in self.tokens.kinds and rank > 1 and self.minor >= USUAL_MINOR
        )
        if apart:
            operands = [memory_ops.through_memory(self, op, v) for v in operands]
        identities = [
            number_attribute(carrier, number_in(dtype, x)) for dtype, carrier, x in zip(dtypes, carriers, op.identities)
        ]
        extra = {"reverse": op.reverse} if isinstance(op, linear.Scan) else {}
        name = "scan" if isinstance(op, linear.Scan) else "reduce"
        shapes, axis = [r.tile.shape for r in op.results], op.axis
        between = isinstance(op, linear.Scan) and 0 < axis < rank - 1
        if between:  # tileiras 13.5 loses what warps hand on along such an axis, but not with those around it as one
            order = (*(k for k in range(rank) if k != axis), axis)
            moved = tuple(extents[k] for k in order)
            shapes, axis = [(math.prod(moved[:-1]), moved[-1])] * n, 1
            operands = [_spread(self, _permuted(self, v, order), shapes[0]) for v in operands]
        results = [tile_of(scalar(c), shape) for shape, c in zip(shapes, carriers)]
        attributes = {"dim": axis, "identities": ArrayAttr(tuple(identities)), **extra}
        made = self.make[name](self, {"operands": operands}, results, **attributes)
        self.combiner(op, dtypes, carriers)
        self.writer.define(made)
        if between:
            back = tuple(map(order.index, range(rank)))
            made = [_permuted(self, _spread(self, v, moved), back) for v in made]
        if apart:  # nor does what uses them say in which layout they are
            made = [memory_ops.through_memory(self, op, v) for v in made]
        for result, value, carrier, dtype in zip(op.results, made, carriers, dtypes):
            self[result] = arith.convert(self, value, carrier, dtype)

    def combiner(self, op: linear.Reduce | linear.Scan, dtypes: Sequence[DType], carriers: Sequence[DType]) -> None:
        """The region of a reduction or a scan, which takes nothing from around it."""
        n, loc = len(dtypes), self.loc
        scalars = [Value(tile_of(scalar(carrier))) for carrier in carriers for _ in range(2)]
        with self.region(scalars, {}):
            for i, argument in enumerate(op.body.args):
                given = scalars[2 * (i % n) + (i >= n)]
                self[argument] = arith.convert(self, given, carriers[i % n], dtypes[i % n])
            self.ops(op.body.ops[:-1])
            last = op.body.terminator
            self.op, self.loc = last, self.locations(last.loc)
            combined = [arith.convert(self, self[v], d, c) for v, d, c in zip(last.operands, dtypes, carriers)]
            self.make["yield"](self, {"operands": combined})
        self.loc, self.op = loc, op


_MOST_UNROLLED = 4  # iterations of a nest: of random kernels one with 12 had no end, and those with 2 had


def _unrolled(block: core.Block) -> set[Op]:
    """Nests of loops of known trip counts with products beside a loop. ``tileiras`` 13.5 unrolls them, for which it may
    need more time than anyone has."""
    found = set[Op]()
    for op in filter(_regions, block.ops):
        for region in op.regions:
            found |= _unrolled(region)
        if (trips := _trip_count(op)) and any(type(o) is linear.Mma for o in op.regions[0].ops):
            inner = {o: n for o in op.regions[0].walk() if (n := _trip_count(o))}
            if trips * max(inner.values(), default=0) > _MOST_UNROLLED:
                found |= {op, *inner}
    return found


_regions = operator.attrgetter("regions")


def _trip_count(op: Op) -> int:
    """How often ``op`` repeats its body, a loop over int32 of which that is known; otherwise 0."""
    if not isinstance(op, control.For) or op.lower.tile.element is not int32:
        return 0
    bounds = [shape.constant_of(v) for v in op.bounds]
    return 0 if None in bounds else len(range(*bounds))


def _permuted(e: Emitter, value: Value, order: tuple[int, ...]) -> Value:
    assert isinstance(value.type, Tile)
    found = tile_of(value.type.element, tuple(value.type.shape[k] for k in order))
    return e.make["permute"](e, {"source": value}, found, permutation=order)


def _spread(e: Emitter, value: Value, shape: tuple[int, ...]) -> Value:
    """The elements of ``value`` in order, as a tile of ``shape``."""
    assert isinstance(value.type, Tile)
    return e.make["reshape"](e, {"source": value}, tile_of(value.type.element, shape))


HANDLERS: dict[type[Op], Callable[[_FunctionEmitter, Any], Value | None]] = {
    **arith.HANDLERS,
    **tiles.HANDLERS,
    **products.HANDLERS,
    **memory_ops.HANDLERS,
    control.For: _FunctionEmitter.for_,
    control.Loop: _FunctionEmitter.loop,
    control.If: _FunctionEmitter.if_,
    control.Return: _FunctionEmitter.return_,
    linear.Reduce: _FunctionEmitter.fold,
    linear.Scan: _FunctionEmitter.fold,
}
