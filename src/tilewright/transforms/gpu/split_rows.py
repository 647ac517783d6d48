"""Rows that need more registers than an SM has are reduced, computed and stored in parts, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.analysis.gpu.warps import hold_rows
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import has_early_exit
from tilewright.ir.gpu_stage import ROW_PART
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Reshape, Undefined
from tilewright.ir.rewrite import Rewriter, ValueMap, clone_block, open_block
from tilewright.ir.structured import Region, emit_for
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.combiners import TileCombiner
from tilewright.transforms.gpu.tile_splitting.views import part_of_iota, part_of_view
from tilewright.transforms.pipelines import optimize

_LARGE = 32768  # elements of a row: half of the registers of an SM, whose others hold what is computed of them
_PART = 8192  # elements; what such rows take is in benchmarks/results/gpu_memory.md, no other size is on record
_LOADS, _STORES = (memory.Load, memory.LoadView), (memory.Store, memory.StoreView)
_ASSUMPTIONS = (memory.AssumeBlocked, memory.AssumeBounded, memory.AssumeDivisible)
_OTHERS = (*_LOADS, *_ASSUMPTIONS, Broadcast, Constant, Iota, Reshape, Undefined)


@dataclass(frozen=True)
class SplitRows:
    """Rows of more than ``large`` elements, which a kernel reduces and stores whole, in parts of ``part`` elements.

    None: those for which a CTA has no registers.

    A row is loaded again for each reduction that needs the result of another one, and for what is stored: from the
    cache where it has room. Threads add up what they have of all parts before they combine it. For blocks whose
    reductions are commutative, and whose other large tiles are elementwise, of kernels that store to nothing that they
    load. Runs on optimized Tile IR.
    """

    name: ClassVar[str] = "split-rows"
    part: int = _PART
    large: int | None = None

    def run(self, function: Function) -> Function:
        least = _LARGE if self.large is None else self.large
        reductions = [op for op in function.ops_of(Reduce) if _size(op.values[0]) > least]
        if not reductions or not _may_load_again(function):
            return function
        if self.large is None and hold_rows(function, max(_size(op.values[0]) for op in reductions)):
            return function
        blocks = dict.fromkeys(op.block for op in reductions if op.block is not None)
        found = {block: rows for block in blocks if (rows := _rows(block, self.part)) is not None}
        if not found:
            return function
        made = optimize(_Splitter(found).function(function))
        made.hints[ROW_PART] = self.part
        return made


def _size(value: Value) -> int:
    return value.type.size if isinstance(value.type, TileType) else 0


def _may_load_again(function: Function) -> bool:
    """Whether all loads give the same whenever they are made, and each store is to an array of its own."""
    alias = AnalysisManager(function).get(AliasAnalysis)
    reads, writes = set[MemoryObject](), set[MemoryObject]()
    for op in function.walk():
        if isinstance(op, _STORES) and op.is_weak:
            root = alias.underlying_object(op.address)
            if may_alias(root, writes):
                return False
            writes.add(root)
        elif isinstance(op, _LOADS) and op.is_weak:
            reads.add(alias.underlying_object(op.address))
        elif op.spec.effect != Effect.NONE:
            return False
    return not any(may_alias(root, writes) for root in reads)


@dataclass(frozen=True)
class _Rows:
    """How a block is computed that has rows of ``size`` elements in ``parts``: what is small, and which rows are
    reduced, by how many reductions after each other it needs, and what is stored at last."""

    size: int
    parts: int
    small: Sequence[Sequence[Op]]
    reductions: Sequence[Sequence[Reduce]]
    stores: Sequence[memory.Store | memory.StoreView]


def _rows(block: Block, part: int) -> _Rows | None:
    """How ``block`` is computed in parts; None where it cannot be."""
    size = max(_size(op.values[0]) for op in block.ops if isinstance(op, Reduce))
    levels: dict[Value, int] = {}
    small: dict[int, list[Op]] = defaultdict(list)
    reductions: dict[int, list[Reduce]] = defaultdict(list)
    stores: list[memory.Store | memory.StoreView] = []
    for op in block.ops:
        needed = (*op.operands, *op.captured())
        level = max((levels.get(v, 0) for v in needed), default=0)
        if isinstance(op, Reduce) and _size(op.values[0]) == size:
            reductions[level].append(op)
            level += 1
        elif isinstance(op, _STORES) and _size(op.value) == size:
            stores.append(op)
        elif op is not block.terminator and has_early_exit(op):
            return None  # what comes before it would move behind
        elif all(_size(v) < size for v in (*needed, *op.results)):
            small[level].append(op)
        elif op.regions or not op.results or any(_size(v) < size for v in op.results):
            return None  # it needs a row whole
        levels.update((v, level) for v in op.results)
    check = _Check(size, size // part)
    if not all(map(check.reduces, chain(*reductions.values()))) or not all(map(check.stores, stores)):
        return None
    count = max((*small, *reductions)) + 1
    return _Rows(size, size // part, [small[i] for i in range(count)], [reductions[i] for i in range(count)], stores)


@dataclass(eq=False)
class _Check:
    """Which values can be computed in parts."""

    _size: int
    _parts: int
    _known: dict[Value, bool] = field(default_factory=dict)

    def reduces(self, op: Reduce) -> bool:
        return op.commutative and all(map(self.splits, op.values))

    def stores(self, op: memory.Store | memory.StoreView) -> bool:
        return all(map(self.splits, op.operands)) and self._divides(op)

    def splits(self, value: Value) -> bool:
        """Whether ``value`` is small, or its parts are computed from parts alone."""
        if _size(value) < self._size:
            return True
        if value not in self._known:
            self._known[value] = self._can_split(value)
        return self._known[value]

    def _can_split(self, value: Value) -> bool:
        op, shape = value.op, value.tile.shape
        if op is None or shape[-1] != self._size or shape[-1] != value.tile.size:
            return False
        known = isinstance(op, _OTHERS) or op.spec.elementwise
        return known and self._divides(op) and all(map(self.splits, op.operands))

    def _divides(self, op: Op) -> bool:
        """Whether the tiles of ``op``, where it has a view, begin with parts."""
        if not isinstance(op, memory.ViewMemoryOp):
            return True
        t = op.view.partition
        whole = t.tile_shape[-1] == self._size and t.steps[-1] % (self._size // self._parts) == 0
        return whole and isinstance(op.view.op, memory.MakePartitionView)


class _Splitter(Rewriter):
    """Writes blocks so that they compute in parts."""

    def __init__(self, rows: dict[Block, _Rows]) -> None:
        super().__init__()
        self._rows = rows

    def block(self, block: Block, values: ValueMap) -> Block:
        rows = self._rows.get(block)
        if rows is None:
            return super().block(block, values)
        copied = open_block(block, values)
        b = Builder(copied, block.ops[0].loc)
        *_, end = block.ops
        for small, reductions in zip(rows.small, rows.reductions):
            for op in small:
                if op is not end:
                    self.insert(op, b)
            if reductions:
                self._reduce(rows, reductions, b)
        if rows.stores:
            self._store(rows, b)
        self.insert(end, b)
        return copied

    def _reduce(self, rows: _Rows, reductions: Sequence[Reduce], b: Builder) -> None:
        """Sum up, or what the combiners say, parts element by element, and reduce what comes of that."""
        bodies = [clone_block(op.body, dict(self.values)) for op in reductions]
        b.loc = reductions[0].loc
        first = _Part(self, rows, b.constant(0, int32), b)
        inits = [first.get(v) for op in reductions for v in op.values]

        def combine(index: Value, *carried: Value) -> list[Value]:
            part, left = _Part(self, rows, index, b), iter(carried)
            found = []
            for op, combiner in zip(reductions, bodies):
                before = list(islice(left, len(op.values)))
                found += TileCombiner(combiner, b)(before, [part.get(v) for v in op.values])
            return found

        made = iter(self._loop(rows, 1, inits, combine, b))
        for op, combiner in zip(reductions, bodies):
            values, types = list(islice(made, len(op.values))), [r.type for r in op.results]
            reduced = Reduce(values, op.segments, op.attributes.copy(), [combiner], types, op.loc)
            self.replace_all_uses(op, b.insert(reduced).results)

    def _store(self, rows: _Rows, b: Builder) -> None:
        b.loc = rows.stores[0].loc

        def store(index: Value) -> list[Value]:
            part = _Part(self, rows, index, b)
            for op in rows.stores:
                part.copy(op)
            return []

        self._loop(rows, 0, [], store, b)

    def _loop(self, rows: _Rows, first: int, inits: Sequence[Value], body: Region, b: Builder) -> Sequence[Value]:
        return emit_for(b, [b.constant(n, int32) for n in (first, rows.parts, 1)], inits, body).results


@dataclass(eq=False)
class _Part:
    """Computes the part ``index`` of rows."""

    _splitter: _Splitter
    _rows: _Rows
    _index: Value
    _b: Builder
    _values: ValueMap = field(default_factory=dict)

    def get(self, value: Value) -> Value:
        """The part of ``value``, which is whole where it is small."""
        if _size(value) < self._rows.size:
            return self._splitter.value(value)
        if value not in self._values:
            assert value.op is not None
            self._values.update(zip(value.op.results, self._computed(value.op)))
        return self._values[value]

    def _computed(self, op: Op) -> Sequence[Value]:
        if isinstance(op, _ASSUMPTIONS):
            return [self.get(op.x)]
        if isinstance(op, Iota):
            return [part_of_iota(self._b, self._narrowed(op.result.tile), self._index)]
        return self.copy(op)

    def copy(self, op: Op) -> Sequence[Value]:
        """``op`` of parts."""
        self._b.loc = op.loc
        operands = [self.get(v) for v in op.operands]
        if isinstance(op, memory.ViewMemoryOp):
            self._narrow(op, operands)
        attributes = dict(op.attributes)
        if isinstance(attributes.get("type"), TileType):
            attributes["type"] = self._narrowed(attributes["type"])
        if "shape" in attributes:
            attributes["shape"] = self._narrowed(op.result.tile).shape
        types = [self._narrowed(v.tile) for v in op.results]
        return self._b.insert(type(op)(operands, op.segments, attributes, (), types, op.loc)).results

    def _narrowed(self, t: TileType) -> TileType:
        return t.with_shape((*t.shape[:-1], self._rows.size // self._rows.parts))

    def _narrow(self, op: memory.ViewMemoryOp, operands: list[Value]) -> None:
        """Let ``operands`` of an access say where its part is."""
        view = op.view
        assert isinstance(view.op, memory.MakePartitionView)
        part = self._rows.size // self._rows.parts
        whole, t = self._splitter.value(view.op.view), view.op.type
        operands[0], operands[-1] = part_of_view(
            self._b, t, whole, operands[-1], len(t.steps) - 1, part, self._index, promised=op.promised[-1]
        )
