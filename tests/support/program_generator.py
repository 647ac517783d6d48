"""Random integer programs: functions of control flow that mean the same as tile code and as ordinary Python.

Every variable is assigned before it is used and keeps its type, loops end by themselves, and values stay small.
"""

from __future__ import annotations

import random
from collections.abc import Callable

COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


class ProgramGenerator:
    """``source()`` is the text of helpers ``h0``, ``h1``, ... and of ``program(n, m)``, which returns a tuple of ints."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.variables = ["x", "y"]
        self.counters: list[str] = []  # of the enclosing loops: they can be read
        self.unrolled = False  # whether the innermost loop is, which nothing leaves early
        self.named = 0
        self.helpers: list[str] = []
        self.in_helper = False

    def source(self) -> str:
        lines: list[str] = []
        self.in_helper = True
        for i in range(self.random.randint(0, 2)):
            lines += [f"def h{i}(n, m):", *self.start(), *self.block(1, 0, False), *self.block(1, 1, False)]
            lines.append("    return (x + y) % 101")
            self.helpers.append(f"h{i}")
        self.in_helper = False
        self.variables = ["x", "y", "z"]
        lines += ["def program(n, m):", *self.start(), "    z = 3"]
        for _ in range(3):
            lines += self.block(1, 0, False)
        return "\n".join([*lines, "    return x, y, z", ""])

    def start(self) -> list[str]:
        return [f"    x = {self.random.choice(['n', '2'])}", f"    y = {self.random.choice(['m', '0'])}"]

    # Expressions

    def expression(self, depth: int = 0) -> str:
        choice = self.random.random()
        if depth > 2 or choice < 0.35:
            return self.random.choice([*self.variables, *self.counters, "n", "m"])
        if choice < 0.5:
            return str(self.random.randint(-5, 9))
        x, y = self.expression(depth + 1), self.expression(depth + 1)
        if choice < 0.8:
            return f"({x} {self.random.choice('+-*')} {y})"
        if choice < 0.88:
            return f"({x} {self.random.choice(['//', '%'])} {self.random.randint(2, 7)})"
        if choice < 0.94:
            return f"({x} if {self.condition(depth + 1)} else {y})"
        return f"{self.random.choice(['min', 'max'])}({x}, {y})"

    def condition(self, depth: int = 0) -> str:
        choice = self.random.random()
        if depth > 2 or choice < 0.6:
            return f"{self.expression(depth + 1)} {self.random.choice(COMPARISONS)} {self.expression(depth + 1)}"
        if choice < 0.7:
            return f"{self.expression(2)} < {self.expression(2)} <= {self.expression(2)}"
        if choice < 0.85:
            return f"({self.condition(depth + 1)} {self.random.choice(['and', 'or'])} {self.condition(depth + 1)})"
        if choice < 0.95:
            return f"not ({self.condition(depth + 1)})"
        return self.random.choice(["True", "False"])

    # Statements

    def block(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        return [line for _ in range(self.random.randint(1, 3)) for line in self.statement(indent, depth, in_loop)]

    def statement(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        pad, choice = "    " * indent, self.random.random()
        if depth > 3 or choice < 0.4:
            return [pad + line for line in self.assignment()]
        if choice < 0.62:
            return self.branches(indent, depth, in_loop)
        if choice < 0.74:
            return self.range_loop(indent, depth)
        if choice < 0.8:
            return self.while_loop(indent, depth)
        if choice < 0.84:
            return self.static_loop(indent, depth)
        if in_loop and choice < 0.93:
            jump = self.random.choice(["break", "continue"])
            return [f"{pad}if {self.condition()}: {jump}" if self.random.random() < 0.8 else pad + jump]
        if self.in_helper and not self.unrolled:
            result = f"return {self.expression()} % 101"
            return [f"{pad}if {self.condition()}: {result}" if self.random.random() < 0.85 else pad + result]
        if self.helpers:
            call = f"{self.random.choice(self.helpers)}({self.expression(1)}, {self.expression(1)})"
            return [f"{pad}{self.random.choice(self.variables)} = {call} % 101"]
        return [f"{pad}pass"]

    def assignment(self) -> list[str]:
        name, choice = self.random.choice(self.variables), self.random.random()
        if choice < 0.15:
            return [f"{name} = {self.random.randint(-3, 5)}"]
        if choice < 0.3:
            a, b = self.random.sample(self.variables, 2)
            return [f"{a}, {b} = {b} % 50, {self.expression()} % 50"]
        if choice < 0.45:
            return [f"{name} += {self.random.randint(1, 5)}", f"{name} %= 101"]
        return [f"{name} = {self.expression()} % 101"]

    def branches(self, indent: int, depth: int, in_loop: bool) -> list[str]:
        pad = "    " * indent
        lines = [f"{pad}if {self.condition()}:", *self.block(indent + 1, depth + 1, in_loop)]
        if self.random.random() < 0.25:
            lines += [f"{pad}elif {self.condition()}:", *self.block(indent + 1, depth + 1, in_loop)]
        if self.random.random() < 0.5:
            lines += [f"{pad}else:", *self.block(indent + 1, depth + 1, in_loop)]
        return lines

    def range_loop(self, indent: int, depth: int) -> list[str]:
        e = self.expression(1)
        bounds = self.random.choice((f"{e} % 4", f"1, {e} % 6", f"0, {e} % 7, 2", "3"))
        return self.loop(indent, depth, "i", lambda i: [f"for {i} in range({bounds}):"])

    def while_loop(self, indent: int, depth: int) -> list[str]:
        start, endless = self.expression(1), self.random.random() < 0.5

        def head(w: str) -> list[str]:
            test = "True" if endless else f"{w} > 0"
            return [f"{w} = {start} % 5", f"while {test}:", f"    {w} -= 1", f"    if {w} < -2: break"]

        return self.loop(indent, depth, "w", head)

    def static_loop(self, indent: int, depth: int) -> list[str]:
        items = self.random.choice(("range(2)", "(3,)", "(2, 0, 1)", "()"))
        return self.loop(indent, depth, "s", lambda s: [f"for {s} in ct.static_iter({items}):"], unrolled=True)

    def loop(
        self, indent: int, depth: int, letter: str, head: Callable[[str], list[str]], unrolled: bool = False
    ) -> list[str]:
        counter = f"{letter}{self.named}"
        self.named += 1
        self.counters.append(counter)
        outer, self.unrolled = self.unrolled, unrolled
        lines = ["    " * indent + line for line in head(counter)]
        lines += self.block(indent + 1, depth + 1, not unrolled)
        self.counters.pop()
        self.unrolled = outer
        return lines
