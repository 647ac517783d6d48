"""Runs the body of a kernel for one block.

A block is a generator: it pauses before every strong memory operation, so that the scheduler can let other blocks
run while this one waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from tilewright.backends.reference.access import MEMORY
from tilewright.backends.reference.elementwise import ELEMENTWISE, Evaluator
from tilewright.backends.reference.linear import PRODUCTS, Combiner, Tiles, as_function, reduce, scan
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.output import OUTPUT
from tilewright.backends.reference.shape import SHAPE
from tilewright.backends.reference.values import Pointers
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.errors import TileError, TileInternalError
from tilewright.ir.opdef import Arity
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.linear import Reduce, Scan
from tilewright.ir.ops.memory import Bid, LocalArray, MemoryOp, NumBlocks
from tilewright.ir.ops.shape import Constant, Undefined
from tilewright.ir.semantics import as_ufunc
from tilewright.records import NamedTuple

Index = tuple[int, int, int]

_IDLE = 1000  # iterations of a loop that change nothing, after which it is one without an end
EVALUATORS: dict[type[Op], Evaluator] = {**ELEMENTWISE, **SHAPE, **PRODUCTS, **OUTPUT}


class Observer(Protocol):
    """Sees every op of a launch before it takes effect."""

    def before(self, op: Op, block: Index, operands: Sequence[Any]) -> None:
        """``operands`` are the run-time values (see ``values``) of ``op.operands``.

        In a combiner of ``reduce`` and ``scan`` they are arrays over all elements that are combined at once.
        """


class Exit(NamedTuple):
    """How a region ended: the class of its terminator, the values of its operands, and the operands."""

    kind: type[Op]
    values: list[Any]
    sources: Sequence[Value]


Running = Generator[MemoryOp, None, Exit]


STRUCTURED: Mapping[type[Op], str] = {If: "run_if", For: "run_for", Loop: "run_loop"}  # methods of the interpreter


class BlockInterpreter:
    """One block of a launch: its index, and the values that its ops have computed.

    Subclasses may watch it: every op but control flow passes through ``execute``, every value that control flow
    hands on through ``bind``. With ``pause_at_weak`` it pauses before weak memory operations, too.
    """

    pause_at_weak = False
    structured: ClassVar[Mapping[type[Op], str]] = STRUCTURED

    def __init__(
        self, index: Index, grid: Index, memory: Memory, arguments: dict[Value, Any], observer: Observer | None
    ) -> None:
        self.index = index
        self.grid = grid
        self.memory = memory
        self.values = dict(arguments)
        self.observer = observer
        self.local: dict[LocalArray, Pointers] = {}

    def run_all(self, body: Block) -> Running:
        """``run`` for the body of the kernel: the local arrays of the block end with it."""
        left = yield from self.run(body)
        for pointer in self.local.values():
            self.memory.release(pointer)
        return left

    def run(self, body: Block) -> Running:
        """Execute a region; yields each strong memory operation before it takes effect."""
        for op in body.ops:
            operands = [self.values[v] for v in op.operands]
            if isinstance(op, MemoryOp) and (self.pause_at_weak or not op.is_weak):
                yield op
            if self.observer is not None:
                self.observer.before(op, self.index, operands)
            if op.spec.terminator:
                return Exit(type(op), operands, op.operands)
            if type(op) in self.structured:
                left = yield from getattr(self, self.structured[type(op)])(op, operands)
                if left is not None:
                    return left
                continue
            self.execute(op, operands)
        raise TileInternalError("a region without a terminator")

    def bind(self, targets: Sequence[Value], values: Sequence[Any], sources: Sequence[Value]) -> None:
        """Give ``targets`` the ``values`` that ``sources`` have."""
        self.values.update(zip(targets, values))

    def execute(self, op: Op, operands: list[Any]) -> None:
        """Compute the results of an op that is no control flow."""
        try:
            results = self.evaluate(op, operands)
        except TileError as error:
            if error.loc is not None:
                raise
            raise TileError(f"{error.message}, in block {self.index}", op.loc) from None
        for value, result in zip(op.results, results):
            self.values[value] = result

    def evaluate(self, op: Op, operands: list[Any]) -> Sequence[Any]:
        """The results of an op that is neither a terminator nor structured control flow."""
        evaluator = EVALUATORS.get(type(op))
        types = [v.type for v in op.operands]
        if evaluator is not None:
            return (evaluator(op.attributes, operands, types),)
        if type(op) in MEMORY:
            return (MEMORY[type(op)](self.memory, op.attributes, types, *grouped(op, operands)),)
        if type(op) in FOLDS:
            return FOLDS[type(op)](op.attributes, operands, self.combiner(op.regions[0]))
        if type(op) in BLOCK_VALUES:
            return (BLOCK_VALUES[type(op)](self, op),)
        raise TileInternalError(f"the reference backend does not know the op {op.name}", op.loc)

    def combiner(self, body: Block) -> Combiner:
        """The function that a combiner region computes, on whole arrays where every op in it is elementwise."""
        elementwise = all(op.spec.elementwise or isinstance(op, (Constant, Undefined, Yield)) for op in body.ops)
        function = None if self.watches(body) else as_function(body, self.values)

        def combine(left: Tiles, right: Tiles) -> Tiles:
            tiles = left + right
            shape = tiles[0].shape
            if elementwise:
                found = self._combine(body, tiles) if function is None else function(tiles)
                return [r if r.shape == shape else np.broadcast_to(r, shape) for r in found]
            results = [np.empty(shape, t.dtype) for t in left]
            for element in np.ndindex(shape):
                for result, value in zip(results, self._combine(body, [t[element] for t in tiles])):
                    result[element] = value
            return results

        return Combiner(combine, _ufunc(body) if self.observer is None else None)

    def watches(self, body: Block) -> bool:
        """Whether the ops of a combiner are executed one by one, as something looks at each."""
        return self.observer is not None

    def _combine(self, body: Block, tiles: Sequence[Any]) -> list[Any]:
        self.values.update(zip(body.args, map(np.asarray, tiles)))
        running = self.run(body)
        try:
            op = next(running)
        except StopIteration as stop:
            return stop.value.values
        raise TileError("a combiner cannot synchronize with other blocks", op.loc)

    def local_array(self, op: LocalArray) -> Pointers:
        """The memory of ``op`` in this block, the same each time."""
        if op not in self.local:
            self.local[op] = self.memory.allocate(op.dtype, op.count)
        return self.local[op]

    def run_if(self, op: If, operands: list[Any]) -> Generator[MemoryOp, None, Exit | None]:
        left = yield from self.run(op.regions[0 if operands[0] else 1])
        if left.kind is not Yield:
            return left
        self.bind(op.results, left.values, left.sources)
        return None

    def run_for(self, op: For, operands: list[Any]) -> Generator[MemoryOp, None, Exit | None]:
        lower, upper, step, *carried = operands
        sources: Sequence[Value] = op.inits
        if step <= 0:
            raise TileError(f"the step of this loop is {int(step)}; it must be positive, in block {self.index}", op.loc)
        (body,) = op.regions
        for i in range(int(lower), int(upper), int(step)):
            self.values[body.args[0]] = np.array(i, lower.dtype)
            self.bind(body.args[1:], carried, sources)
            left = yield from self.run(body)
            if left.kind is not Continue:
                return left
            carried, sources = left.values, left.sources
        self.bind(op.results, carried, sources)
        return None

    def run_loop(self, op: Loop, operands: list[Any]) -> Generator[MemoryOp, None, Exit | None]:
        carried, sources = operands, op.operands
        (body,) = op.regions
        idle = 0
        while True:
            self.bind(body.args, carried, sources)
            changes = self.memory.changes
            left = yield from self.run(body)
            if left.kind is Break:
                self.bind(op.results, left.values, left.sources)
                return None
            if left.kind is not Continue:
                return left
            same = changes == self.memory.changes and all(map(_are_same, carried, left.values))
            idle = idle + 1 if same else 0
            if idle == _IDLE and not any(map(is_ordered, op.walk())):  # which the scheduler lets wait
                raise TileError(
                    f"this loop does not end: {_IDLE} iterations in a row have changed neither memory nor what it "
                    f"carries, in block {self.index}; waiting for another block needs a load with a memory order",
                    op.loc,
                )
            carried, sources = left.values, list(left.sources)


def _ufunc(body: Block) -> np.ufunc | None:
    """The function of NumPy that a combiner region computes, where it is one."""
    op = body.ops[0]
    if op.operands != body.args or body.terminator.operands != op.results:
        return None
    return as_ufunc(op.name, body.args[0].tile.element, op.attributes)


def _are_same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, np.ndarray) and np.array_equal(one, other))


def grouped(op: Op, operands: list[Any]) -> list[Any]:
    """``operands`` by declared field: None for an absent one, a list for a variadic one."""
    groups: list[Any] = []
    start = 0
    for field, count in zip(op.spec.operands, op.segments):
        group = operands[start : start + count]
        start += count
        groups.append(group if field.arity is Arity.MANY else group[0] if group else None)
    return groups


FOLDS: dict[type[Op], Callable[..., Tiles]] = {Reduce: reduce, Scan: scan}
BLOCK_VALUES: dict[type[Op], Callable[[BlockInterpreter, Any], Any]] = {
    Bid: lambda block, op: np.array(block.index[op.axis], np.int32),
    NumBlocks: lambda block, op: np.array(block.grid[op.axis], np.int32),
    LocalArray: BlockInterpreter.local_array,
}
