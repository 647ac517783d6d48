"""Writing TTIR: values with their types, and one line per op.

A tile of Tile IR becomes a tensor without its axes of length 1, and a scalar when none is left: `(64, 1)` is
``tensor<64xf32>``. Triton picks layouts for such tensors best, and reshapes that move only unit axes cost nothing.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.analysis.gpu.element_types import memory_element, register_element
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.triton.ttir.divisibility import any_multiple
from tilewright.ir.gpu_parameters import element_bits
from tilewright.ir.location import UNKNOWN, Loc
from tilewright.ir.types import ElementType, PointerType, TileType

Shape = tuple[int, ...]
TensorType = tuple[str, Shape]  # element type and shape


def squeezed(shape: Shape) -> Shape:
    """``shape`` without its axes of length 1."""
    return tuple(n for n in shape if n != 1)


def axes_kept(shape: Shape) -> Shape:
    """The axes of ``shape`` that ``squeezed`` leaves."""
    return tuple(k for k, n in enumerate(shape) if n != 1)


def type_text(element: str, shape: Shape) -> str:
    """The TTIR type of a tensor of ``element``; of the element itself for rank 0."""
    if not shape:
        return element
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


FP8 = {"f8E4M3FN": (4, 3), "f8E5M2": (5, 2)}


def element(dtype: ElementType, target: GpuTarget) -> str:
    """The TTIR element type."""
    if isinstance(dtype, PointerType):
        return f"!tt.ptr<{memory_element(dtype.pointee, target)}>"
    return register_element(dtype, target)


def tensor_type(t: TileType, target: GpuTarget) -> tuple[str, Shape]:
    """Element type and shape of the TTIR value for a tile of type ``t``."""
    return element(t.dtype, target), squeezed(t.shape)


@dataclass(frozen=True)
class Val:
    """An SSA value of TTIR: ``element`` is its element type, ``shape`` () for a scalar."""

    name: str
    element: str
    shape: Shape = ()

    @property
    def type(self) -> str:
        return type_text(self.element, self.shape)

    @property
    def bits(self) -> int:
        """The width of an element; 64 for pointers."""
        return element_bits(self.element)


def names(values: Sequence[Val]) -> str:
    return ", ".join(v.name for v in values)


def types(values: Sequence[Val]) -> str:
    return ", ".join(v.type for v in values)


_FLOAT_BITS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def float_literal(value: float, element: str) -> str:
    """``value`` as the bit pattern of ``element``, which it must be able to hold."""
    if element == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"0x{bits >> 16:04X}"
    pack, unpack = _FLOAT_BITS[element]
    if math.isnan(value):
        pattern = {"f16": 0x7E00, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}[element]
    else:
        (pattern,) = struct.unpack(unpack, struct.pack(pack, value))
    return f"0x{pattern:0{element_bits(element) // 4}X}"


_NAME = re.compile(r"%\w+")
# Ops whose result has equal elements where their operands have. Triton makes each of them one of scalars then.
_KEEPS_EQUAL = re.compile(
    r"(arith|math)\.|tt\.(broadcast|expand_dims|reshape|trans|bitcast|fp_to_fp|addptr|int_to_ptr|ptr_to_int|mulhiui|"
    r"extern_elementwise|elementwise_inline_asm|precise_\w+|load) "
)
_MAKES_EQUAL = re.compile(r"tt\.splat |arith\.constant dense<[^\[]")


@dataclass(eq=False)
class Writer:
    """Collects the lines of one function. ``loc`` is attached to every op that is written.

    ``hide_divisibility`` puts optimization barriers after ops of several axes that say something about each of them,
    and where control goes: Triton's analyses fail at what they find out to be never reached, too.
    """

    target: GpuTarget
    hide_divisibility: bool = False
    lines: list[str] = field(default_factory=list)
    loc: Loc = UNKNOWN
    _count: int = 0
    _indent: int = 2
    _constants: list[dict[tuple[object, str, Shape], Val]] = field(default_factory=lambda: [{}])
    _equal: set[str] = field(default_factory=set)  # tensors whose elements are equal

    # -- lines and regions

    def line(self, text: str) -> None:
        self.lines.append("  " * self._indent + text)

    def name(self) -> str:
        self._count += 1
        return f"%{self._count}"

    def located(self, text: str) -> None:
        self.line(f"{text} {self.location()}")

    def location(self) -> str:
        file = self.loc.file.replace("\\", "\\\\").replace('"', '\\"')
        return f'loc("{file}":{max(self.loc.line, 0)}:{self.loc.column})'

    @contextmanager
    def region(self) -> Iterator[None]:
        """Indented lines; constants written inside are not visible after it."""
        self._indent += 1
        self._constants.append({})
        yield
        self._constants.pop()
        self._indent -= 1

    # -- ops

    def emit(self, text: str, element: str, shape: Shape = ()) -> Val:
        """One op with one result."""
        if self.hide_divisibility and len(shape) > 1 and (said := any_multiple(element, shape)) and said in text:
            return self._hidden(self.emit(text.replace(said, ""), element, shape))
        value = Val(self.name(), element, shape)
        self.located(f"{value.name} = {text}")
        kept = shape and _KEEPS_EQUAL.match(text) and self._equal.issuperset(_NAME.findall(text))
        if kept or _MAKES_EQUAL.match(text):
            self._equal.add(value.name)
        return value

    def any_multiple(self, x: Val, *others: Val) -> str:
        """The attributes of an op on these values, with a result like ``x``, of which Triton must not know a divisor.
        Where all of them have equal elements, Triton finds the right one, and makes the op one of scalars."""
        return "" if self._equal.issuperset(v.name for v in (x, *others)) else any_multiple(x.element, x.shape)

    def _hidden(self, x: Val) -> Val:
        """``x``, integers or pointers, of which Triton knows nothing."""
        if x.element.startswith("!"):
            return self.int_to_ptr(self.optimization_barrier(self.ptr_to_int(x)), x.element)
        if x.bits == 8:
            return self.convert("arith.trunci", self.optimization_barrier(self.convert("arith.extsi", x, "i16")), "i8")
        return self.optimization_barrier(x)

    def constant(self, value: float | int | bool, element: str, shape: Shape = ()) -> Val:
        """``value`` in every element."""
        key = (repr(value), element, shape)
        for scope in self._constants:
            if key in scope:
                return scope[key]
        if element.startswith("!tt.ptr"):
            return self.splat(self.int_to_ptr(self.constant(int(value), "i64"), element), shape)
        if element == "i1":
            text = "true" if value else "false"
        elif element.startswith("i"):
            bits = element_bits(element)
            wrapped = int(value) & ((1 << bits) - 1)
            text = str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
        else:
            text = float_literal(float(value), element)
        typed = type_text(element, shape)
        literal = f"dense<{text}> : {typed}" if shape else f"{text}{'' if element == 'i1' else ' : ' + typed}"
        self._constants[-1][key] = found = self.emit(f"arith.constant {literal}", element, shape)
        return found

    def like(self, value: float | int | bool, x: Val) -> Val:
        """A constant of the type of ``x``."""
        return self.constant(value, x.element, x.shape)

    def op(self, name: str, *operands: Val, attributes: str = "") -> Val:
        """An op whose operands and result have one type."""
        x = operands[0]
        return self.emit(f"{name} {names(operands)}{attributes} : {x.type}", x.element, x.shape)

    def convert(self, name: str, x: Val, element: str) -> Val:
        """A conversion such as ``arith.extf``."""
        if x.element == element:
            return x
        if {x.element, element} == {"bf16", "f64"} and not self.target.is_cuda:  # Triton has no such step for AMD
            return self.convert(name, self.convert(name, x, "f32"), element)
        return self.emit(f"{name} {x.name} : {x.type} to {type_text(element, x.shape)}", element, x.shape)

    def bitcast(self, x: Val, element: str) -> Val:
        if x.element == element:
            return x
        return self.emit(f"tt.bitcast {x.name} : {x.type} -> {type_text(element, x.shape)}", element, x.shape)

    def resize(self, x: Val, bits: int, *, signed: bool = True) -> Val:
        """Integers in ``bits`` bits."""
        name = "arith.trunci" if x.bits > bits else "arith.extsi" if signed else "arith.extui"
        return self.convert(name, x, f"i{bits}")

    def ptr_to_int(self, x: Val) -> Val:
        """The addresses in ``x`` as i64."""
        return self.emit(f"tt.ptr_to_int {x.name} : {x.type} -> {type_text('i64', x.shape)}", "i64", x.shape)

    def int_to_ptr(self, x: Val, element: str) -> Val:
        """The addresses ``x`` as pointers of type ``element``."""
        return self.emit(f"tt.int_to_ptr {x.name} : {x.type} -> {type_text(element, x.shape)}", element, x.shape)

    def compare(self, predicate: str, x: Val, y: Val) -> Val:
        """``arith.cmpi`` or, for floats, ``arith.cmpf``."""
        name = "cmpi" if x.element.startswith("i") else "cmpf"
        return self.emit(f"arith.{name} {predicate}, {x.name}, {y.name} : {x.type}", "i1", x.shape)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        kinds = f"{condition.type}, {x.type}" if condition.shape else x.type
        text = f"{names((condition, x, y))}{self.any_multiple(x, y, condition)}"
        return self.emit(f"arith.select {text} : {kinds}", x.element, x.shape)

    def splat(self, x: Val, shape: Shape) -> Val:
        if not shape:
            return x
        return self.emit(f"tt.splat {x.name} : {x.element} -> {type_text(x.element, shape)}", x.element, shape)

    def expand(self, x: Val, axis: int) -> Val:
        """``x`` with an axis of length 1 inserted."""
        if not x.shape:
            return self.splat(x, (1,))
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self._shaped(f"tt.expand_dims {x.name} {{axis = {axis} : i32}}", x, shape)

    def broadcast(self, x: Val, shape: Shape) -> Val:
        """``x`` repeated along its axes of length 1; the ranks are equal."""
        return x if x.shape == shape else self._shaped(f"tt.broadcast {x.name}", x, shape)

    def reshape(self, x: Val, shape: Shape) -> Val:
        if x.shape == shape:
            return x
        if not x.shape:
            return self.splat(x, shape)
        if not shape:
            return self.emit(f"tt.unsplat {x.name} : {x.type}", x.element)
        return self._shaped(f"tt.reshape {x.name}", x, shape)

    def trans(self, x: Val, axes: Sequence[int]) -> Val:
        if tuple(axes) == tuple(range(len(x.shape))):
            return x
        order = ", ".join(map(str, axes))
        return self._shaped(f"tt.trans {x.name} {{order = array<i32: {order}>}}", x, tuple(x.shape[a] for a in axes))

    def _shaped(self, text: str, x: Val, shape: Shape) -> Val:
        return self.emit(f"{text} : {x.type} -> {type_text(x.element, shape)}", x.element, shape)

    def broadcast_along(self, x: Val, axes: Sequence[int], shape: Shape) -> Val:
        """``x``, whose axes are ``axes`` of a tensor of ``shape``, repeated along the others."""
        if not x.shape:
            return self.splat(x, shape)
        for axis in range(len(shape)):
            if axis not in axes:
                x = self.expand(x, axis)
        return self.broadcast(x, shape)

    def arange(self, n: int) -> Val:
        return self.emit(f"tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>", "i32", (n,))

    def call(self, function: str, *operands: Val) -> Val:
        """A function of the device math library, elementwise, on float32 or float64."""
        x = operands[0]
        if self.target.is_cuda:
            symbol = f"__nv_{function}{'f' if x.element == 'f32' else ''}"
        else:
            symbol = f"__ocml_{function}_{x.element}"
        fields = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
        text = f"tt.extern_elementwise {names(operands)} {fields} : ({types(operands)}) -> {x.type}"
        return self.emit(text, x.element, x.shape)

    def reduce(self, name: str, x: Val, axis: int) -> Val:
        """x folded along ``axis`` by an op on two scalars."""
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return self.combine("reduce", [x], f"axis = {axis} : i32", shape, lambda ab: [self.op(name, *ab)])[0]

    def instruction(self, code: str) -> None:
        """One without operands, by every thread."""
        code, register = (f"mov.u32 $0, $1; {code}", "r") if self.target.is_cuda else (code, "v")
        self.asm(code, f"={register},{register}", [self.constant(0, "i32")], "i32", pure=False)

    def optimization_barrier(self, x: Val, *, pure: bool = True) -> Val:
        """``x``, a number of 16, 32 or 64 bits, as a value that LLVM knows nothing of, nor Triton if not ``pure``."""
        if not self.target.is_cuda:
            return self.asm("", "=v,0", [x], x.element, pure=pure)
        register = {"f32": "f", "f64": "d", "i64": "l"}.get(x.element, "h" if x.bits == 16 else "r")
        return self.asm(f"mov.b{x.bits} $0, $1;", f"={register},{register}", [x], x.element, pure=pure)

    def asm(self, code: str, constraints: str, operands: Sequence[Val], element: str, *, pure: bool = True) -> Val:
        """Inline assembly, of the target, for each element."""
        shape = operands[0].shape
        fields = f'{{constraints = "{constraints}", packed_element = 1 : i32, pure = {"true" if pure else "false"}}}'
        arguments = f"{names(operands)} : {types(operands)}"
        text = f'tt.elementwise_inline_asm "{code}" {fields} {arguments} -> {type_text(element, shape)}'
        return self.emit(text, element, shape)

    # -- ops with regions

    def results(self, kinds: Sequence[TensorType]) -> tuple[str, list[Val]]:
        """The left side of an op with results of these types."""
        name = self.name()
        if not kinds:
            return "", []
        if len(kinds) == 1:
            return f"{name} = ", [Val(name, *kinds[0])]
        return f"{name}:{len(kinds)} = ", [Val(f"{name}#{i}", *t) for i, t in enumerate(kinds)]

    def begin(self, arguments: Sequence[Val]) -> None:
        """The head of a block."""
        self.line(f"^bb0({', '.join(f'{v.name}: {v.type}' for v in arguments)}):")

    def end(self, terminator: str, values: Sequence[Val]) -> None:
        self.located(f"{terminator} {names(values)} : {types(values)}" if values else terminator)

    def if_(
        self,
        condition: Val,
        kinds: Sequence[TensorType],
        then: Callable[[], Sequence[Val]],
        orelse: Callable[[], Sequence[Val]],
    ) -> list[Val]:
        """scf.if, whose branches give values of these types."""
        loc = self.loc
        left, found = self.results(kinds)
        arrow = f" -> ({', '.join(type_text(*t) for t in kinds)})" if kinds else ""
        self.line(f"{left}scf.if {condition.name}{arrow} {{")
        with self.region():
            self.end("scf.yield", then())
        self.line("} else {")
        with self.region():
            self.end("scf.yield", orelse())
        self.loc = loc
        self.located("}")
        return found

    def while_(
        self, inits: Sequence[Val], extra: Sequence[TensorType], body: Callable[[list[Val]], tuple[Val, list[Val]]]
    ) -> list[Val]:
        """scf.while with its condition after ``body``, which gives that, the carried values and others of the types
        ``extra``. Triton ties the n-th result to the n-th argument, so the carried values come first on both sides."""
        loc = self.loc
        carried = [(v.element, v.shape) for v in inits]
        left, found = self.results([*carried, *extra])
        arguments = [Val(self.name(), *t) for t in carried]
        pairs = ", ".join(f"{a.name} = {v.name}" for a, v in zip(arguments, inits))
        self.line(f"{left}scf.while ({pairs}) : ({types(inits)}) -> ({types(found)}) {{")
        with self.region():
            goes_on, state = body(arguments)
            self.end(f"scf.condition({goes_on.name})", state)
        self.line("} do {")
        after = [Val(self.name(), v.element, v.shape) for v in found]
        with self.region():
            self.begin(after)
            self.end("scf.yield", after[: len(inits)])
        self.loc = loc
        self.located("}")
        return found

    def combine(
        self,
        name: str,
        values: Sequence[Val],
        attributes: str,
        shape: Shape,
        combiner: Callable[[list[Val]], Sequence[Val]],
    ) -> list[Val]:
        """tt.reduce or tt.scan, with results of ``shape``; ``combiner`` gives the scalars that it makes of those of two
        positions."""
        loc = self.loc
        left, found = self.results([(v.element, shape) for v in values])
        self.line(f'{left}"tt.{name}"({names(values)}) <{{{attributes}}}> ({{')
        with self.region():
            scalars = [Val(self.name(), v.element) for v in (*values, *values)]
            self.begin(scalars)
            self.end(f"tt.{name}.return", combiner(scalars))
        self.loc = loc
        outputs = types(found) if len(found) == 1 else f"({types(found)})"
        self.located(f"}}) : ({types(values)}) -> {outputs}")
        return found
