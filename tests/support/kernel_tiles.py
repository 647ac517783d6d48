"""Lines of random tile code: tiles of whole numbers whose range is known, so that every backend computes the same bits.

A sum or product is only written where its result fits what the dtype holds exactly; integers may wrap.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

Shape = tuple[int, ...]

# The largest number up to which every whole number is one of the dtype.
EXACT = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}
INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "uint8": (0, (1 << 8) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
}
_WEIGHTS = {"float16": 6, "float32": 6, "bfloat16": 2, "int32": 4, "int8": 1, "uint8": 1, "float64": 0.4, "int64": 0.6}


def span(dtype: str) -> tuple[int, int]:
    """The range of the whole numbers that the dtype has."""
    return INTEGERS[dtype] if dtype in INTEGERS else (-EXACT[dtype], EXACT[dtype])


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of what two tiles of these shapes give; None where they do not fit."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


@dataclass(frozen=True)
class Tile:
    """A variable, or a name for an expression, whose elements lie between ``low`` and ``high``."""

    text: str
    dtype: str
    shape: Shape
    low: int
    high: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Number:
    """An integer of rank 0."""

    text: str
    low: int
    high: int

    def __str__(self) -> str:
        return self.text


class TileWriter:
    """Writes lines; ``pool`` has the tiles that can be used at this place, ``numbers`` the integers, and ``mutable`` the
    variables that can be assigned to, and ``places`` what was loaded or stored."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.indent = 1
        self.named = 0
        self.pool: list[Tile] = []
        self.numbers: list[Number] = []
        self.mutable: list[Tile] = []
        self.places: list[
            tuple[object, Shape, list[str]]
        ] = []  # what was accessed, with the shape of tiles and an index
        self.most_bytes = 1 << 16  # of a tile
        self.tidy = self.chance(0.4)  # few things that keep a compiler from changing the order of loads and stores

    # Lines

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def rarely(self, part: float) -> bool:
        """``chance``, and never in a tidy kernel."""
        return self.random.random() < part and not self.tidy

    def weighted(self, choices: dict[str, float]) -> str:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self, letter: str) -> str:
        self.named += 1
        return f"{letter}{self.named}"

    @contextlib.contextmanager
    def scope(self, head: str) -> Iterator[None]:
        """The block under ``head``: what it defines ends with it."""
        self.emit(head)
        kept, before = (list(self.pool), list(self.numbers), list(self.mutable), list(self.places)), len(self.lines)
        self.indent += 1
        yield
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1
        self.pool, self.numbers, self.mutable, self.places = kept

    def add(self, text: str, dtype: str, shape: Shape, low: int, high: int) -> Tile:
        """A new variable."""
        tile = Tile(self.name("v"), dtype, shape, low, high)
        self.emit(f"{tile} = {text}")
        self.pool.append(tile)
        return tile

    def dtype(self) -> str:
        return self.weighted(_WEIGHTS)

    def recent(self, fits: Callable[[Tile], bool]) -> Tile | None:
        """One of the latest tiles of the pool that fit."""
        found = [t for t in self.pool if fits(t)]
        return self.random.choice(found[-8:]) if found else None

    def number(self) -> Number:
        return self.random.choice(self.numbers)

    # Ranges

    def fit(self, x: Tile, low: int, high: int) -> Tile:
        """An expression of ``x`` between ``low`` and ``high``, a range that has 0."""
        if low <= x.low and x.high <= high:
            return x
        if high - low > 16 and self.chance(0.6):
            low, high = max(low, -self.random.randint(1, 6)), min(high, self.random.randint(2, 8))
        low = max(low, span(x.dtype)[0])
        how = self.random.random()
        if how < 0.35 and high >= 1 and low <= 0:
            modulus = self.random.randint(2, min(high + 1, 1000))
            return Tile(f"({x} % {modulus})", x.dtype, x.shape, 0, modulus - 1)
        if how < 0.5 and x.dtype in INTEGERS and high >= 1 and low <= 0:
            mask = (1 << (min(high, 1 << 20) + 1).bit_length() - 1) - 1
            return Tile(f"({x} & {mask})", x.dtype, x.shape, 0, mask)
        text = x.text
        if x.low < low:
            text = f"ct.maximum({text}, {low})"
        if x.high > high:
            text = f"ct.minimum({text}, {high})"
        return Tile(text, x.dtype, x.shape, max(x.low, low), max(min(x.high, high), low))

    def cast(self, x: Tile, dtype: str) -> Tile:
        """An expression: ``x`` as another dtype, with the same elements, but for integers, which may wrap."""
        if x.dtype == dtype:
            return x
        low, high = span(dtype)
        if x.dtype in EXACT or dtype in EXACT:
            x = self.fit(x, low, high)
        text = f"{x}.astype(ct.{dtype})" if self.chance(0.8) else f"ct.astype({x}, ct.{dtype})"
        if x.low < low or x.high > high:
            return Tile(text, dtype, x.shape, low, high)
        return Tile(text, dtype, x.shape, x.low, x.high)

    def bound(self, text: str, dtype: str, shape: Shape, low: int, high: int) -> Tile:
        """A new variable for a result that wraps where it leaves the range."""
        least, most = span(dtype)
        if low < least or high > most:
            assert dtype in INTEGERS
            low, high = least, most
        return self.add(text, dtype, shape, low, high)

    # Tiles of a given shape

    def fresh(self, shape: Shape, dtype: str) -> Tile:
        """An expression: a tile that no other one is part of."""
        if not shape or self.chance(0.4):
            value = self.random.randint(0 if dtype.startswith("u") else -3, 4)
            text = f"ct.full({shape}, {value}, ct.{dtype})" if self.chance(0.8) else f"ct.zeros({shape}, ct.{dtype})"
            return Tile(text, dtype, shape, min(value, 0), max(value, 0))
        parts = []
        for axis, n in enumerate(shape):
            where = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
            step = self.random.choice((1, 1, 2, 3, 5))
            part = f"ct.arange({n}, dtype=ct.int32)" + (f"[{where}]" if len(shape) > 1 else "")
            parts.append(f"{part} * {step}" if step > 1 else part)
        wide = False  # a loop that counts with an extent of 64 bits has a number of 64 bits
        if self.numbers and self.chance(0.5):
            parts.append(f"{self.number()}")
            wide = True
        modulus = self.random.randint(2, 6)
        text = f"(({' + '.join(parts)}) % {modulus})"
        if wide:
            text = f"{text}.astype(ct.int32)"
        return self.cast(Tile(text, "int32", shape, 0, modulus - 1), dtype)

    def adapt(self, x: Tile, shape: Shape) -> Tile | None:
        """An expression of ``x`` with this shape; None where there is no short one."""
        if x.shape == shape:
            return x
        if not x.shape:
            text = f"ct.full({shape}, {x}, ct.{x.dtype})"
        elif x.shape == shape[::-1] and len(shape) == 2 and self.chance(0.7):
            text = f"ct.transpose({x})" if self.chance(0.5) else f"{x}.transpose()"
        elif x.size == math.prod(shape) and shape:
            text = f"{x}.reshape({shape})" if self.chance(0.5) else f"ct.reshape({x}, {shape})"
        elif len(x.shape) == len(shape) and all(n % m == 0 for n, m in zip(x.shape, shape)):
            index = tuple(self.random.randrange(n // m) for n, m in zip(x.shape, shape))
            text = f"ct.extract({x}, {index}, {shape})"
        elif broadcast(x.shape, shape) == shape:
            text = f"ct.broadcast_to({x}, {shape})"
        else:
            return None
        return replace(x, text=text, shape=shape)

    def value(self, shape: Shape, dtype: str, low: int | None = None, high: int | None = None) -> Tile:
        """An expression of the pool with this shape and dtype, within this range, or that of the dtype."""
        least, most = span(dtype)
        found = None
        if self.pool and not self.chance(0.1):
            same = [t for t in self.pool if t.shape == shape][-6:]
            others = self.random.sample(self.pool, min(4, len(self.pool)))
            for x in [*self.random.sample(same, len(same)), *others]:
                found = self.adapt(x, shape)
                if found is not None:
                    break
        if found is None:
            found = self.fresh(shape, dtype)
        found = self.cast(found, dtype)
        return self.fit(found, least if low is None else low, most if high is None else high)

    def size_fits(self, shape: Sequence[int], dtype: str) -> bool:
        return math.prod(shape) * BYTES[dtype] <= self.most_bytes and math.prod(shape) <= self.most_bytes // 4

    def any_tile(self) -> Tile:
        if self.pool:
            return self.random.choice(self.pool[-10:])
        dtype = self.dtype()
        text = self.fresh((32, 32), dtype)
        return self.add(text.text, dtype, (32, 32), text.low, text.high)

    def partner(self, x: Tile) -> Tile:
        """An expression of the dtype of ``x`` whose shape is or becomes that of ``x``."""
        found = self.recent(lambda t: broadcast(t.shape, x.shape) == x.shape)
        if found is None or self.chance(0.2):
            return self.fit(self.fresh(x.shape, x.dtype), *span(x.dtype))
        return self.cast(found, x.dtype)

    def condition(self, x: Tile) -> str:
        """Of each element of ``x``."""
        y = self.recent(lambda t: t.dtype == x.dtype and broadcast(t.shape, x.shape) == x.shape)
        low, high = max(x.low, -5), min(x.high, 5)
        other = (
            str(y) if y is not None and self.chance(0.5) else str(self.random.randint(min(low, high), max(low, high)))
        )
        return f"{x} {self.random.choice(('<', '<=', '>', '>=', '==', '!='))} {other}"

    # Statements, each of which adds a variable

    def elementwise(self) -> Tile:
        x = self.any_tile()
        how = self.random.random()
        if how < 0.6:
            return self.binary(x, self.partner(x))
        if how < 0.75:
            return self.select(x)
        if how < 0.9:
            return self.unary(x)
        dtype = self.dtype()
        if not self.size_fits(x.shape, dtype):
            dtype = "int8"
        y = self.cast(x, dtype)
        return self.add(y.text, dtype, x.shape, y.low, y.high)

    def binary(self, x: Tile, y: Tile) -> Tile:
        integral = x.dtype in INTEGERS
        kinds = ["+", "-", "*", "min", "max"] + (["&", "|", "^"] if integral else [])
        kind = self.random.choice(kinds)
        low, high = _range(kind, x, y)
        if not integral and max(-low, high) > EXACT[x.dtype]:
            x, y = self.fit(x, -4, 4), self.fit(y, -4, 4)
            low, high = _range(kind, x, y)
        shape = broadcast(x.shape, y.shape)
        assert shape is not None
        text = f"ct.{kind}imum({x}, {y})" if kind in ("min", "max") else f"{x} {kind} {y}"
        return self.bound(text, x.dtype, shape, low, high)

    def unary(self, x: Tile) -> Tile:
        n = self.random.randint(2, 7)
        integral = x.dtype in INTEGERS
        kind = self.random.choice(["-", "abs", "%", "//", *(["<<", ">>", "~"] if integral else ["floor", "sqrt"])])
        if kind == "%":
            return self.add(f"{x} % {n}", x.dtype, x.shape, 0, n - 1)
        if kind == "//":
            return self.add(f"{x} // {n}", x.dtype, x.shape, x.low // n - 1 if x.low < 0 else 0, x.high // n + 1)
        if kind == "-":
            return self.bound(f"-{x}", x.dtype, x.shape, -x.high, -x.low)
        if kind == "abs":
            return self.bound(f"abs({x})", x.dtype, x.shape, 0, max(-x.low, x.high))
        if kind == "<<":
            return self.bound(f"{x} << {n - 2}", x.dtype, x.shape, x.low << n - 2, x.high << n - 2)
        if kind == ">>":
            return self.add(f"{x} >> {n - 1}", x.dtype, x.shape, x.low >> n - 1, x.high >> n - 1)
        if kind == "~":
            return self.bound(f"~{x}", x.dtype, x.shape, ~x.high, ~x.low)
        if kind == "floor":
            return self.add(f"ct.floor({x} / 2)", x.dtype, x.shape, x.low // 2, x.high // 2)
        y = self.fit(x, -8, 8)
        return self.add(f"ct.sqrt({y} * {y})", x.dtype, x.shape, 0, max(-y.low, y.high))

    def select(self, x: Tile) -> Tile:
        y = self.partner(x)
        if self.chance(0.3):
            value = self.random.randint(0, 3)
            y = Tile(str(value), x.dtype, (), value, value)
        a, b = (x, y) if self.chance(0.5) else (y, x)
        text = f"ct.where({self.condition(x)}, {a}, {b})"
        return self.add(text, x.dtype, x.shape, min(x.low, y.low), max(x.high, y.high))

    def reduction(self) -> Tile:
        x = self.recent(lambda t: len(t.shape) >= 1 and t.size > 1)
        if x is None:
            return self.elementwise()
        rank, integral = len(x.shape), x.dtype in INTEGERS
        axis = self.random.choice([*range(rank), *range(rank), None])
        count = x.size if axis is None else x.shape[axis]
        keep = self.chance(0.4)
        kept = (
            tuple(1 for _ in x.shape) if axis is None else tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        )
        shape = kept if keep else () if axis is None else tuple(n for i, n in enumerate(x.shape) if i != axis)
        ends = f", axis={axis}{', keepdims=True' if keep else ''})"
        kind = self.random.choice(
            ["sum", "sum", "max", "min", "argmax", "argmin", "own", *(["prod"] if integral else [])]
        )
        if kind == "own" and axis is not None:
            fold = self.random.choice(("ct.maximum(a, b)", "ct.where(a > b, a, b)"))
            return self.add(
                f"ct.reduce({x}, {axis}, lambda a, b: {fold}, {x.low}{', keepdims=True' if keep else ''})",
                *(x.dtype, shape, x.low, x.high),
            )
        if kind in ("argmax", "argmin"):
            return self.add(f"ct.{kind}({x}{ends}", "int32", shape, 0, count - 1)
        if kind == "prod":
            return self.add(f"ct.prod({x}{ends}", x.dtype, shape, *span(x.dtype))
        if kind == "sum":
            x = self.summable(x, count)
            return self.bound(f"ct.sum({x}{ends}", x.dtype, shape, min(x.low * count, 0), max(x.high * count, 0))
        return self.add(f"ct.{'min' if kind == 'min' else 'max'}({x}{ends}", x.dtype, shape, x.low, x.high)

    def summable(self, x: Tile, count: int) -> Tile:
        """An expression of ``x`` of which ``count`` elements can be added."""
        if x.dtype in INTEGERS:
            return x
        most = EXACT[x.dtype] // count
        if most < 1:
            x = self.cast(x, "float32")
            most = EXACT["float32"] // count
        return self.fit(x, -most, most)

    def scan(self) -> Tile:
        x = self.recent(lambda t: len(t.shape) >= 1 and 1 < t.size <= 4096)
        if x is None:
            return self.elementwise()
        axis = self.random.randrange(len(x.shape))
        reverse = ", reverse=True" if self.chance(0.4) else ""
        if self.chance(0.3):
            text = f"ct.scan({x}, {axis}, lambda a, b: ct.maximum(a, b), {x.low}{reverse})"
            return self.add(text, x.dtype, x.shape, x.low, x.high)
        count = x.shape[axis]
        x = self.summable(x, count)
        low, high = min(x.low, x.low * count), max(x.high, x.high * count)
        return self.bound(f"ct.cumsum({x}, axis={axis}{reverse})", x.dtype, x.shape, low, high)

    def reshaped(self) -> Tile:
        x = self.any_tile()
        rank = len(x.shape)
        kind = self.random.choice(("permute", "reshape", "cat", "extract", "insert", "expand"))
        if rank == 0 or x.size < 2:
            return self.elementwise()
        if kind == "permute" and rank > 1:
            axes = tuple(self.random.sample(range(rank), rank))
            return self.add(f"ct.permute({x}, {axes})", x.dtype, tuple(x.shape[a] for a in axes), x.low, x.high)
        if kind == "cat" and self.size_fits((x.size, 2), x.dtype):
            y, axis = self.value(x.shape, x.dtype), self.random.randrange(rank)
            shape = tuple(2 * n if i == axis else n for i, n in enumerate(x.shape))
            return self.add(f"ct.cat(({x}, {y}), {axis})", x.dtype, shape, min(x.low, y.low), max(x.high, y.high))
        if kind in ("extract", "insert"):
            shape = tuple(self.random.choice((n, max(n // 2, 1))) for n in x.shape)
            index = tuple(self.random.randrange(n // m) for n, m in zip(x.shape, shape))
            if kind == "extract":
                return self.add(f"{x}.extract({index}, {shape})", x.dtype, shape, x.low, x.high)
            y = self.value(shape, x.dtype)
            return self.add(f"ct.insert({x}, {index}, {y})", x.dtype, x.shape, min(x.low, y.low), max(x.high, y.high))
        if kind == "expand" and rank < 3:
            axis = self.random.randrange(rank + 1)
            shape = (*x.shape[:axis], 1, *x.shape[axis:])
            return self.add(f"ct.expand_dims({x}, {axis})", x.dtype, shape, x.low, x.high)
        first = self.random.choice([n for n in (1, 2, 4, 8, 16, 32, 64) if x.size % n == 0])
        shape = (first, x.size // first)
        return self.add(f"{x}.reshape({shape})", x.dtype, shape, x.low, x.high)


def _range(kind: str, x: Tile, y: Tile) -> tuple[int, int]:
    """Where results of an operation lie."""
    if kind == "+":
        return x.low + y.low, x.high + y.high
    if kind == "-":
        return x.low - y.high, x.high - y.low
    if kind == "*":
        corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
        return min(corners), max(corners)
    if kind == "min":
        return min(x.low, y.low), min(x.high, y.high)
    if kind == "max":
        return max(x.low, y.low), max(x.high, y.high)
    bits = max(v.bit_length() for v in (x.low, x.high, y.low, y.high))
    return (-(1 << bits) if min(x.low, y.low) < 0 else 0), (1 << bits) - 1
