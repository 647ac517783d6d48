"""Random kernels that work in place: blocks load and store parts of their own of a matrix and of a vector, in every form
that the language has for the same elements, so that what moves a load or a store too far is seen.

Elements are whole numbers that stay small; a grid may also be of blocks that take several parts, one after the other,
and look at those that they had before.
"""

from __future__ import annotations

import math

import numpy as np
from support.kernel_generator import GeneratedKernel
from support.rare_memory import MemoryWriter, Shape

_SMALL = {
    "int16": "x & 255", "int32": "x & 0x7FFF", "int64": "x & 0x7FFFFFFF", "float32": "ct.where(abs(x) < 4096.0, x, 1.0)",
}  # fmt: skip
_FORMS = ("tile", "tile", "turned", "view", "gathered", "rows", "line", "picked", "raw", "added")
_DEEPEST = 3


class InPlaceGenerator(MemoryWriter):
    """``make()`` gives the kernel of the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "in place")
        r = self.random
        self.dtype = r.choice(("int32", "int32", "int64", "int16", "float32"))
        self.rows, self.columns = r.choice((1, 2, 4, 8, 16)), r.choice((8, 16, 32, 64, 128))
        self.size = self.rows * self.columns
        self.strided, self.straight, self.far = self.chance(0.4), self.chance(0.4), self.chance(0.5)
        self.launched = r.choice((1, 2, 3)) if self.strided else r.choice((1, 2, 3, 4, 7, 9))
        self.blocks = self.launched * r.choice((2, 3, 5)) + r.choice((0, 0, 1)) if self.strided else self.launched

    def make(self) -> GeneratedKernel:
        self.emit("b = b0 = ct.bid(0)")
        self.emit("nb = ct.num_blocks(0)")
        if self.strided:
            if self.chance(0.3):
                self.body(self.random.randint(1, 3), "")
            whole = self.random.choice((self.blocks, f"x.shape[0] // {self.rows}"))
            self.emit(f"for b in range(b0, {whole}, nb):")
            self.indent += 1
            self.emit("pass")
        self.body(self.random.randint(*((2, 9) if self.strided else (4, 14))), "")
        last = [t for t in self.pool if t.size == self.size][-2:]
        for i, tile in enumerate(last):
            self.emit(f"ct.store(out, (b, {i}, 0), ct.reshape({tile}, (1, 1, {self.size})))")
        extents, vector = (self.rows * self.blocks, self.columns), self.size * self.blocks
        pitch = self.random.choice((0, 0, 8))
        x = self.small(extents[0] * (extents[1] + pitch)).reshape(extents[0], -1)[:, : extents[1]]
        self.parameters += [("x", x), ("y", self.small(vector)), ("n", 3)]
        self.parameters.append(("out", np.zeros((self.blocks, 2, self.size), self.dtype)))
        head = ["def small(x):", f"    return {_SMALL[self.dtype]}", "", "@ct.kernel", "def kernel(x, y, n, out):"]
        return GeneratedKernel(self.seed, "\n".join([*head, *self.lines, ""]), (self.launched,), self.parameters)

    def small(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return self.numbers.integers(-9, 9, count).astype(self.dtype)

    # Statements, of which some are in a loop over ``counter``

    def body(self, count: int, counter: str) -> None:
        for _ in range(count):
            if self.chance(0.12) and self.indent < _DEEPEST and not self.straight:
                self.control(counter)
            else:
                self.statement(counter)

    def control(self, counter: str) -> None:
        kept = list(self.pool)
        if self.chance(0.65):
            counter = self.name("k")
            self.emit(f"for {counter} in range({self.random.choice(('2', '3', '5', 'n'))}):")
        else:
            self.emit(f"if {self.element()} > {self.random.randint(-3, 3)}:")
        self.indent += 1
        self.emit("pass")
        self.body(self.random.randint(1, 5), counter)
        self.indent -= 1
        self.pool = kept

    def statement(self, counter: str) -> None:
        kind = self.random.choice(("load", "load", "load", "store", "store", "store", "compute", "combine", "element"))
        some = self.random.choice(self.pool) if self.pool else None
        if kind in ("load", "store"):
            shape, load, store = self.access(self.random.choice(_FORMS), counter)
            if kind == "load":
                self.add(load, self.dtype, shape)
            else:
                self.emit(store.format(self.tile_of(shape)))
        elif some is not None and kind == "compute":
            other = self.tile_of(some.shape)
            products = ("{} * {}", "{} - {}") if self.dtype != "float32" else ()
            form = self.random.choice(
                ("{} + {}", f"ct.where({{0}} > {{1}}, {{0}}, {self.random.randint(-3, 3)})", *products)
            )
            self.add(f"small({form.format(some, other)})", self.dtype, some.shape)
        elif some is not None and kind == "combine":
            axis = self.random.randrange(len(some.shape))
            forms = (
                "ct.cumsum({0}, {1}{2})",
                "{0} + ct.max({0}, {1}, keepdims=True)",
                "{0} - ct.sum({0}, {1}, keepdims=True)",
            )
            reverse = self.random.choice(("", ", reverse=True"))
            self.add(f"small({self.random.choice(forms).format(some, axis, reverse)})", self.dtype, some.shape)
        elif kind == "element":
            name, shape = self.name("e"), (self.part(self.size),)
            self.emit(f"{name} = {self.element()}")
            self.add(f"small({self.tile_of(shape)} + {name})", self.dtype, shape)

    def tile_of(self, shape: Shape) -> str:
        """A tile of this shape: there already, of another shape, or new."""
        same = [t for t in self.pool if t.shape == shape]
        if same and self.chance(0.8):
            return self.random.choice(same).text
        others = [t for t in self.pool if t.size == math.prod(shape) and t.shape != shape]
        if not others or self.chance(0.3):
            return self.add(f"ct.full({shape}, {self.random.randint(-9, 9)}, ct.{self.dtype})", self.dtype, shape).text
        tile = self.random.choice(others)
        turned = len(shape) == 2 and tile.shape == shape[::-1] and self.chance(0.5)
        return self.add(f"ct.transpose({tile})" if turned else f"ct.reshape({tile}, {shape})", self.dtype, shape).text

    # Places

    def block(self) -> str:
        """The number of a block's part: of this iteration, or of one before."""
        if not self.strided:
            return "b"
        return self.random.choice(("b", "b", "b", "b", "b0", "max(b - nb, b0)") if self.far else ("b",) * 9 + ("b0",))

    def element(self) -> str:
        return f"ct.load(y, ({self.block()} * {self.size} + {self.random.randrange(self.size)},), ())"

    def part(self, n: int) -> int:
        return 1 << self.random.randrange(n.bit_length())

    def index(self, count: int, at: str) -> str:
        """The numbers from ``at`` on, in any order."""
        r, ramp = self.random, f"ct.arange({count}, dtype=ct.int32)"
        other = 1 << r.randrange(max(count.bit_length() - 1, 1))
        forms = (
            ramp, f"{count - 1} - {ramp}", f"({ramp} ^ {r.randrange(count)})",
            f"({ramp} * {2 * r.randrange(count) + 1} + {r.randrange(count)}) % {count}",
            f"({ramp} % {other}) * {count // other} + {ramp} // {other}",
        )  # fmt: skip
        return f"{r.choice(forms)} + {at}"

    def access(self, form: str, counter: str) -> tuple[Shape, str, str]:
        """A shape, the text that loads a tile of it, and a format of that which stores one there."""
        block, (m, n) = self.block(), (self.part(self.rows), self.part(self.columns))
        first, second = self.tile_index(self.rows // m, counter), self.tile_index(self.columns // n, counter)
        row, box, at = (
            f"{block} * {self.rows // m} + {first}",
            (m, n),
            f"({block} * {self.rows // m} + {first}, {second})",
        )
        count = self.part(self.size)
        place = f"{block} * {self.size // count} + {self.tile_index(self.size // count, counter)}"
        picked = self.index(count, f"({place}) * {count}")
        rows, columns = self.index(m, f"({row}) * {m}"), self.index(n, f"({second}) * {n}")
        both, mask = f"(({rows})[:, None], ({columns})[None, :])", ""
        if self.chance(0.3):
            mask = f", mask=(ct.arange({n}, dtype=ct.int32) % {self.random.choice((2, 3, 5))} != 0)[None, :]"
        advanced = f"(({rows}), ct.Slice(({second}) * {n}, {n}))"
        if form == "added" and self.dtype in ("int32", "int64"):
            old = f"{self.name('o')} = " if self.chance(0.5) else ""
            kind = self.random.choice(("add", "max", "min"))
            return (count,), f"ct.atomic_{kind}(y, {picked}, {count})", f"{old}ct.atomic_{kind}(y, {picked}, {{}})"
        forms = {
            "tile": (box, f"ct.load(x, {at}, {box})", f"ct.store(x, {at}, {{}})"),
            "turned": (
                box[::-1],
                f"ct.load(x, ({second}, {row}), {box[::-1]}, order='F')",
                f"ct.store(x, ({second}, {row}), {{}}, order='F')",
            ),
            "view": (box, f"x.tiled_view({box}).load({at})", f"x.tiled_view({box}).store({at}, {{}})"),
            "gathered": (box, f"ct.gather(x, {both}{mask})", f"ct.scatter(x, {both}, {{}}{mask})"),
            "rows": (
                box,
                f"ct.load_advanced_indexing(x, {advanced})",
                f"ct.store_advanced_indexing(x, {advanced}, {{}})",
            ),
            "line": ((count,), f"ct.load(y, ({place},), ({count},))", f"ct.store(y, ({place},), {{}})"),
            "raw": (
                (count,),
                f"y.get_raw_memory().load_offset({picked})",
                f"y.get_raw_memory().store_offset({picked}, {{}})",
            ),
        }
        return forms.get(form, ((count,), f"ct.gather(y, {picked})", f"ct.scatter(y, {picked}, {{}})"))

    def tile_index(self, count: int, counter: str) -> str:
        return f"{counter} % {count}" if counter and self.chance(0.6) else str(self.random.randrange(count))
