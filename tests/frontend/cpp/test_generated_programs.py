"""Random programs with loops, jumps and switches: in C++ they do what the same program does in Python."""

from __future__ import annotations

import random
import textwrap
from typing import Any

import numpy as np
from cpp_harness import PREAMBLE, run

from tilewright.frontend.cpp.module import Module

VARIABLES = ("a", "b", "c", "d")
# Each operator in C++ and in Python.
OPERATORS = {
    **{op: (f"int(unsigned({{}}) {op} unsigned({{}}))", f"wrap({{}} {op} {{}})") for op in "+-*"},
    **{op: (f"({{}} {op} {{}})", f"int({{}} {op} {{}})") for op in ("&", "|", "^", "<", ">", "==")},
}


def wrap(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


class Writer:
    """One program in both languages. Blocks are lists of lines, in Python indented."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def expression(self, depth: int) -> tuple[str, str]:
        if depth == 0 or self.random.random() < 0.3:
            leaf = self.random.choice((*VARIABLES, str(self.random.randint(-9, 9))))
            return leaf, leaf
        cpp, python = OPERATORS[self.random.choice((*OPERATORS,))]
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        return cpp.format(x[0], y[0]), python.format(x[1], y[1])

    def block(self, depth: int, looped: bool) -> tuple[str, str]:
        parts = [self.statement(depth, looped) for _ in range(self.random.randint(1, 3))]
        return " ".join(c for c, _ in parts), "\n".join(p for _, p in parts)

    def statement(self, depth: int, looped: bool) -> tuple[str, str]:
        kinds = ["assign", "store", *(["if", "for", "while", "switch"] if depth else []), *(["jump"] if looped else [])]
        return getattr(self, f"_{self.random.choice(kinds)}")(depth, looped)

    def _assign(self, depth: int, looped: bool) -> tuple[str, str]:
        name, (c, p) = self.random.choice(VARIABLES), self.expression(2)
        return f"{name} = {c};", f"{name} = {p}"

    def _store(self, depth: int, looped: bool) -> tuple[str, str]:
        name, (c, p) = self.random.choice(VARIABLES), self.expression(1)
        return f"m[({c}) & 7] = {name}; {name} = m[{name} & 7];", f"m[({p}) & 7] = {name}\n{name} = m[{name} & 7]"

    def _jump(self, depth: int, looped: bool) -> tuple[str, str]:
        word, (c, p) = self.random.choice(("break", "continue")), self.expression(1)
        return f"if (({c}) == 3) {word};", f"if ({p}) == 3: {word}"

    def _if(self, depth: int, looped: bool) -> tuple[str, str]:
        (c, p), then, orelse = self.expression(2), self.block(depth - 1, looped), self.block(depth - 1, looped)
        return (
            f"if ({c}) {{ {then[0]} }} else {{ {orelse[0]} }}",
            f"if {p}:\n{_indented(then[1])}\nelse:\n{_indented(orelse[1])}",
        )

    def _for(self, depth: int, looped: bool) -> tuple[str, str]:
        self.names += 1
        name, count, body = f"i{self.names}", self.random.randint(1, 4), self.block(depth - 1, True)
        return (
            f"for (int {name} = 0; {name} < {count}; ++{name}) {{ {body[0]} }}",
            f"for {name} in range({count}):\n{_indented(body[1])}",
        )

    def _while(self, depth: int, looped: bool) -> tuple[str, str]:
        self.names += 1
        name, count, body = f"n{self.names}", self.random.randint(1, 4), self.block(depth - 1, True)
        return (
            f"{{ int {name} = {count}; while ({name}-- > 0) {{ {body[0]} }} }}",
            f"{name} = {count}\nwhile {name} > 0:\n    {name} -= 1\n{_indented(body[1])}",
        )

    def _switch(self, depth: int, looped: bool) -> tuple[str, str]:
        """Of three cases the second falls into the third."""
        (c, p), bodies = self.expression(1), [self.block(depth - 1, False) for _ in range(3)]
        one, two, three = (b[0] for b in bodies)
        python = [_indented(b[1]) for b in bodies]
        return (
            f"switch (({c}) & 3) {{ case 0: {one} break; case 1: {two} [[fallthrough]]; default: {three} }}",
            f"case = ({p}) & 3\nif case == 0:\n{python[0]}\nelse:\n    if case == 1:\n{_indented(python[1])}\n{python[2]}",
        )


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def test_generated_programs() -> None:
    programs = [Writer(seed).block(3, False) for seed in range(24)]
    first = "int a = p[8], b = p[9], c = 3, d = -5;"
    last = "p[8] = a; p[9] = b; p[10] = c; p[11] = d;"
    sources = [
        f"__tile_global__ void k{i}(int* p) {{ int* m = p; {first} {cpp} {last} }}"
        for i, (cpp, _) in enumerate(programs)
    ]
    kernels = Module(PREAMBLE + "\n".join(sources)).load(*(f"k{i}" for i in range(len(programs))))
    for kernel, (cpp, python) in zip(kernels, programs):
        code = compile(python, "program", "exec")
        for a, b in ((2, 7), (-3, 1)):
            memory = [*range(1, 9), a, b, 0, 0]
            run(kernel, (1,), got := np.array(memory, np.int32))
            state: dict[str, Any] = {"m": memory, "a": a, "b": b, "c": 3, "d": -5, "wrap": wrap}
            exec(code, state)
            memory[8:] = [state[name] for name in VARIABLES]
            np.testing.assert_array_equal(got, memory, err_msg=cpp)
