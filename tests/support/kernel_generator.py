"""Random whole kernels in the Python tile language: source, grid and arguments, whose results no backend may differ in.

Every block writes only what no other block reads or writes, but for atomics in which the order does not matter; numbers
are whole, and no sum leaves the range in which its dtype is exact; nothing that the language leaves undefined is done.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

from support.kernel_products import ProductWriter
from support.kernel_tiles import Number

import tilewright as ct

_HEIGHTS = (16, 32, 64, 64, 64, 128)
_WIDTHS = (16, 32, 64, 64, 128)
_LARGE = ((128, 256), (256, 128), (256, 256))  # whose products are divided among blocks, or just have room
_STATEMENTS = {
    "elementwise": 4, "load_input": 4, "gather_input": 1, "reduction": 2, "scan": 0.7, "reshaped": 1.5, "traffic": 7,
    "atomic": 0.7, "call": 0.6, "measured": 0.6, "whole": 0.5, "passed": 0.4,
}  # fmt: skip
_NESTED = {
    "branch": 1.2,
    "counted": 2,
    "waiting": 0.8,
    "stream": 2,
    "sweep": 1.5,
    "product": 3,
    "bare": 0.4,
    "chain": 0.7,
}
_MOST_DEPTH = 3


@dataclass
class GeneratedKernel:
    """``parameters`` are names with arrays, lists of arrays and integers."""

    seed: int
    source: str
    grid: tuple[int, ...]
    parameters: list[tuple[str, Any]]

    def kernel(self) -> Any:
        """The kernel, anew."""
        filename = f"<kernel {self.seed}>"
        linecache.cache[filename] = (len(self.source), None, self.source.splitlines(True), filename)
        namespace: dict[str, Any] = {"ct": ct}
        exec(compile(self.source, filename, "exec"), namespace)
        return namespace["kernel"]

    def __str__(self) -> str:
        """What repeats a failure."""
        lines = [f"# seed {self.seed}, grid {self.grid}"]
        for name, value in self.parameters:
            arrays = value if isinstance(value, list) else [value]
            for i, a in enumerate(arrays):
                place = f"{name}[{i}]" if isinstance(value, list) else name
                if isinstance(a, int):
                    lines.append(f"# {name} = {a}")
                else:
                    address = a.ctypes.data % 256
                    lines.append(f"# {place}: {a.dtype} {a.shape}, strides {a.strides}, at {address} mod 256")
        return "\n".join([*lines, self.source])


class KernelGenerator(ProductWriter):
    """``make()`` gives the kernel of the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.tile = self.random.choice(_HEIGHTS), self.random.choice(_WIDTHS)
        if self.tile == (128, 128):
            self.tile = (128, 64)
        if self.tidy and self.chance(0.06):
            self.tile, self.most_bytes = self.random.choice(_LARGE), 1 << 18
        self.tiles = self.random.randint(1, 3), self.random.randint(1, 3)
        self.counts["unit"] = self.tiles[0] * self.tiles[1]
        self.mapping = self.random.random(), self.random.randint(1, 3)

    def make(self) -> GeneratedKernel:
        grid = getattr(self, self.weighted({"persistent": 4, "single": 2, "square": 2, "strip": 1.5}))()
        constants = [n for n, v in self.parameters if isinstance(v, int) and self.chance(0.25)]
        wide = [n for n, v in self.parameters if not isinstance(v, int | list) and self.chance(0.03)]
        names = [
            f"{n}: ct.Constant[int]" if n in constants else f"{n}: ct.IndexedWithInt64" if n in wide else n
            for n, _ in self.parameters
        ]
        head = [f"@ct.kernel{self.options()}", f"def kernel({', '.join(names)}):"]
        source = "\n".join([*self.helpers, *head, *self.lines, ""])
        return GeneratedKernel(self.seed, source, grid, self.parameters)

    def options(self) -> str:
        options = []
        if self.chance(0.15):
            options.append(f"num_ctas={self.random.choice((2, 2, 4))}")
        if self.chance(0.15):
            options.append(f"occupancy={self.random.randint(1, 4)}")
        if self.chance(0.1):
            options.append(f"num_worker_warps={self.random.choice((4, 8))}")
        return f"({', '.join(options)})" if options else ""

    def statement(self) -> None:
        """One or more lines, of which some may be loops."""
        if self.left <= 0:
            return
        self.left -= 1
        choices = dict(_STATEMENTS)
        if self.depth < _MOST_DEPTH:
            choices |= _NESTED
        if self.mutable:
            choices["assign"] = 1.5
        getattr(self, self.weighted(choices))()

    # How blocks divide the work

    def begin(self, grid: tuple[int, ...]) -> None:
        """Before the units of a block: what it loads here is used in all of them."""
        text = "ct.bid(0)"
        count = grid[0]
        if len(grid) > 1:
            text, count = "ct.bid(0) * ct.num_blocks(1) + ct.bid(1)", grid[0] * grid[1]
        block = Number("block", 0, count - 1)
        self.emit(f"{block} = {text}")
        self.numbers.append(block)
        self.numbers.append(self.given(self.random.randint(0, 5)))
        self.owners["block"], self.counts["block"] = block.text, count

    def before(self) -> None:
        for _ in range(0 if self.tidy else self.random.choice((0, 0, 1, 2))):
            self.statement()
        if self.rarely(0.3):
            self.carry()

    def unit(self, unit: str, row: str, column: str) -> None:
        """The work on a tile of the result."""
        self.owners["unit"], self.place = unit, (row, column)
        rows, columns = self.tiles
        self.numbers += [Number(unit, 0, rows * columns - 1), Number(row, 0, rows - 1), Number(column, 0, columns - 1)]
        first = self.weighted(
            {"product": 4, "side_by_side": 1.5, "bare": 1, "chain": 1.5, "stream": 1.5, "": 0 if self.tidy else 4}
        )
        if first:
            getattr(self, first)()
        for _ in range(self.random.randint(1, 5)):
            self.statement()
        if not (self.tidy and first in ("product", "side_by_side", "bare", "chain")):
            self.kept()
        del self.owners["unit"]
        self.place = None

    def kept(self) -> None:
        """Store the latest tiles, so that nothing was computed in vain."""
        for tile in [*self.mutable[-2:], *self.pool[-2:]]:
            self.store_own(self.new_region(tile.dtype, "lead") if self.chance(0.3) else self.region(), tile)

    def numbers_of_tiles(self) -> tuple[str, str, str]:
        """Texts of the number of rows of tiles, of columns, and of tiles."""
        rows, columns = self.tiles
        if self.chance(0.4):
            return str(rows), str(columns), str(rows * columns)
        if self.chance(0.4):
            names = [self.given(n).text for n in (rows, columns)]
        else:
            names = ["rows", "columns"]
            if not any("rows = " in line for line in self.lines):
                sizes = [self.given((n - 1) * t + self.random.randint(1, t)) for n, t in zip(self.tiles, self.tile)]
                for name, size, t in zip(names, sizes, self.tile):
                    self.emit(f"{name} = ct.cdiv({size}, {t})")
        return names[0], names[1], f"{names[0]} * {names[1]}"

    def placed(self, t: str) -> tuple[str, str]:
        """Lines that find the row and the column of tile ``t``."""
        rows, columns, _ = self.numbers_of_tiles() if self.indent == 1 else (*map(str, self.tiles), "")
        row, column = self.name("i"), self.name("j")
        kind, group = self.mapping  # the same in all loops: a block has the same tiles in each of them
        if kind < 0.45:
            self.emit(f"{row}, {column} = {t} // {columns}, {t} % {columns}")
        elif kind < 0.65:
            self.emit(f"{row}, {column} = {t} % {rows}, {t} // {rows}")
        else:
            self.emit(f"first = {t} // ({group} * {columns}) * {group}")
            self.emit(f"height = min({rows} - first, {group})")
            self.emit(f"{row} = first + {t} % ({group} * {columns}) % height")
            self.emit(f"{column} = {t} % ({group} * {columns}) // height")
        return row, column

    def persistent(self) -> tuple[int, ...]:
        """A few blocks with many tiles, in one loop or two of them."""
        units = self.counts["unit"]
        grid = (self.random.randint(1, units + 1),)
        self.begin(grid)
        self.before()
        count = self.numbers_of_tiles()[2]
        for _ in range(2 if self.chance(0.25) else 1):
            t = self.name("t")
            trips = self.trips
            self.trips = -(-units // grid[0])
            with self.scope(f"for {t} in range(ct.bid(0), {count}, ct.num_blocks(0)):"):
                self.depth += 1
                self.unit(t, *self.placed(t))
                self.depth -= 1
            self.trips = trips
            self.left = max(self.left, 0 if self.tidy else 3)
        if not self.tidy:
            self.kept()
        return grid

    def single(self) -> tuple[int, ...]:
        """A block for each tile, and a few more."""
        units, more = self.counts["unit"], self.random.choice((0, 0, 1, 2))
        grid = (units + more,)
        self.begin(grid)
        self.before()
        if not more:
            self.unit("block", *self.placed("block"))
        elif self.chance(0.5):
            with self.scope(f"if block >= {units}:"):
                self.emit("return")
            self.unit("block", *self.placed("block"))
        else:
            with self.scope(f"if block < {units}:"):
                self.unit("block", *self.placed("block"))
        return grid

    def square(self) -> tuple[int, ...]:
        """A grid of two axes."""
        self.begin(self.tiles)
        self.emit("row, column = ct.bid(0), ct.bid(1)")
        self.before()
        self.unit("block", "row", "column")
        return self.tiles

    def strip(self) -> tuple[int, ...]:
        """A block for each row of tiles, or several of them for its parts."""
        rows, columns = self.tiles
        self.begin((rows,))
        self.before()
        counted = self.numbers_of_tiles()[1]
        for _ in range(2 if self.chance(0.3) else 1):
            column = self.name("j")
            trips = self.trips
            self.trips = columns
            with self.scope(f"for {column} in range({counted}):"):
                self.depth += 1
                t = self.name("t")
                self.emit(f"{t} = block * {columns} + {column}")
                self.unit(t, "block", column)
                self.depth -= 1
            self.trips = trips
            self.left = max(self.left, 0 if self.tidy else 3)
        if not self.tidy:
            self.kept()
        return (rows,)
