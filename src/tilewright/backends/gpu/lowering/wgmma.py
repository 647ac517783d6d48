"""Matrix products of warp groups: all instructions of a step along K are one statement of inline assembly.

The assembler follows sums in flight from one statement to the next only where nothing else touches their registers:
so they are operands that are tied to the results. One statement for each instruction takes several times as long to
compile.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I64, constraint
from tilewright.backends.gpu.lowering.context import Buffer, Context, Registers, Rule
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.gpu.tma import swizzle_of
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS, STEP_BYTES, Wgmma, WgmmaWait
from tilewright.ir.types import SharedType

_TYPES = {"i8": "s8", "u8": "u8", "i32": "s32", "f8e4m3fn": "e4m3", "f8e5m2": "e5m2"}
_MODES = {128: 1, 64: 2, 32: 3}  # swizzles in bits 62 and 63 of a descriptor: PTX ISA, "Matrix descriptor"


def _offset(layout: LinearLayout, row: int, column: int) -> int:
    """Where in shared memory an element lies, in elements."""
    found: int = layout.pseudo_inverse().index(dim0=row, dim1=column)
    return found


def _strides(t: SharedType, k_axis: int) -> tuple[int, int]:
    """The leading and the stride byte offset of a descriptor."""
    found = swizzle_of(t)
    assert found is not None
    inner, swizzle = found
    if inner == k_axis:
        return 16, 8 * swizzle  # the leading one has no meaning
    return t.shape[k_axis] * swizzle, 8 * swizzle


def _descriptor(cx: Context, buffer: Buffer, k_axis: int, first: ir.Value | None) -> ir.Value:
    """Of an operand, from byte ``first`` on."""
    b, found = cx.builder, swizzle_of(buffer.type)
    assert found is not None
    leading, stride = _strides(buffer.type, k_axis)
    address = buffer.address if first is None else b.add(buffer.address, first)
    low = b.zext(b.and_(b.lshr(address, cx.i32(4)), cx.i32(0x3FFF)), I64)
    fixed = (leading >> 4) << 16 | (stride >> 4) << 32 | _MODES[found[1]] << 62
    return b.or_(low, ir.Constant(I64, fixed))


def _wgmma(cx: Context, op: Wgmma) -> None:
    x, y, b = cx.buffers[op.x], cx.buffers[op.y], cx.builder
    (m, n), k = op.acc.tile.shape, x.type.shape[1]
    types = op.acc.tile.element, x.type.dtype, y.type.dtype
    size = x.type.dtype.bytes
    groups = cx.tile_threads // (32 * GROUP_WARPS)
    own = None
    if groups > 1:
        group = b.lshr(cx.warp, cx.i32(2))
        own = b.mul(group, cx.i32(_offset(x.type.layout, ROWS, 0) * size))
    a, c = _descriptor(cx, x, 1, own), _descriptor(cx, y, 0, None)
    acc = cx.of(op.acc)
    count = len(acc)
    each = n // 2
    step = STEP_BYTES // size
    places = [f"${i}" for i in range(count)]
    lines = ["wgmma.fence.sync.aligned;"]
    for repeat in range(m // (ROWS * groups)):
        sums = "{" + ", ".join(places[repeat * each : (repeat + 1) * each]) + "}"
        for at in range(0, k, step):
            first = _offset(x.type.layout, repeat * ROWS * groups, at) * size >> 4
            second = _offset(y.type.layout, at, 0) * size >> 4
            lines.append(f"add.s64 a, ${2 * count}, {first}; add.s64 c, ${2 * count + 1}, {second};")
            lines.append(f"{_instruction(types, n, step)} {sums}, a, c, {_modifiers(x.type, y.type)};")
    lines.append("wgmma.commit_group.sync.aligned;")
    if op.pending is not None:
        lines.append(f"wgmma.wait_group.sync.aligned {op.pending};")
    text = "{ .reg .pred adds; .reg .b64 a, c; setp.eq.u32 adds, 0, 0; " + " ".join(lines) + " }"
    cx.values[op.result] = _tied(cx, text, acc, [a, c])


def _instruction(types: Sequence[DType], n: int, k: int) -> str:
    """For sums of so many columns; ``types`` are those of the sum and of the operands."""
    names = [_TYPES.get(t.short, t.short) for t in types]
    return f"wgmma.mma_async.sync.aligned.m{ROWS}n{n}k{k}.{'.'.join(names)}"


def _modifiers(x: SharedType, y: SharedType) -> str:
    """Add to the sum; of floats with these signs; of 16 bits, whether an operand is contiguous across k."""
    if x.dtype.is_integer:
        return "adds"
    if x.dtype.bytes != 2:
        return "adds, 1, 1"
    turned = [int(swizzle_of(t)[0] != axis) for t, axis in ((x, 1), (y, 0))]  # type: ignore[index]
    return f"adds, 1, 1, {turned[0]}, {turned[1]}"


def _tied(cx: Context, text: str, sums: Registers, more: Sequence[ir.Value] = ()) -> Registers:
    """The ``sums`` after ``text``, in the same registers."""
    b = cx.builder
    type_ = sums[0].type
    result = ir.LiteralStructType([type_] * len(sums))
    function = ir.FunctionType(result, [type_] * len(sums) + [v.type for v in more])
    constraints = [f"={constraint(type_)}"] * len(sums) + [str(i) for i in range(len(sums))]
    constraints += [constraint(v.type) for v in more] + ["~{memory}"]
    found = b.asm(function, text, ",".join(constraints), [*sums, *more], True)
    return [b.extract_value(found, i) for i in range(len(sums))]


def _wgmma_wait(cx: Context, op: WgmmaWait) -> None:
    text = f"wgmma.wait_group.sync.aligned {op.pending};"
    for k, v in enumerate(op.accs):
        cx.values[op.results[k]] = _tied(cx, text, cx.of(v))
    if not op.accs:
        cx.asm(text)


RULES: dict[type[Op], Rule] = {Wgmma: _wgmma, WgmmaWait: _wgmma_wait}
