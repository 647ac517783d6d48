"""What the builder that writes text makes is what llvmlite's makes."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from tilewright.backends.gpu.target import TRIPLE, architecture, emit_ptx
from tilewright.backends.native.text_builder import TextBuilder, text_of

I32, I64, F32, F64 = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
INTEGERS = ("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and_", "or_", "xor")
FLOATS = ("fadd", "fsub", "fmul", "fdiv")
CASTS = (("trunc", I64, I32), ("zext", I32, I64), ("sext", I32, I64), ("fptrunc", F64, F32), ("fpext", F32, F64),
         ("bitcast", F32, I32), ("fptoui", F32, I32), ("uitofp", I32, F32), ("fptosi", F32, I32), ("sitofp", I32, F32))  # fmt: skip


def assembly(b: ir.IRBuilder, result: ir.Type, text: str, constraints: str, x: ir.Value, *, effects: bool) -> ir.Value:
    if isinstance(b, TextBuilder):
        return b.assembly(result, text, constraints.split(","), [x], effects=effects)
    return b.asm(ir.FunctionType(result, [x.type]), text, constraints, [x], effects)


def module(builder_type: type[ir.IRBuilder]) -> ir.Module:
    """A kernel that stores the results of every instruction on its parameters."""
    made = ir.Module("all")
    made.triple = TRIPLE
    kernel = ir.Function(made, ir.FunctionType(ir.VoidType(), [I64, I32, I32, I64, F32, F32, F64]), "all")
    kernel.calling_convention = "ptx_kernel"
    b = builder_type(kernel.append_basic_block("entry"))
    address, i, j, long, x, y, double = kernel.args
    given = {I32: i, I64: long, F32: x, F64: double}
    found = [getattr(b, name)(i, j) for name in INTEGERS]
    found += [getattr(b, name)(x, y) for name in FLOATS]
    found.append(b.fadd(x, y, flags=("contract",)))
    found += [getattr(b, name)(given[source], target) for name, source, target in CASTS]
    found += [b.fneg(x), b.call(ir.Function(made, ir.FunctionType(F32, [F32, F32]), "llvm.maxnum.f32"), (x, y))]
    b.call(ir.Function(made, ir.FunctionType(ir.VoidType(), []), "llvm.nvvm.barrier0"), ())
    assert b.bitcast(i, I32) is i
    chosen = [b.icmp_signed("<", i, j), b.icmp_unsigned(">=", i, ir.Constant(I32, 5)), b.icmp_signed("==", i, j)]
    chosen += [b.fcmp_ordered("<", x, y), b.fcmp_unordered("uno", x, y)]
    found += [b.select(c, x, ir.Constant(F32, 0.5)) for c in chosen]
    pair = ir.LiteralStructType([I32, I32])
    both = assembly(b, pair, "{ mov.b32 $0, $2; mov.b32 $1, $2; }", "=r,=r,r", i, effects=False)
    found += [b.extract_value(both, k) for k in range(2)]
    assembly(b, ir.VoidType(), "bar.sync $0;", "r,~{memory}", j, effects=True)
    with b.if_then(chosen[0]):
        found.append(b.add(j, j))
    after = b.phi(I32)
    after.add_incoming(i, kernel.blocks[0])
    after.add_incoming(found.pop(), kernel.blocks[1])
    for k, value in enumerate([*found, after]):
        b.store(value, b.inttoptr(b.add(address, ir.Constant(I64, 8 * k)), ir.PointerType(addrspace=1)))
    b.ret_void()
    return made


def test_the_same_code() -> None:
    target = architecture("sm_80")
    expected, found = (emit_ptx(text_of(module(kind)), target) for kind in (ir.IRBuilder, TextBuilder))
    assert found == expected
    assert found.count("st.global") >= len(INTEGERS) + len(FLOATS) + len(CASTS) + 9


def test_an_unknown_comparison() -> None:
    made = ir.Function(ir.Module("m"), ir.FunctionType(ir.VoidType(), [I32, I32]), "f")
    with pytest.raises(KeyError, match="<>"):
        TextBuilder(made.append_basic_block("entry")).icmp_signed("<>", *made.args)


def test_what_nobody_reads_is_left_out() -> None:
    """With what only that reads; not what an instruction of llvmlite reads, nor what has effects."""
    made = ir.Module("m")
    function = ir.Function(made, ir.FunctionType(ir.VoidType(), [F32, ir.PointerType()]), "f")
    b = TextBuilder(function.append_basic_block("entry"))
    x, place = function.args
    b.fpext(b.fptrunc(x, ir.HalfType()), F32)
    both = assembly(b, I32, "mov.b32 $0, $1;", "=r,f,~{memory}", x, effects=True)
    b.zext(both, I64)
    total = b.fpext(x, F64)
    b.store(total, place)
    b.ret_void()
    text = text_of(made)
    lines = [re.sub(r"%\S+ = ", "", line) for line in function.blocks[0].instructions]
    assert [line.split()[0] for line in lines] == ["call", "fpext", "store", "ret"]
    llvm.parse_assembly(text, llvm.create_context()).verify()
