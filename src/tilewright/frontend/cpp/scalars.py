"""The meaning of LLVM's scalar instructions in Tile IR, where a scalar is a tile of rank 0.

LLVM integers have no sign; the instruction says how it reads them, and values keep the sign they came with otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frontend.cpp import memory
from tilewright.frontend.cpp.llvm_form import HANDLE, Const, Instruction
from tilewright.frontend.cpp.typecodes import signed, unsigned
from tilewright.frontend.cpp.values import VOID_POINTER, Translation
from tilewright.ir.core import Block, Value
from tilewright.ir.dtypes import DType, bool_, int64
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import arith, floats
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.memory import Bid, NumBlocks
from tilewright.ir.ops.shape import IntToPtr, PtrToInt

RZ = RoundingMode.RZ


def _same(dtype: DType) -> DType:
    return dtype


# instruction -> op class, how it reads integers, attributes
_BINARY = {
    "add": (arith.Add, None, {}),
    "sub": (arith.Sub, None, {}),
    "mul": (arith.Mul, None, {}),
    "udiv": (arith.Div, unsigned, {"rounding": RZ}),
    "sdiv": (arith.Div, signed, {"rounding": RZ}),
    "urem": (arith.Rem, unsigned, {}),
    "srem": (arith.Rem, signed, {}),
    "shl": (arith.Shl, None, {}),
    "lshr": (arith.Shr, unsigned, {}),
    "ashr": (arith.Shr, signed, {}),
    "and": (arith.And, None, {}),
    "or": (arith.Or, None, {}),
    "xor": (arith.Xor, None, {}),
    "fadd": (arith.Add, _same, {}),
    "fsub": (arith.Sub, _same, {}),
    "fmul": (arith.Mul, _same, {}),
    "fdiv": (arith.Div, _same, {}),
    "frem": (arith.Rem, _same, {}),
}
_ICMP = {
    "eq": (CmpPredicate.EQ, None),
    "ne": (CmpPredicate.NE, None),
    "slt": (CmpPredicate.LT, signed),
    "sle": (CmpPredicate.LE, signed),
    "sgt": (CmpPredicate.GT, signed),
    "sge": (CmpPredicate.GE, signed),
    "ult": (CmpPredicate.LT, unsigned),
    "ule": (CmpPredicate.LE, unsigned),
    "ugt": (CmpPredicate.GT, unsigned),
    "uge": (CmpPredicate.GE, unsigned),
}
_FCMP = {
    "oeq": CmpPredicate.EQ,
    "une": CmpPredicate.NE,
    "olt": CmpPredicate.LT,
    "ole": CmpPredicate.LE,
    "ogt": CmpPredicate.GT,
    "oge": CmpPredicate.GE,
}
# unordered predicate -> the ordered one that it negates
_FCMP_NEGATED = {"ult": "oge", "ule": "ogt", "ugt": "ole", "uge": "olt", "ord": "uno", "ueq": "one"}

# LLVM intrinsic -> op class, how it reads integers
_FUNCTIONS = {
    "smax": (arith.Max, signed),
    "smin": (arith.Min, signed),
    "umax": (arith.Max, unsigned),
    "umin": (arith.Min, unsigned),
    "maxnum": (arith.Max, _same),
    "minnum": (arith.Min, _same),
    "abs": (arith.Abs, signed),
    "fabs": (arith.Abs, _same),
    "sqrt": (arith.Sqrt, _same),
    "floor": (floats.Floor, _same),
    "ceil": (floats.Ceil, _same),
    "fma": (arith.Fma, _same),
}
_OPERANDS = {"abs": 1, "fabs": 1, "sqrt": 1, "floor": 1, "ceil": 1, "fma": 3}


def translate(state: Translation, i: Instruction) -> None:
    """Emit the ops for ``i``, an instruction that is neither a call, a phi nor a jump."""
    emit = _EMITTERS.get(i.op)
    if emit is None:
        state.fail(f"the instruction '{i.op}' is not available in tile code")
    value = emit(state, i)
    if value is not None:
        state.bind(i, value)


def integers(state: Translation, i: Instruction, read: Callable[[DType], DType] | None, count: int = 2) -> list[Value]:
    """The first operands of ``i`` as one dtype: the one that ``read`` picks, else the one that they share."""
    dtype = _common_dtype(state, i, count)
    if read is not None:
        dtype = read(dtype)
    return [state.value(o, t, dtype) for o, t in zip(i.operands[:count], i.types)]


def _common_dtype(state: Translation, i: Instruction, count: int) -> DType:
    default = state.default_element(i.types[0])
    found = [state.value(o, t).tile.dtype for o, t in zip(i.operands[:count], i.types) if not isinstance(o, Const)]
    if found and all(d == found[0] for d in found) and isinstance(found[0], DType):
        return found[0]
    assert isinstance(default, DType)
    return default


def _binary(state: Translation, i: Instruction) -> Value:
    cls, read, attributes = _BINARY[i.op]
    lhs, rhs = integers(state, i, read)
    complement = i.operands[1]
    all_ones = True if i.type == "i1" else -1
    if i.op == "xor" and isinstance(complement, Const) and complement.value == all_ones:
        return state.builder.emit(arith.Not, lhs)
    if lhs.tile.element.is_bool and i.op in ("add", "sub"):
        cls = arith.Xor
    elif lhs.tile.element.is_bool and i.op == "mul":
        cls = arith.And
    return state.builder.emit(cls, lhs, rhs, **attributes)


def _icmp(state: Translation, i: Instruction) -> Value:
    predicate, read = _ICMP[i.detail]
    if i.types[0] == "ptr":
        operands = [state.value(o, t, VOID_POINTER) for o, t in zip(i.operands, i.types)]
    elif i.types[0] == HANDLE:
        state.fail("handles of tiles cannot be compared")
    else:
        operands = integers(state, i, read)
    return state.builder.emit(arith.Cmp, *operands, predicate=predicate)


def _fcmp(state: Translation, i: Instruction) -> Value:
    x, y = (state.value(o, t) for o, t in zip(i.operands, i.types))
    if i.detail in ("true", "false"):
        return state.builder.constant(i.detail == "true", bool_)
    negated = i.detail in _FCMP_NEGATED
    predicate = _FCMP_NEGATED.get(i.detail, i.detail)
    emit = state.builder.emit
    if predicate == "uno":
        result = emit(arith.Or, emit(floats.IsNan, x), emit(floats.IsNan, y))
    elif predicate == "one":
        result = emit(
            arith.Or, emit(arith.Cmp, x, y, predicate=CmpPredicate.LT), emit(arith.Cmp, x, y, predicate=CmpPredicate.GT)
        )
    else:
        result = emit(arith.Cmp, x, y, predicate=_FCMP[predicate])
    return emit(arith.Not, result) if negated else result


# -- conversions


def _never_negative(value: Value, i: Instruction) -> bool:
    """Whether ``value`` may keep its sign where it is to be read as unsigned: that changes nothing then."""
    return "nneg" in i.flags or isinstance(value.op, (Bid, NumBlocks))


def _widen(read: Callable[[DType], DType]) -> Callable[[Translation, Instruction], Value]:
    def convert(state: Translation, i: Instruction) -> Value:
        value = state.value(i.operands[0], i.types[0])
        if not value.tile.element.is_bool and not _never_negative(value, i):
            value = state.coerce(value, read(value.tile.element))
        result = state.builder.emit(arith.Cast, value, dtype=state.number(i.type))
        if value.tile.element.is_bool and read is signed:
            result = state.builder.emit(arith.Neg, result)
        return result

    return convert


def _truncate(state: Translation, i: Instruction) -> Value:
    value = state.value(i.operands[0], i.types[0])
    if i.type != "i1":
        narrow = state.number(i.type)
        target = unsigned(narrow) if value.tile.element == unsigned(value.tile.element) else narrow
        return state.builder.emit(arith.Cast, value, dtype=target)
    if isinstance(value.op, arith.Cast) and value.op.x.tile.element.is_bool:
        return value.op.x
    one = state.constant(1, value.tile.dtype)
    return state.builder.emit(arith.Cast, state.builder.emit(arith.And, value, one), dtype=bool_)


def _convert(
    read: Callable[[DType], DType], to: Callable[[DType], DType]
) -> Callable[[Translation, Instruction], Value]:
    def convert(state: Translation, i: Instruction) -> Value:
        value = state.value(i.operands[0], i.types[0])
        if value.tile.element.is_integer and not _never_negative(value, i):
            value = state.coerce(value, read(value.tile.element))
        return state.builder.emit(arith.Cast, value, dtype=to(state.number(i.type)))

    return convert


def _pointer_to_integer(state: Translation, i: Instruction) -> Value:
    number = state.builder.emit(PtrToInt, state.value(i.operands[0], "ptr"), dtype=int64)
    return number if i.type == "i64" else state.builder.emit(arith.Cast, number, dtype=state.number(i.type))


def _integer_to_pointer(state: Translation, i: Instruction) -> Value:
    number = state.value(i.operands[0], i.types[0])
    if number.tile.element.bitwidth != 64:
        number = state.builder.emit(arith.Cast, state.coerce(number, unsigned(number.tile.element)), dtype=int64)
    return state.builder.emit(IntToPtr, number, dtype=VOID_POINTER)


# -- selection


def _select(state: Translation, i: Instruction) -> Value:
    condition = state.value(i.operands[0], "i1")
    if i.type == HANDLE:
        known = next(o for o in i.operands[1:] if not isinstance(o, Const))
        like = state.tile(known).tile
        x, y = (state.tile(o, like) for o in i.operands[1:])
    else:
        x = state.value(i.operands[1], i.type)
        y = state.value(i.operands[2], i.type)
        if isinstance(i.operands[1], Const):
            x = state.value(i.operands[1], i.type, y.tile.dtype)
        y = state.value(i.operands[2], i.type, x.tile.dtype)
    if x.tile.rank == 0:
        return state.builder.emit(arith.Select, condition, x, y)
    # One of two whole tiles: branching does no elementwise work.
    branches = []
    for value in (x, y):
        block = Block()
        with state.builder.at(block):
            state.builder.emit_op(Yield, [value])
        branches.append(block)
    return state.builder.emit(If, condition, types=(x.type,), then=branches[0], orelse=branches[1])


def _take_apart(state: Translation, i: Instruction) -> None:
    state.fail("a struct that is loaded, or comes from a call, as a whole is not available in tile code")


def _unsupported(state: Translation, i: Instruction) -> None:
    state.fail(i.detail)


_EMITTERS: dict[str, Callable[[Translation, Instruction], Value | None]] = {
    **dict.fromkeys(_BINARY, _binary),
    "icmp": _icmp,
    "fcmp": _fcmp,
    "select": _select,
    "freeze": lambda state, i: state.value(i.operands[0], i.types[0]),
    "fneg": lambda state, i: state.builder.emit(arith.Neg, state.value(i.operands[0], i.types[0])),
    "zext": _widen(unsigned),
    "sext": _widen(signed),
    "trunc": _truncate,
    "fptrunc": _convert(_same, _same),
    "fpext": _convert(_same, _same),
    "sitofp": _convert(signed, _same),
    "uitofp": _convert(unsigned, _same),
    "fptosi": _convert(_same, signed),
    "fptoui": _convert(_same, unsigned),
    "ptrtoint": _pointer_to_integer,
    "inttoptr": _integer_to_pointer,
    "bitcast": lambda state, i: state.value(i.operands[0], i.types[0], state.default_element(i.type)),
    "insertvalue": _take_apart,
    "extractvalue": _take_apart,
    "load": memory.load,
    "store": memory.store,
    "getelementptr": memory.element_pointer,
    "alloca": memory.allocate,
    "unsupported": _unsupported,
}


def translate_function(state: Translation, i: Instruction) -> bool:
    """Emit the op for a call of an LLVM intrinsic function; False when it is not a known one."""
    _, name, *_ = i.detail.split(".")
    if name not in _FUNCTIONS:
        return False
    cls, read = _FUNCTIONS[name]
    state.bind(i, state.builder.emit(cls, *integers(state, i, read, _OPERANDS.get(name, 2))))
    return True
