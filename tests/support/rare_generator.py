"""Random kernels of what the other generators never write: 8-bit floats and ``tfloat32`` that are moved, not computed;
bytes of tiles; atomics that return; folds of several tiles, and of NaN; tiles of one element and of four axes; integers
of every width up to their ends.

Each statement makes a tile from tiles before it, and each tile is stored in an array of its own. Floats are whole
numbers up to 8 in magnitude, which every dtype has, so that backends may not differ in a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from support.kernel_generator import GeneratedKernel
from support.rare_memory import (
    FLOATS,
    INTEGERS,
    MOVED,
    NUMBERS,
    SHAPES,
    SIGNED,
    UNSIGNED,
    MemoryWriter,
    Shape,
    Tile,
    fits,
    line,
    numbered,
)

_ATOMIC = ("int32", "int64", "uint32", "uint64")
_SUMS = {
    "int8": "int32", "uint8": "int32", "float16": "float32", "bfloat16": "float32", "float32": "float32",
    "float64": "float64", "tfloat32": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float16",
}  # fmt: skip
_WIDTHS = {"bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8} | {
    d: np.dtype(d).itemsize * 8 for d in (*INTEGERS, "float16", "float32", "float64")
}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_MOST = 4096  # elements of a tile


class RareGenerator(MemoryWriter):
    """``make()`` gives the kernel of the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "rare")

    def make(self) -> GeneratedKernel:
        self.emit("i = ct.bid(0)")
        for _ in range(self.random.randint(1, 3)):
            self.load()
        for _ in range(self.random.randint(3, 8)):
            self.statement()
        for tile in self.pool:
            self.store(tile)
        wide = [n for n, v in self.parameters if not isinstance(v, list) and self.chance(0.05)]
        names = [f"{n}: ct.IndexedWithInt64" if n in wide else n for n, _ in self.parameters]
        source = "\n".join(["@ct.kernel", f"def kernel({', '.join(names)}):", *self.lines, ""])
        return GeneratedKernel(self.seed, source, (self.blocks,), self.parameters)

    def statement(self) -> None:
        """A new tile: loaded, where the statement that was drawn finds none that suits it."""
        if self.indent < 3 and self.chance(0.12):
            self.control()
        elif self.chance(0.25) or not self.random.choice(_STATEMENTS)(self):
            self.load()

    def number(self, dtypes: tuple[str, ...] = NUMBERS, rank: int = 0) -> Tile | None:
        return self.some(lambda t: t.dtype in dtypes and len(t.shape) >= rank)

    def small(self, text: str, dtype: str, shape: Shape) -> bool:
        """A tile; of floats those nearest that are small."""
        self.add(f"ct.minimum(ct.maximum({text}, -8), 8)" if dtype in FLOATS else text, dtype, shape)
        return True

    def like(self, x: Tile) -> str:
        """An expression of the dtype of ``x``, of a shape that broadcasts to its."""
        y = self.some(lambda t: t.dtype == x.dtype and fits(t.shape, x.shape))
        if y is not None and self.chance(0.8):
            return y.text
        return f"ct.full({x.shape}, {self.random.choice((0, 1, 2, 3, 7))}, ct.{x.dtype})"

    def beside(self, x: Tile) -> Tile | None:
        """A tile that is computed with ``x``, and broadcasts to its shape."""
        return self.some(lambda t: bool(_promoted(x.dtype, t.dtype)) and fits(t.shape, x.shape))

    def signed(self, axis: int, rank: int) -> int:
        return axis - rank if self.chance(0.4) else axis

    # Statements: whether they found what they need

    def control(self) -> None:
        """A loop or a branch that makes a tile anew."""
        x = self.number()
        if x is None:
            return
        total, k = self.add(f"{x} + 0", x.dtype, x.shape), self.name("k")
        kept, count = list(self.pool), self.random.randint(1, 4)
        whole = self.some(lambda t: t.dtype in ("int32", "int64") and not t.shape)
        heads = [f"for {k} in range({count}):", f"for {k} in range(i, {count}):"]
        if whole is not None:
            heads += [f"if {whole} % 2 == 0:", f"for {k} in range({whole} % 4):"]
        head = self.random.choice(heads)
        self.emit(head)
        self.indent += 1
        self.statement()
        made = self.some(lambda t: t.dtype == x.dtype and fits(t.shape, x.shape) and t not in kept)
        value = f"{total} + {made or self.like(x)}"
        self.emit(f"{total} = ct.minimum(ct.maximum({value}, -8), 8)" if x.dtype in FLOATS else f"{total} = {value}")
        if head.startswith("for") and self.chance(0.3):
            self.emit(f"if {self.random.choice(('i', k))} >= 1:")
            self.emit(f"    {self.random.choice(('break', 'continue'))}")
        self.indent -= 1
        self.pool = kept

    def turned(self) -> bool:
        x = self.some(lambda t: len(t.shape) > 1)
        if x is None:
            return False
        rank = len(x.shape)
        axes = self.random.sample(range(rank), rank)
        text = tuple(self.signed(a, rank) for a in axes)
        self.add(f"ct.permute({x}, {text})", x.dtype, tuple(x.shape[a] for a in axes))
        return True

    def reshaped(self) -> bool:
        """Another shape of as many elements, or of more that are the same."""
        x = self.some(lambda t: True)
        if x is None:
            return False
        rank = len(x.shape)
        kind = self.random.choice(("reshape", "broadcast", "expand", "none"))
        if kind == "reshape":
            shape = self.random.choice([(x.size,), *(s for s in SHAPES if s and math.prod(s) == x.size)])
            self.add(f"ct.reshape({x}, {shape})", x.dtype, shape)
        elif kind == "broadcast":
            shape = self.random.choice([x.shape, *(s for s in SHAPES if fits(x.shape, s))])
            self.add(f"ct.broadcast_to({x}, {shape})", x.dtype, shape)
        elif kind == "expand" and rank < 4:
            axis = self.random.randrange(rank + 1)
            shape = (*x.shape[:axis], 1, *x.shape[axis:])
            self.add(f"ct.expand_dims({x}, {self.signed(axis, rank + 1)})", x.dtype, shape)
        elif rank < 4 and self.chance(0.5):
            self.add(f"{x}[..., None]", x.dtype, (*x.shape, 1))
        elif rank < 4:
            self.add(f"{x}[None]", x.dtype, (1, *x.shape))
        return True

    def joined(self) -> bool:
        x = self.some(lambda t: bool(t.shape) and t.size < _MOST)
        y = None if x is None else self.some(lambda t: t.dtype == x.dtype and t.shape == x.shape)
        if x is None:
            return False
        axis = self.random.randrange(len(x.shape))
        text = self.signed(axis, len(x.shape))
        self.add(f"ct.cat(({x}, {y}), {text})", x.dtype, _with(x.shape, axis, 2 * x.shape[axis]))
        return True

    def cut(self) -> bool:
        """A part of a tile, or a tile with a part that is another one."""
        x = self.some(lambda t: bool(t.shape))
        if x is None:
            return False
        part = tuple(self.random.choice((n, max(n // 2, 1), 1)) for n in x.shape)
        counts = [n // m for n, m in zip(x.shape, part)]
        at = ", ".join(self.random.choice((f"i % {n}", str(self.random.randrange(n)))) for n in counts)
        if self.chance(0.5):
            self.add(f"ct.extract({x}, ({at},), {part})", x.dtype, part)
        else:
            y = self.some(lambda t: t.dtype == x.dtype and t.shape == part)
            value = y or f"ct.extract({x}, {(0,) * len(part)}, {part})"
            self.add(f"ct.insert({x}, ({at},), {value})", x.dtype, x.shape)
        return True

    def selected(self) -> bool:
        x = self.some(lambda t: True)
        c = None if x is None else self.some(lambda t: t.dtype not in MOVED and fits(t.shape, x.shape))
        y = None if x is None else self.some(lambda t: t.dtype == x.dtype and fits(t.shape, x.shape))
        if x is None or c is None or y is None:
            return False
        a, b = self.random.sample((x, y), 2)
        self.add(f"ct.where({c}, {a}, {b})", x.dtype, x.shape)
        return True

    def cast(self) -> bool:
        x = self.some(lambda t: True)
        if x is None:
            return False
        dtype, text = self.random.choice((*NUMBERS, *MOVED, "bool_")), x.text
        if x.dtype in INTEGERS and dtype not in (*INTEGERS, "bool_"):
            text = f"({x} % 8)"
        elif x.dtype in (*FLOATS, *MOVED) and dtype in UNSIGNED:
            text = f"ct.maximum({x}.astype(ct.float32), 0)"
        elif x.dtype == "bool_" and dtype in MOVED:
            text = f"{x}.astype(ct.float32)"
        self.add(f"{text}.astype(ct.{dtype})", dtype, x.shape)
        return True

    def bits(self) -> bool:
        """Bits of a tile as integers, or its bytes."""
        x = self.some(lambda t: t.dtype in _WIDTHS)
        if x is None:
            return False
        width = _WIDTHS[x.dtype]
        kind = self.random.choice(("bitcast", "pack", "unpack")) if x.shape else "bitcast"
        if kind == "bitcast":
            dtype = self.random.choice([d for d in INTEGERS if _WIDTHS[d] == width])
            self.add(f"ct.bitcast({x}, ct.{dtype})", dtype, x.shape)
        elif kind == "pack":
            self.add(f"ct.pack_to_bytes({x})", "uint8", (x.size * width // 8,))
        else:
            dtype = self.random.choice([x.dtype, *(d for d in INTEGERS if x.size * width % _WIDTHS[d] == 0)])
            shape = (x.size * width // _WIDTHS[dtype],)
            self.add(f"ct.unpack_from_bytes(ct.pack_to_bytes({x}), ct.{dtype})", dtype, shape)
        return True

    def compared(self) -> bool:
        x = self.number()
        y = None if x is None else self.beside(x)
        if x is None or y is None:
            return False
        a, b = self.random.sample((x, y), 2)
        self.add(f"{a} {self.random.choice(_COMPARISONS)} {b}", "bool_", x.shape)
        return True

    def divided(self) -> bool:
        x = self.number()
        if x is None:
            return False
        y = self.name("d")
        self.emit(f"{y} = {self.like(x)}")
        if x.dtype in SIGNED:
            self.emit(f"{y} = ct.where({y} == -1, 5, {y})")
        self.emit(f"{y} = ct.where({y} == 0, 3, {y})")
        forms = ["{} // {}", "{} % {}", "ct.floordiv({}, {})", "ct.mod({}, {})"]
        if x.dtype in INTEGERS:
            forms += ["divmod({}, {})[0]", "divmod({}, {})[1]", "ct.cdiv({}, {})"]
        return self.small(self.random.choice(forms).format(x, y), x.dtype, x.shape)

    def arithmetic(self) -> bool:
        x = self.number()
        if x is None:
            return False
        form = self.random.choice(("{} + {}", "{} - {}", "{} * {}", "ct.minimum({}, {})", "ct.maximum({}, {})"))
        return self.small(form.format(x, self.like(x)), x.dtype, x.shape)

    def mixed(self) -> bool:
        """Operands of different dtypes."""
        x = self.number()
        y = None if x is None else self.beside(x)
        if x is None or y is None:
            return False
        dtype = _promoted(x.dtype, y.dtype)
        a, b = (f"({t} % 8)" if t.dtype in INTEGERS and dtype in FLOATS else t.text for t in (x, y))
        forms = ("{} + {}", "{} - {}", "{} * {}", "ct.minimum({}, {})", "ct.where({0} == {1}, {0}, {1})")
        return self.small(self.random.choice(forms).format(a, b), dtype, x.shape)

    def bitwise(self) -> bool:
        x = self.number((*INTEGERS, "bool_"))
        if x is None:
            return False
        if x.dtype != "bool_" and self.chance(0.5):
            count = f"({self.like(x)} & {_WIDTHS[x.dtype] - 1})"
            self.add(f"{x} {self.random.choice(('<<', '>>'))} {count}", x.dtype, x.shape)
            return True
        y = self.some(lambda t: t.dtype == x.dtype and fits(t.shape, x.shape))
        text = f"{x} {self.random.choice('&|^')} {y}"
        self.add(f"~({text})" if self.chance(0.3) else text, x.dtype, x.shape)
        return True

    def folded(self) -> bool:
        x = self.some(lambda t: t.dtype in (*NUMBERS, "bool_") and bool(t.shape))
        if x is None:
            return False
        axis, rank = self.random.randrange(len(x.shape)), len(x.shape)
        keep, every = self.chance(0.4), self.chance(0.2)
        shape = (1,) * rank if every else _with(x.shape, axis, 1)
        shape = shape if keep else () if every else (*x.shape[:axis], *x.shape[axis + 1 :])
        text = "None" if every else str(self.signed(axis, rank))
        ends = f"axis={text}{', keepdims=True' if keep else ''}"
        kind = self.random.choice(("arg", "extremum", "sum", "nan", "several"))
        extremum = self.random.choice(("max", "min"))
        if kind == "arg":
            self.add(f"ct.arg{extremum}({x}, {ends})", "int32", shape)
        elif kind == "nan" and x.dtype in FLOATS:
            self.folded_nan(x, extremum, ends, shape)
        elif kind == "several" and not every and x.dtype != "bool_":
            self.folded_together(x, text, shape, keep=keep)
        elif kind == "extremum" and x.dtype != "bool_":
            self.add(f"ct.{extremum}({x}, {ends})", x.dtype, shape)
        elif x.dtype in INTEGERS:
            self.add(f"ct.{self.random.choice(('sum', 'prod'))}({x}, {ends})", x.dtype, shape)
        elif x.dtype == "bool_" or x.size <= 32 or x.dtype in ("float32", "float64"):
            self.small(f"ct.sum({x}, {ends})", "int32" if x.dtype == "bool_" else x.dtype, shape)
        else:
            return False
        return True

    def folded_nan(self, x: Tile, extremum: str, ends: str, shape: Shape) -> None:
        nan = f"ct.where({x} > {self.random.randint(-4, 8)}, float('nan'), {x})"
        options = f"{nan}, {ends}, propagate_nan={self.chance(0.5)}"
        if self.chance(0.5):
            self.add(f"ct.arg{extremum}({options})", "int32", shape)
        else:
            found = f"ct.{extremum}({options})"
            self.add(f"ct.where(ct.isnan({found}), 5, {found})", x.dtype, shape)

    def folded_together(self, x: Tile, axis: str, shape: Shape, *, keep: bool) -> None:
        y = self.some(lambda t: t.shape == x.shape and t.dtype in NUMBERS) or x
        function = "lambda a, b, c, d: (ct.maximum(a, c), ct.minimum(b, d))"
        starts, which = f"({_least(x.dtype)}, {_most(y.dtype)})", self.random.randrange(2)
        text = f"ct.reduce(({x}, {y}), {axis}, {function}, {starts}{', keepdims=True' if keep else ''})[{which}]"
        self.add(text, (x, y)[which].dtype, shape)

    def scanned(self) -> bool:
        x = self.number(rank=1)
        if x is None:
            return False
        axis = self.random.randrange(len(x.shape))
        ends = f"{self.signed(axis, len(x.shape))}, reverse={self.chance(0.5)}"
        kind = self.random.choice(("cumsum", "cumprod", "own", "several"))
        y = self.some(lambda t: t.shape == x.shape and t.dtype in INTEGERS)
        if kind == "cumsum" and (x.dtype in INTEGERS or x.shape[axis] <= 16 or x.dtype == "float32"):
            return self.small(f"ct.cumsum({x}, {ends})", x.dtype, x.shape)
        if kind == "cumprod":
            factors = x.text if x.dtype in INTEGERS else f"ct.where({x} > 0, {x} * 0 + 1, -1)"
            self.add(f"ct.cumprod({factors}, {ends})", x.dtype, x.shape)
        elif kind == "several" and y is not None:
            which, (at, reverse) = self.random.randrange(2), ends.split(", ")
            function = f"lambda a, b, c, d: (ct.maximum(a, c), b + d), ({_least(x.dtype)}, 0), {reverse}"
            self.add(f"ct.scan(({x}, {y}), {at}, {function})[{which}]", (x, y)[which].dtype, x.shape)
        else:
            at, reverse = ends.split(", ")
            self.add(f"ct.scan({x}, {at}, ct.maximum, {_least(x.dtype)}, {reverse})", x.dtype, x.shape)
        return True

    def product(self) -> bool:
        """A product of small matrices, of operands of any dtype that multiplies."""
        x = self.some(lambda t: t.dtype in (*NUMBERS, *MOVED[:2]) and t.size <= _MOST // 2 and len(t.shape) >= 2)
        if x is None:
            return False
        *batch, m, k = x.shape
        n, left = self.random.choice((1, 2, 8, 16, 32)), self.random.choice(list(_SUMS))
        if max(k * n, m * n) * math.prod(batch) > _MOST:
            return False
        right = left if left not in ("int8", "uint8") else self.random.choice(("int8", "uint8"))
        a = f"({x} % 3)" if x.dtype in INTEGERS else f"ct.minimum({x}.astype(ct.float32), 2)"
        a = a if x.dtype in INTEGERS else f"ct.maximum({a}, {0 if left == 'uint8' else -2})"
        shape = (*batch, k, n)
        ramp = " + ".join(f"{line(d, shape)} * {self.random.choice((1, 2, 3))}" for d in range(len(shape)))
        b, shape = f"(({ramp} + i) % 5)", (*batch, m, n)
        start = f"ct.full({shape}, {self.random.choice((0, 1))}, ct.{_SUMS[left]})"
        self.add(f"ct.mma({a}.astype(ct.{left}), {b}.astype(ct.{right}), {start}) % 7", _SUMS[left], shape)
        return True

    def atomic(self) -> bool:
        """Updates of places of the block alone, some outside of the array, with what was there before."""
        x = self.some(lambda t: t.dtype in (*_ATOMIC, "float32") and t.size <= 256)
        if x is None:
            return False
        extent = self.blocks * x.size - (self.random.randrange(x.size) if self.chance(0.3) else 0)
        raw = self.chance(0.25)
        y = self.parameter("z", self.data(x.dtype, extent) if raw else self.array(x.dtype, (extent,)))
        at, old = self.name("at"), self.name("o")
        self.emit(f"{at} = {numbered(x.shape)} + i * {x.size}")
        bits = ["max", "min", "and", "or", "xor"] if x.dtype in _ATOMIC else []
        kind = self.random.choice(["add", "xchg", "cas", *bits])
        update = f"{self.like(x)}, {x}" if kind == "cas" else x.text
        how = ("", "", ", memory_order=ct.MemoryOrder.RELAXED", ", memory_scope=ct.MemoryScope.SYS")
        given = f"{at}, {update}{', mask=' + at + f' < {extent}' if raw else ''}{self.random.choice(how)}"
        call = f"{y}.get_raw_memory().atomic_{kind}_offset({given})" if raw else f"ct.atomic_{kind}({y}, {given})"
        self.emit(f"{old} = {call}")
        return self.small(f"ct.where({at} < {extent}, {old}, 0)", x.dtype, x.shape)

    def added(self) -> bool:
        """A tile that is added to memory, without what was there."""
        x = self.some(lambda t: t.dtype in (*_ATOMIC, "float32", "float64") and bool(t.shape))
        if x is None:
            return False
        y = self.parameter("z", self.array(x.dtype, self.extents(x.shape, whole=True)))
        kind = self.random.choice(["add", *(["max", "min", "and", "or", "xor"] if x.dtype in _ATOMIC else [])])
        self.emit(f"{y}.tiled_view({x.shape}).atomic_store_{kind}({self.first(x.shape)}, {x})")
        return True

    def of_scalars(self) -> bool:
        x = self.some(lambda t: not t.shape and t.dtype in NUMBERS)
        y = None if x is None else self.some(lambda t: not t.shape and t.dtype == x.dtype)
        if x is None:
            return False
        self.add(f"ct.astile((({x}, {y}), ({y}, {x})), dtype=ct.{x.dtype})", x.dtype, (2, 2))
        return True


_STATEMENTS: tuple[Callable[[RareGenerator], bool], ...] = (
    RareGenerator.turned,
    *(RareGenerator.reshaped,) * 2,
    RareGenerator.joined,
    *(RareGenerator.cut,) * 2,
    RareGenerator.selected,
    *(RareGenerator.cast,) * 3,
    *(RareGenerator.bits,) * 2,
    RareGenerator.compared,
    *(RareGenerator.divided,) * 2,
    RareGenerator.arithmetic,
    *(RareGenerator.mixed,) * 2,
    *(RareGenerator.bitwise,) * 2,
    *(RareGenerator.folded,) * 3,
    *(RareGenerator.scanned,) * 2,
    *(RareGenerator.product,) * 2,
    RareGenerator.atomic,
    RareGenerator.added,
    RareGenerator.of_scalars,
)


def _with(shape: Shape, axis: int, n: int) -> Shape:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _promoted(x: str, y: str) -> str:
    """The dtype of an operation of both; nothing where there is none."""
    if x not in NUMBERS or y not in NUMBERS or {x, y} == {"float16", "bfloat16"}:
        return ""
    if x in FLOATS or y in FLOATS:
        return max((d for d in (x, y) if d in FLOATS), key=lambda d: _WIDTHS[d])
    return "" if (x in SIGNED) != (y in SIGNED) else max(x, y, key=lambda d: _WIDTHS[d])


def _least(dtype: str) -> int:
    return -9 if dtype in FLOATS else int(np.iinfo(dtype).min)


def _most(dtype: str) -> int:
    return 9 if dtype in FLOATS else int(np.iinfo(dtype).max)
