"""Lines of random tile code that branch and repeat."""

from __future__ import annotations

from collections.abc import Callable

from support.kernel_memory import Box, MemoryWriter
from support.kernel_tiles import EXACT, INTEGERS, Number, Tile, span

_MOST_TRIPS = 24  # of nested loops together


class LoopWriter(MemoryWriter):
    """``depth`` is that of the loops and branches around the next line, and ``trips`` how often it runs at most;
    ``left`` is how many statements may follow."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.depth = 0
        self.trips = 1
        self.left = self.random.choice((0, 0, 1, 2) if self.tidy else (0, 2, 4, 6, 8, 10, 12, 16))
        self.helpers: list[str] = []

    def statement(self) -> None:
        raise NotImplementedError

    def body(self, least: int = 1, most: int = 3) -> None:
        self.depth += 1
        for _ in range(self.random.randint(least, most)):
            self.statement()
        self.depth -= 1

    # Variables that change

    def carry(self) -> Tile:
        """A new variable that loops and branches assign to."""
        dtype, shape = self.dtype(), self.random.choice((self.tile, self.tile, self.tile[1:], ()))
        if not self.size_fits(shape, dtype):
            shape = (1, *self.tile[1:])
        low, high = span(dtype) if dtype in INTEGERS and self.chance(0.4) else (-8, 8)
        value = self.value(shape, dtype, max(low, span(dtype)[0]), high)
        tile = Tile(self.name("c"), dtype, shape, max(low, span(dtype)[0]), high)
        self.emit(f"{tile} = {value}")
        self.pool.append(tile)
        self.mutable.append(tile)
        return tile

    def assign(self, tile: Tile | None = None) -> None:
        tile = tile or (self.random.choice(self.mutable) if self.mutable else None)
        if tile is None:
            return
        found = self.binary(tile, self.partner(tile)) if self.chance(0.7) else self.value(tile.shape, tile.dtype)
        self.emit(f"{tile} = {self.fit(self.cast(found, tile.dtype), tile.low, tile.high)}")

    def measured(self) -> None:
        """A number that depends on what is in memory."""
        x = self.recent(lambda t: t.size > 0 and t.dtype != "uint32")
        if x is None:
            return
        most = self.random.randint(2, 4)
        x = self.cast(x, "int32")
        text = f"{x}" if not x.shape else f"ct.{self.random.choice(('max', 'min', 'argmax'))}({x})"
        number = Number(self.name("d"), 0, most - 1)
        self.emit(f"{number} = {text} % {most}")
        self.numbers.append(number)

    def test(self) -> str:
        """A condition on numbers."""
        n = self.number()
        kind = self.random.random()
        if kind < 0.35:
            return f"{n} % 2 == {self.random.randint(0, 1)}"
        if kind < 0.8 or len(self.numbers) < 2:
            return f"{n} {self.random.choice(('<', '>', '==', '!=', '<='))} {self.random.randint(n.low, max(n.low, min(n.high, n.low + 4)))}"
        first = f"{n} {self.random.choice(('<', '>=', '!='))} {self.number()}"
        return f"{first} {self.random.choice(('and', 'or'))} {self.number()} > 0" if kind > 0.92 else first

    # Statements

    def branch(self) -> None:
        if not self.numbers:
            return self.measured()
        if not self.mutable:
            self.carry()
        with self.scope(f"if {self.test()}:"):
            self.body(1, 2)
            self.assign()
        if self.chance(0.2):
            with self.scope(f"elif {self.test()}:"):
                self.assign()
        if self.chance(0.5):
            with self.scope("else:"):
                self.body(0, 2)
                self.assign()
        return None

    def trip_count(self, most: int = 4) -> tuple[str, int]:
        """The text of a number of iterations, and how many that are at most."""
        most = max(1, min(most, _MOST_TRIPS // self.trips))
        kind = self.random.random()
        if kind < 0.3:
            count = self.random.randint(1, most)
            return str(count), count
        if kind < 0.6:
            count = self.random.choice((0, 1, *range(1, most + 1)))
            return self.given(count).text, count
        if kind < 0.8 and self.numbers:
            n, modulus = self.number(), self.random.randint(2, max(most, 2))
            return f"{n} % {modulus}", modulus - 1
        found = [a for a in self.inputs if a.rank == 2 and len(a.views) == 1 and -(-a.shape[1] // self.tile[1]) <= most]
        if found:
            array = self.random.choice(found)
            count = -(-array.shape[1] // self.tile[1])
            return f"ct.num_tiles({array.text}, 1, {self.tile})", count
        return str(most), most

    def counted(self) -> None:
        """``for`` over a range, which may be empty."""
        text, count = self.trip_count()
        k = self.name("k")
        start, last = 0, count - 1
        kind = self.random.random()
        if kind < 0.15:
            start = self.random.randint(0, 2)
            text = f"{start}, {text}"
        elif kind < 0.3:
            text = f"0, {text}, {self.random.randint(1, 2)}"
        elif kind < 0.4 and self.numbers:
            first = self.number()
            if first.high < 8:
                start, last = first.low, first.high + count - 1
                text = f"{first}, {first} + {text}"
        self.repeated(f"for {k} in range({text}):", Number(k, start, max(last, start)), count)

    def repeated(self, head: str, number: Number | None, count: int, first: Callable[[], None] | None = None) -> None:
        carried = [self.carry() for _ in range(self.random.randint(0, 2))]
        trips = self.trips
        self.trips *= max(count, 1)
        with self.scope(head):
            if first is not None:
                first()
            if number is not None:
                self.numbers.append(number)
            self.body(1, 3)
            if number is not None and self.chance(0.15):
                with self.scope(f"if {self.test()}:"):
                    self.assign()
                    self.emit(self.random.choice(("continue", "break")))
            for tile in carried or [None]:
                self.assign(tile)
        self.trips = trips

    def waiting(self) -> None:
        """``while``, which ends after some iterations, or earlier."""
        text, count = self.trip_count()
        w = self.name("w")
        self.emit(f"{w} = 0")
        endless = self.chance(0.4)

        def first() -> None:
            if endless:
                with self.scope(f"if {w} >= {text}:"):
                    self.emit("break")
            self.emit(f"{w} += 1")

        self.repeated("while True:" if endless else f"while {w} < {text}:", Number(w, 1, max(count, 1)), count, first)

    def call(self) -> None:
        """A function of two tiles, outside of the kernel."""
        x = self.any_tile()
        y = self.partner(x)
        lowest = max(span(x.dtype)[0], -6)
        parameters = [Tile(n, x.dtype, t.shape, lowest, 6) for n, t in (("p", x), ("q", y))]
        arguments = [self.fit(t, lowest, 6) for t in (x, y)]
        name = self.name("f")
        kept = self.lines, self.indent, self.pool, self.numbers, self.mutable
        self.lines, self.indent, self.pool, self.numbers, self.mutable = [], 1, parameters, [], []
        results = [self.binary(*parameters)]
        results += [self.random.choice((self.elementwise, self.reduction))() for _ in range(self.random.randint(0, 2))]
        kept_results = self.random.sample(results, min(len(results), self.random.randint(1, 2)))
        self.emit(f"return {', '.join(r.text for r in kept_results)}")
        lines = self.lines
        self.lines, self.indent, self.pool, self.numbers, self.mutable = kept
        self.helpers += [f"def {name}(p, q):", *lines, "", ""]
        named = [Tile(self.name("v"), r.dtype, r.shape, r.low, r.high) for r in kept_results]
        self.emit(f"{', '.join(t.text for t in named)} = {name}({', '.join(a.text for a in arguments)})")
        self.pool += named

    def stream(self) -> None:
        """A loop that loads tiles of one array one after the other, and may fetch the next one before it uses one."""
        rank = self.random.choice((1, 2, 2))
        array = self.input(rank)
        if len(array.views) > 1 or array.rank == 0:
            return self.counted()
        tile = self.tile_shape(array.shape, array.dtype)
        axis = self.random.randrange(rank)
        count = min(-(-array.shape[axis] // tile[axis]), max(1, _MOST_TRIPS // self.trips))
        others = [self.index(-(-n // t)) for n, t in zip(array.shape, tile)]
        exact = all(n % t == 0 for n, t in zip(array.shape, tile))
        padding = "" if exact else ", padding_mode=ct.PaddingMode.ZERO"
        hints = self.hints()

        def loaded(at: str) -> Tile:
            index = ", ".join(at if a == axis else o for a, o in enumerate(others))
            text = f"ct.load({array.text}, ({index},), {tile}{padding}{hints})"
            return Tile(text, array.dtype, tile, min(array.low, 0), max(array.high, 0))

        dtype = array.dtype
        limit = 8 if dtype in EXACT else span(dtype)[1]
        total = Tile(self.name("c"), dtype, tile, -limit if dtype in EXACT else span(dtype)[0], limit)
        self.emit(f"{total} = {self.value(tile, dtype, total.low, total.high)}")
        k, ahead = self.name("k"), self.chance(0.4)
        if ahead:
            now = Tile(self.name("c"), dtype, tile, min(array.low, 0), max(array.high, 0))
            self.emit(f"{now} = {loaded('0')}")
        trips = self.trips
        self.trips *= count
        with self.scope(f"for {k} in range({count}):"):
            self.pool.append(total)
            self.numbers.append(Number(k, 0, count - 1))
            if ahead:
                self.pool.append(now)
                following = loaded(f"min({k} + 1, {count - 1})")
                after = self.add(following.text, dtype, tile, following.low, following.high)
            else:
                now = loaded(k)
                now = self.add(now.text, dtype, tile, now.low, now.high)
            if self.chance(0.6):
                self.body(1, 2)
            found = self.binary(total, now)
            self.emit(f"{total} = {self.fit(found, total.low, total.high)}")
            if ahead:
                self.emit(f"{now} = {after}")
        self.trips = trips
        self.pool.append(total)
        return None

    def sweep(self) -> None:
        """A loop over the tiles of a region that loads some of those that it stores to, earlier or later."""
        region = self.region()
        shape, counts = self.cut(region)
        axis = self.random.choice([a for a, n in enumerate(counts) if n == max(counts)])
        tiles = counts[axis]
        others = [self.index(n) for n in counts]
        turns = min(tiles + self.random.randint(0, 2), max(1, _MOST_TRIPS // self.trips))
        k = self.name("k")

        def box(more: int) -> Box:
            at = k if not more and turns <= tiles else f"({k} + {more}) % {tiles}"
            return self.box_at(region, shape, [at if a == axis else o for a, o in enumerate(others)])

        trips = self.trips
        self.trips *= turns
        with self.scope(f"for {k} in range({turns}):"):
            self.numbers.append(Number(k, 0, turns - 1))
            found = None
            for _ in range(self.random.randint(2, 3)):
                if found is None or self.chance(0.5):
                    found = self.load_own(region, box(self.random.randint(0, 2)))
                    if self.chance(0.3):
                        self.noticed(found)
                    if self.chance(0.5):
                        found = self.binary(found, self.partner(found))
                else:
                    self.store_own(region, found, box(self.random.randint(0, 2)))
            if self.chance(0.3):
                self.body(1, 1)
            self.store_own(region, found, box(self.random.randint(0, 2)))
        self.trips = trips
        if self.chance(0.5):
            self.access(region)
