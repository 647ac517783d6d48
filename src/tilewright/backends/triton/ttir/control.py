"""Structured control flow.

TTIR has no jumps: an ``if`` that may leave its loop gives a flag that says whether it did, and what follows it in the
body runs under that flag. It compares the induction variable of a ``for`` with its sign, and lets the last step wrap
around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.trip_counts import max_trip_count
from tilewright.backends.triton.ttir.shape import zero
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import TensorType, Val, types
from tilewright.ir.core import Block, Op
from tilewright.ir.dtypes import DType
from tilewright.ir.effects import has_early_exit
from tilewright.ir.ops.control import Continue, For, If, Loop, Yield

Lower = Callable[[Op], None]


class Continuation:
    """Where a terminator leads. The state of a frame is the list of values that leaving it gives."""

    def unchanged(self, s: LoweringState) -> list[Val]:
        """A state of the right types that nothing will use."""
        raise NotImplementedError

    def leave(self, s: LoweringState, op: Op) -> list[Val]:
        """The state after the terminator ``op``."""
        raise NotImplementedError


@dataclass(frozen=True)
class ForContinuation(Continuation):
    """The body of a ``for``: its state is the carried values."""

    carried: tuple[Val, ...]

    def unchanged(self, s: LoweringState) -> list[Val]:
        return list(self.carried)

    def leave(self, s: LoweringState, op: Op) -> list[Val]:
        return s.all(op.operands)


@dataclass(frozen=True)
class LoopContinuation(Continuation):
    """The body of a ``loop``: whether it goes on, the carried values, and the results if it does not."""

    carried: tuple[Val, ...]
    tensor_types: tuple[TensorType, ...]  # of the results

    def _no_results(self, s: LoweringState) -> list[Val]:
        return [zero(s.w, *t) for t in self.tensor_types]

    def unchanged(self, s: LoweringState) -> list[Val]:
        return [s.w.constant(True, "i1"), *self.carried, *self._no_results(s)]

    def leave(self, s: LoweringState, op: Op) -> list[Val]:
        values = s.all(op.operands)
        if isinstance(op, Continue):
            return [s.w.constant(True, "i1"), *values, *self._no_results(s)]
        return [s.w.constant(False, "i1"), *self.carried, *values]


@dataclass(frozen=True)
class BranchContinuation(Continuation):
    """A branch that may leave ``outer``: whether it does, the state of ``outer``, and what the branch yields."""

    outer: Continuation
    tensor_types: tuple[TensorType, ...]

    def unchanged(self, s: LoweringState) -> list[Val]:
        return [s.w.constant(False, "i1"), *self.outer.unchanged(s), *(zero(s.w, *t) for t in self.tensor_types)]

    def leave(self, s: LoweringState, op: Op) -> list[Val]:
        if isinstance(op, Yield):
            return [s.w.constant(False, "i1"), *self.outer.unchanged(s), *s.all(op.operands)]
        return [s.w.constant(True, "i1"), *self.outer.leave(s, op), *(zero(s.w, *t) for t in self.tensor_types)]


class _Yield(Continuation):
    """A branch that cannot leave a loop."""

    def leave(self, s: LoweringState, op: Op) -> list[Val]:
        return s.all(op.operands)


YIELD = _Yield()


class ControlFlow:
    """Lowers blocks; ``lower`` takes the ops without regions of control flow."""

    def __init__(self, s: LoweringState, lower: Lower) -> None:
        self.s = s
        self.lower = lower
        self._structured: dict[type[Op], Callable[[Any], None]] = {If: self._if, For: self._for, Loop: self._loop}

    def block(self, block: Block, frame: Continuation = YIELD) -> list[Val]:
        """Lowers ``block``; returns the state of ``frame`` after it."""
        return self._ops(block.ops, 0, frame)

    def _ops(self, ops: Sequence[Op], start: int, frame: Continuation) -> list[Val]:
        s = self.s
        for i in range(start, len(ops)):
            op = ops[i]
            s.w.loc = op.loc
            if op.spec.terminator:
                return frame.leave(s, op)
            if op in s.ordering.barriers:
                s.w.located("gpu.barrier")
            if isinstance(op, If) and has_early_exit(op):
                return self._jumping_if(op, ops, i + 1, frame)
            if type(op) in self._structured:
                self._structured[type(op)](op)
            else:
                self.lower(op)
        raise AssertionError("a block without a terminator")

    # -- if

    def _branches(
        self,
        condition: Val,
        tensor_types: Sequence[TensorType],
        then: Callable[[], Sequence[Val]],
        orelse: Callable[[], Sequence[Val]],
    ) -> list[Val]:
        return self.s.w.if_(self._unknown(condition), tensor_types, then, orelse)

    def _unknown(self, condition: Val) -> Val:
        """``condition``, of which Triton does not know whether it holds, if that is hidden."""
        w = self.s.w
        if not w.hide_divisibility:
            return condition
        bits = w.optimization_barrier(w.convert("arith.extui", condition, "i32"))
        return w.compare("ne", bits, w.like(0, bits))

    def _if(self, op: If) -> None:
        s = self.s
        then, orelse = op.regions
        tensor_types = s.types(op.types)
        results = self._branches(s[op.condition], tensor_types, lambda: self.block(then), lambda: self.block(orelse))
        s.bind_all(op.results, results)

    def _jumping_if(self, op: If, ops: Sequence[Op], rest: int, frame: Continuation) -> list[Val]:
        """An if that may leave ``frame``, and what follows it: the state of ``frame`` after both."""
        s = self.s
        inner = BranchContinuation(frame, tuple(s.types(op.types)))
        tensor_types = [(v.element, v.shape) for v in frame.unchanged(s)]
        then, orelse = op.regions
        jumped, *found = self._branches(
            s[op.condition],
            [("i1", ()), *tensor_types, *inner.tensor_types],
            lambda: self.block(then, inner),
            lambda: self.block(orelse, inner),
        )
        state, values = found[: len(tensor_types)], found[len(tensor_types) :]
        s.bind_all(op.results, values)
        return self._branches(jumped, tensor_types, lambda: state, lambda: self._ops(ops, rest, frame))

    # -- loops

    def _for(self, op: For) -> None:
        s, w = self.s, self.s.w
        count, body = normalized_loop(s, op), op.regions[0]
        given = s.all(op.inits)
        tensor_types = [(v.element, v.shape) for v in given]
        left, results = w.results(tensor_types)
        index = Val(w.name(), count.lower.element)
        args = [Val(w.name(), *t) for t in tensor_types]
        carried = ""
        if given:
            pairs = ", ".join(f"{a.name} = {v.name}" for a, v in zip(args, given))
            carried = f" iter_args({pairs}) -> ({types(given)})"
        upper = w.optimization_barrier(count.upper) if w.hide_divisibility else count.upper
        bounds = f"{count.lower.name} to {upper.name} step {count.step.name}"
        w.line(f"{left}scf.for {index.name} = {bounds}{carried} : {index.element} {{")
        with w.region():
            s.bind(body.args[0], count.value_of(index))
            s.bind_all(body.args[1:], args)
            w.end("scf.yield", self.block(body, ForContinuation(tuple(args))))
        w.loc = op.loc
        w.located("} {tt.num_stages = 1 : i32}" if op in s.ordering.unpipelined else "}")
        s.bind_all(op.results, results)

    def _loop(self, op: Loop) -> None:
        """Repeats until a break: a while whose condition comes after the body."""
        s, body = self.s, op.regions[0]
        inits, results = s.all(op.operands), s.types(op.types)

        def repeated(carried: list[Val]) -> tuple[Val, list[Val]]:
            s.bind_all(body.args, carried)
            goes_on, *state = self.block(body, LoopContinuation(tuple(carried), tuple(results)))
            return self._unknown(goes_on), state

        s.bind_all(op.results, s.w.while_(inits, results, repeated)[len(inits) :])


# -- induction variables


@dataclass(frozen=True)
class NormalizedLoop:
    """``scf.for`` from ``lower`` to ``upper`` by ``step``; ``value_of`` makes the induction variable of its own."""

    lower: Val
    upper: Val
    step: Val
    value_of: Callable[[Val], Val]


def normalized_loop(s: LoweringState, op: For) -> NormalizedLoop:
    """How to count what the ``for`` counts, even at the ends of its dtype."""
    w, dtype = s.w, op.lower.tile.element
    lower, upper, step = (s[v] for v in op.bounds)
    if _stays_inside(s.facts, op, dtype):
        return NormalizedLoop(lower, upper, step, lambda i: i)
    if dtype.bitwidth < 32:
        lower, upper, step = (w.resize(v, 32, signed=dtype.is_signed) for v in (lower, upper, step))
        return NormalizedLoop(lower, upper, step, lambda i: w.resize(i, dtype.bitwidth))
    # The number of iterations; one of 2**63 or more is never reached.
    bits = 32 if max_trip_count(s.facts, op) < 1 << 31 else 64
    steps = w.op("arith.divui", w.op("arith.subi", w.op("arith.subi", upper, lower), w.like(1, lower)), step)
    some = w.compare("slt" if dtype.is_signed else "ult", lower, upper)
    zero, one = w.constant(0, f"i{bits}"), w.constant(1, f"i{bits}")
    count = w.select(some, w.op("arith.addi", w.resize(steps, bits, signed=False), one), zero)

    def value_of(i: Val) -> Val:
        return w.op("arith.addi", lower, w.op("arith.muli", w.resize(i, lower.bits, signed=False), step))

    return NormalizedLoop(zero, count, one, value_of)


def _stays_inside(facts: IntegerRanges, op: For, dtype: DType) -> bool:
    """Whether no bound has the bit of the sign set that has none, and the step after the last one does not wrap."""
    lower, upper, step = (facts.range(v) for v in op.bounds)
    most = (1 << (dtype.bitwidth - 1)) - 1
    return upper[1] + step[1] - 1 <= most and (dtype.is_signed or lower[1] <= most)
