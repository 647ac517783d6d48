"""What ``tilewright inspect --perf`` says of a kernel: its loop nests, their work, their vectors and their spills."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.backends.base import Work
from tilewright.backends.cpu.codegen.kernel import Lowered
from tilewright.backends.cpu.codegen.loop_nests import enclosing_loops
from tilewright.backends.cpu.jit import assemble
from tilewright.backends.cpu.target import Processor
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.arith import operand_dtype
from tilewright.ir.ops.control import For
from tilewright.ir.ops.memory import AssumeBlocked, AssumeBounded, AssumeDivisible, Bid, NumBlocks
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.semantics import constant_array, evaluate

_PASSES_ON = (AssumeDivisible, AssumeBounded, AssumeBlocked, Reshape, Broadcast)
_SAMPLES = 64  # blocks whose loops are counted
_HEADER = ("nest", "line", "elements", "lanes", "vector", "flops", "bytes", "spills", "runs", "fused")
_LINE = "{:>4} {:>5} {:>9} {:>5} {:>7} {:>9} {:>9} {:>6}  {:<16} {}"
_LABEL = re.compile(r"# %(nest\d+)|^\"?(tw\.[\w.]+)\"?:")


def performance(lowered: Lowered, processor: Processor) -> str:
    """A table of loop nests, and the memory that a thread needs."""
    spills = _spills(assemble(lowered.text, processor, verbose=True))
    loops = enclosing_loops(lowered.form)
    lines = [_LINE.format(*_HEADER)]
    for number, nest in enumerate(lowered.nests, 1):
        inside = [f"line {op.loc.line}" for op in loops[nest.block]]
        runs = f"in {', '.join(inside)}" if inside else "once a block"
        bits = f"{nest.vector_bits}b"
        counts = map(_short, (nest.flops, nest.moved))
        cells = [number, nest.op.loc.line, nest.elements, nest.lanes, bits, *counts, spills[nest.label], runs]
        lines.append(_LINE.format(*cells, " ".join(op.name for op in nest.fused) or "copy"))
    named = sum(spills[nest.label] for nest in {nest.label: nest for nest in lowered.nests}.values())
    lines.append(f"\nspills elsewhere: {sum(spills.values()) - named}")
    lines.append(f"peak memory: {lowered.scratch_bytes} bytes of scratch memory for each thread")
    return "\n".join(lines) + "\n"


def _short(n: int) -> str:
    for unit in ("", "K", "M"):
        if n < 10_000:
            return f"{n}{unit}"
        n //= 1000
    return f"{n}G"


def _spills(assembly: str) -> Counter[str]:
    """Registers that are stored to the stack or read back, by the label of the code around."""
    found: Counter[str] = Counter()
    label = ""
    for line in assembly.splitlines():
        named = _LABEL.search(line)
        if named:
            label = named[1] or named[2]
        elif line.startswith(".LBB") or not line.startswith((" ", "\t", "#")):
            label = "" if "# %" in line or not line.startswith(".LBB") else label
        if line.rstrip().endswith((" Spill", " Reload")):
            found[label] += 1
    return found


def total_work(lowered: Lowered, grid: tuple[int, int, int], numbers: Sequence[Any]) -> Work:
    """Flops and bytes of a launch, from the loop counts of some of its blocks.

    ValueError when how often a loop runs depends on more than numbers and the grid.
    """
    nests, form = lowered.nests, lowered.form
    loops = enclosing_loops(form)
    x, y, z = grid
    blocks = x * y * z
    sample = np.unique(np.linspace(0, blocks - 1, min(blocks, _SAMPLES)).astype(int))
    flops = moved = 0.0
    for number in map(int, sample):
        scalars = _Scalars(form, numbers, (number % x, number // x % y, number // (x * y)), grid)
        for nest in nests:
            runs = scalars.runs(loops[nest.block])
            flops += runs * nest.flops
            moved += runs * nest.moved
    return Work(flops * blocks / len(sample), moved * blocks / len(sample))


class _Scalars:
    """Scalars of one block, as far as they follow from the arguments."""

    def __init__(
        self, function: Function, numbers: Sequence[Any], index: tuple[int, int, int], grid: tuple[int, int, int]
    ) -> None:
        self._special: Mapping[type[Op], tuple[int, int, int]] = {Bid: index, NumBlocks: grid}
        self._known: dict[Value, Any] = {}
        for value, number in zip(function.body.args, numbers):
            if not value.tile.is_pointer:
                self._known[value] = constant_array(number, value.tile.dtype, ())

    def runs(self, loops: Sequence[Op]) -> int:
        """How often the body of the innermost of ``loops`` runs."""
        total = 1
        for op in loops:
            if not isinstance(op, For):
                raise ValueError(f"line {op.loc.line}: how often the loop runs is known only when it has run")
            lower, upper, step = (int(self._at(v)) for v in op.bounds)
            total *= max(0, -(-(upper - lower) // step))
        return total

    def _at(self, value: Value) -> Any:
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: Value) -> Any:
        op = value.op
        if op is None or value.tile.size != 1:
            raise ValueError(f"a loop runs as often as a value says that is known only when it has run: {value.type}")
        if isinstance(op, (Bid, NumBlocks)):
            return np.int32(self._special[type(op)][op.axis])
        if isinstance(op, Constant):
            return constant_array(op.value, op.result.tile.element, ())
        if isinstance(op, _PASSES_ON):
            return self._at(op.x)
        if not op.spec.elementwise:
            raise ValueError(f"line {op.loc.line}: a loop runs as often as {op.name} says, which is not known before")
        operands = [self._at(v) for v in op.operands]
        return evaluate(op.name, operand_dtype(op), op.attributes, operands)
