"""Random kernels in Tile C++, each with its NumPy model: tiles of all integer and basic floating-point types, shapes,
reductions, memory, and nests of loops, branches and jumps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz.model import Array
from fuzz.nodes import Break, Continue, Env, Expr, Stmt

BLOCKS, CELLS = 3, 64  # blocks of the grid, and elements of each array for one block
PREAMBLE = """#include "cuda_tile.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
template <typename T, int... N> using t = ct::tile<T, ct::shape<N...>>;
"""
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_DTYPES = (*_INTEGERS, "float32", "float64")
_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (8,), (16,), (4, 4), (2, 8), (8, 1), (1, 8), (2, 2, 4), (64,), (8, 8))
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_WRAPPING: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "reduce_max": np.max, "reduce_min": np.min}


@dataclass(frozen=True)
class CppProgram:
    """A kernel of a translation unit. ``predict`` gives what its outputs hold after a launch of ``BLOCKS`` blocks."""

    name: str
    source: str
    inputs: tuple[Array, ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # dtype and shape of the tile that a block stores to each
    body: Sequence[Stmt]

    def fresh_outputs(self) -> list[Array]:
        return [np.zeros(BLOCKS * CELLS, dtype) for dtype, _ in self.outputs]

    def predict(self) -> list[Array]:
        found = self.fresh_outputs()
        for b in range(BLOCKS):
            env = Env((b, 0, 0), (BLOCKS, 1, 1), {f"a{i}": a for i, a in enumerate(self.inputs)})
            _run(self.body, env)
            for i, (out, (_, shape)) in enumerate(zip(found, self.outputs)):
                size = int(np.prod(shape))
                out[b * CELLS : b * CELLS + size] = np.reshape(env.variables[f"r{i}"], -1)
        return found


def _run(body: Sequence[Stmt], env: Env) -> None:
    for statement in body:
        statement.run(env)


def cpp_program(seed: int) -> CppProgram:
    return _Generator(seed).program(seed)


def _tile(dtype: str, shape: tuple[int, ...]) -> str:
    return f"t<{', '.join([_c(dtype), *map(str, shape)])}>"


def _c(dtype: str) -> str:
    """The short name of a type, as in the preamble."""
    kind = np.dtype(dtype)
    return f"{kind.kind}{8 * kind.itemsize}"


class _Generator:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.arrays: list[str] = []  # their dtypes
        self.variables: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.scalars = ["b"]  # of type int, and small
        self.names = 0

    # -- programs

    def program(self, seed: int) -> CppProgram:
        self.arrays = [self.dtype() for _ in range(3)]
        inputs = tuple(self.array(d) for d in self.arrays)
        outputs = tuple((self.dtype(), self.r.choice(_SHAPES)) for _ in range(2))
        body = [self.declaration(f"v{i}", self.dtype(), self.r.choice(_SHAPES)) for i in range(3)]
        body += [self.declaration(f"r{i}", *output) for i, output in enumerate(outputs)]
        body += [self.statement(2, False) for _ in range(self.r.randint(2, 5))]
        parameters = [f"{_c(d)} const* a{i}" for i, d in enumerate(self.arrays)]
        parameters += [f"{_c(d)}* o{i}" for i, (d, _) in enumerate(outputs)]
        lines = [f"__tile_global__ void k{seed}({', '.join(parameters)}) {{", "    int const b = int(ct::bid().x);"]
        lines += [f"    {line}" for statement in body for line in statement.lines]
        for i, (_, shape) in enumerate(outputs):
            lines.append(f"    ct::store(o{i} + b * {CELLS} + ct::iota<{_tile('int32', shape)}>(), r{i});")
        return CppProgram(f"k{seed}", "\n".join([*lines, "}"]) + "\n", inputs, outputs, body)

    def array(self, dtype: str) -> Array:
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return np.asarray(self.data.integers(-64, 64, BLOCKS * CELLS) / 8, kind)
        return self.data.integers(0, 256, BLOCKS * CELLS * kind.itemsize, np.uint8).view(kind)

    def dtype(self) -> str:
        return self.r.choice(_DTYPES)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # -- statements

    def declaration(self, name: str, dtype: str, shape: tuple[int, ...]) -> Stmt:
        made = self.assignment(name, self.expression(dtype, shape, 2))
        self.variables[name] = dtype, shape
        return Stmt([f"{_tile(dtype, shape)} {made.lines[0]}"], made.run)

    def assignment(self, name: str, e: Expr) -> Stmt:
        def run(env: Env) -> None:
            env.variables[name] = e.value(env)

        return Stmt([f"{name} = {e.text};"], run)

    def statement(self, depth: int, looped: bool) -> Stmt:
        kinds = ["assign"] * 3 + ["if", "for"] * (depth > 0) + ["jump"] * looped
        kind = self.r.choice(kinds)
        if kind == "if":
            return self.branch(depth, looped)
        if kind == "for":
            return self.loop(depth)
        if kind == "jump":
            return self.jump()
        name = self.r.choice([*self.variables])
        return self.assignment(name, self.expression(*self.variables[name], 3))

    def block(self, depth: int, looped: bool) -> list[Stmt]:
        return [self.statement(depth, looped) for _ in range(self.r.randint(1, 3))]

    def condition(self) -> Expr:
        """A scalar one, which decides about control flow."""
        if self.r.random() < 0.6:
            name, divisor, wanted = self.r.choice(self.scalars), self.r.randint(2, 3), self.r.randint(0, 1)
            text = f"{name} % {divisor} == {wanted}"
            return Expr(text, "bool", (), lambda env: _scalar(env, name) % divisor == wanted)
        e = self.comparison((), 1)
        return Expr(f"bool({e.text})", "bool", (), e.value)

    def branch(self, depth: int, looped: bool) -> Stmt:
        c, then, otherwise = self.condition(), self.block(depth - 1, looped), self.block(depth - 1, looped)
        lines = [f"if ({c.text}) {{", *_indented(then), "} else {", *_indented(otherwise), "}"]
        return Stmt(lines, lambda env: _run(then if bool(c.value(env)) else otherwise, env))

    def loop(self, depth: int) -> Stmt:
        name, count = self.fresh("i"), self.r.randint(1, 3)
        limit, text = (lambda env: count), str(count)
        if self.r.random() < 0.5:
            limit, text = (lambda env: env.bid[0] + count - 1), f"b + {count - 1}"
        self.scalars.append(name)
        body = self.block(depth - 1, True)
        self.scalars.pop()
        head = f"for (int {name} : ct::irange(0, {text})) {{"
        if self.r.random() < 0.5:
            head = f"for (int {name} = 0; {name} < {text}; ++{name}) {{"

        def run(env: Env) -> None:
            for i in range(limit(env)):
                env.variables[name] = i
                try:
                    _run(body, env)
                except Continue:
                    continue
                except Break:
                    break

        return Stmt([head, *_indented(body), "}"], run)

    def jump(self) -> Stmt:
        c, leaves = self.condition(), self.r.random() < 0.5

        def run(env: Env) -> None:
            if bool(c.value(env)):
                raise Break if leaves else Continue

        return Stmt([f"if ({c.text}) {'break' if leaves else 'continue'};"], run)

    # -- expressions

    def expression(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        fits = [n for n, known in self.variables.items() if known == (dtype, shape)]
        if fits and self.r.random() < (0.3 if depth > 0 else 0.7):
            name = self.r.choice(fits)
            return Expr(name, dtype, shape, lambda env: env.variables[name])
        if depth <= 0:
            return self.leaf(dtype, shape)
        makers = [self.binary, self.binary, self.select, self.cast, self.extreme, self.leaf_of_depth, self.reshaped]
        small = bool(np.prod(shape) <= CELLS // 8)
        makers += [self.permuted, self.joined, self.broadcast] * (len(shape) > 0)
        makers += [self.part] * (len(shape) > 0 and small) + [self.reduced] * (1 in shape and small)
        return self.r.choice(makers)(dtype, shape, depth)

    def leaf_of_depth(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        return self.leaf(dtype, shape)

    def leaf(self, dtype: str, shape: tuple[int, ...]) -> Expr:
        size, i = int(np.prod(shape)), self.r.randrange(len(self.arrays))
        found = self.arrays[i]
        if self.r.random() < 0.7 and (found in _INTEGERS or found == dtype):
            loaded = self.load(i, found, shape, size)
            if found == dtype:
                return loaded
            text = f"ct::element_cast<{_c(dtype)}>({loaded.text})"
            return Expr(text, dtype, shape, lambda env: loaded.value(env).astype(dtype))
        if self.r.random() < 0.4:
            name = self.r.choice(self.scalars)
            text = f"ct::full<{_tile(dtype, shape)}>({_c(dtype)}({name}))"
            return Expr(text, dtype, shape, lambda env: np.full(shape, _scalar(env, name), dtype))
        number = self.r.randint(-3, 9) if dtype[0] != "u" else self.r.randint(0, 12)
        text = f"ct::full<{_tile(dtype, shape)}>({_c(dtype)}({number}))"
        return Expr(text, dtype, shape, lambda env: np.full(shape, number, dtype))

    def load(self, i: int, dtype: str, shape: tuple[int, ...], size: int) -> Expr:
        start = self.r.randint(0, CELLS - size)
        index = f"b * {CELLS} + {start} + ct::iota<{_tile('int32', shape)}>()"

        def value(env: Env) -> Array:
            at = env.bid[0] * CELLS + start
            return env.arrays[f"a{i}"][at : at + size].reshape(shape)

        if self.r.random() < 0.3 and shape:
            limit, other = self.r.randint(0, size), self.r.randint(0, 5)
            mask = f"ct::iota<{_tile('int32', shape)}>() < {limit}"
            padding = f"ct::full<{_tile(dtype, shape)}>({_c(dtype)}({other}))"
            inside = np.arange(size).reshape(shape) < limit
            text = f"ct::load_masked(a{i} + ({index}), {mask}, {padding})"
            return Expr(text, dtype, shape, lambda env: np.where(inside, value(env), np.asarray(other, dtype)))
        return Expr(f"ct::load(a{i} + ({index}))", dtype, shape, value)

    def pair(self, dtype: str, shape: tuple[int, ...], depth: int) -> tuple[Expr, Expr]:
        return self.expression(dtype, shape, depth - 1), self.expression(dtype, shape, depth - 1)

    def binary(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        x, y = self.pair(dtype, shape, depth)
        if dtype.startswith("float"):
            op = self.r.choice("+-")
            f = _WRAPPING[op]
            return Expr(f"({x.text} {op} {y.text})", dtype, shape, lambda env: _quiet(f, x.value(env), y.value(env)))
        kind, bits = self.r.random(), np.dtype(dtype).itemsize * 8
        if kind < 0.15:
            op, shift = self.r.choice(("<<", ">>")), self.r.randrange(min(bits, 8))
            g = np.left_shift if op == "<<" else np.right_shift
            text = f"ct::element_cast<{_c(dtype)}>({x.text} {op} {shift})"
            return Expr(text, dtype, shape, lambda env: g(x.value(env), np.asarray(shift, dtype)))
        if kind < 0.3:
            op, divisor = self.r.choice("/%"), self.r.randint(1, 9)
            text = f"ct::element_cast<{_c(dtype)}>({x.text} {op} {_c(dtype)}({divisor}))"
            return Expr(text, dtype, shape, lambda env: _divided(op, x.value(env), divisor))
        op = self.r.choice([*_WRAPPING])
        f = _WRAPPING[op]
        text = f"ct::element_cast<{_c(dtype)}>({x.text} {op} {y.text})"
        return Expr(text, dtype, shape, lambda env: _quiet(f, x.value(env), y.value(env)))

    def comparison(self, shape: tuple[int, ...], depth: int) -> Expr:
        op = self.r.choice([*_COMPARISONS])
        x, y = self.pair(self.dtype(), shape, depth)
        f = _COMPARISONS[op]
        return Expr(f"({x.text} {op} {y.text})", "bool", shape, lambda env: f(x.value(env), y.value(env)))

    def select(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        c, (x, y) = self.comparison(shape, depth - 1), self.pair(dtype, shape, depth)
        text = f"ct::select({c.text}, {x.text}, {y.text})"
        return Expr(text, dtype, shape, lambda env: np.where(c.value(env), x.value(env), y.value(env)))

    def extreme(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        x, y = self.pair(dtype, shape, depth)
        name = self.r.choice(("min", "max"))
        f = np.minimum if name == "min" else np.maximum
        text = f"ct::element_cast<{_c(dtype)}>(ct::{name}({x.text}, {y.text}))"
        return Expr(text, dtype, shape, lambda env: f(x.value(env), y.value(env)))

    def cast(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        """From any type, but not from floats to integers, which cannot hold all of them."""
        sources = [*_INTEGERS] + ["float32", "float64"] * dtype.startswith("float")
        if dtype == "float32":
            sources.remove("float64")
        x = self.expression(self.r.choice(sources), shape, depth - 1)
        text = f"ct::element_cast<{_c(dtype)}>({x.text})"
        return Expr(text, dtype, shape, lambda env: x.value(env).astype(dtype))

    def reshaped(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        size = int(np.prod(shape))
        x = self.expression(dtype, self.r.choice([(size,), *(s for s in _SHAPES if np.prod(s) == size)]), depth - 1)
        return Expr(
            f"ct::reshape({x.text}, {_shape(shape)})", dtype, shape, lambda env: np.reshape(x.value(env), shape)
        )

    def permuted(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        axes = self.r.sample(range(len(shape)), len(shape))
        source = tuple(shape[axes.index(i)] for i in range(len(shape)))
        x = self.expression(dtype, source, depth - 1)
        text = f"ct::permute({x.text}, ct::dimension_map<{', '.join(map(str, axes))}>{{}})"
        return Expr(text, dtype, shape, lambda env: np.transpose(x.value(env), axes))

    def joined(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        axis = self.r.randrange(len(shape))
        if shape[axis] == 1:
            return self.binary(dtype, shape, depth)
        half = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
        x, y = self.pair(dtype, half, depth)
        text = f"ct::cat({x.text}, {y.text}, {axis}_ic)"
        return Expr(text, dtype, shape, lambda env: np.concatenate([x.value(env), y.value(env)], axis))

    def part(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        axis = self.r.randrange(len(shape))
        index = self.r.randrange(2)
        x = self.expression(dtype, (*shape[:axis], shape[axis] * 2, *shape[axis + 1 :]), depth - 1)
        indices = [index if i == axis else 0 for i in range(len(shape))]
        text = f"ct::extract({x.text}, {_shape(shape)}, {', '.join(map(str, indices))})"
        return Expr(text, dtype, shape, lambda env: np.split(x.value(env), 2, axis)[index])

    def broadcast(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        """A scalar, whose type is that of the element, as a tile."""
        x = self.expression(dtype, (), depth - 1)
        text = f"ct::broadcast({x.text}, {_shape(shape)})"
        return Expr(text, dtype, shape, lambda env: np.broadcast_to(x.value(env), shape))

    def reduced(self, dtype: str, shape: tuple[int, ...], depth: int) -> Expr:
        axis = shape.index(1)
        x = self.expression(dtype, (*shape[:axis], self.r.choice((2, 4, 8)), *shape[axis + 1 :]), depth - 1)
        name = self.r.choice([*_REDUCTIONS] if dtype[0] in "iu" else ["reduce_max", "reduce_min"])
        f = _REDUCTIONS[name]
        text = f"ct::element_cast<{_c(dtype)}>(ct::{name}({x.text}, {axis}_ic))"
        return Expr(text, dtype, shape, lambda env: _quiet(f, x.value(env), axis, keepdims=True).astype(dtype))


def _scalar(env: Env, name: str) -> int:
    return env.bid[0] if name == "b" else int(env.variables[name])


def _indented(body: Sequence[Stmt]) -> Iterator[str]:
    for statement in body:
        for line in statement.lines:
            yield f"    {line}"


def _shape(shape: tuple[int, ...]) -> str:
    return f"ct::shape<{', '.join(map(str, shape))}>{{}}"


def _quiet(f: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with np.errstate(all="ignore"):
        return f(*args, **options)


def _divided(op: str, x: Any, divisor: int) -> Any:
    """Division that rounds towards zero, and its remainder."""
    d = np.asarray(divisor, x.dtype)
    remainder = np.fmod(x, d)
    return remainder if op == "%" else (x - remainder) // d
