"""What is told of a compiled kernel: its stages, the lines of its code and the work that it does, generated again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.backends.base import LazyTexts, Work
from tilewright.backends.cpu.codegen.kernel import Lowered, lower
from tilewright.backends.cpu.codegen.loop_nests import enclosing_loops
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.compiled import BLOCK_SYMBOL, CompiledKernel
from tilewright.backends.cpu.compiler import compile_block
from tilewright.backends.cpu.jit import assemble, optimize_module
from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.target import Processor, host
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.arith import operand_dtype
from tilewright.ir.ops.control import For
from tilewright.ir.ops.memory import AssumeBlocked, AssumeBounded, AssumeDivisible, Bid, NumBlocks
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.printer import print_function
from tilewright.ir.semantics import constant_array, evaluate
from tilewright.system.elf import sections, symbols
from tilewright.system.line_table import rows

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


def source_line(function: Function, offset: int) -> int | None:
    """The line of the source for code of ``function`` that lies ``offset`` bytes behind the beginning of its block, by
    generating it again."""
    parts = sections(compile_block(lower(optimize(function), host(), lines=True), host()))
    address = offset + next(each.value for each in symbols(parts) if each.name == BLOCK_SYMBOL)
    known = [line for at, line in sorted(rows({part.name: part.content for part in parts})) if at <= address]
    return known[-1] if known and known[-1] else None


def lowered(function: Function) -> Lowered:
    """What machine code is made of."""
    return lower(optimize(function), host())


def work(function: Function, grid: tuple[int, int, int], values: Sequence[Any]) -> Work:
    """From the loop nests and how often they run. ValueError when that is not known before."""
    return total_work(lowered(function), grid, values)


def stages(function: Function, compiled: CompiledKernel) -> Mapping[str, str]:
    """Tile IR after the passes, its loop nests, LLVM IR as generated and as optimized, assembly, and sizes."""

    def generated() -> str:
        return lowered(function).text

    def sizes() -> str:
        return (
            f"scratch bytes per thread: {compiled.scratch_bytes}\nmachine code bytes: {compiled.code_bytes}\n"
            f"ignored hints: {', '.join(function.hints) or 'none'}\n"  # a CPU has no use for any
        )

    return LazyTexts(
        {
            "optimized Tile IR": lambda: print_function(optimize(function)),
            "loops": lambda: print_function(loop_form(optimize(function), host())),
            "LLVM IR": generated,
            "optimized LLVM IR": lambda: optimize_module(generated(), host()),
            "assembly": lambda: assemble(generated(), host()),
            "sizes": sizes,
            "performance": lambda: performance(lowered(function), host()),
        }
    )
