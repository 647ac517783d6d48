"""What is told of a compiled kernel: its stages, the lines of its code and the work that it does, generated again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends.base import LazyTexts, Work
from tilewright.backends.cpu.codegen.kernel import Lowered, lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.compiled import BLOCK_SYMBOL, CompiledKernel
from tilewright.backends.cpu.compiler import compile_block
from tilewright.backends.cpu.jit import assemble, optimize_module
from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.performance import performance, total_work
from tilewright.backends.cpu.target import host
from tilewright.ir.core import Function
from tilewright.ir.printer import print_function
from tilewright.system.elf import sections, symbols
from tilewright.system.line_table import rows


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
