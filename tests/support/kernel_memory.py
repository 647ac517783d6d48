"""Lines of random tile code that load and store.

What a block stores to is its own: a part of an array that the number of the block, or of its unit of work, tells. It
may load that part again, by any means, in the middle of storing to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from support.kernel_arrays import Array, extents, view
from support.kernel_tiles import EXACT, INTEGERS, Number, Shape, Tile, TileWriter, span

ATOMICS = ("add", "add", "max", "min", "and", "or", "xor")
_PADDINGS = ("ZERO", "ZERO", "ZERO", "ZERO", "NEG_ZERO", "NAN", "POS_INF", "NEG_INF")


@dataclass
class Region:
    """A part of ``array`` for each of ``count`` owners, which ``kind`` places:

    ``rows``: ``own`` rows of a matrix, of whose last tile a part may be outside; ``lead``: a matrix of three axes;
    ``flat``: elements of one axis; ``tile``: the tile of a matrix, at the edge a part of one.
    """

    array: Array
    kind: str
    owner: str
    own: Shape


@dataclass
class Box:
    """A tile of a region: its index, its shape, the order of its axes, and whether all of it is inside the array."""

    index: list[str]
    shape: Shape
    inside: bool


class MemoryWriter(TileWriter):
    """``owners`` tells the text of the number of the block and of the unit, where there is one; ``counts`` how many
    there are; ``place`` is the tile of this unit."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.inputs: list[Array] = []
        self.regions: list[Region] = []
        self.shared: list[tuple[Array, str]] = []
        self.owners: dict[str, str] = {}
        self.counts = {"block": 1, "unit": 1}
        self.place: tuple[str, str] | None = None
        self.tiles = (1, 1)  # rows and columns of tiles
        self.tile = (16, 16)
        self.parameters: list[tuple[str, object]] = []

    # Arguments

    def argument(self, letter: str, dtype: str, shape: Shape, low: int, high: int, count: int = 0) -> Array:
        """A new array, or a list of ``count``."""
        views = [view(self.random, self.data, dtype, shape, low, high, tidy=self.tidy) for _ in range(max(count, 1))]
        array = Array(self.name(letter), dtype, low, high, views)
        self.parameters.append((array.text, views if count else views[0]))
        return array

    def bounds(self, dtype: str) -> tuple[int, int]:
        """Of the elements of an array."""
        if dtype in INTEGERS and self.chance(0.3):
            return span(dtype)
        most = self.random.choice((1, 2, 3, 6))
        return (0 if dtype.startswith("u") else -most), most

    def given(self, value: int) -> Number:
        """A new integer argument, which may be a constant of the kernel."""
        name = self.name("n")
        self.parameters.append((name, value))
        return Number(name, value, value)

    # Indices

    def index(self, count: int, counted: str | None = None) -> str:
        """The number of one of ``count`` tiles, of which ``counted`` tells their number at run time."""
        direct = [n for n in self.numbers if n.low >= 0 and n.high < count]
        if direct and self.chance(0.65):
            return self.random.choice(direct[-4:]).text
        if self.chance(0.3) or not self.numbers:
            return str(self.random.randrange(count))
        n, more = self.number(), self.random.randint(0, 3)
        if n.low >= 0 and self.chance(0.3):
            return f"min({n}, {counted + ' - 1' if counted else count - 1})"
        return f"({n} + {more}) % {counted or count}" if more else f"{n} % {counted or count}"

    def hints(self) -> str:
        text = ""
        if self.chance(0.35):
            text += f", allow_tma={self.random.choice((True, True, self.tidy))}"
        if self.chance(0.15):
            text += f", latency={self.random.randint(1, 10)}"
        return text

    def order(self, rank: int) -> tuple[tuple[int, ...], str]:
        """The array axis of each tile axis, and the text of the option."""
        if rank < 2 or not self.rarely(0.25):
            return tuple(range(rank)), ', order="C"' if self.chance(0.1) else ""
        axes = tuple(self.random.sample(range(rank), rank)) if self.chance(0.5) else tuple(range(rank))[::-1]
        return axes, ', order="F"' if axes == tuple(range(rank))[::-1] and self.chance(0.6) else f", order={axes}"

    # Loads of what nobody stores to

    def input(self, rank: int, dtype: str | None = None, tile: Shape | None = None) -> Array:
        found = [a for a in self.inputs if a.rank == rank and (dtype is None or a.dtype == dtype)]
        if found and self.chance(0.65):
            return self.random.choice(found)
        tile = tile or (1, *self.tile)[-rank:]
        dtype = dtype or self.dtype()
        count = self.random.randint(2, 4) if self.rarely(0.15) else 0
        array = self.argument("xs" if count else "x", dtype, extents(self.random, tile), *self.bounds(dtype), count)
        if count:  # of other extents each
            more = [extents(self.random, tile) for _ in array.views[1:]]
            array.views[1:] = [
                view(self.random, self.data, dtype, s, array.low, array.high, tidy=self.tidy) for s in more
            ]
            self.parameters[-1] = (array.text, array.views)
        self.inputs.append(array)
        return array

    def picked(self, array: Array) -> str:
        """The text of ``array``, or of one of a list."""
        return array.text if len(array.views) == 1 else f"{array.text}[{self.index(len(array.views))}]"

    def tile_shape(self, shape: Shape, dtype: str) -> Shape:
        """Of a tile of an array of this shape; mostly that of the tiles of the kernel."""
        base = (1,) * (len(shape) - 2) + (self.tile[-len(shape) :] if len(shape) < 2 else self.tile)
        found = tuple(max(1, n // self.random.choice((1, 1, 1, 2, 4))) if self.chance(0.5) else n for n in base)
        while not self.size_fits(found, dtype):
            found = tuple(max(1, n // 2) for n in found)
        return found

    def load_input(self) -> Tile:
        array = self.input(self.random.choice((1, 2, 2, 2, 2, 3)))
        text = self.picked(array)
        if array.rank and self.chance(0.08):
            text = self.sliced(array, text)
        tile = self.tile_shape(array.shape, array.dtype)
        several = len(array.views) > 1 or "_part" in text
        if several or self.chance(0.3):
            counts = [f"ct.num_tiles({text}, {a}, {tile})" for a in range(array.rank)]
        else:
            counts = [None] * array.rank
        index = [self.index(1 if several else -(-n // t), c) for n, t, c in zip(array.shape, tile, counts)]
        inside = not several and all(n % t == 0 for n, t in zip(array.shape, tile))
        return self.load(array, text, Box(index, tile, inside))

    def sliced(self, array: Array, text: str) -> str:
        """A view of a part of an array."""
        axis = self.random.randrange(array.rank)
        least = min(v.shape[axis] for v in array.views)
        start = self.random.randrange(least)
        stop = self.random.randint(start + 1, least)
        name = self.name("s") + "_part"
        self.emit(f"{name} = {text}.slice({axis}, {start}, {stop})")
        return name

    def load(self, array: Array, text: str, box: Box) -> Tile:
        """Load a tile, with some padding if it may be partly outside."""
        axes, order = self.order(array.rank)
        shape, index = tuple(box.shape[a] for a in axes), [box.index[a] for a in axes]
        padding, low, high = "", array.low, array.high
        infinite = False
        if not box.inside:
            kind = self.random.choice(_PADDINGS) if array.dtype in EXACT else "ZERO"
            padding = f", padding_mode=ct.PaddingMode.{kind}"
            low, high, infinite = min(low, 0), max(high, 0), kind in ("NAN", "POS_INF", "NEG_INF")
        elif self.chance(0.3):
            padding = ", padding_mode=ct.PaddingMode.ZERO"
        hints = self.hints() + (", check_bounds=False" if box.inside and self.chance(0.1) else "")
        place = index[0] if len(index) == 1 and self.chance(0.3) else f"({', '.join(index)},)"
        if not order and self.chance(0.12):
            seen = f"{text}.tiled_view({shape}{padding})"
            loaded = f"{seen}.load(({', '.join(index)},){hints})"
        else:
            loaded = f"ct.load({text}, {place}, {shape}{order}{padding}{hints})"
        if infinite:
            loaded = f"ct.minimum(ct.maximum({loaded}, {low}), {high})"
        if array.dtype not in EXACT and array.dtype not in INTEGERS:
            loaded, dtype = f"{loaded}.astype(ct.float16)", "float16"
        else:
            dtype = array.dtype
        found = self.add(loaded, dtype, shape, low, high)
        if len(shape) == 3 and self.chance(0.7):
            found = self.add(f"{found}.reshape({shape[1:]})", dtype, shape[1:], low, high) if shape[0] == 1 else found
        return found

    def gather_input(self) -> Tile:
        """With indices of which some are outside, in any order, several times the same."""
        array = self.input(self.random.choice((1, 2, 2)))
        shape = self.tile_shape((1,) * array.rank, array.dtype)
        indices = [self.coordinates(axis, shape, array.shape[axis]) for axis in range(array.rank)]
        return self.gathered(array, self.picked(array), indices, shape)

    def gathered(self, array: Array, text: str, indices: Sequence[str], shape: Shape) -> Tile:
        padding = self.random.randint(0, 2)
        ends = f", padding_value={padding}" if padding or self.chance(0.3) else ""
        mask = self.recent(lambda t: t.shape == shape)
        if mask is not None and self.chance(0.4):
            ends += f", mask={self.condition(mask)}"
        low, high = min(array.low, 0), max(array.high, padding)
        return self.add(f"ct.gather({text}, ({', '.join(indices)},){ends})", array.dtype, shape, low, high)

    def coordinates(self, axis: int, shape: Shape, extent: int) -> str:
        """An integer tile of the elements along an axis, some of which may be outside."""
        known = self.recent(lambda t: t.dtype == "int32" and t.shape == shape)
        if known is not None and self.chance(0.3):
            return f"{known}" if self.chance(0.4) else f"{known} % {extent + 3}"
        place = self.line(axis, shape)
        text = place if self.chance(0.4) else f"{place} * {self.random.randint(2, 5)}"
        if self.numbers and self.chance(0.6):
            text = f"{self.number()} * {self.random.choice((1, shape[axis]))} + {text}"
        return text if self.chance(0.6) else f"{text} - {self.random.randint(1, 5)}"

    def line(self, axis: int, shape: Shape) -> str:
        """0, 1, ... along ``axis`` of a tile of this shape."""
        text = f"ct.arange({shape[axis]}, dtype=ct.int32)"
        if len(shape) == 1:
            return text
        return f"{text}[{', '.join(':' if a == axis else 'None' for a in range(len(shape)))}]"

    # What a block or a unit owns

    def region(self) -> Region:
        found = [r for r in self.regions if r.owner in self.owners and (r.kind != "tile" or self.place)]
        if found and (self.chance(0.75) or len(self.regions) > 5):
            return self.random.choice(found[-4:])
        return self.new_region()

    def new_region(self, dtype: str | None = None, kind: str | None = None, wide: bool = False) -> Region:
        """A new array, of small numbers or of all that are exact."""
        owner = self.random.choice(list(self.owners))
        dtype = dtype or self.dtype()
        kinds = ["rows", "rows", "lead", "flat"] + (["tile", "tile"] if owner == "unit" and self.place else [])
        kind = kind or self.random.choice(kinds)
        count = self.counts[owner]
        height, width = self.tile
        wide = extents(self.random, (width,), 2)[0]
        if kind == "rows":
            own: Shape = (height, wide)
            shape: Shape = (count * height, wide)
        elif kind == "lead":
            own = (extents(self.random, (height,), 2)[0], wide)
            shape = (count, *own)
        elif kind == "flat":
            own = (self.random.choice((1, 2, 4)) * width,)
            shape = (count * own[0],)
        else:
            owner, own = "unit", self.tile
            shape = tuple((n - 1) * t + self.random.randint(1, t) for n, t in zip(self.tiles, own))
            if self.tidy or self.chance(0.5):
                shape = (shape[0], -(-shape[1] // 16) * 16)
        low, high = span(dtype) if wide else self.bounds(dtype)
        several = self.random.randint(2, 3) if self.rarely(0.1) else 0
        array = self.argument("ys" if several else "y", dtype, shape, min(low, 0), max(high, 1), several)
        region = Region(array, kind, owner, own)
        self.regions.append(region)
        return region

    def cut(self, region: Region) -> tuple[Shape, list[int]]:
        """The shape of tiles of the region, without axes that only tell owners, and how many there are along each axis."""
        if region.kind == "tile":
            return region.own, [1, 1]
        whole = tuple(1 << (n - 1).bit_length() for n in region.own)
        most = self.tile[-len(whole) :]
        shape = tuple(max(1, min(n, m) // self.random.choice((1, 1, 1, 2))) for n, m in zip(whole, most))
        while not self.size_fits(shape, region.array.dtype):
            shape = tuple(max(1, n // 2) for n in shape)
        return shape, [-(-n // m) for n, m in zip(region.own, shape)]

    def box_at(self, region: Region, shape: Shape, index: Sequence[str]) -> Box:
        """The tile of this shape with this index in the region."""
        if region.kind == "tile":
            assert self.place is not None
            return Box(list(self.place), shape, all(n % t == 0 for n, t in zip(region.array.shape, shape)))
        inside = all(n % m == 0 for n, m in zip(region.own, shape))
        owner = self.owners[region.owner]
        if region.kind == "lead":
            return Box([owner, *index], (1, *shape), inside)
        count = region.own[0] // shape[0]
        return Box([f"{owner} * {count} + ({index[0]})" if count > 1 else owner, *index[1:]], shape, inside)

    def box(self, region: Region) -> Box:
        """Some tile of what the owner has; often one that was accessed before, or a half of one."""
        known = [(shape, index) for r, shape, index in self.places if r is region]
        if known and self.chance(0.6):
            shape, index = self.random.choice(known[-3:])
            if region.kind != "tile" and shape[0] > 1 and self.chance(0.3):
                half = self.random.randint(0, 1) if region.kind != "lead" else 0  # the other may be outside
                shape, index = (shape[0] // 2, *shape[1:]), [f"({index[0]}) * 2 + {half}", *index[1:]]
        else:
            shape, counts = self.cut(region)
            index = [self.index(n) for n in counts]
            self.places.append((region, shape, index))
        return self.box_at(region, shape, index)

    def load_own(self, region: Region, box: Box | None = None) -> Tile:
        return self.load(region.array, self.picked(region.array), box or self.box(region))

    def store_own(self, region: Region, tile: Tile | None = None, box: Box | None = None) -> None:
        """Store what the pool has, or ``tile``, to ``box``, or some other tile of the region."""
        array, box = region.array, box or self.box(region)
        text = self.picked(array)
        axes, order = self.order(array.rank)
        shape, index = tuple(box.shape[a] for a in axes), [box.index[a] for a in axes]
        adapted = self.adapt(tile, shape) if tile is not None else None
        if adapted is None:
            value = self.value(shape, array.dtype, array.low, array.high)
        else:
            value = self.fit(self.cast(adapted, array.dtype), array.low, array.high)
        hints = self.hints() + (", check_bounds=False" if box.inside and self.chance(0.1) else "")
        if not order and self.chance(0.1):
            self.emit(f"{text}.tiled_view({shape}).store(({', '.join(index)},), {value}{hints})")
        else:
            self.emit(f"ct.store({text}, ({', '.join(index)},), {value}{order}{hints})")

    def own_elements(self, region: Region, unique: bool) -> tuple[list[str], Shape]:
        """Indices of elements that the owner has, or of none at all; each element once if ``unique``."""
        owner, own = self.owners[region.owner], region.own
        shape = tuple(min(1 << (n - 1).bit_length(), t) for n, t in zip(own, self.tile[-len(own) :]))
        while not self.size_fits(shape, "int32"):
            shape = tuple(max(1, n // 2) for n in shape)
        lines = []
        for axis, n in enumerate(shape):
            text, odd, more = self.line(axis, shape), self.random.choice((1, 1, 3, 5)), self.random.choice((0, 0, 1, 3))
            if unique or self.chance(0.5):
                text = f"({text} * {odd} + {more}) % {n}" if odd > 1 or more else text
            elif self.numbers:
                text = f"({text} * {odd} + {self.number()}) % {n}"
            lines.append(text)
        if region.kind == "lead":
            return [owner, *(self.shifted(t) for t in lines)], shape
        if region.kind == "tile":
            assert self.place is not None
            lines = [f"{p} * {n} + {t}" for p, n, t in zip(self.place, own, lines)]
            return lines, shape
        last = [self.shifted(t) for t in lines[1:]]
        return [f"{owner} * {own[0]} + {lines[0]}", *last], shape

    def shifted(self, text: str) -> str:
        """Some of these elements are outside, where nothing is loaded or stored."""
        return text if self.chance(0.6) else f"{text} - {self.random.randint(1, 7)}"

    def scatter_own(self, region: Region) -> None:
        indices, shape = self.own_elements(region, True)
        array = region.array
        value = self.value(shape, array.dtype, array.low, array.high)
        mask = self.recent(lambda t: t.shape == shape)
        ends = f", mask={self.condition(mask)}" if mask is not None and self.chance(0.5) else ""
        self.emit(f"ct.scatter({self.picked(array)}, ({', '.join(indices)},), {value}{ends})")

    def gather_own(self, region: Region) -> Tile:
        indices, shape = self.own_elements(region, False)
        return self.gathered(region.array, self.picked(region.array), indices, shape)

    def advanced_own(self, region: Region) -> None:
        """Load or store rows of the region that an integer tile tells."""
        array, owner = region.array, self.owners[region.owner]
        height = min(1 << (region.own[0].bit_length() - 1), self.tile[0])
        width = min(self.tile[1], 64)
        while not self.size_fits((height, width), array.dtype):
            height //= 2
        rows = f"(ct.arange({height}, dtype=ct.int32) * {self.random.choice((1, 1, 3))} + {self.random.randint(0, 2)}) % {height}"
        columns = f"ct.Slice({self.random.randrange(region.own[1])}, {width})"
        if region.kind == "rows":
            indices, shape = f"({owner} * {region.own[0]} + {rows}, {columns})", (height, width)
        else:
            indices, shape = f"(ct.Slice({owner}, 1), {rows}, {columns})", (1, height, width)
        text = self.picked(array)
        if self.chance(0.5):
            value = self.value(shape, array.dtype, array.low, array.high)
            self.emit(f"ct.store_advanced_indexing({text}, {indices}, {value}{self.hints()})")
        else:
            loaded = f"ct.load_advanced_indexing({text}, {indices}, padding_mode=ct.PaddingMode.ZERO{self.hints()})"
            self.add(loaded, array.dtype, shape, array.low, array.high)

    def passed(self) -> None:
        """A tile whose elements outside are of any value goes where they are dropped."""
        if self.place is None:
            return
        region = self.new_region(kind="tile")
        array = region.array
        x = self.argument("x", array.dtype, array.shape, array.low, array.high)
        place = f"({', '.join(self.place)})"
        text = f"ct.load({x.text}, {place}, {region.own}{self.hints()})"
        low, high = max(array.low, -3), min(array.high, 3)
        for form in self.random.sample(
            ("ct.maximum({}, {low})", "ct.minimum({}, {high})", "ct.where({} > 0, {low}, {high})"), 2
        ):
            text = form.format(text, low=low, high=high)
        self.emit(f"ct.store({self.picked(array)}, {place}, {text}.astype(ct.{array.dtype}){self.hints()})")

    def access(self, region: Region) -> None:
        """One access of a region, or an update of a part of it."""
        kind = self.weighted({"store": 4, "load": 3, "scatter": 2, "gather": 2, "update": 2, "advanced": 1})
        if kind == "store":
            self.store_own(region)
        elif kind == "load":
            self.load_own(region)
        elif kind == "scatter":
            self.scatter_own(region)
        elif kind == "gather":
            self.gather_own(region)
        elif kind == "advanced" and region.kind in ("rows", "lead"):
            self.advanced_own(region)
        else:
            found = self.load_own(region)
            self.store_own(region, self.binary(found, self.partner(found)))

    def traffic(self) -> None:
        """Several accesses of one region after each other."""
        region = self.region()
        for _ in range(self.random.randint(2, 5)):
            count = len(self.pool)
            self.access(region)
            if len(self.pool) > count and self.chance(0.5):
                self.noticed(self.pool[-1])

    def noticed(self, tile: Tile) -> None:
        """Have the result depend on ``tile``."""
        found = [t for t in self.mutable if t.dtype == tile.dtype and t.shape == tile.shape]
        if found and self.chance(0.5):
            total = self.random.choice(found)
            self.emit(f"{total} = {self.fit(self.binary(total, tile), total.low, total.high)}")
        else:
            self.store_own(self.new_region(tile.dtype, "lead", wide=True), tile)

    def atomic(self) -> None:
        """To an array that blocks share, where only the order of updates is open, and nobody looks at old values."""
        if self.shared and self.chance(0.7):
            array, kind = self.random.choice(self.shared)
        else:
            dtype, rank = self.random.choice(("int32", "int32", "uint32", "int64")), self.random.choice((1, 2))
            array = self.argument("z", dtype, extents(self.random, self.tile[-rank:], 2), *span(dtype))
            kind = self.random.choice(ATOMICS)
            self.shared.append((array, kind))
        shape = self.tile_shape(array.shape, array.dtype)
        value = self.value(shape, "int32") if array.dtype == "uint32" else self.value(shape, array.dtype)
        text = value.text if array.dtype == value.dtype else f"{value}.astype(ct.{array.dtype})"
        if self.chance(0.3):
            index = ", ".join(self.index(-(-n // t)) for n, t in zip(array.shape, shape))
            self.emit(f"{array.text}.tiled_view({shape}).atomic_store_{kind}(({index},), {text})")
            return
        indices = ", ".join(self.coordinates(a, shape, array.shape[a]) for a in range(array.rank))
        self.emit(f"ct.atomic_{kind}({array.text}, ({indices},), {text})")
