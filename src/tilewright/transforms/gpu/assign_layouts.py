"""From tile IR to the gpu stage: every tile gets a layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType, float16, float32
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.gpu_stage import NUM_WARPS, WGMMA_WARPS
from tilewright.ir.layouts import LANE, LANES, REGISTER, LinearLayout
from tilewright.ir.opdef import create, with_operands
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, For, If, LoopOp, Return, Yield
from tilewright.ir.ops.gpu.cluster import ClusterGather
from tilewright.ir.ops.gpu.memory import GlobalLoad, GlobalStore, SharedLoad, shared_vector
from tilewright.ir.ops.gpu.mma import FMA, GpuMma, operand_layouts
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, ConvertLayout, Splat
from tilewright.ir.ops.gpu.tma import Fetch, Part, Put
from tilewright.ir.ops.gpu.wgmma import Interleave, LoadFetched, StageOperand, Wgmma, left_layout
from tilewright.ir.ops.linear import CombiningOp, Mma
from tilewright.ir.ops.shape import Broadcast, Cat, Constant, Extract, Insert, Iota, Permute, Reshape, Undefined
from tilewright.ir.rewrite import clone_block, with_body
from tilewright.ir.types import SharedType, TileType, Type
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES
from tilewright.transforms.gpu.blocked_layouts import VECTOR_BYTES, stored_by_rows
from tilewright.transforms.gpu.homes import Homes
from tilewright.transforms.gpu.layout_choice import AccessLayouts, TensorCores
from tilewright.transforms.gpu.operand_layouts import shrunk
from tilewright.transforms.gpu.through_shared import cat, extract, from_owners, insert

_SECTOR = 32  # bytes


@dataclass(frozen=True)
class AssignLayouts:
    """Distributes every tile over the threads of ``num_warps`` warps; see ``Homes`` for how.

    Tiles without a home are recomputed in each layout in which they are used: that costs arithmetic on indices, where
    a conversion would cost shuffles or shared memory. Accesses become vectors of up to 16 bytes.
    Runs after ``lower-views``: the addresses decide about layouts; what works on layouts comes after it.
    """

    name: ClassVar[str] = "assign-layouts"
    num_warps: int = 4
    limit: int = MOST_SHARED_BYTES  # of shared memory: larger tiles are not brought to another layout to be stored
    fp8: bool = False  # whether MMA ops multiply 8-bit floats as they are
    f32: bool = False  # and float32, as sums of two tfloat32

    def run(self, function: Function) -> Function:
        if NUM_WARPS in function.hints:
            return function
        return _Assigner(function, TensorCores(self.num_warps, self.fp8, self.f32), self.limit).run()


class _Assigner:
    def __init__(self, function: Function, cores: TensorCores, limit: int) -> None:
        self.function = function
        self.limit = limit
        self.accesses = AccessLayouts(function, cores)
        self.homes = Homes(function, self.accesses)
        self.cores, self.warps = cores, cores.warps
        if WGMMA_WARPS in function.hints and self._follow_accumulators():
            self.homes = Homes(function, self.accesses)
        self.made: dict[tuple[Value, LinearLayout | None], Value] = {}
        self.available: dict[Value, LinearLayout | None] = {}  # of anchored tiles: the layout in which they are there
        self.b = Builder(Block(), function.loc)

    def run(self) -> Function:
        body = Block()
        for arg in self.function.body.args:
            self.made[arg, None] = body.add_arg(arg.type, arg.name)
        self.b.block = body
        self._ops(self.function.body, [])
        made = with_body(self.function, body)
        made.hints[NUM_WARPS] = self.warps
        return made

    def _follow_accumulators(self) -> bool:
        """Have accesses to tiles of the shape of accumulators that threads store, or add to memory, keep the layout of
        these, where a lane stores two elements, and four lanes a sector: no conversion takes shared memory from loads.
        Whether any does."""
        found = False
        for op in self.function.walk():
            adds = isinstance(op, memory.AtomicRmw) and not op.result.users
            if not isinstance(op, (memory.Store, memory.AtomicRmw)) or not (adds or op.is_weak):
                continue
            home = self.homes.home(op.value)
            if home is None:
                continue
            pairs = tuple(home.bases(REGISTER)[:1]) == (1,) and tuple(home.bases(LANE)[:2]) == (2, 4)
            if pairs and self._vector(op, home) > 1 and 8 * op.value.tile.element.bytes >= _SECTOR:
                found |= self.accesses.keep(op.value.tile.shape, home)
        return found

    # -- values

    def get(self, value: Value, layout: LinearLayout | None) -> Value:
        """``value`` in ``layout`` (None: a scalar), computed or converted at the insertion point if need be."""
        found = self.made.get((value, layout))
        if found is not None:
            return found
        assert layout is not None, value
        home = self.available.get(value)
        if home is not None and self._is_widened(value):
            assert value.op is not None
            found = self._clone(value.op, lambda v: self.get(v, layout)).result
        elif home is not None:
            x = self.made[value, home]
            found = self.b.emit(ConvertLayout, x, type=value.tile.with_layout(layout))
        else:
            assert value.op is not None, value
            outer, self.b.loc = self.b.loc, value.op.loc
            found = self._recompute(value.op, value, layout)
            self.b.loc = outer
            found.name = value.name
        self.made[value, layout] = found
        return found

    def _is_widened(self, value: Value) -> bool:
        """Whether ``value`` is a wider form of what is loaded, of which fewer bytes go to other threads."""
        op = value.op
        if not isinstance(op, Cast) or op.x not in self.available:
            return False
        return op.x.tile.element.bitwidth < value.tile.element.bitwidth

    def at_home(self, value: Value) -> Value:
        """``value`` in its home, or in the layout of accesses if it has none; scalars as they are."""
        return self.get(value, self.layout(value))

    def _tile_at_home(self, value: Value) -> Value:
        return self.at_home(value) if isinstance(value.type, TileType) else self._scalar(value)

    def _scalar(self, value: Value) -> Value:
        return self.get(value, None)

    def layout(self, value: Value) -> LinearLayout | None:
        if not value.tile.rank:
            return None
        return self.homes.of_carried(value)

    def _recompute(self, op: Op, value: Value, layout: LinearLayout) -> Value:
        if isinstance(op, (Constant, Iota, Undefined)):
            return self.b.emit(type(op), **{**op.attributes, "type": op.type.with_layout(layout)})
        if isinstance(op, Reshape):
            return self._reshape(op, layout)
        if isinstance(op, Permute):
            inverse = [op.axes.index(k) for k in range(len(op.axes))]
            return self.b.emit(Permute, self.get(op.x, layout.permute(inverse)), axes=op.axes)
        if isinstance(op, Interleave):
            inner = layout.reshape([op.split[k] for k in op.order])
            inner = inner.permute([op.order.index(k) for k in range(len(op.order))])
            split = self.b.emit(Reshape, self.get(op.x, inner.reshape(op.x.tile.shape)), shape=op.split)
            return self.b.emit(Reshape, self.b.emit(Permute, split, axes=op.order), shape=op.x.tile.shape)
        if isinstance(op, Broadcast):
            return self._broadcast(op, layout)
        if op.spec.elementwise or isinstance(op, _ASSUMPTIONS):
            return self._clone(op, lambda v: self.get(v, layout)).result
        raise TileUnsupportedFeatureError(f"the gpu backend has no {op.name} on tiles", op.loc)

    def _reshape(self, op: Reshape, layout: LinearLayout) -> Value:
        if not op.x.tile.rank:
            return self.b.emit(Splat, self.get(op.x, None), type=op.result.tile.with_layout(layout))
        x = self.get(op.x, layout.reshape(op.x.tile.shape))
        return self.b.emit(Reshape, x, shape=op.shape)

    def _broadcast(self, op: Broadcast, layout: LinearLayout) -> Value:
        t, source = op.result.tile.with_layout(layout), op.x
        while isinstance(source.op, (Reshape, Broadcast)) and source.tile.size == 1 and source.tile.rank:
            source = source.op.x
        if not source.tile.rank:
            return self.b.emit(Splat, self.get(source, None), type=t)
        x = self.get(op.x, shrunk(layout, op.x.tile.shape))
        return self.b.emit(BroadcastDistributed, x, type=t)

    def _clone(self, op: Op, operand: Callable[[Value], Value]) -> Op:
        """``op`` with other operands, of which its result types follow."""
        operands = [operand(v) for v in op.operands]
        outer = {v: new for (v, layout), new in self.made.items() if layout is None} if op.regions else {}
        made = with_operands(op, operands, [clone_block(region, dict(outer)) for region in op.regions])
        for old, new in zip(op.results, made.results):
            new.name = old.name
        return self.b.insert(made)

    # -- ops, in the order of the program

    def _ops(self, block: Block, enclosing: list[Op]) -> None:
        for op in block.ops:
            self.b.loc = op.loc
            self._op(op, enclosing)

    def _op(self, op: Op, enclosing: list[Op]) -> None:
        if op.spec.elementwise:  # as most are
            self._tile_op(op) if op.result.tile.rank else self._define(op, self._clone(op, self._scalar))
        elif isinstance(op, CONTROL_FLOW):
            self._control(op, enclosing)
        elif op.spec.terminator:
            self._terminator(op, enclosing)
        elif isinstance(op, (memory.AtomicRmw, memory.AtomicCas)) or (isinstance(op, memory.Load) and not op.is_weak):
            self._atomic(op)
        elif isinstance(op, (memory.Load, memory.Store)):
            self._access(op)
        elif isinstance(op, (Extract, Insert, Cat)):
            self._rearrange(op)
        elif isinstance(op, Mma):
            self._mma(op)
        elif isinstance(op, Fetch):
            self.made[op.result, None] = self._clone(op, self._scalar).result
        elif isinstance(op, Wgmma):
            self._wgmma(op)
        elif isinstance(op, LoadFetched):
            t, buffer = op.result.tile.with_layout(self.layout(op.result)), self.get(op.buffer, None)
            assert isinstance(buffer.type, SharedType) and t.layout is not None
            vector = shared_vector(buffer.type, t.layout)
            self._bind(op.result, self.b.emit(SharedLoad, buffer, type=t, vector=vector))
        elif isinstance(op, Put):
            self._clone(op, self.at_home)
        elif isinstance(op, StageOperand):
            self.made[op.result, None] = self._clone(op, self._tile_at_home).result
        elif isinstance(op, CombiningOp):
            layout = self.layout(op.values[0])
            made = self._clone(op, lambda v: self.get(v, layout))
            self._define(op, made)
        elif isinstance(op, ClusterGather):
            self._gather(op)
        elif isinstance(op, (memory.Print, memory.Assert, memory.Assume)):
            self._clone(op, self._beside(op))
        elif isinstance(op, (memory.Bid, memory.NumBlocks, memory.LocalArray)) or all(
            not v.tile.rank for v in (*op.results, *op.operands)
        ):
            self._define(op, self._clone(op, self._scalar))
        elif isinstance(op, Reshape) and not op.shape:
            self._define(op, self._clone(op, self.at_home))
        else:
            self._tile_op(op)

    def _atomic(self, op: memory.AtomicRmw | memory.AtomicCas | memory.Load) -> None:
        """An atomic, or a load with a memory order: two of them may find different values where there is one.

        What the threads that own the elements find goes to all that hold them.
        """
        rank = op.ptrs.tile.rank
        layout = self.accesses.of(op)
        if rank:
            given = {v: self.get(v, layout) for v in op.operands}
        else:
            types = {v: TileType(v.tile.dtype, (1,), layout) for v in op.operands}
            given = {v: self.b.emit(Splat, self.get(v, None), type=t) for v, t in types.items()}
        if isinstance(op, memory.Load):
            made = self._global_load(op, lambda v: given[v], 1)
        elif isinstance(op, memory.AtomicRmw) and rank:
            mask = None if op.mask is None else given[op.mask]
            how = {**op.attributes, "vector": self._vector(op, layout)}
            made = self.b.emit(memory.AtomicRmw, given[op.ptrs], given[op.value], mask, **how)
        else:
            made = self._clone(op, lambda v: given[v]).result
        if op.result.users:
            found = made if layout.is_injective else from_owners(self.b, made)
            self._bind(op.result, found if rank else self.b.emit(Reshape, found, shape=()))

    def _gather(self, op: ClusterGather) -> None:
        """Exchanges tiles of one element in the place of scalars."""
        one = self.accesses.layout((1,))
        tiles = {v: v.tile.with_layout(one) for v in op.values if not v.tile.rank}
        given = [
            self.b.emit(Splat, self._scalar(v), type=tiles[v]) if v in tiles else self.at_home(v) for v in op.values
        ]
        made = self.b.emit_op(ClusterGather, given, ctas=op.ctas)
        for old, x, new in zip(op.results, op.values, made.results):
            self._bind(old, new if x.tile.rank else self.b.emit(Reshape, new, shape=(op.ctas,)))

    def _global_load(self, op: memory.Load, given: Callable[[Value], Value], vector: int) -> Value:
        operands = [None if v is None else given(v) for v in (op.ptrs, op.mask, op.padding)]
        order = {"memory_order": op.memory_order, "memory_scope": op.memory_scope}
        return self.b.emit(GlobalLoad, *operands, vector=vector, **order)

    def _rearrange(self, op: Extract | Insert | Cat) -> None:
        """What needs elements of other threads goes through shared memory."""
        layout = self.layout(op.result)
        if layout is None:  # the only part of a tile of rank 0
            assert not isinstance(op, Cat)
            self._bind(op.result, self.get(op.value if isinstance(op, Insert) else op.x, None))
            return
        if isinstance(op, Cat):
            made = cat(self.b, self.at_home(op.lhs), self.at_home(op.rhs), op.axis, layout)
        else:
            indices = [self.get(v, None) for v in op.indices]
            if isinstance(op, Extract):
                made = extract(self.b, self.at_home(op.x), indices, layout)
            else:
                made = insert(self.b, self.at_home(op.x), self.at_home(op.value), indices, layout)
        self._bind(op.result, made)

    def _beside(self, op: Op) -> Callable[[Value], Value]:
        """The operands of an op that looks at several tiles at once: those of one shape in one layout."""
        layouts: dict[tuple[int, ...], LinearLayout | None] = {}
        for v in op.operands:
            layouts.setdefault(v.tile.shape, self.layout(v))
        return lambda v: self.get(v, layouts[v.tile.shape])

    def _tile_op(self, op: Op) -> None:
        """An op that has a home is computed there, here; others where they are used."""
        value = op.result
        home = self.homes.home(value)
        if home is None:
            return
        if not (op.spec.elementwise or isinstance(op, (*_ASSUMPTIONS, Reshape, Permute, Interleave))):
            raise TileUnsupportedFeatureError(f"the gpu backend has no {op.name} on tiles", op.loc)
        made = self._recompute(op, value, home)
        made.name = value.name
        self.made[value, home] = made
        self.available[value] = home

    def _define(self, op: Op, made: Op) -> None:
        """The results of ``op`` are those of ``made``."""
        for old, new in zip(op.results, made.results):
            self._bind(old, new)

    def _bind(self, old: Value, new: Value) -> None:
        new.name = old.name
        layout = new.tile.layout
        self.made[old, layout] = new
        if layout is not None:
            self.available[old] = layout

    def _mma(self, op: Mma) -> None:
        """An MMA op: operands in the layouts of its fragments; with FMAs, in the dtype that it adds in."""
        layout, instruction, dtype = self.cores.home(op), self.cores.instruction(op), self.cores.dtype(op)
        acc, multiplied = self.get(op.acc, layout), dtype
        result = acc.tile.element
        if instruction == FMA:
            dtype = float32 if result is float16 else result
            acc = self._cast(acc, dtype)
        layouts = operand_layouts(instruction, layout, op.x.tile.shape[-1], dtype.bitwidth)
        factors = []
        for v, wanted in zip((op.x, op.y), layouts):
            factor = self.get(v, wanted)
            keep = instruction != FMA and multiplied is op.x.tile.element
            factors.append(factor if keep else self._cast(factor, dtype))
        mma = self.b.emit(GpuMma, *factors, acc, instruction=instruction)
        self._bind(op.result, self._cast(mma, result))

    def _wgmma(self, op: Wgmma) -> None:
        acc = self.get(op.acc, op.sum_layout(self.warps))
        in_registers = isinstance(op.x.type, TileType)
        left = left_layout(op.x.tile.shape, self.warps, op.x.tile.element.bytes) if in_registers else None
        x = self.get(op.x, left)
        self._bind(op.result, self.b.emit(Wgmma, x, self.get(op.y, None), acc))

    def _cast(self, value: Value, dtype: DType) -> Value:
        return value if value.tile.element is dtype else self.b.emit(Cast, value, dtype=dtype)

    def _access(self, op: memory.Load | memory.Store) -> None:
        ptrs = op.ptrs
        layout = self._access_layout(op) if ptrs.tile.rank else None
        vector = 1 if layout is None or not op.is_weak else self._vector(op, layout)
        if isinstance(op, memory.Load):
            self._bind(op.result, self._global_load(op, lambda v: self.get(v, layout), vector))
            return
        order = {"memory_order": op.memory_order, "memory_scope": op.memory_scope}
        by_rows = stored_by_rows(layout) if layout is not None and op.is_weak and vector == 1 else None
        p, mask = (None if v is None else self.get(v, by_rows or layout) for v in (ptrs, op.mask))
        value = self.get(op.value, layout)
        if by_rows is None:
            self.b.emit_op(GlobalStore, p, value, mask, vector=vector, **order)
            return
        for index in range(by_rows.shape[-1] // LANES):
            part = {"axis": by_rows.rank - 1, "size": LANES, "index": index}
            to, x, where = (None if v is None else self.b.emit(Part, v, **part) for v in (p, value, mask))
            assert to is not None and x is not None
            x = self.b.emit(ConvertLayout, x, type=x.tile.with_layout(to.tile.layout))
            self.b.emit_op(GlobalStore, to, x, where, vector=1, **order)

    def _access_layout(self, op: memory.Load | memory.Store) -> LinearLayout:
        """Where an access is made: a store keeps the layout of its value if that is as good, or is the only way."""
        layout = self.accesses.of(op)
        if isinstance(op, memory.Store):
            home, t = self.homes.home(op.value), op.value.tile
            fits = t.bytes <= self.limit
            if home is not None and not (fits and self._vector(op, home) < self._vector(op, layout)):
                return home
        return layout

    def _vector(self, op: memory.PointerMemoryOp, layout: LinearLayout) -> int:
        """How many elements side by side in memory a thread has in consecutive registers, up to 16 bytes."""
        runs = self.accesses.contiguity.runs(op.ptrs)
        size = op.ptrs.tile.pointee.bytes
        best = 1
        for axis in range(layout.rank):
            bits = 0
            for image in layout.images(REGISTER):
                if image != tuple(1 << bits if k == axis else 0 for k in range(layout.rank)):
                    break
                bits += 1
            run = min(1 << bits, runs.contiguity[axis], max(VECTOR_BYTES // size, 1))
            while run > 1 and runs.aligned(axis, run) < run * size:
                run //= 2
            if op.mask is not None:
                run = min(run, self.accesses.contiguity.runs(op.mask).constancy[axis])
            best = max(best, run)
        return best

    # -- control flow

    def _type(self, value: Value) -> Type:
        return value.tile.with_layout(self.layout(value)) if isinstance(value.type, TileType) else value.type

    def _control(self, op: Op, enclosing: list[Op]) -> None:
        assert all(isinstance(v.type, TileType) for v in op.results), "views were not lowered"
        inner = [*enclosing, op]
        types = tuple(self._type(v) for v in op.results)
        if isinstance(op, If):
            regions = [self._region(r, inner, []) for r in (op.then, op.orelse)]
            groups: list[Any] = [self.get(op.condition, None)]
            made = create(If, groups, {"types": types, "then": regions[0], "orelse": regions[1]}, op.loc)
        else:
            assert isinstance(op, LoopOp)
            inits = [self.get(v, self.layout(arg)) for v, arg in zip(op.inits, op.carried)]
            bounds = [self.get(v, None) for v in op.bounds] if isinstance(op, For) else []
            body = self._region(op.body, inner, list(op.body.args))
            keywords: dict[str, Any] = {"body": body} if isinstance(op, For) else {"types": types, "body": body}
            made = create(type(op), [*bounds, inits], keywords, op.loc)
        self.b.insert(made)
        self._define(op, made)

    def _region(self, block: Block, enclosing: list[Op], args: Sequence[Value]) -> Block:
        saved = dict(self.made), dict(self.available)
        made = Block()
        with self.b.at(made):
            for arg in args:
                self._bind(arg, made.add_arg(self._type(arg), arg.name))
            self._ops(block, enclosing)
        self.made, self.available = saved
        return made

    def _terminator(self, op: Op, enclosing: list[Op]) -> None:
        if isinstance(op, Return):
            self.b.emit_op(Return)
            return
        if isinstance(op, Yield):
            targets: Sequence[Value] = enclosing[-1].results
        else:
            assert isinstance(op, (Continue, Break))
            loop = next(o for o in reversed(enclosing) if isinstance(o, LoopOp))
            targets = loop.results if isinstance(op, Break) else loop.carried
        self.b.emit_op(type(op), [self.get(v, self.layout(t)) for v, t in zip(op.operands, targets)])


_ASSUMPTIONS = (memory.AssumeBlocked, memory.AssumeBounded, memory.AssumeDivisible)
