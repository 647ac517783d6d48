"""Random programs: statements around random expressions, a kernel of a module of its own, and the model of its launch."""

from __future__ import annotations

import contextlib
import itertools
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz import model
from fuzz.expressions import SHAPES, ArrayParameter, Expressions, Shape, cast, random_data
from fuzz.model import ALL, DTYPES, INTEGERS, Array
from fuzz.nodes import Break, Continue, Env, Expr, Level, Return, Stmt, Unmodelled, block, indented

import tilewright as ct


@dataclass
class Output:
    """An array that each block stores its own tile to."""

    name: str
    data: Array
    level: Level


@dataclass
class Accumulator:
    """An array that all blocks update atomically with one operation."""

    name: str
    data: Array
    op: str


_ATOMICS: dict[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass
class Program:
    seed: int
    source: str
    grid: tuple[int, int, int]
    inputs: list[ArrayParameter]
    outputs: list[Output]
    accumulators: list[Accumulator]
    scalars: dict[str, Any]
    run: Callable[[Env], None]

    def kernel(self) -> Any:
        name = f"<random program {self.seed}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"ct": ct, "__name__": f"random_program_{self.seed}"}
        exec(compile(self.source, name, "exec"), namespace)
        return namespace["kernel"]

    def written(self) -> dict[str, Array]:
        """Fresh arrays for what the program writes."""
        return {o.name: o.data.copy() for o in (*self.outputs, *self.accumulators)}

    def arguments(self, written: dict[str, Array]) -> tuple[Any, ...]:
        return (*(a.data for a in self.inputs), *written.values(), *self.scalars.values())

    def launch(self, backend: str | None) -> dict[str, Array]:
        """What a backend leaves in the written arrays."""
        written = self.written()
        ct.launch(None, self.grid, self.kernel(), self.arguments(written), backend=backend)
        return written

    def predict(self) -> dict[str, Array] | None:
        """What the model says, of the outputs that it covers; None where the data left what it can tell."""
        arrays = {a.name: a.data for a in self.inputs}
        arrays |= self.written()
        scalars = {
            n: np.asarray(v).astype(np.int32 if isinstance(v, int) else np.float32) for n, v in self.scalars.items()
        }
        try:
            for z, y, x in itertools.product(*(range(n) for n in reversed(self.grid))):
                with contextlib.suppress(Return):
                    self.run(Env((x, y, z), self.grid, arrays, dict(scalars)))
        except Unmodelled:
            return None
        covered = [o.name for o in self.outputs if o.level == Level.MODELLED] + [a.name for a in self.accumulators]
        return {name: arrays[name] for name in covered}


class ProgramGenerator(Expressions):
    """Makes the program of a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.outputs: list[Output] = []
        self.accumulators: list[Accumulator] = []
        self.helpers: list[tuple[str, list[tuple[str, Shape]], str, Shape, Callable[..., Any]]] = []
        self.helper_lines: list[str] = []
        self.loops: list[bool] = []  # of the loops around a statement: whether it is dynamic

    def make(self) -> Program:
        rng = self.rng
        self.grid = (rng.choice((1, 2, 3, 5)), rng.choice((1, 1, 2)), rng.choice((1, 1, 1, 2)))
        for _ in range(rng.randint(0, 2)):
            name, value = self.fresh("s"), rng.choice((0, 1, 3, -7, 1000, 0.5, -2.0))
            self.scalars[name] = ("int32" if isinstance(value, int) else "float32", value)
            self.scopes[0][name] = self.variable(name, self.scalars[name][0], ())
        for _ in range(rng.randint(0, 2)):
            self.helper()
        body = self.statements(rng.randint(3, 7), 2)
        while len(self.outputs) < 2:
            body.append(self.store())
        run = block(body)
        parameters = [
            *(a.name for a in self.arrays),
            *(o.name for o in self.outputs),
            *(a.name for a in self.accumulators),
            *self.scalars,
        ]
        source = "\n".join(
            [*self.helper_lines, "", "@ct.kernel", f"def kernel({', '.join(parameters)}):", *indented(run.lines), ""]
        )
        scalars = {name: value for name, (_, value) in self.scalars.items()}
        return Program(self.seed, source, self.grid, self.arrays, self.outputs, self.accumulators, scalars, run.run)

    # -- statements

    def variable(self, name: str, dtype: str, shape: Shape, level: Level = Level.MODELLED) -> Expr:
        return Expr(name, dtype, shape, lambda env: env.variables[name], level)

    def statements(self, count: int, depth: int) -> list[Stmt]:
        """Statements of a scope of their own."""
        self.scopes.append({})
        made = []
        for _ in range(count):
            kinds = [self.assign, self.assign, self.update, self.store, self.atomic, self.call, self.unpack]
            if depth > 0:
                kinds += [self.branch, self.branch, self.for_loop, self.while_loop, self.static_loop]
            if self.loops and self.loops[-1]:
                kinds += [self.leave]
            kind = self.rng.choice(kinds)
            statement = (
                kind(depth) if kind in (self.branch, self.for_loop, self.while_loop, self.static_loop) else kind()
            )
            if statement is not None:
                made.append(statement)
            if depth == 2 and self.rng.random() < 0.03:
                made.append(self.early_return())
        self.scopes.pop()
        return made

    def a_type(self) -> tuple[str, Shape]:
        return self.rng.choice(ALL), self.rng.choice(SHAPES)

    def _set(self, name: str, e: Expr) -> Stmt:
        def run(env: Env) -> None:
            env.variables[name] = e.value(env) if e.level == Level.MODELLED else None

        return Stmt([f"{name} = {e.text}"], run)

    def assign(self) -> Stmt:
        dtype, shape = self.a_type()
        e = self.expr(dtype, shape, self.rng.randint(1, 3))
        name = self.fresh("v")
        statement = self._set(name, e)
        self.scopes[-1][name] = self.variable(name, dtype, shape, e.level)
        return statement

    def update(self) -> Stmt | None:
        """Assigns a variable again, with a value of its type; inside a branch or a loop it is carried."""
        known = [e for scope in self.scopes for n, e in scope.items() if n.startswith("v")]
        if not known:
            return None
        old = self.rng.choice(known)
        return self._set(old.text, self.expr(old.dtype, old.shape, 2, old.level))

    def branch(self, depth: int) -> Stmt:
        condition = self.condition(2)
        yes = block(self.statements(self.rng.randint(1, 3), depth - 1))
        no = block(self.statements(self.rng.randint(0, 2), depth - 1))
        lines = [f"if {condition.text}:", *indented(yes.lines)]
        if self.rng.random() < 0.6:
            lines += ["else:", *indented(no.lines)]
        else:
            no = Stmt([], lambda env: None)
        return Stmt(lines, lambda env: (yes if condition.value(env) else no).run(env))

    def _body(self, depth: int, dynamic: bool) -> Stmt:
        self.loops.append(dynamic)
        made = block(self.statements(self.rng.randint(1, 3), depth - 1))
        self.loops.pop()
        return made

    @staticmethod
    def _loop(body: Stmt, values: Callable[[Env], Any], name: str) -> Callable[[Env], None]:
        def run(env: Env) -> None:
            for value in values(env):
                env.variables[name] = value
                try:
                    body.run(env)
                except Break:
                    break
                except Continue:
                    continue

        return run

    def for_loop(self, depth: int) -> Stmt:
        start, step = self.pick(0, 0, 1, -2), self.pick(1, 1, 2, 3)
        bound = self.expr("int32", (), 1, Level.MODELLED)
        fixed = self.pick(0, 1, 2, 4)
        text, stop = self.pick(
            (str(start + fixed), lambda env: start + fixed),
            (f"{start} + ({bound.text} & 3)", lambda env: start + int(bound.value(env) & 3)),
        )
        name = self.fresh("i")
        self.scopes.append({name: self.variable(name, "int32", ())})
        body = self._body(depth, True)
        self.scopes.pop()
        header = (
            f"for {name} in range({start}, {text}, {step}):" if start or step != 1 else f"for {name} in range({text}):"
        )
        run = self._loop(body, lambda env: (np.int32(n) for n in range(start, stop(env), step)), name)
        return Stmt([header, *indented(body.lines)], run)

    def while_loop(self, depth: int) -> Stmt:
        bound = self.expr("int32", (), 1, Level.MODELLED)
        name = self.fresh("n")
        self.scopes.append({name: self.variable(name, "int32", ())})
        body = self._body(depth, True)
        self.scopes.pop()
        lines = [
            f"{name} = ct.int32(0)",
            f"while {name} < ({bound.text} & 3):",
            f"    {name} = {name} + 1",
            *indented(body.lines),
        ]

        def run(env: Env) -> None:
            env.variables[name] = np.int32(0)
            while env.variables[name] < (bound.value(env) & np.int32(3)):
                env.variables[name] = np.int32(env.variables[name] + 1)
                try:
                    body.run(env)
                except Break:
                    break
                except Continue:
                    continue

        return Stmt(lines, run)

    def static_loop(self, depth: int) -> Stmt:
        values = self.pick((0, 1, 2), (2,), (1, 0), ())
        name = self.fresh("k")
        source = f"range({len(values)})" if values == tuple(range(len(values))) else repr(values)
        typed = Expr(f"ct.int32({name})", "int32", (), lambda env: env.variables[name])
        self.scopes.append({name: typed})
        body = self._body(depth, False)
        self.scopes.pop()
        run = self._loop(body, lambda env: (np.int32(n) for n in values), name)
        return Stmt([f"for {name} in ct.static_iter({source}):", *indented(body.lines)], run)

    def leave(self) -> Stmt:
        """Leaves the loop, or the kernel."""
        condition = self.condition(1)
        word, kind = (
            ("return", Return) if self.rng.random() < 0.2 else self.pick(("break", Break), ("continue", Continue))
        )

        def run(env: Env) -> None:
            if condition.value(env):
                raise kind

        return Stmt([f"if {condition.text}:", f"    {word}"], run)

    def early_return(self) -> Stmt:
        condition = self.condition(1)

        def run(env: Env) -> None:
            if condition.value(env):
                raise Return

        return Stmt([f"if {condition.text}:", "    return"], run)

    def unpack(self) -> Stmt:
        """A tuple, and its parts."""
        first, second = (self.expr(*self.a_type(), 2) for _ in range(2))
        whole, a, b = self.fresh("t"), self.fresh("v"), self.fresh("v")
        for name, e in ((a, first), (b, second)):
            self.scopes[-1][name] = self.variable(name, e.dtype, e.shape, e.level)
        lines = [
            f"{whole} = ({first.text}, {second.text})",
            self.pick(f"{a}, {b} = {whole}", f"{a}, {b} = {whole}[0], {whole}[-1]"),
        ]

        def run(env: Env) -> None:
            found = [e.value(env) if e.level == Level.MODELLED else None for e in (first, second)]
            env.variables[a], env.variables[b] = found

        return Stmt(lines, run)

    # -- memory

    def store(self) -> Stmt:
        dtype, shape = self.a_type()
        most = Level.CLOSE if self.rng.random() < 0.3 else Level.EXACT
        e = self.expr(dtype, shape, 3, most)
        target = dtype
        if e.level < Level.CLOSE and self.rng.random() < 0.2:
            target = self.rng.choice([d for d in ALL if model.promoted(dtype, d) == d])
        size = shape or (1,)
        blocks = [self.grid[0] * self.grid[1] * self.grid[2], *([1] * (len(size) - 1))]
        extents = tuple(n * s - (self.rng.randrange(s) if self.rng.random() < 0.5 else 0) for n, s in zip(blocks, size))
        order = (
            tuple(self.rng.sample(range(len(size)), len(size))) if self.rng.random() < 0.3 else tuple(range(len(size)))
        )
        physical = tuple(extents[order.index(k)] for k in range(len(size)))
        name = self.fresh("o")
        self.outputs.append(Output(name, random_data(self.data, target, physical), e.level))
        linear = f"ct.bid(0) + {self.grid[0]} * (ct.bid(1) + {self.grid[1]} * ct.bid(2))"
        index = f"({linear}, {'0, ' * (len(size) - 1)})"
        options = "" if order == tuple(range(len(size))) else f", order={order}"
        lines = [f"ct.store({name}, {index}, {e.text}{options})"]

        def run(env: Env) -> None:
            if e.level == Level.MODELLED:
                x, y, z = env.bid
                place = (x + env.grid[0] * (y + env.grid[1] * z), *([0] * (len(size) - 1)))
                model.put(env.arrays[name], place, cast(np.reshape(e.value(env), size), target), order)

        return Stmt(lines, run)

    def atomic(self) -> Stmt:
        dtype = self.rng.choice(("int32", "int64", "uint32", "uint64"))
        known = [a for a in self.accumulators if a.data.dtype == DTYPES[dtype]]
        if not known or self.rng.random() < 0.3:
            data = random_data(self.data, dtype, (self.rng.randint(1, 40),))
            known = [Accumulator(self.fresh("c"), data, self.rng.choice(list(_ATOMICS)))]
            self.accumulators += known
        target = self.rng.choice(known)
        shape = self.rng.choice(SHAPES)
        shapes = self._operand_shapes(shape, 2)
        index = self._modulo(self.expr(self.rng.choice(INTEGERS), shapes[0], 2, Level.MODELLED), target.data.size)
        value = self.expr(
            dtype, shapes[1] if np.broadcast_shapes(shapes[1], shapes[0]) == shapes[0] else (), 2, Level.MODELLED
        )
        lines = [f"ct.atomic_{target.op}({target.name}, {index.text}, {value.text})"]

        def run(env: Env) -> None:
            at = index.value(env).astype(np.int64)
            _ATOMICS[target.op].at(env.arrays[target.name], at, np.broadcast_to(value.value(env), np.shape(at)))

        return Stmt(lines, run)

    # -- functions

    def helper(self) -> None:
        """A function of the module: statements, and a value on every path."""
        name = self.fresh("f")
        parameters = [(self.fresh("p"), *self.a_type()) for _ in range(self.rng.randint(1, 3))]
        dtype, shape = self.a_type()
        scopes, self.in_helper = self.scopes, True
        self.scopes = [{p: self.variable(p, d, s) for p, d, s in parameters}]
        value = self.expr(dtype, shape, 3)
        early: tuple[Expr, Expr] | None = None
        if self.rng.random() < 0.5:
            early = self.condition(1), self.expr(dtype, shape, 1)
        self.scopes, self.in_helper = scopes, False
        self.helper_lines += ["", f"def {name}({', '.join(p for p, _, _ in parameters)}):"]
        if early is not None:
            self.helper_lines += indented([f"if {early[0].text}:", f"    return {early[1].text}"])
        self.helper_lines += indented([f"return {value.text}"])

        def run(env: Env, *arguments: Any) -> Any:
            inner = Env(env.bid, env.grid, env.arrays, {p: a for (p, _, _), a in zip(parameters, arguments)})
            return (early[1] if early is not None and early[0].value(inner) else value).value(inner)

        self.helpers.append((name, [(d, s) for _, d, s in parameters], dtype, shape, run))

    def call(self) -> Stmt | None:
        if not self.helpers:
            return None
        name, types, dtype, shape, run = self.rng.choice(self.helpers)
        arguments = [self.expr(d, s, 1, Level.MODELLED) for d, s in types]
        text = f"{name}({', '.join(a.text for a in arguments)})"
        return_value = Expr(text, dtype, shape, lambda env: run(env, *(a.value(env) for a in arguments)))
        target = self.fresh("v")
        statement = self._set(target, return_value)
        self.scopes[-1][target] = self.variable(target, dtype, shape)
        return statement


def program(seed: int) -> Program:
    return ProgramGenerator(seed).make()
