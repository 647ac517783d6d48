"""Entries of CUDA Tile IR as kernels of our IR: parameters, control flow, and memory that the module brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ir import core
from tilewright.ir.builder import Builder
from tilewright.ir.dtypes import bool_
from tilewright.ir.opdef import IRError
from tilewright.ir.ops import control, linear
from tilewright.ir.ops.arith import Bitcast
from tilewright.ir.ops.shape import Undefined
from tilewright.ir.types import PointerType, TileType
from tilewright.ir.verifier import verify
from tilewright.tileir import rules
from tilewright.tileir.constants import elements
from tilewright.tileir.elementwise import ENTRY_HINTS, TERMINATORS
from tilewright.tileir.errors import TileIRError
from tilewright.tileir.importer import arith, memory, tiles
from tilewright.tileir.importer.context import Context, dtype_in, dtype_of, tile_type, unsigned
from tilewright.tileir.importer.locations import Locations
from tilewright.tileir.module import Block, Entry, Global, Module, Operation, Value
from tilewright.tileir.types import Scalar, Tile, Token

HANDLERS: dict[str, Any] = {**arith.HANDLERS, **tiles.HANDLERS, **memory.HANDLERS}
_TERMINATORS = {name: kind for kind, name in TERMINATORS.items()}
# What ends a region: the name of its terminator, the values, and whether the kernel has returned before, if that is
# known at run time only.
Ending = Callable[[str, list[core.Value], "core.Value | None"], None]


@dataclass(frozen=True)
class Memory:
    """Memory that a kernel takes from its module, as a parameter behind those of the entry.

    ``data`` are its initial contents, None for what holds nothing when a launch begins; ``count`` its elements. A
    global that is ``shared`` is the same for all launches.
    """

    name: str
    type: TileType
    count: int
    data: bytes | None
    shared: bool


@dataclass(frozen=True)
class Imported:
    """A kernel, and the ``memory`` that its last parameters point to."""

    function: core.Function
    memory: tuple[Memory, ...]


def import_entry(
    module: Module, entry: Entry, types: Sequence[TileType] | None = None, *, checked: bool = False
) -> Imported:
    """The kernel ``entry``. ``types`` are those of its parameters where they are not as the file has them: with
    unsigned numbers, of which it does not know. With ``checked`` all that is undefined is stated, for the sanitizer.

    TileIRError, at the location of the op, for what our IR cannot express, and for ops whose types do not fit.
    """
    locations = Locations(module.file)
    loc = locations(entry.loc)
    body = core.Block()
    e = Context(module, Builder(body, loc), checked, loc=loc)
    params = _parameters(e, entry, body, types)
    brought = tuple(_memory(module, entry))
    for m in brought:
        e.memory[m.name] = body.add_arg(m.type, "memory")
        params.append(core.Param(m.name, "base"))
    _Control(e, locations).body(entry.body)
    known = memory.hint_values(entry.hints)
    hints = {ours: known[theirs] for ours, theirs in ENTRY_HINTS.items() if known.get(theirs) is not None}
    function = core.Function(entry.name, body, params, loc, hints, may_alias=True)
    try:
        verify(function)
    except IRError as error:
        raise TileIRError(
            f"{module.file or 'bytecode'}: the kernel {entry.name} is no valid Tile IR: {error}"
        ) from None
    return Imported(function, brought)


def _parameters(e: Context, entry: Entry, body: core.Block, types: Sequence[TileType] | None) -> list[core.Param]:
    params = []
    for i, theirs in enumerate(entry.body.args):
        if not isinstance(theirs.type, Tile) or theirs.type.shape:
            raise e.error(f"parameter {i} is {theirs.type}; parameters are numbers and pointers")
        ours = tile_type(theirs.type)
        wanted = ours if types is None else types[i]
        arg = body.add_arg(wanted, f"arg{i}")
        e.values[theirs] = _as_read(e, arg, ours)
        params.append(core.Param(f"arg{i}", "base" if ours.is_pointer else "scalar"))
    return params


def _as_read(e: Context, value: core.Value, type: TileType) -> core.Value:
    """An argument as the type that the file gives its parameter."""
    if value.type == type:
        return value
    if type.is_pointer:
        return e.emit(Bitcast, value, dtype=type.dtype)
    return e.cast(value, type.element)


def _memory(module: Module, entry: Entry) -> list[Memory]:
    """The globals, shared arrays and large constants of an entry, in the order of their first use."""
    known = {g.name: g for g in module.globals}
    found: dict[str, Memory] = {}
    for op in entry.body.walk():
        if op.name == "get_global" and op.attributes["name"] in known:
            name = op.attributes["name"]
            found.setdefault(name, _global(known[name]))
        elif op.name == "alloca" and op.attributes["global"]:
            name = memory.shared_name(op)
            found[name] = Memory(name, tile_type(op.results[0].type), op.attributes["num_elem"], None, False)
        elif op.name == "constant" and tiles.is_table(op):
            name, type = tiles.table_name(op), op.results[0].type
            assert isinstance(type, Tile)
            found.setdefault(name, _global(Global(name, type, op.attributes["value"])))
    return list(found.values())


def _global(g: Global) -> Memory:
    if not isinstance(g.type.element, Scalar):
        raise TileIRError(f"the global {g.name} has type {g.type}; globals hold numbers")
    dtype = dtype_of(g.type.element)
    bits = elements(g.type, g.value)
    shift = 13 if g.type.element.name == "tf32" else 0
    data = b"".join((b << shift).to_bytes(dtype.bytes, "little") for b in bits)
    return Memory(g.name, TileType(PointerType(dtype)), len(bits), data, True)


def _is_token(value: Value) -> bool:
    return isinstance(value.type, Token)


class _Control:
    """Imports regions."""

    def __init__(self, context: Context, locations: Locations) -> None:
        self.e = context
        self.locations = locations
        # The types of the results of each loop around that a return leaves; None for one that it does not.
        self.loops: list[Sequence[TileType] | None] = []
        self.structured: dict[str, Callable[[Operation], Any]] = {  # for_, loop and if_ define their results themselves
            "for": self.for_,
            "loop": self.loop,
            "if": self.if_,
            "reduce": self.fold,
            "scan": self.fold,
        }

    def body(self, block: Block) -> None:
        """The body of an entry."""

        def end(name: str, values: list[core.Value], returned: core.Value | None) -> None:
            if name != "return":
                raise self.e.error(f"{name} outside of its region")
            if values:
                raise self.e.error("kernels return no values")
            self.e.emit_op(control.Return)

        self.block(block.ops, end)

    def at(self, op: Operation) -> None:
        self.e.op = op
        self.e.loc = self.e.builder.loc = self.locations(op.loc)

    def block(self, ops: Sequence[Operation], end: Ending) -> None:
        """The ops of a region, and what ``end`` makes of the last one."""
        for i, op in enumerate(ops):
            self.at(op)
            if op.name in _TERMINATORS or op.name == "return":
                if i + 1 < len(ops):
                    raise self.e.error("expected the end of the region")
                end(op.name, self.e.all([v for v in op.operands["operands"] if not _is_token(v)]), None)
                return
            if op.name in ("if", "loop") and not self.loops and self.returns(op):
                self.predicated(op, ops[i + 1 :], end)
                return
            self.one(op)
        raise self.e.error("a region without a terminator")

    def one(self, op: Operation) -> None:
        broken = rules.problem(op)
        if broken is not None:
            raise self.e.error(f"expected {broken}")
        structured = self.structured.get(op.name)
        made = structured(op) if structured is not None else HANDLERS[op.name](self.e, op, *self.e.operands(op))
        for value, found in zip(op.results, made if isinstance(made, list) else [made]):
            if isinstance(found, core.Value) and found.type != tile_type(value.type):
                raise self.e.error(f"the result is {value.type}, and {found.type} is made")
            if found is not None:
                self.e.values[value] = found

    # -- regions

    def region(self, arguments: Sequence[TileType], fill: Callable[[list[core.Value]], None]) -> core.Block:
        """A region of ours with these arguments, which ``fill`` fills."""
        made = core.Block(tuple(arguments))
        with self.e.builder.at(made):
            fill(made.args)
        return made

    def terminate(self, name: str, values: list[core.Value], returned: core.Value | None) -> None:
        left = self.loops[-1] if self.loops else None
        if name == "return":
            if left is None:
                raise self.e.error("return inside for, or a combiner, is not possible: leave a loop by break first")
            name, values = "break", [self.e.constant(True, bool_), *(self.e.emit(Undefined, type=t) for t in left)]
        elif name == "break" and left is not None:
            values = [self.e.constant(False, bool_), *values]
        self.e.emit_op(_TERMINATORS[name], values)

    def types(self, values: Sequence[Value]) -> list[TileType]:
        """The types of what is no token."""
        found = []
        for v in values:
            if _is_token(v):
                continue
            if not isinstance(v.type, Tile):
                raise self.e.error(f"{v.type} is carried by a loop or a branch, which views cannot be")
            found.append(tile_type(v.type))
        return found

    def define(self, theirs: Sequence[Value], ours: Sequence[core.Value]) -> None:
        self.e.values.update(zip([v for v in theirs if not _is_token(v)], ours))

    def for_(self, op: Operation) -> None:
        body = op.regions[0]
        assert body is not None
        lower, upper, step = self.e.all([op.operands[n] for n in ("lowerBound", "upperBound", "step")])
        signed = dtype_in(self.e, lower)
        if op.attributes["unsignedCmp"]:
            lower, upper, step = (self.e.cast(v, unsigned(signed)) for v in (lower, upper, step))
        inits = self.e.all([v for v in op.operands["initValues"] if not _is_token(v)])

        def fill(arguments: list[core.Value]) -> None:
            self.define(body.args[1:], arguments[1:])
            self.at(op)
            self.e.values[body.args[0]] = self.e.cast(arguments[0], signed)
            self.inside(body, None)

        arguments = [lower.tile, *(v.tile for v in inits)]
        made = self.region(arguments, fill)
        self.at(op)
        found = self.e.emit_op(control.For, lower, upper, step, inits, body=made)
        self.define(op.results, found.results)

    def inside(self, body: Block, left: Sequence[TileType] | None) -> None:
        """The body of a loop, or of a combiner."""
        self.loops.append(left)
        self.block(body.ops, self.terminate)
        self.loops.pop()

    def loop(self, op: Operation) -> None:
        returned = self.looped(op)
        if returned is not None:  # from a loop around
            then = self.region((), lambda _: self.terminate("return", [], None))
            orelse = self.region((), lambda _: self.terminate("yield", [], None))
            self.e.emit_op(control.If, returned, types=(), then=then, orelse=orelse)

    def looped(self, op: Operation) -> core.Value | None:
        """The loop ``op``, and whether the kernel returns in it, if it may."""
        body = op.regions[0]
        assert body is not None
        inits = self.e.all([v for v in op.operands["initValues"] if not _is_token(v)])
        types = self.types(op.results)
        may_return = self.returns(op)

        def fill(arguments: list[core.Value]) -> None:
            self.define(body.args, arguments)
            self.inside(body, types if may_return else None)

        made = self.region([v.tile for v in inits], fill)
        self.at(op)
        all_types = (TileType(bool_), *types) if may_return else tuple(types)
        results = self.e.emit_op(control.Loop, inits, types=all_types, body=made).results
        self.define(op.results, results[may_return:])
        return results[0] if may_return else None

    def if_(self, op: Operation) -> None:
        condition = self.e[op.operands["condition"]]
        then, other = (self.branch(b, self.terminate, op) for b in op.regions)
        self.at(op)
        found = self.e.emit_op(control.If, condition, types=tuple(self.types(op.results)), then=then, orelse=other)
        self.define(op.results, found.results)

    def branch(self, block: Block | None, end: Ending, op: Operation) -> core.Block:
        """A branch; an absent one yields nothing."""

        def fill(arguments: list[core.Value]) -> None:
            if block is None:
                end("yield", [], None)
            else:
                self.block(block.ops, end)

        self.at(op)
        return self.region((), fill)

    # -- return in a branch

    def returns(self, op: Operation) -> bool:
        return any(inner.name == "return" for inner in op.walk())

    def predicated(self, op: Operation, rest: Sequence[Operation], end: Ending) -> None:
        """A branch or a loop that may return, and the ops after it, which then do not run."""
        returned_before = self.looped(op) if op.name == "loop" else self.branched(op)
        if not rest:
            raise self.e.error("a region without a terminator")
        last = rest[-1]
        left = self.types(last.operands["operands"]) if last.name == "yield" else []
        gone = self.region((), lambda _: self.flagged(left)("return", [], None))
        going = self.region((), lambda _: self.block(rest, self.flagged(left)))
        self.at(op)
        both = self.e.emit_op(control.If, returned_before, types=(TileType(bool_), *left), then=gone, orelse=going)
        returned, *values = both.results
        if last.name == "yield":
            end("yield", values, returned)
        else:
            end(last.name, [], None)

    def branched(self, op: Operation) -> core.Value:
        """The branch ``op``, and whether the kernel returns in it."""
        types = self.types(op.results)
        condition = self.e[op.operands["condition"]]
        then, other = (self.branch(b, self.flagged(types), op) for b in op.regions)
        self.at(op)
        found = self.e.emit_op(control.If, condition, types=(TileType(bool_), *types), then=then, orelse=other)
        self.define(op.results, found.results[1:])
        return found.results[0]

    def flagged(self, types: Sequence[TileType]) -> Ending:
        """Ends a branch with whether the kernel has returned, and its values, of which there are none then."""

        def end(name: str, values: list[core.Value], returned: core.Value | None) -> None:
            if name not in ("yield", "return"):
                raise self.e.error(f"{name} outside of its region")
            if name == "return":
                values = [self.e.emit(Undefined, type=t) for t in types]
            if returned is None:
                returned = self.e.constant(name == "return", bool_)
            self.e.emit_op(control.Yield, [returned, *values])

        return end

    # -- reductions

    def fold(self, op: Operation) -> list[core.Value]:
        """Their combiner takes a left and a right scalar for each operand; ours all left ones, then all right ones."""
        body = op.regions[0]
        assert body is not None
        values = self.e.all(op.operands["operands"])
        n, scalars = len(values), [v.tile.with_shape(()) for v in values]

        def fill(arguments: list[core.Value]) -> None:
            self.define(body.args[0::2], arguments[:n])
            self.define(body.args[1::2], arguments[n:])
            self.inside(body, None)

        made = self.region([*scalars, *scalars], fill)
        self.at(op)
        given = op.attributes["identities"].items
        identities = tuple(tiles.attribute_number(self.e, dtype_in(self.e, v), a) for v, a in zip(values, given))
        if op.name == "scan":
            extra: dict[str, Any] = {"reverse": op.attributes["reverse"]}
        else:
            extra = {"commutative": True}  # the order is free
        cls = linear.Scan if op.name == "scan" else linear.Reduce
        found = self.e.emit_op(cls, values, axis=op.attributes["dim"], identities=identities, body=made, **extra)
        return found.results
