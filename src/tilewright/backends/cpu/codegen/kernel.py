"""A function of Tile IR to an LLVM module.

``kernel(arguments, context, scratch, worker)`` takes blocks of the grid until none is left; any number of threads may
run it at once, each with scratch memory and a record ``worker`` of its own. ``kernel_caller`` is that for the thread
that launches, which comes with Python's lock, gives it away, and lets Python handle signals. ``kernel_alone`` runs
every block in this thread. ``kernel_team`` is for other runtimes: see ``drivers.ll``. ``arguments`` holds 8 bytes per
parameter: an integer, an address, or a float64. ``context`` is the record that ``context.Field`` describes, ``worker``
that of ``context.Worker``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tilewright.analysis.affine import AffineTiles
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.waiting_loops import may_wait
from tilewright.backends.branches import phi_of
from tilewright.backends.cpu import on_demand
from tilewright.backends.cpu.codegen import (
    atomics,
    control,
    memory,
    output,
    polls,
    records,
    reduce,
    shape,
    strips,
    views,
)
from tilewright.backends.cpu.codegen.drivers import Drivers, Updates, drivers
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.groups import bind_results, emit_elements, group_of
from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.cpu.codegen.loop_nests import NestWork
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.panels import emit_panel, forgetting_panels
from tilewright.backends.cpu.codegen.position import ZERO
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.value_ranges import ValueRanges
from tilewright.backends.cpu.compiled import BLOCK_SYMBOL, SYMBOL
from tilewright.backends.cpu.context import Axes, Field
from tilewright.backends.cpu.loops.dot import reader
from tilewright.backends.cpu.loops.fused import root_of
from tilewright.backends.cpu.loops.grid_order import block_axes
from tilewright.backends.cpu.loops.groups import block_work
from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.loops.placement import buffer_offset
from tilewright.backends.cpu.target import Processor
from tilewright.backends.native.lines import SourceLines
from tilewright.backends.native.text_builder import TextBuilder, text_of
from tilewright.backends.vector.types import F64, I8, I32, I64
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float64
from tilewright.ir.ops import memory as memory_ops
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.ops.loops import CheckLoad, CopyBuffer, LoopNest, ReserveScratch, ScratchPointer, WritePart
from tilewright.ir.ops.shape import Pack, Reshape, Unpack
from tilewright.records import NamedTuple
from tilewright.system.environment import switch


class Lowered(NamedTuple):
    """The text of the module, scratch bytes per thread, and what the launch has to know."""

    block: str  # LLVM IR of the function that runs a block
    drivers: Drivers
    scratch_bytes: int
    may_spin: bool
    block_work: int | None
    sites: list[Op]  # print and assert ops, by number
    polls: list[Op]  # loops, and the operations at which loops wait, by the number of their poll
    nests: list[NestWork]
    form: Function  # that the code is generated from

    @property
    def axes(self) -> Axes:
        """The axes of the grid, in the order of the blocks."""
        return block_axes(self.form)

    @property
    def text(self) -> str:
        """The whole module."""
        return "".join((self.block, *self.drivers))


def lower(function: Function, processor: Processor, entry: str | None = None, *, lines: bool = False) -> Lowered:
    """Generate code, with ``lines`` of the source beside it. With ``entry`` that is the name of the only entry point,
    which has the meaning of SYMBOL.

    Raises TileUnsupportedFeatureError, with the location of the op, for what the CPU cannot do.
    """
    form = loop_form(function, processor)
    module, state = emit_module(form, processor, lines=lines, locks=entry is None)
    spins, work = any(may_wait(op) for op in function.walk()), block_work(function)
    given = entry or SYMBOL, forgetting_panels(state.panels), polls.work(form.body)
    fences, updates = state.stores_past_caches, Updates() if entry else state.updates
    run = drivers(processor.triple, *given, only=bool(entry), spins=spins, fences=fences, updates=updates)
    return Lowered(text_of(module), run, state.scratch_bytes, spins, work, state.sites, state.polls, state.nests, form)


def emit_module(
    form: Function, processor: Processor, *, lines: bool = False, locks: bool = True
) -> tuple[ir.Module, State]:
    """The LLVM module with a block of the loop-level ``form``, and what was found out while it was emitted. ``locks``:
    launches know those of the process. Kernels of C++, whose pointers may alias, run beside code that does not."""
    module = ir.Module(form.name)
    module.triple = processor.triple
    block = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4 + [I64]), BLOCK_SYMBOL)
    block.linkage = "internal"
    for argument in block.args[:4]:
        argument.add_attribute("noalias")
    return module, _block_function(form, block, processor, lines=lines, locks=locks and not form.may_alias)


def _block_function(
    function: Function, llvm_function: ir.Function, processor: Processor, *, lines: bool, locks: bool
) -> State:
    """``block(arguments, context, scratch, worker, number)`` runs one block of the grid."""
    arguments, context, scratch, worker, number = llvm_function.args
    entry = llvm_function.append_basic_block("entry")
    start = llvm_function.append_basic_block("start")
    exit_ = llvm_function.append_basic_block("exit")
    affine = AffineTiles(AnalysisManager(function).get(IntegerRanges))
    state = State(TextBuilder(start), processor, scratch, context, worker, _emit_block, affine, entry, exit_, locks)
    if lines or switch("TILEWRIGHT_DEBUG_INFO"):
        state.lines = SourceLines(llvm_function.module, llvm_function, function, "LineTablesOnly")
        state.lines.locate(state.builder, None)
    _bind_grid(state, number, block_axes(function))
    _bind_arguments(state, function, arguments)
    _emit_block(state, function.body)
    TextBuilder(entry).branch(start)
    TextBuilder(exit_).ret_void()
    return state


def _bind_grid(state: State, number: ir.Value, axes: Axes) -> None:
    builder = state.builder
    rest, state.next_axis = number, axes[0]
    for axis in axes:
        size = records.load(builder, state.context, (Field.GRID_X, Field.GRID_Y, Field.GRID_Z)[axis])
        state.grid[f"num_blocks{axis}"] = builder.trunc(size, I32)
        state.grid[f"bid{axis}"] = builder.trunc(rest if axis == axes[2] else builder.urem(rest, size), I32)
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


def _emit_block(state: State, block: Block) -> None:
    outer, state.block = state.block, block
    for op in block.ops:
        _emit(state, op)
    state.block = outer


def _emit(state: State, op: Op) -> None:
    if state.lines is not None:
        state.lines.locate(state.builder, op)
    emit = _STATEMENTS.get(type(op))
    if emit is not None:
        emit(state, op)
    elif isinstance(op, Reshape) and op.result.tile.size > 1:
        state.bind(op.result, state.tile_buffer(op.x))
    elif isinstance(op, (Pack, Unpack)):
        state.bind(op.result, state.buffer(buffer_offset(op.result), op.result.tile.dtype, op.result.tile.size))
    else:
        if isinstance(op, memory_ops.LoadView):
            state.accesses[op] = views.access(state, op)
        if op.result.tile.size == 1:
            state.bind(op.result, element_of(state, op.result))


def element_of(state: State, value: Value) -> ir.Value:
    """The only element of ``value``, computed here."""
    elements = Elements(state, Nest(state.builder))
    return elements.at(value, (ZERO,) * value.tile.rank).value


def _emit_nest(state: State, op: LoopNest) -> None:
    root = root_of(op)
    if root is not None:
        _ROOTS[type(root)](state, op, root)
        return
    value = next(iter(op.kept))
    if op.buffers[0] is None:
        state.bind(op.results[0], element_of(state, value))
        return
    if state.emit_strip is not None:
        state.emit_strip(op)
        return
    bind_results(state, op, 0)
    place = on_demand.module("codegen.mma_in_place").in_place(state, op) if reader(op) is not None else None
    if place is None:
        _emit_copy(state, op)
        return
    state.in_place[op], buffer = place, state.tile_buffer(op.results[0])
    with state.builder.if_else(place.chosen) as (then, orelse):
        with then:
            unused = buffer.pointer, state.builder.block
        with orelse:
            _emit_copy(state, op)
            copied = state.tile_buffer(op.results[0]).pointer, state.builder.block
    state.bind(op.results[0], buffer._replace(pointer=phi_of(state.builder, unused, copied)))


def _emit_copy(state: State, op: LoopNest) -> None:
    """The loops that compute the first result of ``op`` into its buffer, or a panel."""
    axis, group = op.transposed, group_of(state, op, 1)
    if op.panels:
        rearrange = _mma().rearrangement(state, op)
        emit_panel(state, op, lambda buffer: emit_elements(state, group, buffer, axis), rearrange)
    else:
        emit_elements(state, group, state.tile_buffer(op.results[0]), axis)


def _mma() -> Any:
    """The module for products, which takes a while to load."""
    return on_demand.module("codegen.mma")


def _check_load(state: State, op: CheckLoad) -> None:
    asked = list(op.asked)
    ranges = ValueRanges(state)
    true = ranges.all_true(asked.pop(0)) if op.masked else None
    found = [] if true is None else [true]
    if op.view is not None:
        other = ranges.disjoint(asked.pop(), *views.address_range(state.builder, views.access(state, op)))
        found.append(other if true is None else state.builder.and_(true, other))
    for r, v in zip(op.results, found):
        state.bind(r, v)


def _bind_grid_value(state: State, op: memory_ops.Bid | memory_ops.NumBlocks) -> None:
    state.bind(op.result, state.grid[f"{op.name}{op.axis}"])


def _emit_scratch_pointer(state: State, op: ScratchPointer) -> None:
    address = state.builder.gep(state.scratch, [ir.Constant(I64, op.offset)], source_etype=I8)
    state.bind(op.result, state.builder.ptrtoint(address, I64))


def _reserve_scratch(state: State, op: ReserveScratch) -> None:
    state.scratch_bytes = op.bytes


_STATEMENTS: dict[type[Op], Callable[[State, Any], None]] = {
    memory_ops.Bid: _bind_grid_value,
    memory_ops.NumBlocks: _bind_grid_value,
    ReserveScratch: _reserve_scratch,
    ScratchPointer: _emit_scratch_pointer,
    memory_ops.MakeTensorView: views.bind_tensor_view,
    memory_ops.MakePartitionView: lambda state, op: state.bind(op.result, state.view(op.view)),
    LoopNest: _emit_nest,
    CheckLoad: _check_load,
    CopyBuffer: control.emit_copy,
    For: strips.emit_for,
    Loop: control.emit_loop,
    If: control.emit_if,
    **dict.fromkeys((Yield, Continue, Break), control.emit_end),
    Return: lambda state, op: state.builder.branch(state.exit),
    memory_ops.Print: output.emit_print,
    memory_ops.Assert: output.emit_assert,
}
# What a nest is for -> how it is emitted.
_ROOTS: dict[type[Op], Callable[[State, LoopNest, Any], None]] = {
    memory_ops.StoreView: memory.emit_store_view,
    memory_ops.Store: memory.emit_store,
    memory_ops.AtomicRmw: atomics.emit_access,
    memory_ops.AtomicCas: atomics.emit_access,
    memory_ops.AtomicView: atomics.emit_access,
    memory_ops.Load: atomics.emit_access,
    memory_ops.LoadView: atomics.emit_access,
    Reduce: reduce.emit_reduce,
    Scan: reduce.emit_scan,
    Mma: lambda *given: _mma().emit_mma(*given),
    WritePart: shape.emit_write_part,
    memory_ops.Assert: output.emit_assert_tile,
}
