"""For each category: a statement that violates it, the nearest one that does not, and what the report must say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEAST = -(2**31)


@dataclass(frozen=True)
class Case:
    """``@`` in ``before`` and ``statement`` stands for ``bad`` in the violating kernel and for ``good`` in the other.

    The rest is what the report of the violating one says, where given; it is at the line of ``statement``.
    """

    category: str
    statement: str
    bad: str
    good: str
    before: str = ""
    element: tuple[int, ...] | None = None
    operands: dict[str, Any] | None = None
    index: tuple[int, ...] | None = None
    outside: str = ""
    message: str = ""
    blocks: int = 1
    enable: tuple[str, ...] = ()


# -- Tile C++. Kernels get ``int* p``, 64 numbers from -32 on, and ``int* o``, 64 zeros.

I4 = "ct::tile<int, ct::shape<4>>"
T = f"auto t = ct::iota<{I4}>();"
BYTES = "auto t = ct::iota<ct::tile<signed char, ct::shape<4>>>();"
PARTS = """ct::tensor_span s{p, ct::extents{8, 6}}; ct::partition_view v{s, ct::shape{4_ic, 4_ic}}; \
auto t = ct::iota<ct::tile<int, ct::shape<4, 4>>>();"""
SPAN = """ct::tensor_span s{p, ct::layout_strided_mapping{ct::extents{4, 6}, ct::extents{@, 1}}}; \
ct::partition_view v{s, ct::shape{4_ic, 4_ic}};"""
ROWS = "ct::partition_view v{ct::tensor_span{p, ct::extents{20, 4}}, ct::shape{1_ic, 4_ic}};"
SCALAR = "ct::tile<int*, ct::shape<>>"

CPP = [
    Case(
        "add-overflow",
        "auto r = ct::add(t, @);",
        "0x7FFFFFFE",
        "0x7FFFFFFC",
        T,
        (2,),
        {"lhs": 2, "rhs": 0x7FFFFFFE},
        message="2 + 2147483646 does not fit int32",
    ),
    Case(
        "sub-overflow", "auto r = ct::sub(@, t);", "-0x7FFFFFFF", "-0x7FFFFFFC", T, (2,), {"lhs": LEAST + 1, "rhs": 2}
    ),
    Case(
        "neg-overflow",
        "auto r = -ct::full<ct::tile<signed char, ct::shape<2>>>(@);",
        "-128",
        "-127",
        element=(0,),
        operands={"x": -128},
    ),
    Case("mul-overflow", "auto r = t * @;", "0x40000000", "0x20000000", T, (2,), {"lhs": 2, "rhs": 0x40000000}),
    Case("mul-overflow", "auto r = ct::mul(@L, 3L);", "0x4000000000000000", "0x2000000000000000", "", ()),
    Case("div-overflow", "auto r = ct::floordiv(@, t % 2 - 2);", "-0x7FFFFFFF - 1", "-0x7FFFFFFF", T, (1,)),
    Case("division-by-zero", "auto r = ct::remainder(7, t - @);", "3", "4", T, (3,), {"lhs": 7, "rhs": 0}),
    Case("shift-negative", "auto r = t << (t - @);", "1", "0", T, (0,), {"lhs": 0, "rhs": -1}),
    Case("shift-too-wide", "auto r = t >> (t + @);", "30", "28", T, (2,), {"lhs": 2, "rhs": 32}),
    Case("abs-overflow", "auto r = ct::abs(@);", "-0x7FFFFFFF - 1", "-0x7FFFFFFF", "", (), {"x": LEAST}),
    Case(
        "pointer-arithmetic",
        "auto r = p + (t + @);",
        "62",
        "61",
        T,
        (3,),
        {"offset": 65},
        (65,),
        "2 elements past the end of axis 0, which has 64",
    ),
    Case(
        "pointer-arithmetic",
        f"auto r = {SCALAR}{{p}} - @;",
        "1",
        "0",
        element=(),
        index=(-1,),
        outside="1 element before the start of axis 0",
    ),
    Case("pointer-arithmetic", "auto q = p + (t + @); auto r = ct::load(q);", "62", "60", T, (3,), index=(65,)),
    Case("pointer-arithmetic", "auto r = ct::load_masked(p + (t + 62), t < @);", "3", "2", T, (3,), index=(65,)),
    Case("pointer-arithmetic", "auto r = ct::load((p + (t + @)) - 60);", "62", "60", T, (3,), index=(65,)),
    Case(
        "pointer-difference",
        f"auto r = {SCALAR}{{p}} - {SCALAR}{{@}};",
        "o",
        "p",
        element=(),
        message="the pointers are to different arrays, 'p' and 'o'",
    ),
    Case("extract-out-of-range", "auto r = ct::extract(t, ct::shape{2_ic}, @);", "2", "1", T, (), {"index": 2}),
    Case(
        "invalid-bitcast",
        "auto r = ct::element_bitcast<bool>(ct::iota<ct::tile<unsigned char, ct::shape<@>>>());",
        "4",
        "2",
        element=(2,),
        message="2 is neither false (0) nor true (1)",
    ),
    Case(
        "reduction-overflow",
        "auto r = ct::sum(t * @, 0_ic);",
        "0x16000000",
        "0x15000000",
        T,
        (0,),
        message=f"in some order the sum reaches {6 * 0x16000000}, which does not fit int32",
    ),
    Case(
        "reduction-overflow",
        "auto r = ct::partial_prod(t + (signed char)@, 0_ic);",
        "4",
        "1",
        BYTES,
        (0,),
        message="in some order the product reaches 840, which does not fit int8",
    ),
    Case("assumption", "auto r = ct::assume_bounded_above(t, @_ic);", "2", "3", T, (3,), {"x": 3}),
    Case("assumption", "auto r = ct::assume_bounded(t, @_ic, 9_ic);", "1", "0", T, (0,), {"x": 0}),
    Case("assumption", "auto r = ct::assume_bounded_below(t, @_ic);", "1", "0", T, (0,)),
    Case("assumption", "auto r = ct::assume_divisible(t * 2, @_ic);", "4", "2", T, (1,), {"x": 2}),
    Case("assumption", "auto r = ct::assume_blocked(t / 2, ct::shape{@_ic});", "4", "2", T, (2,), {"x": 1, "first": 0}),
    Case("assumption", "auto r = ct::assume_divisible_strided(t + @, 4_ic, 4_ic, 0_ic);", "2", "4", T, (0,)),
    Case("assumption", "auto r = ct::assume_aligned(p + @, 8_ic);", "1", "2", "", ()),
    Case("assumption", "auto r = ct::assume_aligned_strided(p + t + @, 16_ic, 4_ic, 0_ic);", "1", "4", T, (0,)),
    Case("uninitialized-tile", "auto r = @ + 3;", "u", "t", f"{T} {I4} u;"),
    Case("extent-index", "e.extent(@);", "2", "1", "ct::extents<uint32_t, 4, ct::dynamic_extent> e{8};"),
    Case("extent-index", "ct::extents<uint32_t, 4, 8>::static_extent(@);", "2", "1"),
    Case("extent-overflow", "ct::extents<uint16_t, @>{}.extent(0);", "65536", "65535"),
    Case("dimension-map-index", "ct::dimension_map<1, 0>::mapping(@);", "2", "1"),
    Case("stride-index", "m.stride(@);", "2", "1", "ct::layout_left_mapping m{ct::extents{4, 8}};"),
    Case(
        "stride-overflow",
        "m.stride(@);",
        "0",
        "1",
        "ct::layout_right_mapping<ct::extents<uint16_t, 2, 512, 512>> m{{}};",
    ),
    Case(
        "partition-outside",
        "auto r = v.load_masked(0, @);",
        "2",
        "1",
        PARTS,
        (0, 0),
        {"index 0": 0, "index 1": 2},
        (0, 8),
        "3 elements past the end of axis 1, which has 6",
    ),
    Case("partition-outside", "v.store_masked(t, @, 0);", "-1", "1", PARTS, (0, 0), index=(-4, 0)),
    Case(
        "partition-unmasked",
        "auto r = v.load(1, @);",
        "1",
        "0",
        PARTS,
        (0, 2),
        {"index 0": 1, "index 1": 1},
        (4, 6),
        "1 element past the end of axis 1, which has 6",
    ),
    Case("partition-unmasked", "v.store(t, 0, @);", "1", "0", PARTS, (0, 2), index=(0, 6)),
    Case(
        "span-not-injective", "auto r = v.load(0, 0);", "5", "6", SPAN, operands={"extents": (4, 6), "strides": (5, 1)}
    ),
    Case(
        "irange-step",
        "int step = @; ct::irange r(0, 8, step);",
        "0",
        "1",
        message="the step of the range is 0; it must be positive",
    ),
    Case("irange-bound", "ct::irange<unsigned char> r(0, @, 10);", "247", "246"),
    Case(
        "float-to-integer",
        "auto r = ct::element_cast<unsigned char>(ct::full<ct::tile<float, ct::shape<2>>>(@));",
        "256.0f",
        "255.5f",
        element=(0,),
        operands={"x": 256.0},
    ),
    Case("race-in-call", "ct::store(o + t / @, t);", "2", "1", T, (1,), index=(0,)),
    Case(
        "atomic-add-overflow",
        "ct::atomic_add(p, @, ct::memory_order_relaxed_t{});",
        "-0x7FFFFFFF",
        "0x7FFFFFFF",
        element=(),
        operands={"old": -32, "value": -0x7FFFFFFF},
        index=(0,),
    ),
    Case(
        "atomic-sub-overflow",
        "ct::atomic_sub(p, @, ct::memory_order_relaxed_t{});",
        "0x7FFFFFFF",
        "-0x7FFFFFFF",
        element=(),
        operands={"old": -32, "value": 0x7FFFFFFF},
        index=(0,),
    ),
    Case("atomic-sub-overflow", "ct::atomic_sub(p, @, ct::memory_order_relaxed_t{});", "-0x7FFFFFFF - 1", "0"),
    Case(
        "out-of-bounds",
        "auto r = v.load(@, 0);",
        "16",
        "15",
        ROWS,
        index=(67,),
        outside="4 elements past the end of axis 0, which has 64",
    ),
    Case("undefined-value", "ct::store(o + t, ct::load_masked(p + t, t < @));", "3", "4", T, (3,), index=(3,)),
    Case("dangling-pointer", "auto r = ct::load(@);", "(int*)nullptr", "p", message="the pointer is null"),
    Case(
        "misaligned-access",
        "auto r = ct::load((int*)((char*)p + @) + t);",
        "6",
        "8",
        T,
        (0,),
        message="the address is no multiple of 4, the size of an element",
    ),
    Case(
        "misaligned-access",
        "auto r = v.load(1);",
        "1",
        "2",
        "ct::partition_view v{ct::tensor_span{(long long*)(p + @), ct::extents{8}}, ct::shape{4_ic}};",
        message="the address is no multiple of 8, the size of an element",
    ),
    Case("data-race", "ct::store(o + @, 1);", "ct::num_blocks().x", "ct::bid().x", index=(2,), blocks=2),
    Case(
        "data-race",
        "ct::atomic_add(o, 1, ct::memory_order_relaxed_t{}, ct::thread_scope_@_t{});",
        "block",
        "device",
        index=(0,),
        blocks=2,
    ),
]

# -- Python. Kernels get ``x``, 8 int32 numbers from -3 on, ``m``, 3 by 5 int32 zeros, and ``f``, 8 floats 0, 1e9, ...

ROW = "t = ct.arange(4, dtype=ct.int32)"

PYTHON = [
    Case("div-overflow", "r = @ // (t % 2 - 2)", "ct.int32(-0x7FFFFFFF - 1)", "ct.int32(-0x7FFFFFFF)", ROW, (1,)),
    Case("division-by-zero", "r = 7 % (t - @)", "3", "4", ROW, (3,), {"lhs": 7, "rhs": 0}),
    Case("division-by-zero", "r = ct.cdiv(t, t + @)", "0", "1", ROW, (0,), {"lhs": 0, "rhs": 0}),
    Case("shift-negative", "r = t << (t - @)", "1", "0", ROW, (0,), {"lhs": 0, "rhs": -1}),
    Case("shift-too-wide", "r = t >> (t + @)", "30", "28", ROW, (2,), {"lhs": 2, "rhs": 32}),
    Case("extract-out-of-range", "r = t.extract((ct.bid(0) + @,), (2,))", "2", "1", ROW, (), {"index": 2}),
    Case("assumption", "r = ct.assume_divisible_by(ct.bid(0) + @, 4)", "6", "8", "", (), {"x": 6}),
    Case(
        "partition-outside",
        "r = ct.load(m, (0, @), (2, 4))",
        "2",
        "1",
        "",
        (0, 0),
        {"index 0": 0, "index 1": 2},
        (0, 8),
        "4 elements past the end of axis 1, which has 5",
    ),
    Case("partition-outside", "ct.store(x, (@,), t)", "-1", "1", ROW, (0,), {"index 0": -1}, (-4,)),
    Case(
        "partition-unmasked",
        "r = ct.load(m, (@, 0), (2, 4), check_bounds=False)",
        "1",
        "0",
        "",
        (1, 0),
        index=(3, 0),
        outside="1 element past the end of axis 0, which has 3",
    ),
    Case(
        "float-to-integer",
        "r = ct.load(f, (0,), (@,)).astype(ct.int32)",
        "4",
        "2",
        "",
        (3,),
        {"x": 3e9},
    ),
    Case("race-in-call", "ct.scatter(x, t // @, t)", "2", "1", ROW, (1,), index=(0,)),
    Case("data-race", "ct.store(x, (@,), t)", "0", "ct.bid(0)", ROW, (0,), index=(0,), blocks=2),
    Case("data-race", "ct.atomic_add(x, 5, 1, memory_scope=ct.MemoryScope.@)", "BLOCK", "DEVICE", index=(5,), blocks=2),
    Case(
        "unchecked-bounds",
        "r = ct.gather(m, (t // 2, t + @), check_bounds=False)",
        "2",
        "1",
        ROW,
        (3,),
        {"index": 5, "last": 4},
        (1, 5),
        "1 element past the end of axis 1, which has 5",
    ),
    Case(
        "unchecked-bounds",
        "r = x.get_raw_memory().load_offset(t + @)",
        "6",
        "4",
        ROW,
        (2,),
        {"offset": 8, "first": 0, "last": 7},
    ),
    Case(
        "out-of-bounds",
        "r = ct.load(ct.Array.from_foreign(x.foreign_pointer, (16,), (1,)), (@,), (4,))",
        "2",
        "1",
        index=(11,),
        outside="4 elements past the end of axis 0, which has 8",
    ),
    Case("slice-bounds", "r = x.slice(0, 2, ct.bid(0) + @)", "9", "8", "", (), {"start": 2, "stop": 9, "extent": 8}),
    Case(
        "undefined-value",
        "ct.store(m, (0, 0), ct.load(m, (0, 1), (1, 4))@)",
        "",
        "[:, :].extract((0, 0), (1, 1))",
        "",
        (0, 1),
        index=(0, 1),
    ),
    Case(
        "undefined-value",
        "r = t if ct.load(m, (0, 1), (1, 4)).extract((0, @), (1, 1)).item() > 3 else t + 1",
        "1",
        "0",
        ROW,
        (),
    ),
    Case(
        "undefined-value",
        "r = ct.load(x, (v.extract((@,), (1,)).item(),), (4,))",
        "1",
        "0",
        "v = ct.load_advanced_indexing(m, (ct.arange(2, dtype=ct.int32) + 2, ct.Slice(0, 1))).reshape((2,))",
    ),
    Case("loop-step", "for i in range(0, 4, ct.bid(0) + @): x", "0", "1", operands={"step": 0}),
    Case(
        "failed-assertion", "ct.assert_(t < @, 'too large')", "3", "4", ROW, (3,), message="assertion failed: too large"
    ),
    Case("nan-generated", "r = ct.log(ct.load(f, (0,), (2,)) + @)", "-0.5", "0.5", "", (0,), enable=("nan-generated",)),
    Case("inf-generated", "r = ct.sum(ct.load(f, (0,), (8,)) * @)", "4e28", "1e28", "", (), enable=("inf-generated",)),
    Case("inf-generated", "r = 1.0 / (ct.load(f, (0,), (2,)) + @)", "0.0", "0.5", "", (0,), enable=("inf-generated",)),
]
