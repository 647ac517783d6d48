"""Random kernels with products in loops of every form: several sums of a loop, under conditions, faded, chained, in
loops one after the other, nested, ended by ``break``; operands that lie both ways, and are gathered or computed.

Numbers are -1, 0 and 1, so that sums are exact in any order.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from support.kernel_arrays import NumpyArray, storage
from support.kernel_generator import GeneratedKernel

_DTYPES = {"float16": 4, "bfloat16": 3, "int8": 1, "float8_e4m3fn": 1, "tfloat32": 1, "float32": 1}
_ZERO = "padding_mode=ct.PaddingMode.ZERO"
# Rows, columns and depths of tiles.
_SMALL = (16, 32, 64, 128), (8, 16, 32, 64), (16, 32, 64)
_LARGE = (32, 64, 64, 128, 128, 256), (16, 32, 64, 128, 256), (16, 32, 64, 128)
_OFTEN_SMALL = 0.7


class LoopGenerator:
    """``make()`` gives the kernel of the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = r = random.Random(f"loops {seed}")
        self.dtype = r.choices(list(_DTYPES), list(_DTYPES.values()))[0]
        self.sums = "int32" if self.dtype == "int8" else "float32"
        self.m, self.n, self.k = map(r.choice, _SMALL if self.chance(_OFTEN_SMALL) else _LARGE)
        if self.dtype in ("int8", "float8_e4m3fn"):
            self.k = max(self.k, 32)
        self.grid, self.steps = (r.choice((1, 2, 3)), r.choice((1, 2))), r.choice((1, 2, 3, 4, 7))
        self.lines: list[str] = []
        self.indent, self.named = 1, 0

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def pick(self, choices: dict[str, float]) -> str:
        return self.random.choices(list(choices), list(choices.values()))[0]

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def new(self, text: str) -> str:
        """A new variable."""
        self.named += 1
        self.emit(f"v{self.named} = {text}")
        return f"v{self.named}"

    @contextlib.contextmanager
    def under(self, head: str) -> Iterator[None]:
        self.emit(head)
        self.indent += 1
        yield
        self.indent -= 1

    def make(self) -> GeneratedKernel:
        rows, columns = self.grid
        persistent = self.chance(0.2)
        self.emit("i, j = ct.bid(0), ct.bid(1)")
        if persistent:
            self.emit(f"for t in range(ct.bid(0), {rows * columns}, ct.num_blocks(0)):")
            self.indent += 1
            self.emit(f"i, j = t // {columns}, t % {columns}")
        self.write()
        options = self.random.choice(("", "", "", "(occupancy=2)", "(num_ctas=2)"))
        values = self.arguments()
        head = [f"@ct.kernel{options}", f"def kernel({', '.join(values)}):"]
        source = "\n".join([*head, *self.lines, ""])
        return GeneratedKernel(self.seed, source, (2,) if persistent else self.grid, list(values.items()))

    def arguments(self) -> dict[str, Any]:
        """Matrices, also transposed, several of them, and what is beside them."""
        r, numbers = self.random, np.random.default_rng(self.seed)
        stored = storage("float32" if self.dtype == "tfloat32" else self.dtype)
        cut = self.chance(0.35)
        m, n, k = (
            max(count * size - (r.choice((0, 1, 3, 8, size // 2)) if cut else 0), 1)
            for count, size in zip((*self.grid, self.steps), (self.m, self.n, self.k))
        )
        longer = r.choice((0, 8))

        def some(*shape: int, dtype: Any = stored, low: int = -1, high: int = 1) -> NumpyArray:
            return numbers.integers(low, high, shape, endpoint=True).astype(np.float32).astype(dtype)

        a, b, out = some(m, k + longer)[:, :k], some(k, n), np.int32 if self.dtype == "int8" else np.float32
        return {
            "a": a, "at": np.ascontiguousarray(a.T), "b": b, "bt": np.ascontiguousarray(b.T), "bs": some(2, k, n),
            "square": some(2 * self.n, self.n), "order": numbers.permutation(m).astype(np.int32),
            "flags": np.array([1, 0, 1, numbers.integers(0, 3)], np.int32), "factors": some(m, 1, dtype=np.int32),
            "bias": some(1, n, dtype=np.int32, low=-3, high=2), "o": np.zeros((m, n), out), "ot": np.zeros((n, m), out),
            "each": np.zeros((m, n), out), "narrow": np.zeros((m, n), np.int16 if self.dtype == "int8" else np.float16),
            "count": self.steps,
        }  # fmt: skip

    # The kernel

    def write(self) -> None:
        zeros = f"ct.zeros(({self.m}, {self.n}), ct.{self.sums})"
        starts = (zeros, zeros, zeros, zeros, f"ct.full(({self.m}, {self.n}), 3, ct.{self.sums})")
        sums = [self.new(self.random.choice(starts)) for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        self.loops(sums, zeros)
        total = sums[0]
        for other in sums[1:]:
            self.emit(f"{total} = {total} {self.random.choice('+-')} {other}")
        axis = self.random.choice((0, 1))
        ends = {
            "": 0.55,
            f" + ct.load(bias, (0, j), (1, {self.n}), {_ZERO}).astype({total}.dtype)": 0.2,
            f" - ct.max({total}, axis={axis}, keepdims=True)": 0.15,
            f" - ct.cumsum({total}, {axis})": 0.1,
        }
        self.emit(f"{total} = {total}{self.pick(ends)}")
        stores = {
            f"ct.store(o, (i, j), {total})": 0.6,
            f"ct.store(ot, (j, i), {total}.transpose())": 0.15,
            f"ct.scatter(o, ({self.ramp('i', self.m)}[:, None], {self.ramp('j', self.n)}[None, :]), {total})": 0.15,
            f"ct.store(narrow, (i, j), ct.where(abs({total}) < 256, {total}, 1).astype(narrow.dtype))": 0.1,
        }
        self.emit(self.pick(stores))

    def loops(self, sums: list[str], zeros: str) -> None:
        count = self.random.choice((str(self.steps), f"ct.cdiv(a.shape[1], {self.k})", "count"))
        kind = self.random.choice(("for", "for", "for", "while", "break", "two", "nested"))
        half = max(self.steps // 2, 1)
        if kind == "while":
            self.emit("k = 0")
        heads = {"two": f"for k in range({half}):", "while": f"while k < {count}:"}
        with self.under(heads.get(kind, f"for k in range({count}):")):
            if kind == "break":
                self.emit("if k > 0 and ct.load(flags, (k % 4,), ()) == 2: break")
            self.step(sums, zeros)
            if kind == "while":
                self.emit("k += 1")
            if kind == "nested":
                with self.under("for again in range(2):"):
                    self.step(sums, zeros)
        if kind == "two":
            if self.chance(0.5):
                self.emit(f"{sums[0]} = {sums[0]} + 1")
            with self.under(f"for k in range({half}, {self.steps}):"):
                self.step(sums, zeros)

    def step(self, sums: list[str], zeros: str) -> None:
        """Products with one left operand, or with one each, of which some may be loaded before a branch."""
        left = self.left() if self.chance(0.5) else ""
        for total in sums:
            x, y = left or self.left(), self.right()
            of_16_bits = self.dtype in ("float16", "bfloat16")
            kinds = {"": 0.6, "added": 0.1, "branch": 0.08, "faded": 0.08, "chained": 0.07 * of_16_bits, "stored": 0.07}
            self.product(self.pick(kinds), total, self.seen(x), self.seen(y), zeros)
        if self.chance(0.1):
            self.emit(f"{sums[0]} = ct.maximum({sums[0]}, -50)")

    def product(self, kind: str, total: str, x: str, y: str, zeros: str) -> None:
        product = f"{total} = ct.mma({x}, {y}, {total})"
        if kind == "added":
            self.emit(f"{total} = {total} + ct.mma({x}, {y}, {zeros})")
        elif kind == "branch":
            with self.under("if ct.load(flags, (k % 4,), ()) > 0:"):
                self.emit(product)
        elif kind == "faded":
            factor = f"ct.load(factors, (i, 0), ({self.m}, 1), {_ZERO}).astype({total}.dtype)"
            self.emit(f"{total} = ct.mma({x}, {y}, {total} * {factor})")
        elif kind == "chained":
            first = self.new(f"ct.mma({x}, {y}, {zeros})")
            self.emit(f"{first} = ct.maximum(ct.minimum({first}, 2.0), -2.0).astype(a.dtype)")
            self.emit(f"{total} = ct.mma({first}, ct.load(square, (k % 2, 0), ({self.n}, {self.n})), {total})")
        else:
            self.emit(product)
            if kind == "stored":
                self.emit(f"ct.store(each, (i, j), {total})")

    # Operands

    def seen(self, x: str) -> str:
        return f"ct.astype({x}, ct.tfloat32)" if self.dtype == "tfloat32" else x

    @staticmethod
    def ramp(at: str, size: int) -> str:
        return f"({at} * {size} + ct.arange({size}, dtype=ct.int32))"

    def left(self) -> str:
        m, k = self.m, self.k
        rows = f"ct.gather(order, {self.ramp('i', m)}, padding_value=-1)[:, None]"
        loads = {
            f"ct.load(a, (i, k), ({m}, {k}), {_ZERO})": 0.45,
            f"ct.load(at, (i, k), ({m}, {k}), order='F', {_ZERO})": 0.15,
            f"ct.transpose(ct.load(at, (k, i), ({k}, {m}), {_ZERO}))": 0.1,
            f"ct.gather(a, ({rows}, {self.ramp('k', k)}[None, :]))": 0.15,
            f"a.tiled_view(({m}, {k}), {_ZERO}).load((i, k))": 0.15,
        }
        x = self.new(self.pick(loads))
        computed = {
            x: 0.74,
            f"ct.where({x} > 0, {x}, 0)": 0.12,
            f"({x} + {x})": 0.08,
            f"ct.where((ct.arange({m}, dtype=ct.int32)[:, None] + k) % 3 != 0, {x}, 0)": 0.06,
        }
        return self.computed(x, self.pick(computed))

    def right(self) -> str:
        k, n = self.k, self.n
        loads = {
            f"ct.load(b, (k, j), ({k}, {n}), {_ZERO})": 0.5,
            f"ct.load(bt, (k, j), ({k}, {n}), order='F', {_ZERO})": 0.15,
            f"ct.load(bt, (j, k), ({n}, {k}), {_ZERO}).transpose()": 0.15,
            f"ct.load(bs, (k % 2, k, j), (1, {k}, {n}), {_ZERO}).reshape(({k}, {n}))": 0.1,
            f"ct.gather(b, ({self.ramp('k', k)}[:, None], {self.ramp('j', n)}[None, :]))": 0.1,
        }
        y = self.new(self.pick(loads))
        return self.computed(y, f"(-{y})" if self.chance(0.1) else y)

    def computed(self, x: str, text: str) -> str:
        if text != x and self.dtype != "float8_e4m3fn":
            self.emit(f"{x} = {text}.astype(a.dtype)")
        return x
