"""Random kernels that only multiply: every extent from 1 on, batches, all operand types, layouts, offsets, alignments,
operands that are loaded, gathered or computed.

What comes out is whole numbers whose sums are exact in any order, and integers wrap; ``wanted`` is what NumPy says.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.kernel_arrays import NumpyArray, storage
from support.kernel_generator import GeneratedKernel

Shape = tuple[int, ...]
# Dtypes of the operands and of the sum, and how often.
_DTYPES = {
    "float16 float16 float32": 5, "float16 float16 float16": 2, "bfloat16 bfloat16 float32": 3,
    "float32 float32 float32": 2, "tfloat32 tfloat32 float32": 2, "float64 float64 float64": 3,
    "int8 int8 int32": 4, "uint8 uint8 int32": 1, "float8_e4m3fn float8_e4m3fn float32": 2,
    "float8_e5m2 float8_e5m2 float32": 2,
}  # fmt: skip
_BYTES = ("int8", "uint8")
_ADDRESSES = (0, 16, 32, 64, 128)  # modulo 256, and an element more for some
_MOST_BYTES = 1 << 16  # of the three tiles
_MOST_WORK = 1 << 20  # multiplications of one step of one block
_GATHERED, _COMPUTED = 0.2, 0.15  # how often threads gather an operand, or compute it
_WIDE_SUM, _SUM = 3, 1  # the largest magnitude of an operand: where the sum has many bits, and where it is float16


@dataclass
class ProductKernel(GeneratedKernel):
    """``wanted`` is the result, the array of the parameter ``out`` after a launch."""

    wanted: NumpyArray

    @property
    def out(self) -> NumpyArray:
        found: NumpyArray = dict(self.parameters)["out"]
        return found


class ProductGenerator:
    """``make()`` gives the kernel of the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(f"products {seed}")
        self.numbers = np.random.default_rng(seed)
        self.parameters: list[tuple[str, Any]] = []

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def make(self) -> ProductKernel:
        r = self.random
        left, right, out = r.choices(list(_DTYPES), list(_DTYPES.values()))[0].split()
        if out == "int32" and self.chance(0.2):
            left = r.choice(_BYTES)
            right = left if self.chance(0.5) else r.choice(_BYTES)
        batch, tile = self._tile(left, out)
        m, n, k = tile
        steps = 1 if self.chance(0.3) else r.randint(1, 5)
        counts = r.randint(1, 3), r.randint(1, 3)
        extents = [(count - 1) * size + r.choice((size, size, r.randint(1, size))) for count, size in zip(counts, tile)]
        depth = (steps - 1) * k + r.choice((k, k, r.randint(1, k)))
        batches = batch * r.randint(1, 2) if batch else 0
        lead = (batches,) if batch else ()

        x, x_text = self._operand("x", left, lead, (extents[0], depth), batch, (m, k), ("i", "k"))
        y, y_text = self._operand("y", right, lead, (depth, extents[1]), batch, (k, n), ("k", "j"))
        start, start_text = self._start(out, lead, tuple(extents), batch, (m, n))
        product = _sum(x, y, start, out)
        rounded = r.choice((out, out, "float16")) if out == "float32" and _exact_in_half(product) else out
        made = self._array((*lead, *extents), rounded, 0, 0)
        self.parameters.append(("out", made))

        box = f"({batch}, {m}, {n})" if batch else f"({m}, {n})"
        at = "(b, i, j)" if batch else "(i, j)"
        lines = ["    i, j = ct.bid(0), ct.bid(1)"]
        if batch:
            lines.append("    b = ct.bid(2)")
        lines.append(f"    total = {start_text or f'ct.zeros({box}, ct.{out})'}")
        lines += self._loop(x_text, y_text, out, steps, depth, k)
        cast = f".astype(ct.{rounded})" if rounded != out else ""
        hint = self._hint()
        lines.append(f"    ct.store(out, {at}, total{cast}{hint})")
        names = ", ".join(name for name, _ in self.parameters)
        head = [f"@ct.kernel{self._options()}", f"def kernel({names}):"]
        source = "\n".join([*head, *lines, ""])
        grid = (counts[0], counts[1], batches // batch if batch else 1)
        return ProductKernel(self.seed, source, grid, self.parameters, product.astype(storage(rounded)))

    def _tile(self, dtype: str, out: str) -> tuple[int, Shape]:
        """The batch, 0 for none, and M, N and K of one step."""
        item, sum_item = max(1, storage(_stored(dtype)).itemsize), storage(out).itemsize
        while True:
            batch = self.random.choice((0, 0, 1, 2, 4, 8, 16, 32))
            m, n, k = (self.random.choice((1, 1, 2, 4, 8, 16, 16, 32, 32, 64, 64, 128)) for _ in range(3))
            count = max(batch, 1)
            sizes = count * (item * (m * k + k * n) + sum_item * m * n)
            if sizes <= _MOST_BYTES and count * m * n * k <= _MOST_WORK:
                return batch, (m, n, k)

    def _operand(
        self, name: str, dtype: str, lead: Shape, extents: Shape, batch: int, tile: Shape, at: tuple[str, str]
    ) -> tuple[NumpyArray, str]:
        """An operand's numbers, as a batch of matrices, and the text that loads a tile of it."""
        r = self.random
        stored = _stored(dtype)
        if dtype in ("float16", "bfloat16", "tfloat32") and self.chance(0.15):
            stored = r.choice(("int8", "float32", "float16"))
        low, high = (-_WIDE_SUM, _WIDE_SUM)
        if dtype in _BYTES:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        elif dtype == "float16":
            low, high = -_SUM, _SUM  # the sum may be float16 as well
        turned = self.chance(0.4)
        shape = (*lead, *(extents[::-1] if turned else extents))
        array = self._array(shape, stored, low, high)
        self.parameters.append((name, array))
        numbers = np.swapaxes(array, -1, -2) if turned else array
        place = ("b", *at) if batch else at
        box = (batch, *tile) if batch else tile
        flipped_box, flipped_place = (*box[:-2], box[-1], box[-2]), (*place[:-2], place[-1], place[-2])
        padding = ", padding_mode=ct.PaddingMode.ZERO"
        hint = self._hint()
        if not turned:
            text = f"ct.load({name}, {_tuple(place)}, {_tuple(box)}{padding}{hint})"
        elif self.chance(0.5):
            order = '"F"' if not batch else "(0, 2, 1)"
            text = f"ct.load({name}, {_tuple(place)}, {_tuple(box)}, order={order}{padding}{hint})"
        else:
            text = f"ct.load({name}, {_tuple(flipped_place)}, {_tuple(flipped_box)}{padding}{hint})"
            text = f"ct.transpose({text})" if not batch else f"ct.permute({text}, (0, 2, 1))"
        own = random.Random(f"{name} {self.seed}")  # does not move what else is drawn
        if not batch and own.random() < _GATHERED:
            text = _gathered(name, at, tile, turned)
        if stored != dtype:
            text = f"{text}.astype(ct.{dtype})"
        if dtype in ("float16", "bfloat16") and own.random() < _COMPUTED:
            return own.choice([(-numbers, f"-{text}"), (np.maximum(numbers, 0), f"ct.maximum({text}, 0)")])
        return numbers, text

    def _start(self, out: str, lead: Shape, extents: Shape, batch: int, tile: Shape) -> tuple[Any, str]:
        """The sum before the first step, 0 without a text."""
        if self.chance(0.6):
            return 0, ""
        if out == "int32":
            low, high = self.random.choice(((-(1 << 31), (1 << 31) - 1), ((1 << 31) - 300, (1 << 31) - 1), (-9, 9)))
        else:
            low, high = -4, 4
        array = self._array((*lead, *extents), out, low, high)
        self.parameters.append(("start", array))
        box, at = ((batch, *tile), "(b, i, j)") if batch else (tile, "(i, j)")
        return array, f"ct.load(start, {at}, {_tuple(box)}, padding_mode=ct.PaddingMode.ZERO)"

    def _loop(self, x: str, y: str, out: str, steps: int, depth: int, k: int) -> list[str]:
        if out == "float64" and self.chance(0.2):
            product = "total = total + ct.matmul(x_tile, y_tile)"
        else:
            product = "total = ct.mma(x_tile, y_tile, total)"
        body = [f"x_tile = {x}", f"y_tile = {y}", product]
        if steps == 1 and self.chance(0.5):
            return ["    k = 0", *(f"    {line}" for line in body)]
        if self.chance(0.5):
            self.parameters.append(("depth", depth))
            bound = f"ct.cdiv(depth, {k})"
        else:
            bound = str(steps)
        return [f"    for k in range({bound}):", *(f"        {line}" for line in body)]

    def _array(self, shape: Shape, dtype: str, low: int, high: int) -> NumpyArray:
        """A view of memory of its own: with gaps, steps, reversed axes, axes in another order, at any address."""
        r, item = self.random, storage(dtype).itemsize
        order = list(range(len(shape)))
        if self.chance(0.25):
            r.shuffle(order)
        inner = [shape[axis] for axis in order]
        steps, pitched, starts = [1] * len(inner), list(inner), [0] * len(inner)
        kind = r.random()
        if kind < 0.35:  # rows of whole units of 16 bytes
            unit = max(16 // item, 1)
            pitched[-1] = -(-inner[-1] // unit) * unit + r.choice((0, 0, unit))
        elif kind < 0.6:
            starts = [r.choice((0, 1, 1, 2)) for _ in inner]
            pitched = [n + s + r.choice((0, 1, 2)) for n, s in zip(inner, starts)]
        elif kind < 0.7:
            axis = r.randrange(len(inner))
            steps[axis], pitched[axis] = 2, 2 * inner[axis]
        memory = self._memory(math.prod(pitched), dtype, low, high)
        whole = memory.reshape(pitched)
        part = whole[tuple(slice(s, s + n * step, step) for s, n, step in zip(starts, inner, steps))]
        if self.chance(0.15):
            axis = r.randrange(len(inner))
            part = part[(slice(None),) * axis + (slice(None, None, -1),)]
        return part.transpose(np.argsort(order))

    def _memory(self, count: int, dtype: str, low: int, high: int) -> NumpyArray:
        """Numbers at an address of every alignment."""
        kind = storage(dtype)
        place = self.random.choice(_ADDRESSES) + (kind.itemsize if self.chance(0.25) else 0)
        room = np.zeros(count * kind.itemsize + 1024, np.uint8)
        first = (place - room.ctypes.data) % 256
        found: NumpyArray = room[first : first + count * kind.itemsize].view(kind)
        if dtype in _BYTES or dtype == "int32":
            found[:] = self.numbers.integers(low, high, count, kind, endpoint=True)
        else:
            found[:] = self.numbers.integers(low, high, count, endpoint=True).astype(kind)
        return found

    def _hint(self) -> str:
        return f", allow_tma={self.chance(0.7)}" if self.chance(0.15) else ""

    def _options(self) -> str:
        return f"(num_ctas={self.random.choice((2, 4))})" if self.chance(0.06) else ""


def _tuple(entries: Any) -> str:
    return f"({', '.join(map(str, entries))})"


def _gathered(name: str, at: tuple[str, str], tile: Shape, turned: bool) -> str:
    """The text that gathers an operand by the indices of its elements, also one that lies transposed."""
    (i, j), (m, n) = at, tile
    rows, columns = f"({i} * {m} + ct.arange({m}, dtype=ct.int32))", f"({j} * {n} + ct.arange({n}, dtype=ct.int32))"
    if turned:
        return f"ct.transpose(ct.gather({name}, ({columns}[:, None], {rows}[None, :])))"
    return f"ct.gather({name}, ({rows}[:, None], {columns}[None, :]))"


def _stored(dtype: str) -> str:
    return "float32" if dtype == "tfloat32" else dtype


def _sum(x: NumpyArray, y: NumpyArray, start: Any, out: str) -> NumpyArray:
    """start + x @ y, exactly, as a number of the dtype ``out``."""
    wide = np.dtype(np.int64 if out == "int32" else np.float64)
    total = np.asarray(start).astype(wide) + x.astype(wide) @ y.astype(wide)
    return total.astype(np.int32) if out == "int32" else total


def _exact_in_half(numbers: NumpyArray) -> bool:
    return bool(np.abs(numbers).max(initial=0) <= 2048)
