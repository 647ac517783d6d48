"""Random typed expressions, top down: for a dtype and a shape, one of the productions that give it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz import model
from fuzz.model import ALL, DTYPES, FLOATS, INTEGERS, SIGNED, UNSIGNED, Array
from fuzz.nodes import Env, Expr, Level, Unmodelled

Shape = tuple[int, ...]
SHAPES: list[Shape] = [
    (),
    (),
    (1,),
    (2,),
    (8,),
    (16,),
    (64,),
    (1, 1),
    (2, 4),
    (8, 8),
    (1, 16),
    (16, 1),
    (32, 4),
    (2, 4, 8),
    (4, 1, 2),
]
_PADDINGS = {"ZERO": 0, "NEG_ZERO": -0.0, "NAN": np.nan, "POS_INF": np.inf, "NEG_INF": -np.inf}


@dataclass
class ArrayParameter:
    name: str
    data: Array


def cast(x: Array, dtype: str) -> Array:
    found = model.convert(x, dtype)
    if found is None:
        raise Unmodelled
    return np.asarray(found)


def literal(rng: random.Random, dtype: str) -> Any:
    """A loose constant that fits into the dtype."""
    if dtype == "bool_":
        return rng.random() < 0.5
    if dtype in FLOATS:
        return rng.choice([0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 3.25, -7.0, 100.0, 0.125])
    if dtype in SIGNED:
        return rng.choice([0, 1, 2, 3, 7, -1, -2, -5, 100, -128])
    return rng.choice([0, 1, 2, 3, 7, 31, 100, 127, 255])


def random_data(rng: np.random.Generator, dtype: str, shape: Shape) -> Array:
    """Values with corners: extremes of integers; zeros of either sign, infinities and NaN of floats."""
    target = DTYPES[dtype]
    if dtype == "bool_":
        return rng.integers(0, 2, shape).astype(target)
    if dtype in INTEGERS:
        info = np.iinfo(target)
        values = rng.integers(0, 256, (*shape, target.itemsize), dtype=np.uint8).view(target).reshape(shape)
        small = rng.integers(-8 if info.min else 0, 9, shape).astype(target)
        corners = rng.choice(np.array([info.min, info.max, 0, 1], dtype=target), shape)
        kind = rng.integers(0, 8, shape)
        return np.where(kind < 5, small, np.where(kind < 7, values, corners)).astype(target)
    small = (rng.integers(-32, 33, shape) / 4).astype(np.float32).astype(target)
    normal = rng.standard_normal(shape).astype(np.float32).astype(target)
    corners = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], dtype=np.float32), shape).astype(target)
    kind = rng.integers(0, 16, shape)
    return np.where(kind < 8, small, np.where(kind < 15, normal, corners)).astype(target)


class Expressions:
    """Expressions over the variables in scope; arrays that they load from become parameters of the kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.arrays: list[ArrayParameter] = []
        self.scopes: list[dict[str, Expr]] = [{}]
        self.in_helper = False  # helpers see their parameters only, and are modelled
        self.grid = (1, 1, 1)
        self.scalars: dict[str, tuple[str, Any]] = {}
        self._names = 0

    # -- names and leaves

    def fresh(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def visible(self) -> list[Expr]:
        return [e for scope in self.scopes for e in scope.values()]

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def constant(self, dtype: str) -> Expr:
        """A typed constant: ``ct.int8(5)``; of a bool also one that another dtype becomes."""
        value = literal(self.rng, dtype)
        if dtype == "bool_" and self.rng.random() < 0.5:
            source = self.rng.choice(("float32", "float16", "int32", "float64", "uint8"))
            value = self.pick(0.1, 0.25, 0.0, -0.5, 1.0) if source in FLOATS else self.pick(0, 1, 2, 128)
            made = np.asarray(value != 0)
            return Expr(f"ct.{source}({value}).astype(ct.bool_)", "bool_", (), lambda env: made)
        made = np.asarray(value, dtype=np.float64 if dtype in FLOATS else None).astype(DTYPES[dtype])
        return Expr(f"ct.{dtype}({value})", dtype, (), lambda env: made)

    def array(self, dtype: str, rank: int) -> ArrayParameter:
        """A parameter, made when there is none or sometimes anew: any strides, any offset."""
        known = [a for a in self.arrays if a.data.dtype == DTYPES[dtype] and a.data.ndim == rank]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        limit = {1: 90, 2: 40, 3: 14, 4: 6, 5: 4}[rank]
        shape = tuple(self.rng.choice((1, 2, 8, 16, self.rng.randint(1, limit))) for _ in range(rank))
        order = list(range(rank))
        self.rng.shuffle(order)
        slack = [self.pick(0, 0, 1, 3) for _ in shape]
        step = [self.pick(1, 1, 1, 2) for _ in shape]
        whole = random_data(self.data, dtype, tuple((shape[k] * step[k]) + slack[k] for k in order))
        view = np.transpose(whole, np.argsort(order))[
            tuple(slice(s, s + n * t, t) for s, n, t in zip(slack, shape, step))
        ]
        if self.rng.random() < 0.15:
            axis = self.rng.randrange(rank)
            view = np.broadcast_to(np.take(view, [0], axis), view.shape)
            view = np.lib.stride_tricks.as_strided(view, view.shape, view.strides, writeable=True)
        array = ArrayParameter(self.fresh("a"), view)
        self.arrays.append(array)
        return array

    def leaf(self, dtype: str, shape: Shape) -> Expr:
        rng = self.rng
        variables = [e for e in self.visible() if e.dtype == dtype and e.shape == shape and self._allowed(e)]
        if variables and rng.random() < 0.6:
            return rng.choice(variables)
        if self.in_helper or (not shape and rng.random() < 0.8):
            value = self.constant(dtype)
            if not shape:
                return value
            return Expr(
                f"ct.full({shape}, {value.text}, ct.{dtype})",
                dtype,
                shape,
                lambda env: np.broadcast_to(value.value(env), shape),
            )
        if shape and rng.random() < 0.25:
            return self._made(dtype, shape)
        return self.gather(dtype, shape, 0) if not shape or rng.random() < 0.25 else self.load(dtype, shape)

    def _made(self, dtype: str, shape: Shape) -> Expr:
        if len(shape) == 1 and dtype in INTEGERS and dtype not in ("int8", "uint8"):
            start, step = self.pick(0, 1, 5), self.pick(1, 1, 2, 3)
            text = f"ct.arange({shape[0]}, dtype=ct.{dtype}, start={start}, step={step})"
            row = (start + step * np.arange(shape[0])).astype(DTYPES[dtype])
            return Expr(text, dtype, shape, lambda env: row)
        name = self.pick("zeros", "ones")
        filled = np.full(shape, name == "ones").astype(DTYPES[dtype])
        return Expr(f"ct.{name}({shape}, ct.{dtype})", dtype, shape, lambda env: filled)

    def block_index(self, limit: int) -> tuple[str, Callable[[Env], int]]:
        """An index below ``limit``, constant or of the block."""
        if self.rng.random() < 0.4:
            value = self.rng.randrange(limit)
            return str(value), lambda env: value
        axis, more = self.rng.randrange(3), self.rng.randrange(3)
        text = f"(ct.bid({axis}) + {more}) % {limit}" if more else f"ct.bid({axis}) % {limit}"
        return text, lambda env: (env.bid[axis] + more) % limit

    def load(self, dtype: str, shape: Shape) -> Expr:
        array = self.array(dtype, len(shape))
        order = tuple(range(len(shape)))
        options = []
        view = self.rng.random() < 0.25
        if len(shape) > 1 and not view and self.rng.random() < 0.25:
            order = tuple(self.rng.sample(order, len(order)))
            options.append(f"order={order}")
        size = [array.data.shape[k] for k in order]
        parts = [self.block_index(-(-n // s)) for n, s in zip(size, shape)]
        padding = self.rng.choice(list(_PADDINGS) if dtype in FLOATS else ["ZERO"])
        options.append(f"padding_mode=ct.PaddingMode.{padding}")
        index = "(" + "".join(f"{p[0]}, " for p in parts) + ")"
        if view:
            text = f"{array.name}.tiled_view({shape}, {options[0]}).load({index})"
        else:
            text = f"ct.load({array.name}, {index}, {shape}, {', '.join(options)})"
        pad = np.asarray(_PADDINGS[padding], dtype=np.float64).astype(DTYPES[dtype])

        def value(env: Env) -> Array:
            return model.padded(env.arrays[array.name], tuple(p[1](env) for p in parts), shape, pad, order)

        return Expr(text, dtype, shape, value)

    def gather(self, dtype: str, shape: Shape, depth: int) -> Expr:
        array = self.array(dtype, max(1, min(len(shape), 2)) if self.rng.random() < 0.7 else self.rng.randint(1, 3))
        indices = []
        shapes = self._operand_shapes(shape, array.data.ndim)
        for n, s in zip(array.data.shape, shapes):
            index = self.expr(self.rng.choice(INTEGERS[:4] + ("uint8", "uint32")), s, depth, Level.MODELLED)
            indices.append(self._modulo(index, n) if self.rng.random() < 0.7 else index)
        options, mask, pad = [], None, np.asarray(0)
        if self.rng.random() < 0.5:
            mask = self.expr("bool_", self._smaller(shape), depth, Level.MODELLED)
            options.append(f"mask={mask.text}")
        if self.rng.random() < 0.5:
            fill = literal(self.rng, dtype)
            pad = np.asarray(fill)
            options.append(f"padding_value={fill}")
        pad = pad.astype(np.float64 if dtype in FLOATS else pad.dtype).astype(DTYPES[dtype])
        index = (
            indices[0].text
            if len(indices) == 1 and self.rng.random() < 0.5
            else "(" + "".join(f"{i.text}, " for i in indices) + ")"
        )
        text = f"ct.gather({', '.join([array.name, index, *options])})"

        def value(env: Env) -> Array:
            m = None if mask is None else mask.value(env)
            return model.gathered(env.arrays[array.name], [i.value(env) for i in indices], m, pad)

        return Expr(text, dtype, shape, value)

    def _modulo(self, index: Expr, n: int) -> Expr:
        n = min(n, np.iinfo(DTYPES[index.dtype]).max)
        return Expr(
            f"({index.text}) % {n}",
            index.dtype,
            index.shape,
            lambda env: np.asarray(index.value(env) % np.asarray(n).astype(DTYPES[index.dtype])),
        )

    # -- shapes of operands

    def _smaller(self, shape: Shape) -> Shape:
        """A shape that broadcasts to ``shape``."""
        kind = self.rng.random()
        if kind < 0.4:
            return shape
        if kind < 0.55:
            return ()
        part = tuple(self.pick(n, 1) for n in shape)
        return part[self.rng.randint(0, len(part)) :] if kind < 0.8 else part

    def _operand_shapes(self, shape: Shape, count: int) -> list[Shape]:
        """``count`` shapes that broadcast to ``shape`` together."""
        shapes = [self._smaller(shape) for _ in range(count)]
        if np.broadcast_shapes(*shapes) != shape:
            shapes[self.rng.randrange(count)] = shape
        return shapes

    # -- expressions

    def _allowed(self, e: Expr) -> bool:
        return not self.in_helper or e.level == Level.MODELLED

    def expr(self, dtype: str, shape: Shape, depth: int, most: Level = Level.EXACT) -> Expr:
        """An expression of the type, whose level is at most ``most``."""
        most = min(most, Level.MODELLED if self.in_helper else most if dtype in FLOATS else Level.EXACT)
        for _ in range(20):
            if depth <= 0 or self.rng.random() < 0.15:
                made: Expr | None = self.leaf(dtype, shape)
            else:
                made = self.rng.choice(PRODUCTIONS)(self, dtype, shape, depth - 1, most)
            if made is not None and made.level <= most:
                return made
        return self.load(dtype, shape) if shape and not self.in_helper else self._constant_tile(dtype, shape)

    def _constant_tile(self, dtype: str, shape: Shape) -> Expr:
        value = self.constant(dtype)
        if not shape:
            return value
        return Expr(
            f"ct.full({shape}, {value.text}, ct.{dtype})",
            dtype,
            shape,
            lambda env: np.broadcast_to(value.value(env), shape),
        )

    def operands(self, dtype: str, shape: Shape, depth: int, most: Level) -> tuple[Expr, Expr]:
        """Two operands that promote to ``dtype`` and broadcast to ``shape``."""
        shapes = self._operand_shapes(shape, 2)
        other = dtype
        if self.rng.random() < 0.25:
            other = self.rng.choice([d for d in ALL if model.promoted(d, dtype) == dtype])
        pair = [self.expr(dtype, shapes[0], depth, most), self.expr(other, shapes[1], depth, most)]
        if self.rng.random() < 0.5:
            pair.reverse()
        return pair[0], pair[1]

    def condition(self, depth: int = 1) -> Expr:
        """A condition of ``if`` and ``while``: a scalar of any dtype, comparisons, ``and``, ``or``, ``not``."""
        kind = self.rng.randrange(7)
        if kind == 0 and depth > 0:
            a, b, word = self.condition(depth - 1), self.condition(depth - 1), self.pick("and", "or")
            if word == "and":
                return Expr(
                    f"({a.text} and {b.text})", "bool_", (), lambda env: bool(a.value(env)) and bool(b.value(env))
                )
            return Expr(f"({a.text} or {b.text})", "bool_", (), lambda env: bool(a.value(env)) or bool(b.value(env)))
        if kind == 1 and depth > 0:
            c = self.condition(depth - 1)
            return Expr(f"(not {c.text})", "bool_", (), lambda env: not c.value(env))
        if kind == 2:
            return self.expr(self.rng.choice(ALL), (), depth, Level.MODELLED)
        if kind == 3:
            dtype = self.rng.choice(INTEGERS)
            x, y, z = (self.expr(dtype, (), depth - 1, Level.MODELLED) for _ in range(3))
            p, q = self.rng.choices(list(model.COMPARISONS), k=2)
            f, g = model.COMPARISONS[p], model.COMPARISONS[q]
            text = f"({x.text} {p} {y.text} {q} {z.text})"
            return Expr(
                text,
                "bool_",
                (),
                lambda env: bool(f(x.value(env), y.value(env))) and bool(g(y.value(env), z.value(env))),
            )
        return self.expr("bool_", (), depth + 1, Level.MODELLED)


Production = Callable[[Expressions, str, Shape, int, Level], "Expr | None"]


def _joined(*operands: Expr) -> Level:
    return max(e.level for e in operands)


def _arithmetic(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    most = min(most, Level.EXACT)
    if dtype == "bool_":
        return None
    symbol = g.rng.choice(("+", "-", "*", "/") if dtype in FLOATS else ("+", "-", "*", "//", "%", "cdiv"))
    if symbol in ("//", "%", "cdiv"):
        shapes = g._operand_shapes(shape, 2)
        x, d = g.expr(dtype, shapes[0], depth, most), g.expr(dtype, shapes[1], depth, most)
        mask, one = DTYPES[dtype].type(7), DTYPES[dtype].type(1)
        y = Expr(f"(({d.text} & 7) | 1)", dtype, d.shape, lambda env: np.asarray((d.value(env) & mask) | one), d.level)
    else:
        x, y = g.operands(dtype, shape, depth, most)
        if g.rng.random() < 0.2:
            constant = literal(g.rng, dtype)
            if x.dtype == dtype and x.shape == shape and not (symbol == "/" and constant == 0):
                made = np.asarray(constant, dtype=np.float64 if dtype in FLOATS else None).astype(DTYPES[dtype])
                y = Expr(repr(constant), dtype, (), lambda env: made)
    op = model.ARITHMETIC[symbol]
    mode, ftz = "", False
    if symbol in "+-*" and dtype in FLOATS and g.rng.random() < 0.1:
        mode = g.pick("RZ", "RM", "RP")
    if mode or (ftz := (dtype == "float32" and symbol in "+-*" and g.rng.random() < 0.05)):
        name = {"+": "add", "-": "sub", "*": "mul"}[symbol]
        option = f"rounding_mode=ct.RoundingMode.{mode}" if mode else f"flush_to_zero={ftz}"
        return Expr(
            f"ct.{name}({x.text}, {y.text}, {option})", dtype, shape, lambda env: None, max(Level.EXACT, _joined(x, y))
        )
    text = f"ct.cdiv({x.text}, {y.text})" if symbol == "cdiv" else f"({x.text} {symbol} {y.text})"
    return Expr(text, dtype, shape, lambda env: op(cast(x.value(env), dtype), cast(y.value(env), dtype)), _joined(x, y))


def _comparison(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype != "bool_":
        return None
    common = g.rng.choice(ALL)
    x, y = g.operands(common, shape, depth, most)
    symbol = g.rng.choice(list(model.COMPARISONS))
    op = model.COMPARISONS[symbol]
    return Expr(
        f"({x.text} {symbol} {y.text})",
        "bool_",
        shape,
        lambda env: np.asarray(op(cast(x.value(env), common), cast(y.value(env), common))),
        _joined(x, y),
    )


def _bitwise(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype in FLOATS:
        return None
    shapes = g._operand_shapes(shape, 2)
    x, y = (g.expr(dtype, s, depth, most) for s in shapes)
    symbol = g.rng.choice(list(model.BITWISE))
    op = model.BITWISE[symbol]
    return Expr(
        f"({x.text} {symbol} {y.text})",
        dtype,
        shape,
        lambda env: np.asarray(op(x.value(env), y.value(env))),
        _joined(x, y),
    )


def _shift(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype not in INTEGERS:
        return None
    shapes = g._operand_shapes(shape, 2)
    x, n = (g.expr(dtype, s, depth, most) for s in shapes)
    limit = DTYPES[dtype].type(model.bits(dtype) - 1)
    symbol, op = g.pick(("<<", model.shift_left), (">>", model.shift_right))
    text = f"({x.text} {symbol} ({n.text} & {int(limit)}))"
    return Expr(text, dtype, shape, lambda env: op(x.value(env), n.value(env) & limit), _joined(x, n))


def _unary(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    most = min(most, Level.EXACT)
    if dtype == "bool_":
        x = g.expr("bool_", shape, depth, most)
        form = g.pick("(~{})", "(not {})", "ct.bitwise_not({})")
        return Expr(form.format(x.text), "bool_", shape, lambda env: np.asarray(np.logical_not(x.value(env))), x.level)
    x = g.expr(dtype, shape, depth, most)
    forms: list[tuple[str, Any]] = [("(-{})", np.negative), ("abs({})", np.abs)]
    if dtype in INTEGERS:
        forms.append(("(~{})", np.invert))
    else:
        forms += [("ct.floor({})", np.floor), ("ct.ceil({})", np.ceil)]
        if dtype in ("float32", "float64"):
            forms.append(("ct.sqrt({})", np.sqrt))
    form, op = g.rng.choice(forms)

    def value(env: Env) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(op(x.value(env))).astype(DTYPES[dtype])

    return Expr(form.format(x.text), dtype, shape, value, x.level)


def _isnan(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype != "bool_":
        return None
    x = g.expr(g.rng.choice(FLOATS), shape, depth, most)
    return Expr(f"ct.isnan({x.text})", "bool_", shape, lambda env: np.isnan(x.value(env).astype(np.float64)), x.level)


def _where(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    shapes = g._operand_shapes(shape, 3)
    c = g.expr(g.rng.choice(("bool_", "bool_", "bool_", *ALL)), shapes[0], depth, min(most, Level.EXACT))
    x, y = (g.expr(dtype, s, depth, most) for s in shapes[1:])

    def value(env: Env) -> Array:
        return np.asarray(np.where(c.value(env) != 0, x.value(env), y.value(env))).astype(DTYPES[dtype])

    return Expr(f"ct.where({c.text}, {x.text}, {y.text})", dtype, shape, value, _joined(c, x, y))


def _extremum(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype == "bool_":
        return None
    x, y = g.operands(dtype, shape, depth, most)
    largest, propagate = g.rng.random() < 0.5, dtype in FLOATS and g.rng.random() < 0.3
    op = model.extremum(largest, propagate)
    name = "maximum" if largest else "minimum"
    text = f"ct.{name}({x.text}, {y.text}{', propagate_nan=True' if propagate else ''})"
    return Expr(text, dtype, shape, lambda env: op(cast(x.value(env), dtype), cast(y.value(env), dtype)), _joined(x, y))


def _astype(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    most = min(most, Level.EXACT)
    source = g.rng.choice(ALL)
    x = g.expr(source, shape, depth, most)
    if source in FLOATS and dtype in INTEGERS:
        low = 0 if dtype in UNSIGNED else -99
        text = f"ct.where(({x.text} > {low - 1}) & ({x.text} < 100), {x.text}, 1).astype(ct.{dtype})"

        def guarded(env: Env) -> Array:
            v = x.value(env)
            with np.errstate(all="ignore"):
                wide = v.astype(np.float64)
                return cast(np.where((wide > low - 1) & (wide < 100), v, np.asarray(1).astype(v.dtype)), dtype)

        return Expr(text, dtype, shape, guarded, x.level)
    form = g.pick("{}.astype(ct.{})", "ct.astype({}, ct.{})")
    if source == dtype and not shape:
        form = "ct.astype({}, ct.{})"
    return Expr(form.format(x.text, dtype), dtype, shape, lambda env: cast(x.value(env), dtype), x.level)


def _bitcast(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    same = [d for d in INTEGERS + FLOATS if model.bits(d) == model.bits(dtype) and d != dtype]
    if dtype == "bool_" or dtype in FLOATS or not same:  # floats of any bits would be signalling NaNs
        return None
    source = g.rng.choice([d for d in same if d not in FLOATS] or same)
    x = g.expr(source, shape, depth, most)
    return Expr(
        f"ct.bitcast({x.text}, ct.{dtype})",
        dtype,
        shape,
        lambda env: np.ascontiguousarray(x.value(env)).view(DTYPES[dtype]).reshape(shape),
        x.level,
    )


def _reduction(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    """A named reduction of integers, or the largest and smallest of any numbers, along one axis or all."""
    if dtype == "bool_" or (g.rng.random() < 0.3 and not shape):
        return None
    if len(shape) > 3:
        return None
    length = g.pick(1, 2, 8, 16)
    axis: int | None = g.rng.randint(0, len(shape))
    keep = False
    source: Shape = (*shape[:axis], length, *shape[axis:])
    if not shape and g.rng.random() < 0.5:
        axis, source = None, g.rng.choice([s for s in SHAPES if s])
    elif shape and 1 in shape and g.rng.random() < 0.5:
        keep, axis = True, g.rng.choice([k for k, n in enumerate(shape) if n == 1])
        source = (*shape[:axis], length, *shape[axis + 1 :])
    if np.prod(source, dtype=int) > 512:
        return None
    x = g.expr(dtype, source, depth, most)
    names: dict[str, Any] = {"max": model.extremum(True, False), "min": model.extremum(False, False)}
    if dtype in INTEGERS:
        names.update(sum=model.wrapping(np.add), prod=model.wrapping(np.multiply))
    name = g.rng.choice(list(names))
    op = names[name]
    options = "" if axis is None else f", axis={axis}"
    text = f"ct.{name}({x.text}{options}{', keepdims=True' if keep else ''})"
    if dtype in INTEGERS and axis is not None and not keep and g.rng.random() < 0.2:
        word, op, identity = g.pick(
            ("a ^ b", np.bitwise_xor, 0), ("a | b", np.bitwise_or, 0), ("a & b", np.bitwise_and, None)
        )
        start = (
            identity if identity is not None else f"ct.{dtype}({-1 if dtype in SIGNED else 2 ** model.bits(dtype) - 1})"
        )
        text = f"ct.reduce({x.text}, {axis}, lambda a, b: {word}, {start})"
    return Expr(text, dtype, shape, lambda env: model.reduced(x.value(env), axis, op, keep), x.level)


def _arg_extremum(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype != "int32" or len(shape) > 3:
        return None
    axis: int | None = g.rng.randint(0, len(shape))
    source: Shape = (*shape[:axis], g.pick(2, 8), *shape[axis:])
    x = g.expr(g.rng.choice(INTEGERS), source, depth, most)
    largest = g.rng.random() < 0.5
    text = f"ct.{'argmax' if largest else 'argmin'}({x.text}, axis={axis})"
    return Expr(text, dtype, shape, lambda env: model.first_index(x.value(env), axis, largest), x.level)


def _scan(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if dtype not in INTEGERS or not shape:
        return None
    x = g.expr(dtype, shape, depth, most)
    axis, reverse = g.rng.randrange(len(shape)), g.rng.random() < 0.4
    name, op = g.pick(("cumsum", model.wrapping(np.add)), ("cumprod", model.wrapping(np.multiply)))
    text = f"ct.{name}({x.text}, axis={axis}{', reverse=True' if reverse else ''})"
    return Expr(text, dtype, shape, lambda env: model.scanned(x.value(env), axis, op, reverse), x.level)


def _reshaped(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    count = int(np.prod(shape, dtype=int))
    source = g.rng.choice([s for s in SHAPES if np.prod(s, dtype=int) == count] or [(count,)])
    x = g.expr(dtype, source, depth, most)
    form = g.pick("ct.reshape({}, {})", "{}.reshape({})")
    return Expr(form.format(x.text, shape), dtype, shape, lambda env: np.reshape(x.value(env), shape), x.level)


def _permuted(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if len(shape) < 2:
        return None
    axes = g.rng.sample(range(len(shape)), len(shape))
    source = tuple(shape[axes.index(k)] for k in range(len(shape)))
    x = g.expr(dtype, source, depth, most)
    text = f"ct.transpose({x.text})" if len(shape) == 2 and axes == [1, 0] else f"ct.permute({x.text}, {tuple(axes)})"
    return Expr(text, dtype, shape, lambda env: np.transpose(x.value(env), axes), x.level)


def _broadcast(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if not shape:
        return None
    x = g.expr(dtype, g._smaller(shape), depth, most)
    if x.shape and len(x.shape) == len(shape) - 1 and x.shape == shape[1:] and shape[0] == 1:
        return Expr(f"{x.text}[None]", dtype, shape, lambda env: x.value(env)[None], x.level)
    return Expr(
        f"ct.broadcast_to({x.text}, {shape})", dtype, shape, lambda env: np.broadcast_to(x.value(env), shape), x.level
    )


def _cat(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    axes = [k for k, n in enumerate(shape) if n > 1]
    if not axes:
        return None
    axis = g.rng.choice(axes)
    half = tuple(n // 2 if k == axis else n for k, n in enumerate(shape))
    x, y = (g.expr(dtype, half, depth, most) for _ in range(2))
    return Expr(
        f"ct.cat(({x.text}, {y.text}), {axis})",
        dtype,
        shape,
        lambda env: np.concatenate([x.value(env), y.value(env)], axis),
        _joined(x, y),
    )


def _extract(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if not shape or np.prod(shape, dtype=int) > 128:
        return None
    axis = g.rng.randrange(len(shape))
    parts = g.pick(2, 4)
    source = tuple(n * parts if k == axis else n for k, n in enumerate(shape))
    x = g.expr(dtype, source, depth, most)
    which, place = g.block_index(parts)
    index = tuple(which if k == axis else "0" for k in range(len(shape)))
    text = f"ct.extract({x.text}, ({''.join(i + ', ' for i in index)}), {shape})"

    def value(env: Env) -> Array:
        n = shape[axis]
        return np.take(x.value(env), range(place(env) * n, (place(env) + 1) * n), axis)

    return Expr(text, dtype, shape, value, x.level)


def _matmul(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    """A product of small integers, exact in any order."""
    if len(shape) != 2 or dtype not in ("int32", "float32", "float64"):
        return None
    k = g.pick(1, 2, 8, 16)
    source = {
        "int32": g.pick("int8", "uint8"),
        "float32": g.pick("float16", "bfloat16", "float32"),
        "float64": "float64",
    }[dtype]
    if (shape[0] + shape[1]) * k > 1024:
        return None
    x, y = (g.expr("int16", s, depth, Level.MODELLED) for s in ((shape[0], k), (k, shape[1])))
    start = g.expr("int8", shape, depth, Level.MODELLED)
    low = -4 if source != "uint8" else 0
    small = [f"(({e.text} & 7) + {low}).astype(ct.{source})" for e in (x, y)]
    text = f"ct.mma({small[0]}, {small[1]}, {start.text}.astype(ct.{dtype}))"

    def value(env: Env) -> Array:
        a, b = (((e.value(env) & np.int16(7)) + np.int16(low)).astype(np.int64) for e in (x, y))
        return np.asarray(a @ b + start.value(env)).astype(DTYPES[dtype])

    return Expr(text, dtype, shape, value)


def _conditional(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    c = g.condition(1)
    x, y = (g.expr(dtype, shape, depth, most) for _ in range(2))
    return Expr(
        f"({x.text} if {c.text} else {y.text})",
        dtype,
        shape,
        lambda env: (x if c.value(env) else y).value(env),
        _joined(x, y),
    )


def _gathered(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    return None if g.in_helper else g.gather(dtype, shape, min(depth, 1))


def _block(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if shape or dtype != "int32":
        return None
    axis = g.rng.randrange(3)
    name, many = g.pick(("bid", False), ("num_blocks", True))
    return Expr(f"ct.{name}({axis})", dtype, shape, lambda env: np.int32((env.grid if many else env.bid)[axis]))


def _transcendental(g: Expressions, dtype: str, shape: Shape, depth: int, most: Level) -> Expr | None:
    if most < Level.CLOSE or dtype not in FLOATS:
        return None
    x = g.expr(dtype, shape, depth, Level.EXACT)
    name = g.rng.choice(("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "rsqrt", "sum"))
    if name == "sum":
        return None
    return Expr(f"ct.{name}({x.text})", dtype, shape, lambda env: None, Level.CLOSE)


PRODUCTIONS: tuple[Production, ...] = (
    *(_arithmetic,) * 5,
    *(_comparison,) * 3,
    *(_bitwise,) * 2,
    _shift,
    *(_unary,) * 2,
    _isnan,
    *(_where,) * 2,
    *(_extremum,) * 2,
    *(_astype,) * 3,
    _bitcast,
    *(_reduction,) * 3,
    _arg_extremum,
    _scan,
    _reshaped,
    _permuted,
    *(_broadcast,) * 2,
    _cat,
    _extract,
    *(_matmul,) * 2,
    _conditional,
    *(_gathered,) * 3,
    _block,
    *(_transcendental,) * 2,
)
