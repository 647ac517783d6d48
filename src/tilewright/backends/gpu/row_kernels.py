"""Kernels that reduce rows, each in one tile: softmax, layer and RMS norm with a block for each row."""

from __future__ import annotations

from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, bfloat16, float16, float32
from tilewright.ir.ops import arith, memory, shape
from tilewright.ir.ops.control import Continue, For, Return, Yield
from tilewright.ir.ops.linear import Reduce

_ARITHMETIC: tuple[type[Op], ...] = (
    *(arith.Abs, arith.Add, arith.Cast, arith.Cmp, arith.Div, arith.Fma, arith.Max, arith.Min, arith.Mul, arith.Neg),
    *(arith.And, arith.Not, arith.Or, arith.Xor, arith.Rem, arith.Select, arith.Sub),
    *(arith.Exp, arith.Exp2, arith.Log, arith.Log2, arith.Rsqrt, arith.Sqrt),
)
_ACCESSES: tuple[type[Op], ...] = (
    *(memory.AssumeDivisible, memory.Bid, memory.NumBlocks, memory.MakeTensorView, memory.MakePartitionView),
    *(memory.LoadView, memory.StoreView),
)
_OTHERS: tuple[type[Op], ...] = (Reduce, Return, Yield, shape.Broadcast, shape.Constant, shape.Iota, shape.Reshape)
_OPS = (*_ARITHMETIC, *_ACCESSES, *_OTHERS)
_DTYPES: tuple[DType, ...] = (bfloat16, float16, float32)
_TARGET = "sm_90a"  # on which they were measured
_COLUMNS = range(1024, 131072 + 1)
_PIECES = range(256, 1024 + 1)
_WHOLE = 65536  # columns of 16 bits that a softmax keeps in registers: 0.98 of the other backend
_ALIGNMENT = 16  # bytes


def is_row_kernel(function: Function, backend: Backend) -> bool:
    """Whether ``function`` reduces rows in tiles of 1,024 to 131,072 elements without a loop, all that it reads and
    writes being rows of 16- and 32-bit floats that start on multiples of 16 bytes."""
    if function.hints or not all(isinstance(op, _OPS) for op in function.walk()):
        return False
    reductions = [op for op in function.walk() if isinstance(op, Reduce)]
    tiles = [v.tile for op in reductions for v in op.values]
    if not tiles or any(t.shape[-1] != t.size or t.size not in _COLUMNS for t in tiles):
        return False
    if any(t.size == _WHOLE for t in tiles) and _is_softmax_of_16_bits(function):
        return False
    assert isinstance(backend, GpuBackend)
    return _is_aligned(function) and backend.architecture() == _TARGET


def is_row_kernel_in_pieces(function: Function, backend: Backend) -> bool:
    """Whether ``function`` reduces such rows after loops over their pieces, in tiles of 256 to 1,024 elements, as layer
    norm of rows of any length does; loops themselves reduce nothing."""
    loops = [op for op in function.walk() if isinstance(op, For)]
    if function.hints or not loops or not all(isinstance(op, (*_OPS, For, Continue)) for op in function.walk()):
        return False
    reductions = [op for op in function.walk() if isinstance(op, Reduce)]
    tiles = [v.tile for op in reductions for v in op.values]
    if not tiles or any(isinstance(op, (Reduce, For)) for loop in loops for op in loop.walk() if op is not loop):
        return False
    assert isinstance(backend, GpuBackend)
    whole = all(t.shape[-1] == t.size and t.size in _PIECES for t in tiles)
    return whole and _is_aligned(function) and backend.architecture() == _TARGET


def _is_softmax_of_16_bits(function: Function) -> bool:
    exponentials = any(isinstance(op, (arith.Exp, arith.Exp2)) for op in function.walk())
    bases = [v for v, param in zip(function.body.args, function.params) if param.role == "base"]
    return exponentials and all(v.tile.pointee.bytes == float16.bytes for v in bases)


def _is_aligned(function: Function) -> bool:
    """Whether the arrays of ``function`` are of these types, and all rows of them aligned."""
    sizes: dict[str, int] = {}
    for value, param in zip(function.body.args, function.params):
        if param.role == "base":
            pointee = value.tile.pointee
            if pointee not in _DTYPES or _divisor(value) < _ALIGNMENT:
                return False
            sizes[param.argument] = pointee.bytes
        elif param.role == "stride":
            if value.users and _divisor(value) * sizes[param.argument] < _ALIGNMENT:
                return False
        elif param.role not in ("shape", "scalar"):
            return False
    return True


def _divisor(value: Value) -> int:
    """What ``value`` is said to be a multiple of."""
    return max(
        (op.divisor for op in value.users if isinstance(op, memory.AssumeDivisible) and op.every is None), default=1
    )
