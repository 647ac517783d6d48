"""Random kernels of attention and its gradients: heads, masks, windows, pages and biases, in loops of every form.

Scores are whole numbers, and weights powers of two: so sums are exact in any order. Tensor cores of Hopper keep some 14
bits of a sum of 8-bit floats, for which scores lie closer together.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from support.kernel_arrays import NumpyArray, storage
from support.kernel_generator import GeneratedKernel

_DTYPES = {"float16": 5, "bfloat16": 3, "float8_e4m3fn": 1, "float32": 1}
_MASKS = {"": 3, "causal": 3, "length": 2, "window": 1, "given": 1}
_ZERO = "padding_mode=ct.PaddingMode.ZERO"
_NONE = -1000.0  # the score of a key that is not seen
_TERMS = 3  # of a score: each is -1, 0 or 1
_WIDTHS = (16, 32, 64, 64, 128)


class AttentionGenerator:
    """``make()`` gives the kernel of the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = r = random.Random(f"attention {seed}")
        self.dtype = r.choices(list(_DTYPES), list(_DTYPES.values()))[0]
        self.m, self.n, self.d = r.choice((16, 32, 64, 64, 128)), r.choice((16, 32, 64, 64, 128)), r.choice(_WIDTHS)
        if self.dtype == "float8_e4m3fn":
            self.n, self.d = max(self.n, 32), max(self.d, 32)
        self.blocks, self.steps = r.choice((1, 2, 3)), r.choice((1, 2, 3, 5))
        self.heads, self.group = r.choice((1, 2)), r.choice((1, 1, 2))
        self.mask = r.choices(list(_MASKS), list(_MASKS.values()))[0]
        self.paged, self.shared = self.chance(0.15), self.chance(0.15)
        self.narrow = self.dtype != "float8_e4m3fn" and self.chance(0.1)  # keys are bytes
        self.lines: list[str] = []
        self.indent = 1

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def under(self, head: str) -> Iterator[None]:
        self.emit(head)
        self.indent += 1
        yield
        self.indent -= 1

    def make(self) -> GeneratedKernel:
        kind = self.random.choice(("forward", "forward", "forward", "keys", "queries"))
        values = self.arguments()
        flipped = self.chance(0.2)
        grid = (self.blocks, self.heads * self.group)
        persistent = kind == "forward" and self.chance(0.2)
        if persistent:
            self.emit(f"for t in range(ct.bid(0), {grid[0] * grid[1]}, ct.num_blocks(0)):")
            self.indent += 1
            self.emit(f"i, h = t % {grid[0]}, t // {grid[0]}")
        else:
            self.emit(f"i, h = ct.bid({int(flipped)}), ct.bid({int(not flipped)})")
        self.emit(f"g = h // {self.group}" if self.group > 1 else "g = h")
        if kind == "forward":
            self.forward()
        elif kind == "queries":
            self.of_queries()
        else:
            self.of_keys()
            grid = (self.steps, grid[1])
        options = self.random.choice(("", "", "", "", "(occupancy=1)", "(occupancy=2)", "(num_ctas=2)"))
        head = [f"@ct.kernel{options}", f"def kernel({', '.join(values)}):"]
        source = "\n".join([*head, *self.lines, ""])
        grid = (2, 1) if persistent else grid[::-1] if flipped else grid
        return GeneratedKernel(self.seed, source, grid, list(values.items()))

    def arguments(self) -> dict[str, Any]:
        numbers, stored = np.random.default_rng(self.seed), storage(self.dtype)
        cut = self.chance(0.3)
        queries, keys = (
            count * size - (self.random.choice((0, 1, 5, 8)) if cut else 0)
            for count, size in ((self.blocks, self.m), (self.steps, self.n))
        )
        heads, groups = self.heads * self.group, self.heads

        def some(*shape: int) -> NumpyArray:
            return numbers.integers(-1, 2, shape).astype(np.float32).astype(stored)

        q = np.zeros((heads, queries, self.d), np.float32)
        for _ in range(_TERMS):
            at = numbers.integers(0, self.d, (heads, queries, 1))
            np.put_along_axis(q, at, numbers.integers(-1, 2, at.shape).astype(np.float32), 2)
        k, v, do = some(groups, keys, self.d), some(groups, keys, self.d), some(heads, queries, self.d)
        sums = {name: np.zeros((heads, n, self.d), np.float32) for name, n in (("o", queries), ("dq", queries))}
        return {
            "q": q.astype(stored), "k": k, "bytes": k.astype(np.float32).astype(np.int8), "kt": np.ascontiguousarray(k.swapaxes(1, 2)), "v": v,
            "vt": np.ascontiguousarray(v.swapaxes(1, 2)), "do": do, "bias": numbers.integers(-1, 2, (queries, keys)).astype(np.float32),
            "seen": numbers.integers(0, 2, (queries, keys)).astype(np.int8), "flags": numbers.integers(0, 3, 8).astype(np.int32),
            "pages": numbers.permutation(self.steps).astype(np.int32), "least": numbers.integers(3, 5, (heads, queries)).astype(np.float32),
            "delta": numbers.integers(-2, 3, (heads, queries)).astype(np.float32), **sums, "size_out": np.zeros((heads, queries), np.float32),
            "most_out": np.zeros((heads, queries), np.float32), "narrow": np.zeros((heads, queries, self.d), np.float16),
            "dk": np.zeros((heads, keys, self.d), np.float32), "dv": np.zeros((heads, keys, self.d), np.float32), "length": keys - 2,
        }  # fmt: skip

    # Pieces

    def tile(self, name: str, at: str, rows: int, head: str = "h") -> str:
        return f"ct.load({name}, ({head}, {at}, 0), (1, {rows}, {self.d}), {_ZERO}).reshape(({rows}, {self.d}))"

    def turned(self, name: str, at: str, rows: int) -> str:
        """The transpose of a tile of keys or values."""
        forms = (
            f"ct.transpose({self.tile(name, at, rows, 'g')})",
            f"ct.load({name}t, (g, 0, {at}), (1, {self.d}, {rows}), {_ZERO}).reshape(({self.d}, {rows}))",
            f"ct.load({name}, (g, 0, {at}), (1, {self.d}, {rows}), order=(0, 2, 1), {_ZERO}).reshape(({self.d}, {rows}))",
        )
        return self.random.choice(forms)

    def rows(self, rows: str, keys: str, *, turned: bool = False) -> tuple[str, str]:
        """The numbers of queries and of keys of a tile of scores."""
        of_q = f"({rows} * {self.m} + ct.arange({self.m}, dtype=ct.int32)){'[None, :]' if turned else '[:, None]'}"
        of_k = f"({keys} * {self.n} + ct.arange({self.n}, dtype=ct.int32)){'[:, None]' if turned else '[None, :]'}"
        return of_q, of_k

    def masked(self, rows: str, keys: str, *, turned: bool = False) -> None:
        """Hide scores of ``s``."""
        of_q, of_k = self.rows(rows, keys, turned=turned)
        tests = {"causal": f"{of_q} >= {of_k}", "length": f"{of_k} < length"}
        tests["window"] = f"({of_q} >= {of_k}) & ({of_q} - {of_k} < {self.n + 3})"
        tests["given"] = f"ct.load(seen, ({rows}, {keys}), ({self.m}, {self.n}), {_ZERO}) != 0"
        if self.mask:
            test = tests[self.mask]
            test = f"ct.transpose({test})" if turned and self.mask == "given" else test
            self.emit(f"s = ct.where({test}, s, {_NONE})")

    def scored(self, rows: str, keys: str) -> None:
        """Scores ``s`` of ``x`` with a tile of keys, which may be the values, too."""
        seen = self.turned("k", keys, self.n)
        if self.shared:
            self.emit(f"keys = {self.tile('k', keys, self.n, 'g')}")
            seen = "ct.transpose(keys)"
        elif self.narrow:
            seen = f"ct.transpose({self.tile('bytes', keys, self.n, 'g')}.astype(q.dtype))"
        self.emit(f"s = ct.mma(x, {seen}, ct.zeros(({self.m}, {self.n}), ct.float32))")
        forms = ["", "", "ct.minimum(ct.maximum(s, -2.0), 2.0)"]
        if self.dtype != "float8_e4m3fn":
            forms += ["s * 2", "s + bias"]
        form = self.random.choice(forms)
        if form:
            bias = f"ct.load(bias, ({rows}, {keys}), ({self.m}, {self.n}), {_ZERO})"
            self.emit(f"s = {form.replace('bias', bias)}")

    def loop(self, low: str, high: str, body: Callable[[], None]) -> None:
        """A loop over tiles of keys, whose numbers pages may give."""
        kind = self.random.choice(("for", "for", "for", "while", "skip", "break"))
        if kind == "while":
            self.emit(f"j = {low}")
        with self.under(f"while j < {high}:" if kind == "while" else f"for j in range({low}, {high}):"):
            self.emit("at = ct.load(pages, (j,), ())" if self.paged else "at = j")
            if kind in ("skip", "break"):
                word = "continue" if kind == "skip" else "break"
                self.emit(f"if ct.load(flags, (j,), ()) == {0 if kind == 'skip' else 1}: {word}")
            body()
            if kind == "while":
                self.emit("j += 1")

    def bounds(self) -> list[tuple[str, str, bool]]:
        """Ranges of tiles of keys, and whether they are masked there."""
        whole = self.random.choice((str(self.steps), f"ct.cdiv(k.shape[1], {self.n})"))
        if self.mask != "causal" or self.paged:
            return [("0", whole, bool(self.mask))]
        end = f"min({whole}, ct.cdiv((i + 1) * {self.m}, {self.n}))"
        first = f"min({whole}, i * {self.m} // {self.n})"
        return self.random.choice(([("0", whole, True)], [("0", end, True)], [("0", first, False), (first, end, True)]))

    # Kernels

    def forward(self) -> None:
        m, n, d = self.m, self.n, self.d
        self.emit(f"x = {self.tile('q', 'i', m)}")
        if self.chance(0.15) and self.dtype != "float8_e4m3fn":
            self.emit("x = (-x).astype(q.dtype)")
        column = self.chance(0.7)  # or vectors
        shape, keep = (f"({m}, 1)", ", keepdims=True") if column else (f"({m},)", "")
        spread = "" if column else "[:, None]"
        self.emit(f"total, size = ct.zeros(({m}, {d}), ct.float32), ct.zeros({shape}, ct.float32)")
        self.emit(f"most = ct.full({shape}, {_NONE}, ct.float32)")
        online, second = self.chance(0.8), self.chance(0.3)

        def body(masked: bool) -> None:
            self.scored("i", "at")
            if masked:
                self.masked("i", "at")
            if online:
                self.emit(f"now = ct.maximum(most, ct.max(s, 1{keep}))")
                self.emit(f"p, old = ct.exp2(s - now{spread}), ct.exp2(most - now)")
                self.emit(f"size = size * old + ct.sum(p, 1{keep})")
                self.emit(f"total = total * old{spread}")
                self.emit("most = now")
            else:
                self.emit("p = ct.exp2(s)")
                self.emit(f"size += ct.sum(p, 1{keep})")
            right = self.tile("v", "at", n, "g")
            if self.shared:
                right = "keys"
            elif second:
                right = f"ct.transpose({self.turned('v', 'at', n)})"
            product = f"ct.mma(p.astype(q.dtype), {right}, total)"
            if self.chance(0.15):
                product = f"total + {product.replace(', total)', f', ct.zeros(({m}, {d}), ct.float32))')}"
            self.emit(f"total = {product}")

        for low, high, masked in self.bounds():
            self.loop(low, high, partial(body, masked))
        self.emit(f"ct.store(o, (h, i, 0), total.reshape((1, {m}, {d})))")
        self.emit(f"ct.store(size_out, (h, i), size.reshape((1, {m})))")
        self.emit(f"ct.store(most_out, (h, i), most.reshape((1, {m})))")
        if self.chance(0.5):
            self.emit(f"ct.store(narrow, (h, i, 0), (total * 0.5).reshape((1, {m}, {d})).astype(narrow.dtype))")

    def weights(self, *, turned: bool) -> None:
        """Weights ``p`` and their gradients ``ds`` of ``x`` and ``y``, queries and gradients, with keys and values."""
        m, n = self.m, self.n
        shape, place = (f"({n}, {m})", "(1, {})") if turned else (f"({m}, {n})", "({}, 1)")
        vector = f"(1, {m})).reshape({place.format(m)})"
        zeros = f"ct.zeros({shape}, ct.float32)"
        pairs = [("s", "x", "keys"), ("dp", "y", "values")]
        for name, left, right in pairs:
            product = f"ct.mma({right}, ct.transpose({left})" if turned else f"ct.mma({left}, ct.transpose({right})"
            self.emit(f"{name} = {product}, {zeros})")
        self.masked("r", "at", turned=turned)
        self.emit(f"p = ct.exp2(s - ct.load(least, (h, r), {vector})")
        self.emit(f"ds = p * (dp - ct.load(delta, (h, r), {vector})")

    def of_queries(self) -> None:
        m, d = self.m, self.d
        self.emit("r = i")
        self.emit(f"x, y = {self.tile('q', 'i', m)}, {self.tile('do', 'i', m)}")
        self.emit(f"total = ct.zeros(({m}, {d}), ct.float32)")

        def body() -> None:
            self.emit(f"keys, values = {self.tile('k', 'at', self.n, 'g')}, {self.tile('v', 'at', self.n, 'g')}")
            self.weights(turned=False)
            self.emit("total = ct.mma(ds.astype(q.dtype), keys, total)")

        for low, high, _ in self.bounds():
            self.loop(low, high, body)
        self.emit(f"ct.store(dq, (h, i, 0), total.reshape((1, {m}, {d})))")

    def of_keys(self) -> None:
        n, d = self.n, self.d
        turned, atomic = self.chance(0.6), self.chance(0.3)
        self.emit("at = i")
        self.emit(f"keys, values = {self.tile('k', 'i', n, 'g')}, {self.tile('v', 'i', n, 'g')}")
        self.emit(f"first, second = ct.zeros(({n}, {d}), ct.float32), ct.zeros(({n}, {d}), ct.float32)")
        low = self.random.choice(("0", f"i * {n} // {self.m}")) if self.mask == "causal" else "0"
        with self.under(
            f"for r in range({low}, {self.random.choice((str(self.blocks), f'ct.cdiv(q.shape[1], {self.m})'))}):"
        ):
            self.emit(f"x, y = {self.tile('q', 'r', self.m)}, {self.tile('do', 'r', self.m)}")
            self.weights(turned=turned)
            p, ds = ("p", "ds") if turned else ("ct.transpose(p)", "ct.transpose(ds)")
            self.emit(f"second = ct.mma({p}.astype(q.dtype), y, second)")
            self.emit(f"first = ct.mma({ds}.astype(q.dtype), x, first)")
            if atomic:
                ds = "ct.transpose(ds)" if turned else "ds"
                product = f"ct.mma({ds}.astype(q.dtype), keys, ct.zeros(({self.m}, {d}), ct.float32))"
                view = f"dq.tiled_view((1, {self.m}, {d}))"
                self.emit(f"{view}.atomic_store_add((h, r, 0), {product}.reshape((1, {self.m}, {d})))")
        for name, total in (("dk", "first"), ("dv", "second")):
            self.emit(f"ct.store({name}, (h, i, 0), {total}.reshape((1, {n}, {d})))")
