"""Volatile stores of SIMT kernels, before and after which the lanes of a warp that are there wait for each other.

Much code was written for GPUs whose warps run in step: it reduces in shared memory, through pointers to volatile,
without ``__syncwarp``. So it gets here what it got there. Checked programs do not: CUDA calls that a race.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.frontend.cpp.llvm_instruction import instruction
from tilewright.frontend.cpp.llvm_module import Definition, parts_of, with_functions


def storing(text: str) -> set[str]:
    """The functions of the module ``text`` with such stores."""
    functions = (each for each in parts_of(text).functions.values() if " volatile " in each.text)
    return {each.name for each in functions if _stores(each.text.split("\n"))}


def in_step(text: str, kernels: Collection[str], exchange: str) -> str:
    """The module ``text`` with calls of ``exchange`` around those stores of ``kernels``."""
    call = f"call ptr @{exchange}(i32 0, i64 0, i32 4, ptr @{exchange}, i32 0)"

    def edited(definition: Definition) -> str:
        lines = definition.text.split("\n")
        for number, store in reversed(list(enumerate(_stores(lines)))):
            before, after = (f"  %tw.step{number}.{side} = {call}" for side in ("before", "after"))
            lines[store : store + 1] = [before, lines[store], after]
        return "\n".join(lines)

    return with_functions(text, kernels, edited)


def _stores(lines: Sequence[str]) -> list[int]:
    """The lines of a function with such stores."""
    own = {instruction(line).result for line in lines if " = alloca " in line}  # which no other lane sees
    stores = ((n, instruction(line)) for n, line in enumerate(lines) if " volatile " in line and "store " in line)
    return [n for n, i in stores if i.op == "store" and i.values[1] not in own]
