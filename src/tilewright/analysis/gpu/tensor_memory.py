"""Which accumulators of MMA ops of warp groups stay in tensor memory, and in which columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.analysis.first_fit import first_fit
from tilewright.analysis.live_ranges import LiveRanges
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.errors import TileError
from tilewright.ir.ops.control import Continue, For, ends_of
from tilewright.ir.ops.gpu.tensor_memory import COLUMNS, FEWEST_COLUMNS, columns_of
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait


class OutOfTensorMemory(TileError):
    """The accumulators of a kernel that are live at the same time do not fit."""


@dataclass(frozen=True)
class TensorMemoryPlan:
    """The column of each accumulator in tensor memory: of the values that MMA ops give, and that only pass on what they
    gave, such as those that loops carry; and how many columns there are in all."""

    columns: dict[Value, int]
    count: int

    def stays(self, value: Value) -> bool:
        """Whether nothing needs ``value`` in registers, so that it may be added to where it is."""
        return value in self.columns and passes_on(value, self.columns)

    def carries(self, loop: For) -> list[bool]:
        """Which of the values that ``loop`` carries are in tensor memory."""
        return [v in self.columns for v in loop.carried]


def passes_on(value: Value, held: Iterable[Value]) -> bool:
    """Whether the only use of ``value`` is one that leaves it in tensor memory, where those ``held`` are."""
    users = [op for op in value.users if not (isinstance(op, WgmmaWait) and value in op.after)]
    if len(users) != 1:
        return False
    (op,) = users
    if list(op.operands).count(value) != 1:
        return False
    if isinstance(op, Wgmma):
        return value is op.acc
    if isinstance(op, WgmmaWait):
        return value in op.accs
    if isinstance(op, For):
        return value in op.inits and op.carried[op.inits.index(value)] in held
    loop = op.parent
    if not isinstance(op, Continue) or not isinstance(loop, For) or op is not loop.body.terminator:
        return False
    return loop.carried[op.operands.index(value)] in held


def place_accumulators(function: Function) -> TensorMemoryPlan:
    """Where the accumulators of ``gpu.wgmma`` in ``function`` are. OutOfTensorMemory where there is no room for all."""
    classes = _Classes(_held(function))
    for op in function.ops_of(Wgmma):
        classes.join(op.acc, op.result)
    for wait in function.ops_of(WgmmaWait):
        for acc, result in zip(wait.accs, wait.results):
            classes.join(acc, result)
    for loop in function.ops_of(For):
        for init, carried, following, result in zip(loop.inits, loop.carried, loop.next_values, loop.results):
            if carried in classes.held:
                classes.join(carried, result)
                classes.join(following, result)
                classes.join(init, carried)
    return _placed(function, classes)


def _held(function: Function) -> set[Value]:
    """The values that are in tensor memory."""
    held = {op.result for op in function.ops_of(Wgmma)}
    held |= {r for wait in function.ops_of(WgmmaWait) for r in wait.results}
    loops = [loop for loop in function.ops_of(For) if list(ends_of(loop)) == [loop.body.terminator]]
    held |= {v for loop in loops for v in (*loop.carried, *loop.results)}
    changed = True
    while changed:  # those of loops that need registers drop out, and with them what they would pass on to
        changed = False
        for loop in loops:
            for carried, following, result in zip(loop.carried, loop.next_values, loop.results):
                if carried in held:
                    kept = following in held and all(passes_on(v, held) for v in (carried, following, result))
                    if not kept:
                        held -= {carried, result}
                        changed = True
    return held


class _Classes:
    """The values that are ``held``, in classes of those that are at one place."""

    def __init__(self, held: set[Value]) -> None:
        self.held = held
        self._next: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """The value that stands for the class of ``value``."""
        while value in self._next:
            value = self._next[value]
        return value

    def join(self, before: Value, after: Value) -> None:
        """``after`` is where ``before`` is, if that is held and only passed on."""
        if before in self.held and passes_on(before, self.held):
            first, second = self.of(before), self.of(after)
            if first is not second:
                self._next[first] = second


def _placed(function: Function, classes: _Classes) -> TensorMemoryPlan:
    ranges = LiveRanges(function)
    lives: dict[Value, tuple[int, int]] = {}
    for value in classes.held:
        op = _owner(value)
        first, last = (ranges.first[op], ranges.last[op]) if value.op is None else ranges.of_result(value)
        begin, end = lives.get(classes.of(value), (first, last))
        lives[classes.of(value)] = min(begin, first), max(end, last)
    placed: dict[Value, int] = {}
    for value in sorted(lives, key=lambda v: (-columns_of(v.tile.shape), lives[v])):
        size, (begin, end) = columns_of(value.tile.shape), lives[value]
        beside = [v for v in placed if lives[v][0] <= end and begin <= lives[v][1]]
        taken = ((placed[v], placed[v] + columns_of(v.tile.shape)) for v in beside)
        placed[value] = first_fit(size, taken, min(size, FEWEST_COLUMNS))
        if placed[value] + size > COLUMNS:
            raise OutOfTensorMemory(
                f"an accumulator of {value.tile.with_layout(None)} needs {size} columns of tensor memory beside "
                f"{placed[value]} that are in use at the same time, of {COLUMNS}",
                _owner(value).loc,
            )
    most = max((column + columns_of(v.tile.shape) for v, column in placed.items()), default=1)
    count = max(1 << (most - 1).bit_length(), FEWEST_COLUMNS)
    return TensorMemoryPlan({v: placed[classes.of(v)] for v in classes.held}, count)


def _owner(value: Value) -> Op:
    """The op that gives ``value``, or the loop that carries it."""
    op = value.op if value.op is not None or value.block is None else value.block.parent
    assert op is not None, value
    return op
