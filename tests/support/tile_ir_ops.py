"""A module of CUDA Tile IR with every op, each enumeration value and each optional part that a version has."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tilewright.tileir.module import (
    ArrayAttr,
    Block,
    BoolAttr,
    BoundedAttr,
    DictAttr,
    DivByAttr,
    Entry,
    FloatAttr,
    Global,
    HintsAttr,
    IntegerAttr,
    Module,
    Operation,
    SameElementsAttr,
    Value,
)
from tilewright.tileir.optable import BY_NAME, NO_DEFAULT
from tilewright.tileir.types import (
    SCALARS,
    TOKEN,
    Pointer,
    Scalar,
    TensorView,
    Tile,
    TileView,
    Type,
)

I1, I8, I16, I32, I64 = (SCALARS[n] for n in ("i1", "i8", "i16", "i32", "i64"))
F16, BF16, F32, F64, TF32 = (SCALARS[n] for n in ("f16", "bf16", "f32", "f64", "tf32"))
E4, E5, E8 = (SCALARS[n] for n in ("f8E4M3FN", "f8E5M2", "f8E8M0FNU"))


class Writer:
    """Appends ops to a block, with the newest version's fields filled in."""

    def __init__(self, minor: int, block: Block) -> None:
        self.minor = minor
        self.block = block

    def __call__(
        self,
        name: str,
        operands: dict[str, Any] | None = None,
        results: Sequence[Type] = (),
        regions: Sequence[Any] = (),
        /,
        **attributes: Any,
    ) -> Any:
        spec = BY_NAME[name]
        full_operands = {o.name: (operands or {}).get(o.name, [] if o.variadic else None) for o in spec.operands}
        full = {a.name: attributes.get(a.name, None if a.default is NO_DEFAULT else a.default) for a in spec.attributes}
        for unit in spec.units:
            full[unit] = attributes.get(unit, False)
        op = Operation(spec, full_operands, full, [Value(t) for t in results], list(regions))
        self.block.ops.append(op)
        return op.results[0] if len(op.results) == 1 else op.results

    def constant(self, type: Tile, data: bytes = b"") -> Value:
        assert isinstance(type.element, Scalar)
        return self("constant", {}, [type], value=data or bytes(type.element.bytes))


def scalar(s: Scalar) -> Tile:
    return Tile(s)


def block(args: Sequence[Type] = ()) -> Block:
    return Block([Value(t) for t in args])


def every_op(minor: int) -> Module:
    """The module for version 13.``minor``."""
    V4 = TensorView(F32, (None, 64), (64, 1))
    body = block([Tile(Pointer(F32)), Tile(I32), Tile(F64), Tile(Pointer(I32)), Tile(I64), Tile(Pointer(F16))])
    w = Writer(minor, body)
    p, n = body.args[:2]
    f = w.constant(Tile(F32, (4, 8)))
    g = w.constant(Tile(F32, (4, 8)), struct.pack("<32f", *range(32)))
    h = w.constant(Tile(F16, (4, 8)))
    dd = w.constant(Tile(F64, (4, 8)), struct.pack("<d", float("-inf")))
    i = w.constant(Tile(I32, (4, 8)), b"\x05\0\0\0")
    b = w.constant(Tile(I1, (4, 8)), b"\xff")
    z = w.constant(Tile(I32), b"\xff\xff\xff\xff")
    for s in SCALARS.values():
        if s.since <= minor and s.name != "i4":
            w.constant(Tile(s, (2,)))
            w.constant(Tile(s, (4,)), bytes(range(1, 1 + 4 * s.bytes)) if s.name != "i1" else b"\x05")
            w.constant(
                Tile(s, ()), b"\x7f" * s.bytes if s.name not in ("i1", "f4E2M1FN") else b"\x01"
            ) if s.name != "f4E2M1FN" else None
    w.constant(Tile(I32, (128,)), struct.pack("<128i", *range(128)))
    w.constant(Tile(I1, (128,)), bytes(range(16)))
    w.constant(Tile(I1, (16,)), bytes(range(2)))
    w.constant(Tile(I64, (2,)), struct.pack("<2q", -1, 1 << 62))
    w.constant(Tile(F32), struct.pack("<f", 1.1))
    w.constant(Tile(F32), struct.pack("<f", float("nan")))
    w.constant(Tile(F64), struct.pack("<d", 0.1))
    w.constant(Tile(F64), struct.pack("<d", 1e300))
    w.constant(Tile(F32), struct.pack("<f", 3.4e38))
    w.constant(Tile(F32), struct.pack("<f", 1e-42))
    w.constant(Tile(F16), struct.pack("<e", -0.0))
    w.constant(Tile(F16), struct.pack("<e", 0.1))
    modes = ("nearest_even", "zero", "negative_inf", "positive_inf")
    for name in ("addf", "subf", "mulf", "divf"):
        for mode in (*modes, *(("full", "approx") if name == "divf" else ())):
            w(name, {"lhs": f, "rhs": g}, [f.type], rounding_mode=mode)
            w(name, {"lhs": f, "rhs": g}, [f.type], rounding_mode=mode, flush_to_zero=True)
    for mode in modes:
        w("fma", {"lhs": f, "rhs": g, "acc": g}, [f.type], rounding_mode=mode, flush_to_zero=True)
        w("sqrt", {"source": f}, [f.type], rounding_mode=mode)
    w("fma", {"lhs": f, "rhs": g, "acc": g}, [f.type], rounding_mode="zero")
    w("sqrt", {"source": f}, [f.type], rounding_mode="approx", flush_to_zero=True)
    for name in ("absf", "negf", "ceil", "cos", "cosh", "floor", "log", "log2", "sin", "sinh", "tan"):
        w(name, {"source": f}, [f.type])
    for name in ("exp2", "rsqrt"):
        w(name, {"source": f}, [f.type])
        w(name, {"source": f}, [f.type], flush_to_zero=True)
    w("exp", {"source": f}, [f.type], rounding_mode="full")
    w("tanh", {"source": f}, [f.type], rounding_mode="full")
    if minor >= 2:
        w("tanh", {"source": f}, [f.type], rounding_mode="approx")
        w("atan2", {"x": f, "y": g}, [f.type])
    if minor >= 3:
        w("exp", {"source": f}, [f.type], rounding_mode="approx")
    w("fpowf", {"source": f, "exponent": g}, [f.type])
    w("remf", {"lhs": f, "rhs": g}, [f.type])
    for name in ("maxf", "minf"):
        for nan in (False, True):
            for ftz in (False, True):
                w(name, {"lhs": f, "rhs": g}, [f.type], propagate_nan=nan, flush_to_zero=ftz)
    overflows = ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap")
    for o in overflows:
        for name in ("addi", "subi", "muli", "shli"):
            w(name, {"lhs": i, "rhs": i}, [i.type], overflow=o)
        w("trunci", {"from": i}, [Tile(I8, (4, 8))], overflow=o)
    w("negi", {"source": i}, [i.type], overflow="none")
    if minor >= 2:
        w("negi", {"source": i}, [i.type], overflow="no_signed_wrap")
    w("absi", {"source": i}, [i.type])
    for name in ("andi", "ori", "xori"):
        w(name, {"lhs": i, "rhs": i}, [i.type])
    w("mulhii", {"x": i, "y": i}, [i.type])
    for sign in ("unsigned", "signed"):
        for name in ("maxi", "mini", "remi", "shri"):
            w(name, {"lhs": i, "rhs": i}, [i.type], signedness=sign)
        for mode in ("zero", "positive_inf", *(("negative_inf",) if sign == "signed" else ())):
            w("divi", {"lhs": i, "rhs": i}, [i.type], signedness=sign, rounding=mode)
        w("exti", {"from": i}, [Tile(I64, (4, 8))], signedness=sign)
        w("itof", {"from": i}, [f.type], signedness=sign, rounding_mode="nearest_even")
        w("ftoi", {"from": f}, [i.type], signedness=sign, rounding_mode="nearest_int_to_zero")
        if minor >= 4:
            w("ftoi", {"from": f}, [i.type], signedness=sign, rounding_mode="nearest_int_to_zero", saturating=True)
    for predicate in ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"):
        for sign in ("unsigned", "signed"):
            w("cmpi", {"lhs": i, "rhs": i}, [b.type], comparison_predicate=predicate, signedness=sign)
        for order in ("unordered", "ordered"):
            w("cmpf", {"lhs": f, "rhs": f}, [b.type], comparison_predicate=predicate, comparison_ordering=order)
    w("select", {"cond": b, "val_if_true": f, "val_if_false": g}, [f.type])
    w("bitcast", {"source": f}, [i.type])
    w("ftof", {"from": f}, [h.type], rounding_mode="nearest_even")
    if minor >= 4:
        w("ftof", {"from": f}, [h.type], rounding_mode="zero")
        w("ftof", {"from": f}, [Tile(TF32, (4, 8))], rounding_mode="nearest_away")
    w("iota", {}, [Tile(I32, (8,))])
    f1 = w("reshape", {"source": f}, [Tile(F32, (32,))])
    w("broadcast", {"source": w("reshape", {"source": f}, [Tile(F32, (1, 32))])}, [Tile(F32, (4, 32))])
    w("permute", {"source": f}, [Tile(F32, (8, 4))], permutation=(1, 0))
    w("cat", {"lhs": f, "rhs": g}, [Tile(F32, (8, 8))], dim=0)
    w("extract", {"source": f, "indices": [z, z]}, [Tile(F32, (2, 4))])
    pi = w("ptr_to_int", {"source": p}, [Tile(I64)])
    w("int_to_ptr", {"source": pi}, [p.type])
    w("ptr_to_ptr", {"source": p}, [Tile(Pointer(I32))])
    pv = w("reshape", {"source": p}, [Tile(Pointer(F32), (1,))])
    pv = w("broadcast", {"source": pv}, [Tile(Pointer(F32), (32,))])
    ps = w("offset", {"ptr": pv, "offset": w("iota", {}, [Tile(I32, (32,))])}, [pv.type])
    w("assume", {"value": p}, [p.type], predicate=DivByAttr(16))
    w("assume", {"value": i}, [i.type], predicate=DivByAttr(8, 2, 1))
    w("assume", {"value": i}, [i.type], predicate=SameElementsAttr((1, 8)))
    for lower in (None, 0, -5):
        for upper in (None, 7):
            w("assume", {"value": n}, [n.type], predicate=BoundedAttr(lower, upper))
    w("assert", {"condition": b}, message='bad "value"\n')
    w("get_tile_block_id", {}, [n.type] * 3)
    w("get_num_tile_blocks", {}, [n.type] * 3)
    if minor >= 2:
        t0 = w("print_tko", {"args": [f, i]}, [TOKEN], str="%f and %i\n")
        w("print_tko", {"args": [], "token": t0}, [TOKEN], str="none")
    else:
        Writer(minor, body)("print_tko", {"args": [f, i]}, [TOKEN], str="%f and %i\n")
    tok = w("make_token", {}, [TOKEN])
    tok = w("join_tokens", {"tokens": [tok, tok]}, [TOKEN])
    mask = w.constant(Tile(I1, (32,)), b"\xff")
    hints = HintsAttr((("sm_100", DictAttr((("latency", IntegerAttr(I32, 3)),))),))
    tma = HintsAttr(
        (
            ("sm_90", DictAttr((("allow_tma", BoolAttr(False)), ("latency", IntegerAttr(I32, 3))))),
            ("sm_100", DictAttr()),
        )
    )
    r = [Tile(F32, (32,)), TOKEN]
    w("load_ptr_tko", {"source": ps}, r, memory_ordering_semantics="weak")
    w(
        "load_ptr_tko",
        {"source": ps, "mask": mask, "token": tok},
        r,
        memory_ordering_semantics="relaxed",
        memory_scope="device",
    )
    w(
        "load_ptr_tko",
        {"source": ps, "mask": mask, "paddingValue": f1},
        r,
        memory_ordering_semantics="acquire",
        memory_scope="sys",
        optimization_hints=hints,
    )
    w("store_ptr_tko", {"destination": ps, "value": f1}, [TOKEN], memory_ordering_semantics="weak")
    w(
        "store_ptr_tko",
        {"destination": ps, "value": f1, "mask": mask, "token": tok},
        [TOKEN],
        memory_ordering_semantics="release",
        memory_scope="tl_blk",
        optimization_hints=hints,
    )
    ipb = w("ptr_to_ptr", {"source": ps}, [Tile(Pointer(I32), (32,))])
    i1d = w("iota", {}, [Tile(I32, (32,))])
    for mode in ("and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg"):
        w(
            "atomic_rmw_tko",
            {"pointers": ipb, "arg": i1d},
            [i1d.type, TOKEN],
            memory_ordering_semantics="relaxed",
            memory_scope="device",
            mode=mode,
        )
    w(
        "atomic_rmw_tko",
        {"pointers": ps, "arg": f1, "mask": mask, "token": tok},
        [f1.type, TOKEN],
        memory_ordering_semantics="acq_rel",
        memory_scope="sys",
        mode="addf",
    )
    w(
        "atomic_cas_tko",
        {"pointers": ipb, "cmp": i1d, "val": i1d},
        [i1d.type, TOKEN],
        memory_ordering_semantics="acquire",
        memory_scope="device",
    )
    w(
        "atomic_cas_tko",
        {"pointers": ipb, "cmp": i1d, "val": i1d, "mask": mask, "token": tok},
        [i1d.type, TOKEN],
        memory_ordering_semantics="acq_rel",
        memory_scope="tl_blk",
    )
    tv = w("make_tensor_view", {"base": p, "dynamicShape": [n], "dynamicStrides": []}, [V4])
    w(
        "make_tensor_view",
        {"base": p, "dynamicShape": [n, n], "dynamicStrides": [n]},
        [TensorView(F32, (None, None), (None, 1))],
    )
    w("make_tensor_view", {"base": p}, [TensorView(F32, (), ())])
    w("make_tensor_view", {"base": p}, [TensorView(F32, (4, 8), (8, 1))])
    w("get_tensor_shape", {"src": tv}, [n.type, n.type])
    for padding in (None, "zero", "neg_zero", "nan", "pos_inf", "neg_inf"):
        pview = w("make_partition_view", {"tensor_view": tv}, [TileView((4, 8), V4, (0, 1), padding)])
    pt = w("make_partition_view", {"tensor_view": tv}, [TileView((4, 8), V4, (1, 0), None)])
    w("get_index_space_shape", {"src": pt}, [n.type, n.type])
    lv = [Tile(F32, (4, 8)), TOKEN]
    w("load_view_tko", {"view": pview, "index": [z, z]}, lv, memory_ordering_semantics="weak")
    w(
        "load_view_tko",
        {"view": pview, "index": [n, z], "token": tok},
        lv,
        memory_ordering_semantics="acquire",
        memory_scope="device",
        optimization_hints=tma,
    )
    w("store_view_tko", {"tile": f, "view": pview, "index": [z, z]}, [TOKEN], memory_ordering_semantics="weak")
    w(
        "store_view_tko",
        {"tile": f, "view": pview, "index": [z, z], "token": tok},
        [TOKEN],
        memory_ordering_semantics="relaxed",
        memory_scope="sys",
        optimization_hints=tma,
    )
    if minor >= 4:
        w(
            "load_view_tko",
            {"view": pview, "index": [z, z]},
            lv,
            memory_ordering_semantics="weak",
            inbounds=(True, False),
        )
        w(
            "store_view_tko",
            {"tile": f, "view": pview, "index": [z, z], "token": tok},
            [TOKEN],
            memory_ordering_semantics="weak",
            inbounds=(False, True),
        )
    h1, h2, acc = w.constant(Tile(F16, (16, 32))), w.constant(Tile(F16, (32, 16))), w.constant(Tile(F32, (16, 16)))
    w("mmaf", {"lhs": h1, "rhs": h2, "acc": acc}, [acc.type])
    b1, b2, iacc = w.constant(Tile(I8, (16, 32))), w.constant(Tile(I8, (32, 16))), w.constant(Tile(I32, (16, 16)))
    for s1 in ("signed", "unsigned"):
        for s2 in ("signed", "unsigned"):
            w("mmai", {"lhs": b1, "rhs": b2, "acc": iacc}, [iacc.type], signedness_lhs=s1, signedness_rhs=s2)
    if minor >= 3:
        e1, e2 = w.constant(Tile(E4, (16, 32))), w.constant(Tile(E4, (32, 16)))
        w("mmaf", {"lhs": e1, "rhs": e2, "acc": acc}, [acc.type], fast_acc=True)
        s1_, s2_ = w.constant(Tile(E8, (16, 1))), w.constant(Tile(E8, (1, 16)))
        w("mmaf_scaled", {"lhs": e1, "rhs": e2, "acc": acc, "lhs_scale": s1_, "rhs_scale": s2_}, [acc.type])
        packed = w("pack", {"source": f1}, [Tile(I8, (128,))])
        w("unpack", {"source": packed}, [Tile(F32, (32,))])
        w("alloca", {}, [p.type], num_elem=64, alignment=16)
        w("alloca", {}, [p.type], num_elem=64, alignment=4, **{"global": True})
        gv = w("make_gather_scatter_view", {"tensor_view": tv}, [TileView((8, 8), V4, padding="zero", sparse_dim=0)])
        w("make_gather_scatter_view", {"tensor_view": tv}, [TileView((8, 8), V4, sparse_dim=1)])
        i8 = w("iota", {}, [Tile(I32, (8,))])
        gl = w(
            "load_view_tko",
            {"view": gv, "index": [i8, z]},
            [Tile(F32, (8, 8)), TOKEN],
            memory_ordering_semantics="weak",
        )
        w("store_view_tko", {"tile": gl[0], "view": gv, "index": [i8, z]}, [TOKEN], memory_ordering_semantics="weak")
        sv = w("make_strided_view", {"tensor_view": tv}, [TileView((4, 8), V4, (0, 1), "nan", (2, 8))])
        w("make_strided_view", {"tensor_view": tv}, [TileView((4, 8), V4, (1, 0), None, (2, 8))])
        w("get_index_space_shape", {"src": sv}, [n.type, n.type])
        w("load_view_tko", {"view": sv, "index": [z, z]}, lv, memory_ordering_semantics="weak")
        w(
            "atomic_red_view_tko",
            {"view": pt, "index": [z, z], "value": f},
            [TOKEN],
            memory_ordering_semantics="relaxed",
            memory_scope="device",
            mode="addf",
        )
        w(
            "atomic_red_view_tko",
            {"view": pt, "index": [z, z], "value": f, "token": tok},
            [TOKEN],
            memory_ordering_semantics="relaxed",
            memory_scope="tl_blk",
            mode="addf",
        )
    if minor >= 4:
        w("insert", {"source": w.constant(Tile(F32, (2, 4))), "destination": f, "indices": [z, z]}, [f.type])
        w("gdc_launch_dependents_tko", {}, [TOKEN])
        w("gdc_launch_dependents_tko", {"token": tok}, [TOKEN])
        w("gdc_wait_tko", {}, [TOKEN])
        w("gdc_wait_tko", {"token": tok}, [TOKEN])
        w("fpowi", {"source": f, "exponent": i}, [f.type])
        w("memory_fence_alias_tko", {"token": tok}, [TOKEN])
    if minor >= 5:
        w(
            "atomic_red_view_tko",
            {"view": pt, "index": [z, z], "value": f},
            [TOKEN],
            memory_ordering_semantics="relaxed",
            memory_scope="device",
            mode="addf",
            inbounds=(True, True),
        )
    w("get_global", {}, [Tile(Pointer(F32))], name="table")
    # control flow
    inner = block([n.type, f.type])
    w2 = Writer(minor, inner)
    w2("continue", {"operands": [inner.args[1]]})
    w("for", {"lowerBound": z, "upperBound": n, "step": n, "initValues": [f]}, [f.type], [inner])
    inner = block([n.type])
    Writer(minor, inner)("continue", {})
    w("for", {"lowerBound": z, "upperBound": n, "step": n}, [], [inner])
    if minor >= 2:
        inner = block([n.type])
        Writer(minor, inner)("continue", {})
        w("for", {"lowerBound": z, "upperBound": n, "step": n}, [], [inner], unsignedCmp=True)
    inner = block([f.type])
    w2 = Writer(minor, inner)
    c = w2.constant(Tile(I1), b"\xff")
    then, other = block(), block()
    Writer(minor, then)("break", {"operands": [z, z]})
    Writer(minor, other)("yield", {})
    w2("if", {"condition": c}, [], [then, other])
    then = block()
    Writer(minor, then)("continue", {"operands": [inner.args[0]]})
    w2("if", {"condition": c}, [], [then, None])
    w2("continue", {"operands": [inner.args[0]]})
    w("loop", {"initValues": [f]}, [n.type, n.type], [inner])
    inner = block()
    Writer(minor, inner)("break", {})
    w("loop", {}, [], [inner])
    inner = block()
    w2 = Writer(minor, inner)
    then = block()
    Writer(minor, then)("break", {})
    w2("if", {"condition": c2(w2)}, [], [then, None])
    w2("continue", {})
    w("loop", {}, [], [inner])
    then, other = block(), block()
    Writer(minor, then)("yield", {"operands": [z]})
    Writer(minor, other)("yield", {"operands": [n]})
    w("if", {"condition": c2(w)}, [n.type], [then, other])
    then = block()
    w3 = Writer(minor, then)
    w3("assert", {"condition": b}, message="inner")
    w3("yield", {})
    w("if", {"condition": c2(w)}, [], [then, None])
    then = block()
    Writer(minor, then)("return", {})
    w("if", {"condition": c2(w)}, [], [then, None])
    for name, sc, x in (("reduce", F32, f), ("scan", F32, f), ("reduce", I32, i), ("scan", F64, dd)):
        inner = block([Tile(sc), Tile(sc)])
        w2 = Writer(minor, inner)
        s = w2(
            "addf" if sc is not I32 else "addi",
            {"lhs": inner.args[0], "rhs": inner.args[1]},
            [Tile(sc)],
            **({"rounding_mode": "nearest_even"} if sc is not I32 else {"overflow": "none"}),
        )
        w2("yield", {"operands": [s]})
        identity = (
            FloatAttr(sc, 0xFFF0 << 48 if sc is F64 else 0xFF800000 if name == "scan" else 0)
            if sc is not I32
            else IntegerAttr(sc, 0xFFFFFFFF)
        )
        extra = {"reverse": sc is F64} if name == "scan" else {}
        w(
            name,
            {"operands": [x]},
            [Tile(sc, (8,)) if name == "reduce" else x.type],
            [inner],
            dim=0,
            identities=ArrayAttr((identity,)),
            **extra,
        )
    inner = block([Tile(F32), Tile(F32), Tile(I32), Tile(I32)])
    w2 = Writer(minor, inner)
    w2("yield", {"operands": [inner.args[0], inner.args[2]]})
    w(
        "reduce",
        {"operands": [f, i]},
        [Tile(F32, (4,)), Tile(I32, (4,))],
        [inner],
        dim=1,
        identities=ArrayAttr((FloatAttr(F32, 0x3F800000), IntegerAttr(I32, 5))),
    )
    w("return", {})
    entry_hints: list[Any] = [
        ("sm_100", DictAttr((("num_cta_in_cga", IntegerAttr(I32, 2)), ("occupancy", IntegerAttr(I32, 4)))))
    ]
    if minor >= 3:
        entry_hints.append(("default", DictAttr()))
    second = Entry("plain", Block([], []))
    Writer(minor, second.body)("return", {})
    tables = [
        Global("table", Tile(F32, (4,)), struct.pack("<4f", 1, 2, 3, 4), 16),
        Global("zeros", Tile(I8, (64,)), b"\0"),
    ]
    if minor >= 3:
        tables.append(Global("hidden", Tile(I32, (2,)), struct.pack("<2i", 1, 2), 0, "private", True))
    return Module(
        minor,
        [Entry("every", body, HintsAttr(tuple(entry_hints))), second],
        tables,
        "maker 1.0" if minor >= 3 else None,
    )


def c2(w: Writer) -> Value:
    return w.constant(Tile(I1), b"\xff")


def multimem(minor: int = 5) -> Module:
    """The ops of memory that several GPUs share."""
    V = TensorView(F32, (64, 64), (64, 1), "multicast")
    body = block([Tile(Pointer(F32, "multicast"))])
    w = Writer(minor, body)
    z = w.constant(Tile(I32))
    f = w.constant(Tile(F32, (4, 8)))
    tv = w("make_tensor_view", {"base": body.args[0]}, [V])
    view = w("make_partition_view", {"tensor_view": tv}, [TileView((4, 8), V, (0, 1))])
    tok = w("make_token", {}, [TOKEN])
    w(
        "multimem_load_reduce_view_tko",
        {"view": view, "index": [z, z]},
        [f.type, TOKEN],
        memory_ordering_semantics="weak",
        reduction="add",
        inbounds=(False, False),
    )
    w(
        "multimem_load_reduce_view_tko",
        {"view": view, "index": [z, z], "token": tok},
        [f.type, TOKEN],
        memory_ordering_semantics="relaxed",
        memory_scope="sys",
        reduction="add",
        inbounds=(True, False),
    )
    w(
        "multimem_reduce_view_tko",
        {"view": view, "tile": f, "index": [z, z]},
        [TOKEN],
        memory_ordering_semantics="relaxed",
        memory_scope="device",
        reduction="add",
        inbounds=(False, False),
    )
    w(
        "multimem_store_view_tko",
        {"view": view, "tile": f, "index": [z, z], "token": tok},
        [TOKEN],
        memory_ordering_semantics="weak",
        inbounds=(False, True),
    )
    w("return", {})
    return Module(minor, [Entry("multimem", body)])
