"""What random kernels of rare things load from and store to: arrays of any dtype and order, with gaps and offsets;
views whose tiles overlap, lists, gathers with indices of any width, raw memory."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.kernel_arrays import NumpyArray, storage

Shape = tuple[int, ...]
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
MOVED = ("float8_e4m3fn", "float8_e5m2", "tfloat32")  # without arithmetic
SHAPES: tuple[Shape, ...] = (
    (), (1,), (2,), (8,), (32,), (256,), (1, 1), (1, 16), (16, 1), (2, 8), (16, 16), (32, 64), (64, 8), (128, 4),
    (2, 1, 4), (4, 8, 2), (1, 1, 32), (2, 4, 1, 8), (4, 2, 8, 2), (1, 1, 1, 1),
)  # fmt: skip
_KINDS = (INTEGERS, INTEGERS, FLOATS, FLOATS, (*MOVED[:2], "bool_"), MOVED[:2])  # of dtypes of arrays
_LENGTH = 64  # elements of raw memory


@dataclass(frozen=True)
class Tile:
    """A variable."""

    text: str
    dtype: str
    shape: Shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return self.text


def fits(shape: Shape, to: Shape) -> bool:
    """Whether ``shape`` broadcasts to ``to``."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def line(k: int, shape: Shape) -> str:
    """The numbers of elements along axis ``k`` of a tile."""
    subscript = f"[{', '.join(':' if a == k else 'None' for a in range(len(shape)))}]" if len(shape) > 1 else ""
    return f"ct.arange({shape[k]}, dtype=ct.int32){subscript}"


def numbered(shape: Shape) -> str:
    """The number of each element of a tile."""
    return " + ".join(f"{line(k, shape)} * {math.prod(shape[k + 1 :])}" for k in range(len(shape))) or "0"


class MemoryWriter:
    """Writes lines that load and store; ``pool`` has the tiles that there are so far."""

    def __init__(self, seed: int, kind: str) -> None:
        self.seed = seed
        self.random = random.Random(f"{kind} {seed}")
        self.numbers = np.random.default_rng(seed)
        self.parameters: list[tuple[str, Any]] = []
        self.lines: list[str] = []
        self.pool: list[Tile] = []
        self.named = 0
        self.indent = 1
        self.blocks = self.random.choice((1, 1, 2, 3))

    # Lines

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, letter: str) -> str:
        self.named += 1
        return f"{letter}{self.named}"

    def add(self, text: str, dtype: str, shape: Shape) -> Tile:
        tile = Tile(self.name("v"), dtype, shape)
        self.emit(f"{tile} = {text}")
        self.pool.append(tile)
        return tile

    def some(self, suits: Callable[[Tile], bool]) -> Tile | None:
        """One of the latest tiles that suit."""
        found = [t for t in self.pool if suits(t)]
        return self.random.choice(found[-6:]) if found else None

    def parameter(self, letter: str, value: Any) -> str:
        name = self.name(letter)
        self.parameters.append((name, value))
        return name

    # Arrays

    def array(self, dtype: str, shape: Shape, *, zeros: bool = False) -> NumpyArray:
        """A view of memory of its own."""
        r = self.random
        axes = r.sample(range(len(shape)), len(shape)) if self.chance(0.4) else list(range(len(shape)))
        step = [r.choice((1, 1, 1, 2)) for _ in shape] if self.chance(0.3) else [1] * len(shape)
        gap = [r.choice((0, 0, 1, 3, 16)) for _ in shape] if self.chance(0.5) else [0] * len(shape)
        offset = r.choice((0, 0, 0, 1, 3))
        inner = [shape[a] * step[a] + gap[a] for a in axes]
        flat = self.data(dtype, math.prod(inner) + offset, zeros=zeros)
        whole = flat[offset:].reshape(inner)[tuple(slice(0, shape[a] * step[a], step[a]) for a in axes)]
        return whole.transpose(np.argsort(axes)) if len(shape) > 1 else whole

    def data(self, dtype: str, count: int, *, zeros: bool = False) -> NumpyArray:
        """Small numbers; among integers some at the ends of what the dtype has."""
        if dtype == "bool_":
            return np.zeros(count, bool) if zeros else self.numbers.integers(0, 2, count).astype(bool)
        stored = storage("float32" if dtype == "tfloat32" else dtype)
        if zeros or dtype not in INTEGERS:
            return np.zeros(count, stored) if zeros else self.numbers.integers(-8, 9, count).astype(stored)
        info = np.iinfo(stored)
        low = self.numbers.integers(-8 if info.min else 0, 9, count).astype(stored)
        ends = self.numbers.choice(np.array([info.min, info.max, info.max // 3, info.max - 1], stored), count)
        return np.where(self.numbers.random(count) < 0.7, low, ends).astype(stored)

    def extents(self, shape: Shape, *, whole: bool = False) -> Shape:
        """A tile for each block along the first axis, the last one partial, and a part of one along others."""
        first = self.blocks * shape[0] - (self.random.randrange(shape[0]) if self.chance(0.4) else 0)
        others = shape[1:] if whole else tuple(self.random.choice((n, n, self.random.randint(1, n))) for n in shape[1:])
        return first, *others

    def in_order(self, extents: Shape, order: list[int]) -> Shape:
        """The extents of an array whose axis ``order[k]`` is axis k of tiles."""
        return tuple(extents[order.index(a)] for a in range(len(extents)))

    @staticmethod
    def first(shape: Shape) -> str:
        """The index of the tile of a block."""
        return f"({', '.join(['i', *['0'] * (len(shape) - 1)])},)"

    # Loads

    def load(self) -> None:
        """A new tile."""
        r = self.random
        dtype, shape = r.choice(r.choice(_KINDS)), r.choice(SHAPES)
        kinds = (self.gathered, self.raw) if not shape else (self.gathered, self.raw, self.overlapping, self.listed)
        load = self.tile if self.chance(0.4) else r.choice(kinds)
        load(dtype, shape)

    def padding(self, dtype: str) -> str:
        modes = ("ZERO", "ZERO", "NEG_ZERO") if dtype in FLOATS else ("ZERO",)
        return f", padding_mode=ct.PaddingMode.{self.random.choice(modes)}"

    def tile(self, dtype: str, shape: Shape) -> None:
        if not shape:
            x = self.parameter("x", self.array(dtype, (self.blocks,)))
            self.add(f"ct.load({x}, i, 1).item()" if self.chance(0.5) else f"ct.gather({x}, i)", dtype, ())
            return
        order, options = list(range(len(shape))), self.padding(dtype)
        if len(shape) > 1 and self.chance(0.3):
            self.random.shuffle(order)
            options += f", order={tuple(order)}"
        elif self.chance(0.15):
            options += ", memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE"
        elif self.chance(0.3):
            options += self.random.choice((", allow_tma=True", ", allow_tma=False", ", latency=8"))
        x = self.parameter("x", self.array(dtype, self.in_order(self.extents(shape), order)))
        self.add(f"ct.load({x}, {self.first(shape)}, {shape}{options})", dtype, shape)

    def overlapping(self, dtype: str, shape: Shape) -> None:
        """A view whose tiles begin closer together, or farther apart, than they are long."""
        steps = tuple(self.random.choice((n, max(n // 2, 1), n + 1, 3)) for n in shape)
        extents = tuple(s * (self.blocks - 1) + self.random.randint(1, n) for s, n in zip(steps, shape))
        x = self.parameter("x", self.array(dtype, extents))
        at = ", ".join(self.random.choice(("i", "0")) for _ in shape)
        view = f"{x}.tiled_view({shape}{self.padding(dtype)}, traversal_steps={steps})"
        self.add(f"{view}.load(({at},))", dtype, shape)

    def index(self, shape: Shape, limit: int) -> str:
        """Indices below ``limit``, of which a few may be outside."""
        r = self.random
        ramp = " + ".join(f"{line(k, shape)} * {r.choice((1, 3, 5))}" for k in range(len(shape)))
        text = f"({ramp or '0'} + i) % {limit}"
        dtype = r.choice(("int32", "int64", "uint32", "uint64", "int16", "uint8" if limit < 200 else "int32"))
        if self.chance(0.4) and dtype in SIGNED:
            text = f"({text} - {r.randint(1, 3)})"
        elif self.chance(0.3):
            text = f"({text} + {r.randint(1, 3)})"
        return f"({text}).astype(ct.{dtype})" if dtype != "int32" else text

    def gathered(self, dtype: str, shape: Shape) -> None:
        extents = tuple(self.random.randint(1, 20) for _ in range(self.random.choice((1, 1, 2, 3))))
        x = self.parameter("x", self.array(dtype, extents))
        indices = "".join(f"{self.index(shape, n)}, " for n in extents)
        mask = self.some(lambda t: t.dtype == "bool_" and fits(t.shape, shape))
        options = "" if mask is None else f", mask={mask}"
        if dtype in NUMBERS and self.chance(0.4):
            options += f", padding_value={self.random.choice((0, 1, 5))}"
        self.add(f"ct.gather({x}, ({indices}){options})", dtype, shape)

    def raw(self, dtype: str, shape: Shape) -> None:
        x = self.parameter("x", self.data(dtype, _LENGTH))
        index = f"({self.index(shape, _LENGTH - 4)}) % {_LENGTH}"
        self.add(f"{x}.get_raw_memory().load_offset({index})", dtype, shape)

    def listed(self, dtype: str, shape: Shape) -> None:
        arrays = [self.array(dtype, self.extents(shape)) for _ in range(self.random.randint(1, 3))]
        x = self.parameter("x", arrays)
        which = self.some(lambda t: t.dtype == "int32" and not t.shape)
        number = f"({'i' if which is None else f'i + {which} % 7'}) % {len(arrays)}"
        self.add(f"ct.load({x}[{number}], {self.first(shape)}, {shape}{self.padding(dtype)})", dtype, shape)

    # Stores

    def store(self, tile: Tile) -> None:
        """The tile, in an array of its own: each block has a part."""
        shape, value, dtype = tile.shape, tile.text, tile.dtype
        if dtype == "tfloat32":
            value, dtype = f"{tile}.astype(ct.float32)", "float32"
        if not shape:
            y = self.parameter("y", self.array(dtype, (self.blocks,), zeros=True))
            self.emit(f"ct.{self.random.choice(('scatter', 'store'))}({y}, i, {value})")
            return
        kind = self.random.choice(("store", "store", "order", "view", "scatter", "raw", "released"))
        if kind == "raw":
            y = self.parameter("y", self.data(dtype, self.blocks * tile.size, zeros=True))
            self.emit(f"{y}.get_raw_memory().store_offset({numbered(shape)} + i * {tile.size}, {value})")
            return
        order = list(range(len(shape)))
        if kind == "order":
            self.random.shuffle(order)
        extents = self.in_order(self.extents(shape, whole=True), order)
        y, at = self.parameter("y", self.array(dtype, extents, zeros=True)), self.first(shape)
        if kind == "view":
            self.emit(f"{y}.tiled_view({shape}).store({at}, {value})")
        elif kind == "scatter":
            lines = [line(k, shape) for k in range(len(shape))]
            lines[0] += f" + i * {shape[0]}"
            self.emit(f"ct.scatter({y}, ({', '.join(lines)},), {value})")
        else:
            ordered = ", memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE"
            how = {"order": f", order={tuple(order)}", "released": ordered}.get(kind, "")
            self.emit(f"ct.store({y}, {at}, {value}{how})")
