"""A small expression language over LLVM values, so that numeric code reads like the formula it emits.

``Val`` wraps one LLVM value (a vector or a scalar) and overloads the operators; a Python number on either side
becomes a constant of the same type. Integer ``Val`` are signed unless a method name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tilewright.backends.branches import phi_of
from tilewright.backends.external import call_external, defined_once, mangled
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.backends.vector.features import HostFeatures
from tilewright.backends.vector.types import F32, F64, I1, I32, I64, Number, Splat, scalar_of, with_lanes

CURRENT_ROUNDING = 4  # an operand of instructions: as the processor is set, to nearest


class VectorBuilder:
    """Emits instructions on values of ``lanes`` elements (``None``: scalars) at the position of ``builder``."""

    def __init__(self, builder: ir.IRBuilder, lanes: int | None, features: HostFeatures) -> None:
        self.builder = builder
        self.lanes = lanes
        self.features = features

    def type(self, scalar: ir.Type) -> ir.Type:
        """``scalar``, spread over the lanes."""
        return with_lanes(scalar, self.lanes)

    def const(self, scalar: ir.Type, value: Number) -> Val:
        return Val(self, Splat(self.type(scalar), value))

    def scalars(self) -> VectorBuilder:
        """A builder of single elements at this insertion point."""
        return VectorBuilder(self.builder, None, self.features)

    def intrinsic(
        self, name: str, *args: Val, result: ir.Type | None = None, flags: Sequence[bool] = (), overloads: int = 1
    ) -> Val:
        """Call ``llvm.<name>``, whose name carries the types of the first ``overloads`` arguments.

        ``result`` is the result type where it differs from the first argument, and then part of the name too.
        ``flags`` are trailing immediate i1 arguments.
        """
        types = [a.value.type for a in args]
        named = ([] if result is None else [result]) + types[:overloads]
        full_name = ".".join(["llvm", name, *map(mangled, named)])
        values = [*(a.value for a in args), *(ir.Constant(I1, int(flag)) for flag in flags)]
        return Val(self, call_external(self.builder, full_name, named[0], values))

    @property
    def wide(self) -> bool:
        """Whether the lanes are 16, as in 512 bits of float32, on a processor with instructions for that."""
        return self.features.wide and self.lanes == 16

    def instruction(self, name: str, scalar: ir.Type, *args: Val | int) -> Val:
        """Call ``llvm.x86.<name>``, whose result has lanes of ``scalar``; an int is an immediate of 32 bits."""
        values = [a.value if isinstance(a, Val) else ir.Constant(I32, a) for a in args]
        return Val(self, call_external(self.builder, f"llvm.x86.{name}", self.type(scalar), values))

    def full_mask(self) -> Val:
        """The mask operand of an instruction that is to work on all lanes."""
        return Val(self, ir.Constant(ir.IntType(max(8, self.lanes or 1)), -1))

    def mask_operand(self, lanes: Val) -> Val:
        """The mask operand of an instruction that is to work where ``lanes`` hold, on eight lanes or more."""
        return Val(self, self.builder.bitcast(lanes.value, ir.IntType(lanes.value.type.count)))

    def outlined(self, name: str, body: Callable[..., Val], *args: Val, cold: bool = False) -> Val:
        """Call ``body(*args)`` as a function of its own, emitted once per module.

        For code that is too large to paste at each use, or that needs control flow. ``name`` must determine
        ``body`` up to the types of the arguments; the result has the type of the first one. A ``cold`` function is
        never inlined.
        """
        types = [a.value.type for a in args]
        full_name = ".".join(["tw", name, *map(mangled, types)])
        attributes = ("nounwind", "readnone", *(("noinline", "cold") if cold else ()))

        def emit(function: ir.Function) -> None:
            inner = VectorBuilder(TextBuilder(function.append_basic_block("entry")), self.lanes, self.features)
            inner.builder.ret(body(*(Val(inner, a) for a in function.args)).value)

        type_ = ir.FunctionType(types[0], types)
        function = defined_once(self.builder.module, full_name, type_, attributes, emit)
        return Val(self, self.builder.call(function, [a.value for a in args]))

    def any(self, mask: Val) -> ir.Value:
        """i1: does ``mask`` hold in some lane?"""
        return mask.value if self.lanes is None else self.intrinsic("vector.reduce.or", mask, result=I1).value

    def unless_any(self, mask: Val, common: Val, rare: Callable[[], Val]) -> Val:
        """``common``, or ``rare()`` when ``mask`` holds in some lane. Splits the block: for outlined bodies."""
        builder = self.builder
        start = builder.block
        with builder.if_then(self.any(mask), likely=False):
            uncommon = rare()
            end = builder.block
        return Val(self, phi_of(builder, (common.value, start), (uncommon.value, end)))

    def repeat_while_any(self, state: Val, unfinished: Callable[[Val], Val], step: Callable[[Val], Val]) -> Val:
        """Replace ``state`` by ``step(state)`` while some lane is unfinished. Splits the block: for outlined bodies."""
        builder = self.builder
        before = builder.block
        test, loop, after = (builder.append_basic_block(name) for name in ("test", "step", "done"))
        builder.branch(test)
        builder.position_at_end(test)
        phi = builder.phi(state.value.type)
        builder.cbranch(self.any(unfinished(Val(self, phi))), loop, after)
        builder.position_at_end(loop)
        following = step(Val(self, phi))
        phi.add_incoming(state.value, before)
        phi.add_incoming(following.value, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        return Val(self, phi)

    def in_vectors(self, lanes: int, function: Callable[..., Val], *args: Val) -> Val:
        """Apply ``function`` to vectors of ``lanes`` elements, a power of two like the number of lanes here.

        Fewer lanes are repeated to fill a vector, more are divided. May split the block if ``function`` does.
        """
        width = self.lanes or 1
        if self.lanes == lanes:
            return function(*args)
        builder, wide = self.builder, VectorBuilder(self.builder, lanes, self.features)

        def shuffled(a: ir.Value, b: ir.Value, chosen: Sequence[int]) -> ir.Value:
            indices = ir.Constant(ir.VectorType(I32, len(chosen)), [ir.Constant(I32, i) for i in chosen])
            return builder.shuffle_vector(a, b, indices)

        def part(x: Val, start: int) -> Val:
            value = x.value
            if self.lanes is None:
                one = ir.Constant(ir.VectorType(value.type, 1), ir.Undefined)
                value = builder.insert_element(one, value, ir.Constant(I32, 0))
            return Val(wide, shuffled(value, value, [start + i % width for i in range(lanes)]))

        if self.lanes is None or width < lanes:
            result = function(*(part(x, 0) for x in args)).value
            if self.lanes is None:
                return Val(self, builder.extract_element(result, ir.Constant(I32, 0)))
            return Val(self, shuffled(result, result, range(width)))
        results = [function(*(part(x, start) for x in args)).value for start in range(0, width, lanes)]
        while len(results) > 1:
            size = results[0].type.count
            results = [shuffled(a, b, range(2 * size)) for a, b in zip(results[::2], results[1::2])]
        return Val(self, results[0])

    def lane_by_lane(self, function: Callable[..., Val], *args: Val) -> Val:
        """Apply a scalar ``function`` to each lane in a loop. Splits the block: for outlined bodies."""
        if self.lanes is None:
            return function(*args)
        builder, scalars = self.builder, self.scalars()
        before, loop = builder.block, builder.append_basic_block("lanes")
        after = builder.append_basic_block("lanes.end")
        builder.branch(loop)
        builder.position_at_end(loop)
        lane, done = builder.phi(I32), builder.phi(args[0].value.type)
        result = function(*(Val(scalars, builder.extract_element(a.value, lane)) for a in args))
        filled, following = builder.insert_element(done, result.value, lane), builder.add(lane, ir.Constant(I32, 1))
        lane.add_incoming(ir.Constant(I32, 0), before)
        lane.add_incoming(following, builder.block)
        done.add_incoming(args[0].value, before)
        done.add_incoming(filled, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(I32, self.lanes)), loop, after)
        builder.position_at_end(after)
        return Val(self, filled)


def _operator(integer: str, floating: str | None = None, *, swap: bool = False) -> Callable[[Val, Operand], Val]:
    """A method that emits one instruction for integers and another one for floats; ``swap`` swaps the operands."""

    def emit(left: Val, right: Operand) -> Val:
        name = floating if left.is_float else integer
        if name is None:
            raise TypeError(f"{integer} of a floating-point value")
        a, b = left.value, left.like(right).value
        return Val(left.at, getattr(left.at.builder, name)(*((b, a) if swap else (a, b))))

    return emit


def _comparison(op: str, *, signed: bool = True) -> Callable[[Val, Operand], Val]:
    return lambda left, right: left.compare(right, op, signed)


def _conversion(instruction: str) -> Callable[[Val, ir.Type], Val]:
    return lambda x, scalar: x._convert(instruction, scalar)


class Val:
    """One LLVM value with operators."""

    __slots__ = ("at", "value")

    def __init__(self, at: VectorBuilder, value: ir.Value) -> None:
        self.at = at
        self.value = value

    @property
    def scalar(self) -> ir.Type:
        """The type of one lane."""
        return scalar_of(self.value.type)

    @property
    def is_float(self) -> bool:
        return not isinstance(self.scalar, ir.IntType)

    @property
    def width(self) -> int:
        """Bits of one lane."""
        scalar = self.scalar
        return scalar.width if isinstance(scalar, ir.IntType) else (64 if scalar == F64 else 32)

    def like(self, value: Operand) -> Val:
        """``value`` as a ``Val`` of this type."""
        return value if isinstance(value, Val) else self.at.const(self.scalar, value)

    __add__ = _operator("add", "fadd")
    __sub__ = _operator("sub", "fsub")
    __mul__ = _operator("mul", "fmul")
    __truediv__ = _operator("sdiv", "fdiv")
    __radd__ = _operator("add", "fadd", swap=True)
    __rsub__ = _operator("sub", "fsub", swap=True)
    __rmul__ = _operator("mul", "fmul", swap=True)
    __rtruediv__ = _operator("sdiv", "fdiv", swap=True)
    __and__ = _operator("and_")
    __or__ = _operator("or_")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("ashr")
    lshr = _operator("lshr")

    def __neg__(self) -> Val:
        return Val(self.at, self.at.builder.fneg(self.value)) if self.is_float else 0 - self

    def __invert__(self) -> Val:
        return self ^ -1

    def compare(self, other: Operand, op: str, signed: bool = True) -> Val:
        """By a C comparison operator; with a NaN only ``!=`` holds."""
        builder, b = self.at.builder, self.like(other).value
        if self.is_float:
            emit = builder.fcmp_unordered if op == "!=" else builder.fcmp_ordered
        else:
            emit = builder.icmp_signed if signed else builder.icmp_unsigned
        return Val(self.at, emit(op, self.value, b))

    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    eq = _comparison("==")
    ne = _comparison("!=")  # true for NaN
    ult = _comparison("<", signed=False)

    def is_nan(self) -> Val:
        return Val(self.at, self.at.builder.fcmp_unordered("uno", self.value, self.value))

    def _convert(self, instruction: str, scalar: ir.Type) -> Val:
        if scalar == self.scalar:
            return self
        return Val(self.at, getattr(self.at.builder, instruction)(self.value, self.at.type(scalar)))

    def bits(self) -> Val:
        """A float's bit pattern as an integer."""
        return self._convert("bitcast", I64 if self.width == 64 else I32)

    def as_float(self) -> Val:
        """The float with this 32- or 64-bit pattern."""
        return self._convert("bitcast", F64 if self.width == 64 else F32)

    bitcast = _conversion("bitcast")
    sext = _conversion("sext")
    zext = _conversion("zext")
    trunc = _conversion("trunc")  # the low bits of an integer
    to_float = _conversion("sitofp")  # a signed integer, rounded
    unsigned_to_float = _conversion("uitofp")
    to_int = _conversion("fptosi")  # a float, truncated to a signed integer that must be able to hold it
    to_unsigned = _conversion("fptoui")

    def to_f32(self) -> Val:
        """float64 to float32, ties to even."""
        return self._convert("fptrunc", F32)

    def to_f64(self) -> Val:
        return self._convert("fpext", F64)


Operand = Val | int | float


def where(mask: Val, a: Operand, b: Operand) -> Val:
    """``a`` in the lanes where ``mask`` holds, else ``b``. At least one of the two is a ``Val``."""
    model = a if isinstance(a, Val) else b
    assert isinstance(model, Val)
    return Val(mask.at, mask.at.builder.select(mask.value, model.like(a).value, model.like(b).value))


def magnitude(x: Val) -> Val:
    """|x| of a float."""
    return x.at.intrinsic("fabs", x)


def with_sign(size: Val, sign: Val) -> Val:
    """A ``size`` without sign bit, given the sign of ``sign``.

    Not llvm.copysign: LLVM moves a later conversion to half past it, onto the float64 that the sign comes from, for
    which x86 has no instruction.
    """
    return (size.bits() ^ (sign.bits() & (-1 << (size.width - 1)))).as_float()


def square_root(x: Val) -> Val:
    """Correctly rounded."""
    return x.at.intrinsic("sqrt", x)


def fused(a: Val, b: Operand, c: Operand) -> Val:
    """a*b + c rounded once, whatever it costs."""
    return a.at.intrinsic("fma", a, a.like(b), a.like(c))


def mul_add(a: Val, b: Operand, c: Operand) -> Val:
    """a*b + c, rounded once if the processor can, else twice: for formulas that allow either."""
    return fused(a, b, c) if a.at.features.fma else a * b + c


def polynomial(x: Val, coefficients: Sequence[float]) -> Val:
    """sum of coefficients[i] * x**i, by Horner's rule."""
    total: Operand = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = mul_add(x, total, coefficient)
    return x.like(total)


def smaller(a: Val, b: Operand) -> Val:
    """min(a, b) in one instruction where there is one: b when either is NaN."""
    b = a.like(b)
    return where(a < b, a, b)


def larger(a: Val, b: Operand) -> Val:
    """max(a, b) in one instruction where there is one: b when either is NaN."""
    b = a.like(b)
    return where(a > b, a, b)
