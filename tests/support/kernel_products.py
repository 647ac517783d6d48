"""Lines of random tile code with matrix products, whose sums are exact in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.kernel_arrays import Array
from support.kernel_loops import LoopWriter
from support.kernel_tiles import EXACT, INTEGERS, Number, Shape, Tile, span

# Dtypes of the operands and of the sum.
_DTYPES = {
    "float16 float32": 6, "bfloat16 float32": 2, "float16 float16": 1, "tfloat32 float32": 2, "float32 float32": 1,
    "int8 int32": 1, "uint8 int32": 0.5, "float8_e4m3fn float32": 0.7, "float8_e5m2 float32": 0.3, "float64 float64": 0.3,
}  # fmt: skip
_TIDY_DTYPES = {name: _DTYPES[name] for name in ("float16 float32", "bfloat16 float32", "tfloat32 float32")}


@dataclass
class Operand:
    """Tiles of ``shape`` of a matrix, or of its transpose; ``load`` gives the text for a row or column and a step."""

    load: Callable[[str, str], str]
    array: Array
    shape: Shape
    steps: str
    low: int
    high: int


class ProductWriter(LoopWriter):
    def operand(self, rows: int, depth: int, shape: Shape, dtype: str, columns: bool) -> Operand:
        """Of a new array with ``rows`` rows of tiles, or columns of them if it is the second one, and this ``depth``."""
        tile, step = (shape[1], shape[0]) if columns else shape
        extent = (rows - 1) * tile + self.random.choice((tile, tile, self.random.randint(1, tile)))
        turned = self.chance(0.3)  # the array has the other order of axes
        steps_last = turned if columns else not turned
        box = (tile, step) if steps_last else (step, tile)
        extents = (extent, depth) if steps_last else (depth, extent)
        stored = {"tfloat32": "float32"}.get(dtype, dtype)
        converted = dtype in ("float16", "bfloat16", "tfloat32") and self.rarely(0.2)
        if converted:
            stored = self.random.choice(("int8", "float32", "float16"))
        most = self.random.choice((1, 2, 3))
        low, high = (0 if dtype.startswith("u") else -most), most
        if dtype in INTEGERS and self.chance(0.5):
            low, high = span(dtype)
        lead = self.random.randint(1, 3) if self.rarely(0.15) else 0
        several = self.random.randint(2, 3) if not lead and self.rarely(0.1) else 0
        array = self.argument("m", stored, (lead, *extents) if lead else extents, low, high, several)
        text = self.picked(array)
        if several:
            name = self.name("m")
            self.emit(f"{name} = {text}")
            text = name
        front = f"{self.index(lead)}, " if lead else ""
        padding = (
            ""
            if extent % tile == 0 and depth % step == 0 and self.chance(0.6)
            else ", padding_mode=ct.PaddingMode.ZERO"
        )
        by_order = turned and not lead and self.chance(0.4)
        hints = self.hints()

        def load(at: str, k: str) -> str:
            if by_order:
                place = f"{k}, {at}" if columns else f"{at}, {k}"
                found = f'ct.load({text}, ({place}), {shape}, order="F"{padding}{hints})'
            else:
                place = f"{at}, {k}" if steps_last else f"{k}, {at}"
                whole = (1, *box) if lead else box
                found = f"ct.load({text}, ({front}{place}), {whole}{padding}{hints})"
                found = f"{found}.reshape({box})" if lead else found
                found = f"ct.transpose({found})" if turned else found
            return f"{found}.astype(ct.{dtype})" if stored != dtype else found

        axis = (1 if lead else 0) + (1 if steps_last else 0)
        steps = self.random.choice(
            (f"ct.num_tiles({text}, {axis}, {(1, *box) if lead else box})", f"ct.cdiv({text}.shape[{axis}], {step})")
        )
        return Operand(load, array, shape, steps, min(low, 0), max(high, 0))

    def sides(self) -> tuple[str, str]:
        """The row of tiles of the first operand and the column of the second one."""
        rows, columns = self.tiles
        if self.place and self.chance(0.8):
            return self.place
        return self.index(rows), self.index(columns)

    def seen(self, text: str, operand: Operand, dtype: str) -> Tile:
        """The loaded operand, or what is computed of it."""
        tile = self.add(text, dtype, operand.shape, operand.low, operand.high)
        self.pool.remove(tile)
        if dtype not in EXACT or not self.rarely(0.3):
            return tile
        kind = self.random.random()
        if kind < 0.3:
            found = f"ct.maximum({tile}, 0)"
        elif kind < 0.6:
            found = f"{tile} * 2"
        elif kind < 0.8:
            found = f"ct.where({tile} > 0, {tile}, 1)"
        else:
            row = self.fit(self.cast(self.value(operand.shape[1:], "int32", -2, 2), dtype), -2, 2)
            found = f"{tile} + {row}"
        changed = self.add(found, dtype, operand.shape, 2 * tile.low - 2, 2 * tile.high + 2)
        self.pool.remove(changed)
        return changed

    def room(self, x: Tile, y: Tile, count: int, out: str) -> tuple[Tile, Tile]:
        """The operands such that ``count`` sums of their products are exact."""
        most = EXACT.get(out, 1 << 62)
        if max(-x.low, x.high, 1) * max(-y.low, y.high, 1) * count <= most:
            return x, y
        return self.fit(x, -1, 1), self.fit(y, -1, 1)

    def product(self) -> None:
        """A sum over tiles of two arrays, or of three, which have one factor in common."""
        dtype, out = self.weighted(_TIDY_DTYPES if self.tidy else _DTYPES).split()
        height, width = self.tile
        if not self.size_fits((height, width), out):
            height = 16
        step = self.random.choice((16, 32, 32, 64))
        if dtype in ("float32", "float64", "tfloat32"):
            step = min(step, 32)
        most = max(1, min(8 if self.tidy else 5, 24 // self.trips))
        count = self.random.randint(1, most)
        depth = (count - 1) * step + self.random.choice((step, step, self.random.randint(1, step)))
        several = self.rarely(0.2)
        x = self.operand(self.tiles[0], depth, (height, step), dtype, False)
        ys = [self.operand(self.tiles[1], depth, (step, width), dtype, True) for _ in range(1 + several)]
        row, column = self.sides()
        sums = [self.started((height, width), out, count * step) for _ in ys]
        steps = self.steps(x, ys[0], count)
        k = self.name("k")
        if self.rarely(0.2) and not several:
            self.ahead(x, ys[0], dtype, out, sums[0], (row, column), count, k)
        else:
            trips = self.trips
            self.trips *= count
            with self.scope(f"for {k} in range({steps}):"):
                self.numbers.append(Number(k, 0, count - 1))
                self.pool += sums
                left = self.seen(x.load(row, k), x, dtype)
                for y, total in zip(ys, sums):
                    right = self.seen(y.load(column, k), y, dtype)
                    a, b = self.room(left, right, count * step * 2, out)
                    if total is sums[0] and self.rarely(0.25):
                        self.body(1, 2)
                    self.emit(f"{total} = ct.mma({a}, {b}, {total})")
                if self.rarely(0.15):
                    self.body(1, 2)
            self.trips = trips
        self.finished(sums)

    def side_by_side(self) -> None:
        """Sums of products of one left operand with two to four tiles of 64 columns, all of which are loaded first."""
        dtype, width, number = self.random.choice(("float16", "float16", "bfloat16")), 64, self.random.randint(2, 4)
        height, step = self.random.choice((64, 64, 128)), self.random.choice((16, 32, 64))
        if not self.size_fits((height, width), "float32"):
            height = 32
        count = self.random.randint(1, max(1, min(6, 24 // self.trips)))
        depth = (count - 1) * step + self.random.choice((step, self.random.randint(1, step)))
        x = self.operand(self.tiles[0], depth, (height, step), dtype, False)
        row, column = self.sides()
        if self.chance(0.6):  # of one matrix
            wide = self.operand(self.tiles[1] * number, depth, (step, width), dtype, True)
            ys = [(wide, f"({column}) * {number} + {i}") for i in range(number)]
        else:
            ys = [(self.operand(self.tiles[1], depth, (step, width), dtype, True), column) for _ in range(number)]
        sums = [self.started((height, width), "float32", count * step) for _ in ys]
        steps, k, trips = self.steps(x, ys[0][0], count), self.name("k"), self.trips
        self.trips *= count
        with self.scope(f"for {k} in range({steps}):"):
            self.numbers.append(Number(k, 0, count - 1))
            left = self.seen(x.load(row, k), x, dtype)
            rights = [self.seen(y.load(at, k), y, dtype) for y, at in ys]
            if self.rarely(0.1):
                rights[-1] = rights[0]
            pairs = [self.room(left, right, count * step * 2, "float32") for right in rights]
            for (a, b), total in zip(pairs, sums):
                self.emit(f"{total} = ct.mma({a}, {b}, {total})")
            self.pool += sums
            if self.rarely(0.15):
                self.body(1, 2)
        self.trips = trips
        self.finished(sums)

    def started(self, shape: Shape, out: str, count: int) -> Tile:
        """The sum before its first step."""
        limit = EXACT.get(out, 1 << 31) - 8 if out in EXACT else (1 << 31) - 1
        total = Tile(
            self.name("c"), out, shape, -limit - 8 if out in EXACT else -(1 << 31), limit + 8 if out in EXACT else limit
        )
        if self.chance(0.6):
            self.emit(f"{total} = ct.zeros({shape}, ct.{out})")
        else:
            self.emit(f"{total} = {self.value(shape, out, -4, 4)}")
        return total

    def steps(self, x: Operand, y: Operand, count: int) -> str:
        """How many iterations: all of them, or fewer."""
        kind = self.random.random()
        if kind < 0.6:
            return x.steps if kind < 0.3 else y.steps
        if kind < 0.75:
            return str(count)
        return self.given(self.random.choice((count, count, self.random.randint(0, count)))).text

    def ahead(
        self, x: Operand, y: Operand, dtype: str, out: str, total: Tile, sides: tuple[str, str], count: int, k: str
    ) -> None:
        """The loop loads what its next iteration multiplies."""
        row, column = sides
        left, right = (Tile(self.name("c"), dtype, o.shape, o.low, o.high) for o in (x, y))
        self.emit(f"{left} = {x.load(row, '0')}")
        self.emit(f"{right} = {y.load(column, '0')}")
        trips = self.trips
        self.trips *= count
        with self.scope(f"for {k} in range({count}):"):
            self.numbers.append(Number(k, 0, count - 1))
            self.pool.append(total)
            following = f"min({k} + 1, {count - 1})" if self.chance(0.6) else f"({k} + 1) % {count}"
            after = self.name("v"), self.name("v")
            late = self.chance(0.3)
            if not late:
                self.emit(f"{after[0]} = {x.load(row, following)}")
                self.emit(f"{after[1]} = {y.load(column, following)}")
            a, b = (
                self.room(left, right, count * x.shape[1] * 2, out)
                if dtype in EXACT or dtype in INTEGERS
                else (left, right)
            )
            self.emit(f"{total} = ct.mma({a}, {b}, {total})")
            if self.chance(0.2):
                self.body(1, 1)
            if late:
                self.emit(f"{after[0]} = {x.load(row, following)}")
                self.emit(f"{after[1]} = {y.load(column, following)}")
            self.emit(f"{left}, {right} = {after[0]}, {after[1]}")
        self.trips = trips

    def finished(self, sums: list[Tile]) -> None:
        """The results are used, and mostly stored where the unit has its tile."""
        for total in sums:
            self.pool.append(total)
            if self.chance(0.3):
                self.elementwise()
            if self.tidy or self.chance(0.7):
                kind = "tile" if self.place and (self.tidy or self.chance(0.7)) else None
                dtype = self.random.choice((total.dtype, "float16"))
                self.store_own(self.new_region(dtype, kind, wide=True), total)

    def chain(self) -> None:
        """The result of one product is an operand of the next one, as in attention."""
        dtype = self.random.choice(("float16", "float16", "bfloat16"))
        height, width, inner = self.tile[0], self.random.choice((32, 64)), self.random.choice((16, 32, 64))
        count = self.random.randint(1, max(1, min(4, 24 // self.trips)))
        depth = (count - 1) * inner + self.random.choice((inner, self.random.randint(1, inner)))
        q = self.operand(self.tiles[0], width, (height, width), dtype, False)
        k = self.operand(count, width, (width, inner), dtype, True)
        v = self.operand(1, depth, (inner, width), dtype, True)
        queries = self.seen(q.load(self.sides()[0], "0"), q, dtype)
        total = self.started((height, width), "float32", 1)
        number = self.name("k")
        trips = self.trips
        self.trips *= count
        with self.scope(f"for {number} in range({count}):"):
            self.numbers.append(Number(number, 0, count - 1))
            keys = self.seen(k.load(number, "0"), k, dtype)
            a, b = self.room(queries, keys, width, "float32")
            scores = self.add(
                f"ct.mma({a}, {b}, ct.zeros(({height}, {inner}), ct.float32))",
                "float32",
                (height, inner),
                -(1 << 20),
                1 << 20,
            )
            if self.rarely(0.3):
                self.reduction()
            weights = self.cast(self.fit(scores, -2, 2), dtype)
            values = self.seen(v.load("0", number), v, dtype)
            self.emit(f"{total} = ct.mma({weights}, {values}, {total})")
            if self.rarely(0.3):
                self.body(1, 1)
        self.trips = trips
        self.finished([total])

    def bare(self) -> None:
        """A product without padding: what is outside of the factors gives elements that the store drops."""
        if self.place is None:
            return self.product()
        dtype = self.random.choice(("float16", "float16", "bfloat16", "float32"))
        height, width = self.tile
        step, count = self.random.choice((16, 32, 64)), self.random.randint(1, 6)
        region = self.new_region(self.random.choice(("float32", dtype)), "tile", wide=True)
        extents = region.array.shape
        x = self.argument("m", dtype, (extents[0], step * count), -1, 1).text
        y = self.argument("m", dtype, (step * count, extents[1]), -2, 2).text
        row, column = self.place
        k, total = self.name("k"), self.name("c")
        rounded = ".astype(ct.tfloat32)" if dtype == "float32" else ""
        self.emit(f"{total} = ct.zeros(({height}, {width}), ct.float32)")
        with self.scope(f"for {k} in range(ct.cdiv({x}.shape[1], {step})):"):
            self.emit(f"a = ct.load({x}, ({row}, {k}), ({height}, {step}){self.hints()}){rounded}")
            self.emit(f"b = ct.load({y}, ({k}, {column}), ({step}, {width}){self.hints()}){rounded}")
            self.emit(f"{total} = ct.mma(a, b, {total})")
        value = f"({total} % 251).astype(ct.{region.array.dtype})"
        self.emit(f"ct.store({self.picked(region.array)}, ({row}, {column}), {value}{self.hints()})")
        return None

    def whole(self) -> None:
        """A product of tiles of the pool, or of several."""
        choices = (("float16", "float32"), ("float32", "float32"), ("bfloat16", "float32"), ("int8", "int32"))
        dtype, out = self.random.choice(choices)
        m, n = self.tile
        k = self.random.choice((16, 32))
        batch = (2,) if self.chance(0.2) and m * n <= 4096 else ()
        x, y = (self.value((*batch, *s), dtype, -2, 2) for s in ((m, k), (k, n)))
        if self.size_fits((*batch, m, n), out):
            acc = self.value((*batch, m, n), out, -8, 8)
            self.add(f"ct.mma({x}, {y}, {acc})", out, (*batch, m, n), -8 - 4 * k, 8 + 4 * k)
