"""What is told of a compiled kernel: its stages, the lines of its code and the work that it does, generated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.backends.base import Work
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.compiled import BLOCK_SYMBOL, CompiledKernel, Numbered
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
    lowered = lower(optimize(function), host(), lines=True)
    parts = sections(compile_block(lowered, host()))
    address = offset + next(each.value for each in symbols(parts) if each.name == BLOCK_SYMBOL)
    known = [line for at, line in sorted(rows({part.name: part.content for part in parts})) if at <= address]
    return known[-1] if known and known[-1] else None


def numbered(function: Function) -> Numbered:
    """What the machine code of ``function`` knows by numbers."""
    lowered = lower(optimize(function), host())
    return Numbered.of(lowered.sites, lowered.polls)


def work(function: Function, grid: tuple[int, int, int], values: Sequence[Any]) -> Work:
    """From the loop nests and how often they run. ValueError when that is not known before."""
    return total_work(lower(optimize(function), host()), grid, values)


def stages(function: Function, compiled: CompiledKernel) -> Mapping[str, str]:
    """Tile IR after the passes, its loop nests, LLVM IR as generated and as optimized, assembly, and sizes."""

    def generated() -> str:
        return lower(optimize(function), host()).text

    def sizes() -> str:
        return (
            f"scratch bytes per thread: {compiled.scratch_bytes}\nmachine code bytes: {compiled.code_bytes}\n"
            f"ignored hints: {', '.join(function.hints) or 'none'}\n"  # a CPU has no use for any
        )

    return _Stages(
        {
            "optimized Tile IR": lambda: print_function(optimize(function)),
            "loops": lambda: print_function(loop_form(optimize(function), host())),
            "LLVM IR": generated,
            "optimized LLVM IR": lambda: optimize_module(generated(), host()),
            "assembly": lambda: assemble(generated(), host()),
            "sizes": sizes,
            "performance": lambda: performance(lower(optimize(function), host()), host()),
        }
    )


class _Stages(Mapping[str, str]):
    """Texts that are made when they are asked for."""

    def __init__(self, makers: dict[str, Callable[[], str]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> str:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
