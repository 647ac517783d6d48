"""Loops that go through the same rows in steps have them as one tile, which is loaded once."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import float16
from tilewright.ir.enums import CmpPredicate, PaddingMode, RoundingMode
from tilewright.ir.opdef import with_operands
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Div, Max, Min, Mul, Select, Sub, keeps_integers
from tilewright.ir.ops.control import CONTROL_FLOW, For
from tilewright.ir.ops.floats import Exp, Exp2
from tilewright.ir.ops.linear import MmaOp, Reduce
from tilewright.ir.ops.memory import (
    AssumeDivisible,
    Load,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    Store,
    StoreView,
    array_view,
)
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, constant_of
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import Rewriter, ValueMap, clone_op, replace_ops
from tilewright.ir.structured import emit_if
from tilewright.ir.types import PartitionViewType, TensorViewType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import made_by, pure_slice
from tilewright.transforms.gpu.partial_sums import reduction
from tilewright.transforms.gpu.step_axes import (
    axis_of_access,
    axis_of_elements,
    moved,
    stretched,
    times_of,
    wider,
)
from tilewright.transforms.gpu.tile_splitting.demand import STORES
from tilewright.transforms.gpu.tile_splitting.split import is_independent
from tilewright.transforms.pipelines import optimize, run_passes
from tilewright.transforms.raise_to_views import RaiseToViews

_PADDING = {PaddingMode.ZERO: 0.0, PaddingMode.NEG_INF: -math.inf, PaddingMode.POS_INF: math.inf}


class StepRows(NamedTuple):
    """A ``function`` whose rows ``JoinSteps`` loads once, the number of the ``parameter`` that is their length, how
    many elements a step has, and how many bytes that are loaded more than once."""

    function: Function
    parameter: int
    elements: int
    bytes: int


@dataclass(frozen=True)
class JoinSteps(InPlacePass):
    """Lets loops over the pieces of a row do all ``steps`` at once, in tiles as long as a power of two of them, where
    several load the same pieces: the row stays in registers then, as if it had been written as one tile.

    What such a loop carries is added up, or combined otherwise, from what each step gives; it may be an online softmax:
    of one step it is what it is of several. NaN, which is the sum of exponentials where the first step has nothing but
    -inf, it stays. For kernels that only load and store, and not the same arrays. Runs on optimized Tile IR.
    """

    name: ClassVar[str] = "join-steps"
    steps: int

    def change(self, function: Function) -> bool:
        n, loaded = 1 << (self.steps - 1).bit_length(), dict[_Load, Value]()

        def emit(rewriter: Rewriter, loop: For, how: _Steps, b: Builder) -> Sequence[Value]:
            return _Joiner(rewriter, loop, how, b).results(n, loaded)

        loops = _joined(function)
        for loop in [*loops][:1]:
            _move_numbers(loop)
        return replace_ops(function, loops, emit)


def rows_in_steps(function: Function) -> StepRows | None:
    """The rows of ``function`` that can be joined, which tiles that pointers reach may be a part of."""
    uppers = [op.upper for op in function.ops_of(For)]
    if len(uppers) == len(set(uppers)) or function.ops_of(MmaOp):
        return None
    if any(isinstance(op.parent, For) and op.ptrs.tile.rank for op in function.ops_of((Load, Store))):
        function = optimize(run_passes(function, (RaiseToViews(),)))
    loops = _joined(function)
    upper = next((loop.upper.op for loop in loops), None)
    if not isinstance(upper, Div) or upper.rounding is not RoundingMode.RP:
        return None
    length, elements = upper.lhs, constant_of(upper.rhs)
    while isinstance(length.op, AssumeDivisible):
        length = length.op.x
    if length not in function.body.args or not isinstance(elements, int):
        return None
    seen = Counter(_load(op) for loop, how in loops.items() for op in how.loads(loop))
    types = (view.type for (view, *_), count in seen.items() if count > 1)
    size = sum(t.tile.bytes for t in types if isinstance(t, PartitionViewType))
    return StepRows(function, function.body.args.index(length), elements, size)


def _move_numbers(loop: For) -> None:
    """Have single numbers, such as labels, that are loaded behind ``loop`` and need nothing of it, loaded before it:
    what waits for them would wait for memory once more."""
    block, moved = loop.block, dict[Op, None]()
    assert block is not None
    behind = block.ops[block.ops.index(loop) :]
    made = made_by(behind)
    for load in behind:
        if isinstance(load, Load) and not load.result.tile.rank:
            needed = pure_slice(load.operands, made, known=moved)
            moved.update(dict.fromkeys((*needed, load) if needed is not None else ()))
    block.splice(moved, before=loop)


class _Softmax(NamedTuple):
    """The number of the carried value that is a sum of exponentials, what is ``added`` in a step, and what is its
    ``largest`` number, which was ``first`` before."""

    sum: int
    added: Reduce
    largest: Reduce
    first: float


@dataclass(eq=False)
class _Steps:
    """The axis along which steps are in what each op of a loop gives or stores, if they are in it, what is added to
    carried ``tiles`` in each step, by their numbers, which ops that are ``skipped`` do, and the online ``softmax`` that
    it carries. Elements behind the row are of this ``padding`` where any will do."""

    padding: PaddingMode
    axes: dict[Op, int] = field(default_factory=dict)
    tiles: dict[int, Value] = field(default_factory=dict)
    softmax: list[_Softmax] = field(default_factory=list)
    skipped: set[Op] = field(default_factory=set)

    def loads(self, loop: For) -> Iterator[LoadView]:
        return (op for op in loop.body.ops if isinstance(op, LoadView) and op in self.axes)


def _joined(function: Function) -> dict[For, _Steps]:
    """The loops that are joined: those over the pieces of one row that several load."""
    if not is_independent(function):
        return {}
    for block in function.blocks():
        loops = [op for op in block.ops if isinstance(op, For)]
        for upper, padding in itertools.product(dict.fromkeys(op.upper for op in loops), _PADDING):
            found = {op: how for op in loops if op.upper is upper and (how := _steps_of(op, padding)) is not None}
            loads = [load for op, how in found.items() for load in {_load(x) for x in how.loads(op)}]
            if len(loads) > len(set(loads)):
                return found
    return {}


_Load = tuple[Value, ...]  # the view, and the index, but for the number of the step, for which the view stands


def _load(op: LoadView) -> _Load:
    assert op.block is not None
    return op.view, *(op.view if v is op.block.args[0] else v for v in op.indices)


def _steps_of(loop: For, padding: PaddingMode) -> _Steps | None:
    """How the steps of ``loop`` are joined, with this ``padding`` where any will do; None where they cannot be."""
    if constant_of(loop.lower) != 0 or constant_of(loop.step) != 1:
        return None
    found, places = _Steps(padding), {loop.body.args[0]: 1}  # what is so many times the number of the step
    known = _recurrences(loop, found)
    if known is None:
        return None
    for op in loop.body.ops[:-1]:
        times = times_of(op, places)
        if times is not None:
            places[op.results[0]] = times
            continue
        if op in found.skipped:
            continue
        stepped = any(v.op in found.axes or v in places for v in op.operands)
        axis = _axis(op, found.axes, places, loop)
        if axis is not None:
            found.axes[op] = axis
        elif isinstance(op, (*CONTROL_FLOW, *STORES)) or (stepped and not _reduces_steps(op, found.axes)):
            return None
    whole = [v for i, v in enumerate(loop.next_values) if i not in found.tiles]
    alone = all(v.op in found.axes and _is_summed(loop, i, found.axes[v.op]) for i, v in found.tiles.items())
    alike = all(_is_even(loop, found, s.largest) for s in found.softmax)
    alike = alike and _adds_nothing(loop, found, places)
    return found if alone and alike and not any(v.op in found.axes or v in places for v in whole) else None


def _is_even(loop: For, found: _Steps, reduced: Reduce) -> bool:
    """Whether all tiles that what is ``reduced`` follows from have as many elements of a step."""
    lengths = (op.results[0].tile.shape[found.axes[op]] for op in _needed(loop, reduced) if op in found.axes)
    return len({*lengths, reduced.values[0].tile.shape[reduced.axis]}) == 1


def _adds_nothing(loop: For, found: _Steps, places: Container[Value]) -> bool:
    """Whether steps behind the last one, which a tile may have, change nothing that ``loop`` reduces."""
    behind = _Behind(loop, found, places)
    reductions = [op for op in loop.body.ops if isinstance(op, Reduce) and _reduces_steps(op, found.axes)]
    known = [pair for op in reductions for pair in zip(op.values, op.identities)]
    return all(behind.value(v) == x for v, x in (*known, *((v, 0) for v in found.tiles.values())))


class _Behind:
    """What elements of steps behind the last one are, where that is known: all are behind the end of the row."""

    def __init__(self, loop: For, found: _Steps, places: Container[Value]) -> None:
        self._found, self._places = found, places
        self._length = loop.upper.op.lhs if isinstance(loop.upper.op, Div) else None
        self._shifted = {s.added.values[0]: s.largest.values[0] for s in found.softmax}

    def value(self, value: Value) -> bool | int | float | None:
        op = value.op
        known = constant_of(value)
        if op is None or known is not None:
            return known
        if isinstance(op, LoadView):
            return self._loaded(op)
        if isinstance(op, (Reshape, Permute, Broadcast)) or (isinstance(op, Cast) and _keeps_infinity(op)):
            return self.value(op.x)
        if isinstance(op, Cmp):
            ends = isinstance(op.predicate, CmpPredicate) and op.predicate is CmpPredicate.LT
            return False if ends and self._is_place(op.lhs) and self._is_length(op.rhs) else None
        if isinstance(op, Select):
            chosen = self.value(op.condition)
            return None if chosen is None else self.value(op.x if chosen else op.y)
        if isinstance(op, And):
            return False if any(self.value(v) is False for v in op.operands) else None
        if isinstance(op, Mul):
            return 0 if [self.value(v) for v in op.operands] == [0, 0] else None
        shifted = self._shifted.get(value)
        return 0 if shifted is not None and self.value(shifted) == -math.inf else None

    def _loaded(self, op: LoadView) -> float | None:
        view = array_view(op.view)
        if op not in self._found.axes or view is None or view.extent(self._found.axes[op]) is not self._length:
            return None
        mode = op.view.partition.padding
        return _PADDING.get(self._found.padding if mode is PaddingMode.UNDETERMINED else mode)

    def _is_place(self, value: Value) -> bool:
        """Whether ``value`` has the places of elements in the row."""
        op = value.op
        if isinstance(op, (Reshape, Broadcast, Permute)) or keeps_integers(op):
            return self._is_place(op.x)
        return isinstance(op, Add) and any(v in self._places for v in op.operands)

    def _is_length(self, value: Value) -> bool:
        op = value.op
        if isinstance(op, (Reshape, Broadcast)) or keeps_integers(op):
            return value is self._length or self._is_length(op.x)
        return value is self._length


def _keeps_infinity(op: Cast) -> bool:
    return all(t.is_floating and t.bitwidth >= float16.bitwidth for t in (op.x.tile.element, op.result.tile.element))


def _needed(loop: For, reduced: Reduce) -> list[Op]:
    """The ops of ``loop`` that compute what is ``reduced``."""
    made = set(reachable(reduced.values, lambda v: v.op.operands if v.op and v.op.block is loop.body else ()))
    return [op for op in loop.body.ops if any(v in made for v in op.results)]


def _axis(op: Op, axes: Mapping[Op, int], places: dict[Value, int], loop: For) -> int | None:
    """The axis along which steps are in what ``op`` gives, or stores."""
    if isinstance(op, (LoadView, StoreView)):
        axis = axis_of_access(op, loop)
        stored = op.value.op if isinstance(op, StoreView) else None
        return axis if stored is None or axes.get(stored) == axis else None
    if isinstance(op, (Permute, Reshape, Broadcast)):
        return moved(op, axes[op.x.op]) if op.x.op and op.x.op in axes else None
    return axis_of_elements(op, dict(axes), places) if op.spec.elementwise else None


def _reduces_steps(op: Op, axes: Mapping[Op, int]) -> bool:
    """Whether ``op`` reduces all steps of what it reads."""
    return isinstance(op, Reduce) and op.commutative and all(axes.get(v.op) == op.axis for v in op.values if v.op)


def _is_summed(loop: For, i: int, axis: int) -> bool:
    """Whether nothing is done with the tile that ``loop`` carries as number ``i``, zero at first, but that its elements
    along ``axis`` are added up behind it."""
    users = list(loop.results[i].users)
    zero = constant_of(loop.inits[i]) == 0
    return zero and all(isinstance(u, Reduce) and u.axis == axis and _combiner(u) is Add for u in users)


def _combiner(op: Reduce) -> type[Op] | None:
    """The kind of the op that combines two numbers of one reduction, if nothing else does."""
    first, *_, end = op.body.ops
    alone = len(op.values) == 1 and len(op.body.ops) == 2 and end.operands == first.results and op.commutative
    return type(first) if alone else None


def _recurrences(loop: For, found: _Steps) -> set[Op] | None:
    """The ops that compute of what ``loop`` carries; None where one does that is not known to be the same for all steps
    at once."""
    so_far = set(loop.carried)
    using = set()
    for each in loop.body.ops[:-1]:
        if not so_far.isdisjoint(each.operands):
            using.add(each)
            so_far.update(each.results)
    known: set[Op] = set()
    for i, value in enumerate(loop.carried):
        op = loop.next_values[i].op
        if not isinstance(op, (Add, Max, Min)) or op.block is not loop.body:
            return None
        added = [v for v in op.operands if v is not value]
        if len(added) == 1 and added[0] not in so_far:
            if _combines(added[0], type(op)):
                known.add(op)
            elif isinstance(op, Add) and value.tile.size > 1:
                found.tiles[i] = added[0]
                known.add(op)
                found.skipped.add(op)
        elif isinstance(op, Add):
            known |= _softmax(loop, i, op, found)
    return known if using <= known else None


def _combines(value: Value, combiner: type[Op]) -> bool:
    return reduction(value, combiner)[0] is not None


def _softmax(loop: For, i: int, add: Add, found: _Steps) -> set[Op]:
    """The ops that add exponentials up to carried number ``i``, which is scaled as the largest number so far changes;
    nothing where that is something else."""
    total = loop.carried[i]
    for so_far, added in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
        scaled, (summed, between) = so_far.op, reduction(added, Add)
        if summed is None or not isinstance(scaled, Mul) or total not in scaled.operands:
            continue
        factor = next((v.op for v in scaled.operands if v is not total), None)
        each = summed.values[0].op
        if not isinstance(factor, (Exp, Exp2)) or type(each) is not type(factor):
            continue
        change, shifted = factor.x.op, each.x.op
        if not isinstance(change, Sub) or not isinstance(shifted, Sub) or change.lhs not in loop.carried:
            continue
        largest = loop.next_values[loop.carried.index(change.lhs)]
        of_step = next((v for v in largest.op.operands if v is not change.lhs), None) if largest.op else None
        reduced = None if of_step is None else reduction(of_step, Max)[0]
        spread, wide = _spread(shifted.rhs)
        if not isinstance(largest.op, Max) or reduced is None or reduced.values[0] is not shifted.lhs:
            continue
        first = constant_of(loop.inits[loop.carried.index(change.lhs)])
        if change.rhs is spread is largest and largest.tile.size == 1 and isinstance(first, (int, float)):
            found.softmax.append(_Softmax(i, summed, reduced, first))
            return {add, scaled, factor, each, change, shifted, largest.op, *between, *wide}
    return set()


def _spread(value: Value) -> tuple[Value, list[Op]]:
    """What all elements of ``value`` are, and the ops that make it a tile."""
    ops: list[Op] = []
    while isinstance(value.op, (Reshape, Broadcast)):
        ops.append(value.op)
        value = value.op.x
        if value.tile.size == 1 and not isinstance(value.op, (Reshape, Broadcast)):
            break
    return value, ops


class _Joiner:
    """Writes what a loop does in all steps."""

    def __init__(self, rewriter: Rewriter, loop: For, how: _Steps, b: Builder) -> None:
        self._rewriter, self._loop, self._how, self._b = rewriter, loop, how, b

    def results(self, n: int, loaded: dict[_Load, Value]) -> list[Value]:
        """What the loop carries in the end of up to ``n`` steps. What is ``loaded`` already is not loaded again."""
        loop, values = self._loop, self._rewriter.values
        values[loop.body.args[0]] = self._b.constant(0, loop.lower.tile.element)
        values.update(zip(loop.carried, self._rewriter.all(loop.inits)))
        checked = [s for s in self._how.softmax if n > 1 and s.first == -math.inf]
        none = [self._is_none(self._first(s.largest)) for s in checked]
        ops = loop.body.ops[:-1]
        first = next((k for k, op in enumerate(ops) if isinstance(op, Reduce)), 0)
        self._write(ops[:first], values, n, loaded)
        nan = [self._nan_or_zero(s.largest, first_is_none) for s, first_is_none in zip(checked, none)]
        self._write(ops[first:], values, n, loaded)
        found = self._rewriter.all(loop.next_values)
        for i, added in self._how.tiles.items():
            found[i] = values[added]
        for s, added in zip(checked, nan):
            total = found[s.sum]
            found[s.sum] = self._b.emit(Add, total, self._b.emit(Reshape, added, shape=total.tile.shape))
        return found

    def _write(self, ops: Sequence[Op], values: ValueMap, n: Fraction | int, loaded: dict[_Load, Value]) -> None:
        """``ops`` for tiles of ``n`` steps."""
        for op in ops:
            self._b.loc = op.loc
            axis = self._how.axes.get(op)
            if op in self._how.skipped:
                continue
            if axis is None:
                made = self._b.insert(clone_op(op, values)).results
            elif isinstance(op, LoadView):
                key = _load(op)
                if key not in loaded:
                    loaded[key] = self._wide(op, values, axis, n).result
                made = [loaded[key]]
            else:
                made = self._wide(op, values, axis, n).results
            values.update(zip(op.results, made))

    def _wide(self, op: Op, values: ValueMap, axis: int, n: Fraction | int) -> Op:
        b, operands = self._b, [values.get(v, v) for v in op.operands]
        if isinstance(op, (Reshape, Broadcast)):
            return b.emit_op(type(op), *operands, shape=wider(op.shape, axis, n))
        if isinstance(op, (LoadView, StoreView)):  # a row may end before the last step
            promised = tuple(p and k != axis for k, p in enumerate(op.in_bounds))
            stored = [values[op.value]] if isinstance(op, StoreView) else []
            indices, view = [values.get(v, v) for v in op.indices], self._view(op, values, axis, n)
            return b.emit_op(type(op), view, *stored, indices, **{**op.attributes, "in_bounds": promised})
        if op.spec.elementwise:
            shape = wider(op.results[0].tile.shape, axis, n)
            given = zip(op.operands, operands)
            operands = [new if v.op in self._how.axes else stretched(values, v, shape, b) for v, new in given]
        return b.insert(with_operands(op, operands))

    def _view(self, op: LoadView | StoreView, values: ValueMap, axis: int, n: Fraction | int) -> Value:
        """The view of ``op`` in tiles of ``n`` steps: nothing is stored behind the last step."""
        b, made, upper, t = self._b, array_view(op.view), self._loop.upper, op.view.partition
        assert made is not None and isinstance(upper.op, Div)
        extent, view = made.extent(axis), values.get(made.result, made.result)
        if isinstance(op, StoreView) and extent is not upper.op.lhs:
            view = self._shorter(made, axis, b.emit(Mul, upper, b.constant(t.tile_shape[axis], upper.tile.element)))
        assert isinstance(view.type, TensorViewType)
        mode = self._how.padding if t.padding is PaddingMode.UNDETERMINED else t.padding
        shape, steps = wider(t.tile_shape, axis, n), wider(t.steps, axis, n)
        return b.emit(
            MakePartitionView, view, type=replace(t, view=view.type, tile_shape=shape, steps=steps, padding=mode)
        )

    def _shorter(self, made: MakeTensorView, axis: int, end: Value) -> Value:
        """The array of ``made``, which ends at ``end`` along ``axis``."""
        b, extent = self._b, made.extent(axis)
        if isinstance(extent, int):
            extent = b.constant(extent, end.tile.element)
        if end.tile != extent.tile:
            end = b.emit(Cast, end, dtype=extent.tile.dtype)
        shape = [made.extent(k) if k != axis else b.emit(Min, extent, end) for k in range(made.type.rank)]
        dynamic = tuple(None if k == axis else known for k, known in enumerate(made.type.shape))
        return b.emit(
            MakeTensorView, made.base, [v for v in shape if isinstance(v, Value)], made.strides,
            type=replace(made.type, shape=dynamic),
        )  # fmt: skip

    def _first(self, reduced: Reduce) -> Value:
        """The first element of what is ``reduced``."""
        (first,), values = reduced.values, dict(self._rewriter.values)
        self._write(_needed(self._loop, reduced), values, Fraction(1, first.tile.shape[reduced.axis]), {})
        return values[first]

    def _is_none(self, value: Value) -> Value:
        """Whether the only element of ``value`` is -inf."""
        number = self._b.emit(Reshape, value, shape=())
        none = self._b.constant(-math.inf, number.tile.element)
        return self._b.emit(Cmp, number, none, predicate=CmpPredicate.EQ)

    def _nan_or_zero(self, reduced: Reduce, first_is_none: Value) -> Value:
        """NaN where the first step has nothing but -inf, which is looked at if its first element is that: else 0."""
        b, element = self._b, reduced.results[0].tile.element

        def of_step() -> list[Value]:
            values = dict(self._rewriter.values)
            self._write([*_needed(self._loop, reduced), reduced], values, 1, {})
            none = self._is_none(values[reduced.results[0]])
            return [b.emit(Select, none, b.constant(math.nan, element), b.constant(0.0, element))]

        return emit_if(b, first_is_none, of_step, lambda: [b.constant(0.0, element)])[0]
