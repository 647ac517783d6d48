"""A function of Tile IR to an LLVM module.

``kernel(arguments, context, scratch, worker)`` takes blocks of the grid until none is left; any number of threads may
run it at once, each with scratch memory and a record ``worker`` of its own. ``kernel_caller`` is that for the thread
that launches, which comes with Python's lock, gives it away, and lets Python handle signals. ``kernel_alone`` runs
every block in this thread. ``arguments`` holds 8 bytes per parameter: an integer, an address, or a float64.
``context`` is the record that ``context.Field`` describes, ``worker`` that of ``context.Worker``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tilewright.backends.cpu.codegen import (
    atomics,
    control,
    memory,
    mma,
    mma_scaled,
    output,
    polls,
    reduce,
    shape,
    views,
)
from tilewright.backends.cpu.codegen.elements import DEFERRABLE, Elements
from tilewright.backends.cpu.codegen.environment import enter_default
from tilewright.backends.cpu.codegen.fusion import CHEAP, FusionGroup, block_work, cost
from tilewright.backends.cpu.codegen.groups import materialize
from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.cpu.codegen.loop_nests import LoopNest
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import ZERO
from tilewright.backends.cpu.codegen.state import State, storage_bytes, unsupported
from tilewright.backends.cpu.codegen.transpose import transposed_axis
from tilewright.backends.cpu.compiled import CALLER_SYMBOL, SERIAL_SYMBOL, SYMBOL
from tilewright.backends.cpu.context import BETWEEN_BLOCKS, Field
from tilewright.backends.cpu.target import Processor
from tilewright.backends.cpu.vector.types import F64, I8, I32, I64
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float64
from tilewright.ir.effects import effect_of
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.linear import Mma, MmaScaled, Reduce, Scan
from tilewright.ir.ops.memory import (
    Assert,
    AtomicCas,
    AtomicRmw,
    AtomicView,
    Bid,
    Load,
    LoadView,
    LocalArray,
    MakePartitionView,
    MakeTensorView,
    MemoryOp,
    NumBlocks,
    Print,
    Store,
    StoreView,
)
from tilewright.ir.ops.shape import Cat, Insert, Pack, Unpack
from tilewright.ir.types import TileType

_DEEPEST = 64  # deferred ops in a chain: their code is generated recursively


@dataclass(frozen=True)
class Lowered:
    """The text of the module, scratch bytes per thread, and what the launch has to know."""

    text: str
    scratch_bytes: int
    may_spin: bool
    block_work: int | None
    sites: list[Op]  # print and assert ops, by number
    polls: list[Op]  # loops, and the operations at which loops wait, by the number of their poll
    nests: list[LoopNest]


def lower(function: Function, processor: Processor, entry: str | None = None) -> Lowered:
    """Generate code. With ``entry`` that is the name of the only entry point, which has the meaning of SYMBOL.

    Raises TileUnsupportedFeatureError, with the location of the op, for what the CPU cannot do.
    """
    module = ir.Module(function.name)
    module.triple = processor.triple
    block = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4 + [I64]), "block")
    block.linkage = "internal"
    for argument in block.args[:4]:
        argument.add_attribute("noalias")
    state = _block_function(function, block, processor)
    spins = any(control.may_spin(op) for op in function.walk())
    weight = polls.work(function.body)
    _driver(module, block, entry or SYMBOL, weight, spins=spins)
    if entry is None:
        _driver(module, block, CALLER_SYMBOL, weight, spins=spins, python=True)
        _serial_driver(module, block, weight)
    work = block_work(function)
    return Lowered(str(module), state.arena.high_water, spins, work, state.sites, state.polls, state.nests)


def _block_function(function: Function, llvm_function: ir.Function, processor: Processor) -> State:
    """``block(arguments, context, scratch, worker, number)`` runs one block of the grid."""
    arguments, context, scratch, worker, number = llvm_function.args
    entry = llvm_function.append_basic_block("entry")
    start = llvm_function.append_basic_block("start")
    state = State(function, ir.IRBuilder(start), processor, scratch, context, worker, _emit_block)
    state.entry = entry
    state.exit = llvm_function.append_basic_block("exit")
    _bind_grid(state, number)
    _bind_arguments(state, function, arguments)
    with state.inside(function.body):
        _emit_block(state, function.body)
    ir.IRBuilder(entry).branch(start)
    ir.IRBuilder(state.exit).ret_void()
    return state


def _bind_grid(state: State, number: ir.Value) -> None:
    builder = state.builder
    rest = number
    for axis, field in enumerate((Field.GRID_X, Field.GRID_Y, Field.GRID_Z)):
        size = builder.load(output.context_field(builder, state.context, field), typ=I64)
        state.grid[f"num_blocks{axis}"] = builder.trunc(size, I32)
        state.grid[f"bid{axis}"] = builder.trunc(builder.urem(rest, size) if axis < 2 else rest, I32)
        rest = builder.udiv(rest, size)
    state.grid["block"] = number


def _bind_arguments(state: State, function: Function, arguments: ir.Value) -> None:
    builder, emitter = state.builder, state.emitter()
    for k, value in enumerate(function.body.args):
        slot = builder.gep(arguments, [ir.Constant(I64, k)], source_etype=I64)
        t = value.tile
        type_ = emitter.register_type(t.dtype)
        if not t.is_pointer and t.element.is_floating:
            wide = builder.load(slot, typ=F64)
            state.bind(value, wide if type_ == F64 else emitter.emit("cast", float64, [wide], {}, t.dtype))
        else:
            word = builder.load(slot, typ=I64)
            state.bind(value, word if type_ == I64 else builder.trunc(word, type_))


def _driver(
    module: ir.Module, block: ir.Function, symbol: str, weight: int, *, spins: bool, python: bool = False
) -> None:
    """The entry point ``symbol``, which takes blocks, beside other threads, until none is left."""
    builder, leave = _open_driver(module, symbol, python=python)
    _, context, _, worker = builder.function.args

    def field(which: Field) -> ir.Value:
        return builder.load(output.context_field(builder, context, which), typ=I64)

    total, chunk = field(Field.TOTAL), field(Field.CHUNK)
    take, run, poll, done = (builder.append_basic_block(n) for n in ("take", "run", "poll", "done"))
    builder.branch(take)
    builder.position_at_end(take)
    start = builder.atomic_rmw("add", output.context_field(builder, context, Field.NEXT), chunk, "monotonic")
    wanted = builder.add(start, chunk)
    end = builder.select(builder.icmp_unsigned("<", wanted, total), wanted, total)
    builder.cbranch(builder.icmp_unsigned("<", start, total), run, done)
    builder.position_at_end(run)
    number = builder.phi(I64)
    builder.call(block, [*builder.function.args, number])
    if spins:
        polls.emit_waited(builder, worker)
    following = builder.add(number, ir.Constant(I64, 1))
    number.add_incoming(start, take)
    builder.cbranch(builder.icmp_unsigned("<", following, total), poll, done)
    builder.position_at_end(poll)
    polls.emit_poll(builder, (context, worker), number, BETWEEN_BLOCKS, weight, done)
    number.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, end), run, take)
    builder.position_at_end(done)
    leave()


def _serial_driver(module: ir.Module, block: ir.Function, weight: int) -> None:
    builder, leave = _open_driver(module, SERIAL_SYMBOL, python=True)
    _, context, _, worker = builder.function.args
    total = builder.load(output.context_field(builder, context, Field.TOTAL), typ=I64)
    run, poll, done = (builder.append_basic_block(n) for n in ("run", "poll", "done"))
    before = builder.block
    builder.branch(run)
    builder.position_at_end(run)
    number = builder.phi(I64)
    builder.call(block, [*builder.function.args, number])
    following = builder.add(number, ir.Constant(I64, 1))
    number.add_incoming(ir.Constant(I64, 0), before)
    builder.cbranch(builder.icmp_unsigned("<", following, total), poll, done)
    builder.position_at_end(poll)
    polls.emit_poll(builder, (context, worker), number, BETWEEN_BLOCKS, weight, done)
    number.add_incoming(following, builder.block)
    builder.branch(run)
    builder.position_at_end(done)
    leave()


def _open_driver(module: ir.Module, symbol: str, *, python: bool) -> tuple[ir.IRBuilder, Callable[[], None]]:
    """The entry point ``symbol`` in the making, and what emits its end."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4), symbol)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _, context, _, worker = function.args
    polls.enter(builder, context, worker, python=python)
    restore = enter_default(builder, module.triple)

    def leave() -> None:
        restore()
        polls.leave(builder, context, worker, python=python)
        builder.ret_void()

    return builder, leave


def _emit_block(state: State, block: Block) -> None:
    for op in block.ops:
        _emit(state, op)


def _emit(state: State, op: Op) -> None:
    if _is_deferrable(op):
        _defer(state, op)
        return
    emit = _STRONG.get(type(op)) if _is_strong(op) else _STATEMENTS.get(type(op))
    if emit is None:
        raise unsupported(op, "the operation is not implemented")
    if effect_of(op) & Effect.WRITE:
        _load_before(state, op)
    for v in state.uses.captured[op]:
        _settle(state, v)
    emit(state, op)
    state.complete(op)
    for r in op.results:
        if state.uses.remaining[r] == 0:
            state.forget(r)


def _is_strong(op: Op) -> bool:
    return type(op) in _STRONG and isinstance(op, MemoryOp) and not op.is_weak


def _is_deferrable(op: Op) -> bool:
    return type(op) in DEFERRABLE and not _is_strong(op)


def _defer(state: State, op: Op) -> None:
    """Leave ``op`` to the loops that need its result; a single element is computed right away."""
    if isinstance(op, LoadView):
        state.accesses[op] = views.access(state, op)
    state.deferred.add(op)
    if state.uses.remaining[op.result] == 0:
        state.complete(op)
    elif op.result.tile.size == 1:
        elements = Elements(state, Nest(state.builder), state.accesses, True)
        found = elements.at(op.result, (ZERO,) * op.result.tile.rank)
        state.bind(op.result, found.value)
        state.complete(op)
    elif state.deepen(op) == _DEEPEST:
        materialize(state, op.result)
    elif isinstance(op, (Load, LoadView)):
        state.pending.append(op)


def _load_before(state: State, op: Op) -> None:
    """Execute the deferred loads whose results are needed after ``op``, which may overwrite their memory."""
    state.pending = [load for load in state.pending if load in state.deferred]
    dying = state.uses.would_die(op, state.deferred)
    for load in state.pending:
        if load.result not in dying:
            materialize(state, load.result)


def _settle(state: State, value: Value) -> None:
    """Compute a deferred ``value`` that regions capture, unless computing it there again costs little."""
    if not isinstance(value.type, TileType) or value.op not in state.deferred or not state.is_local(value):
        return
    costly = cost(state, value) > CHEAP or transposed_axis(state, value) is not None
    if costly or FusionGroup(state, [value], None).loads():
        materialize(state, value)


def _bind_view(state: State, op: MakePartitionView) -> None:
    state.bind(op.result, state.view(op.view))


def _bind_grid_value(state: State, op: Bid | NumBlocks) -> None:
    state.bind(op.result, state.grid[f"{op.name}{op.axis}"])


def _emit_local_array(state: State, op: LocalArray) -> None:
    size = op.count * storage_bytes(op.dtype)
    offset = ir.Constant(I64, state.arena.allocate(size))
    address = state.builder.gep(state.scratch, [offset], source_etype=I8)
    state.bind(op.result, state.builder.ptrtoint(address, I64))


def _emit_return(state: State, op: Return) -> None:
    state.builder.branch(state.exit)


_STATEMENTS: dict[type[Op], Callable[[State, Any], None]] = {
    Bid: _bind_grid_value,
    NumBlocks: _bind_grid_value,
    LocalArray: _emit_local_array,
    MakeTensorView: views.bind_tensor_view,
    MakePartitionView: _bind_view,
    StoreView: memory.emit_store_view,
    Store: memory.emit_store,
    AtomicRmw: atomics.emit_atomic_rmw,
    AtomicCas: atomics.emit_atomic_cas,
    AtomicView: atomics.emit_atomic_view,
    Reduce: reduce.emit_reduce,
    Scan: reduce.emit_scan,
    Mma: mma.emit_mma,
    MmaScaled: mma_scaled.emit_mma_scaled,
    Cat: shape.emit_cat,
    Insert: shape.emit_insert,
    Pack: shape.emit_pack,
    Unpack: shape.emit_unpack,
    For: control.emit_for,
    Loop: control.emit_loop,
    If: control.emit_if,
    Yield: control.emit_yield,
    Continue: control.emit_continue,
    Break: control.emit_break,
    Return: _emit_return,
    Print: output.emit_print,
    Assert: output.emit_assert,
}
_STRONG: dict[type[Op], Callable[[State, Any], None]] = {
    Load: atomics.emit_strong_load,
    LoadView: atomics.emit_strong_load_view,
}
