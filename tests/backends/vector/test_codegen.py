"""Properties of the emitted code: types, size, helpers shared in a module, no calls into run-time libraries."""

from __future__ import annotations

import platform
import re

import llvmlite.binding as llvm
import pytest
from element_harness import HOST, LANES, build_module, target_machine
from llvmlite import ir

from tilewright.backends.native.text_builder import text_of
from tilewright.backends.vector import (
    ELEMENTWISE_OPS,
    HostFeatures,
    VectorEmitter,
    constant,
    register_type,
    storage_type,
)
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.types import PointerType


def emit_twice(name: str, lanes: int | None) -> ir.Module:
    """A function that applies the float64 op ``name`` to its argument and to the result of that."""
    module = ir.Module()
    type_ = register_type(dtypes.float64, lanes)
    function = ir.Function(module, ir.FunctionType(type_, [type_]), "twice")
    builder = ir.IRBuilder(function.append_basic_block())
    emitter = VectorEmitter(builder, lanes, HOST)
    once = emitter.emit(name, dtypes.float64, [function.args[0]], {}, dtypes.float64)
    builder.ret(emitter.emit(name, dtypes.float64, [once], {}, dtypes.float64))
    return module


@pytest.mark.parametrize("lanes", LANES)
def test_helpers_are_emitted_once(lanes: int | None) -> None:
    module = emit_twice("sin", lanes)
    helpers = [f for f in module.functions if f.name.startswith("tw.math.sin.")]
    assert len(helpers) == 1 and helpers[0].linkage == "internal"
    assert text_of(module).count(f'call {helpers[0].function_type.return_type} @"{helpers[0].name}"') == 2


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", dtypes.ALL_DTYPES, ids=str)
def test_every_cast_has_the_register_type(source: DType, lanes: int | None) -> None:
    for target in dtypes.ALL_DTYPES:
        mode = RoundingMode.RZ if target is dtypes.float8_e8m0fnu else RoundingMode.RN
        module = build_module("cast", [source], target, {"rounding": mode}, lanes, HOST)
        llvm.parse_assembly(text_of(module)).verify()


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_lanes_that_underflow_are_masked(name: str) -> None:
    """The instruction that scales by a power of two takes many cycles for them, such as the masked scores of attention."""
    if not HOST.wide:
        pytest.skip("an instruction of AVX-512")
    module = build_module(name, [dtypes.float32], dtypes.float32, {}, 16, HOST)
    (call,) = re.findall(r"call .*scalef.*", text_of(module))
    assert "i16 %" in call


def test_add_is_small() -> None:
    """Nothing comes with it that LLVM would have to read and compile."""
    text = text_of(build_module("add", [dtypes.float32] * 2, dtypes.float32, {}, 16, HOST))
    assert len(text) < 1500 and text.count("\ndefine ") == 1
    assert len(target_machine(False).emit_object(llvm.parse_assembly(text))) < 4000


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.skipif(not (HOST.fma and HOST.half), reason="needs fused multiply-add and half conversions")
def test_no_library_calls() -> None:
    """Everything but helpers is inline: no libm per lane, no compiler run-time that the JIT could not find."""
    unary = (
        "exp",
        "exp2",
        "log",
        "log2",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "rsqrt",
        "floor",
        "ceil",
        "sqrt",
    )
    cases = [(name, 1, dtype) for name in unary for dtype in dtypes.FLOATS]
    cases += [(name, 2, dtype) for name in ("pow", "atan2", "rem", "min", "div") for dtype in dtypes.FLOATS]
    cases += [("div", 2, dtypes.int64), ("mulhi", 2, dtypes.uint64), ("fma", 3, dtypes.float16)]
    machine = target_machine(False)
    for name, count, dtype in cases:
        attrs = {"rounding": RoundingMode.RM if name in ("rem", "div") else RoundingMode.RN}
        module = llvm.parse_assembly(text_of(build_module(name, [dtype] * count, dtype, attrs, 16, HOST)))
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        passes.getModulePassManager().run(module, passes)
        assembly = machine.emit_assembly(module)
        symbols = re.findall(r"(?:callq\s+|movabsq\s+\$)([A-Za-z_][\w.]*)", assembly)
        assert not [s for s in symbols if not s.startswith("tw.")], (name, dtype)


def test_pointers() -> None:
    """Pointers are 64-bit integers: comparable as unsigned, selectable, bitcast to one another."""
    pointer = PointerType(dtypes.float32)
    assert register_type(pointer) == storage_type(pointer) == ir.IntType(64)
    assert register_type(pointer, 8) == ir.VectorType(ir.IntType(64), 8)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 2), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    emitter = VectorEmitter(builder, None, HostFeatures())
    less = emitter.emit("cmp", pointer, function.args, {"predicate": CmpPredicate.LT}, dtypes.bool_)
    assert "icmp ult i64" in str(less)
    chosen = emitter.emit("select", pointer, [less, *function.args], {}, pointer)
    assert chosen.type == ir.IntType(64)
    assert emitter.emit("bitcast", pointer, [chosen], {}, PointerType(dtypes.int8)) is chosen
    assert emitter.to_storage(pointer, chosen) is chosen and emitter.to_register(pointer, chosen) is chosen


def test_division_by_a_constant_stays_integer() -> None:
    """So that LLVM can turn it into a multiplication, or a shift."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.VectorType(ir.IntType(32), 16)]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    emitter = VectorEmitter(builder, 16, HOST)
    divisor = constant(dtypes.int32, 128, 16)
    emitter.emit("div", dtypes.int32, [function.args[0], divisor], {"rounding": RoundingMode.RM}, dtypes.int32)
    assert "sdiv" in str(function) and "fdiv" not in str(function)


def test_features_of_a_target() -> None:
    assert HostFeatures.of("aarch64-unknown-linux-gnu", {}) == HostFeatures(fma=True, half=True)
    assert HostFeatures.of("x86_64-unknown-linux-gnu", {"fma": True, "f16c": False}) == HostFeatures(fma=True)
    assert HostFeatures.of("riscv64-unknown-linux-gnu", {}) == HostFeatures()


def test_every_elementwise_op_is_known() -> None:
    names = """add sub mul div rem fma neg abs mulhi min max pow atan2 and or xor not shl shr cmp exp exp2 log log2
    sin cos tan sinh cosh tanh sqrt rsqrt floor ceil isnan isinf select cast bitcast"""
    assert set(names.split()) == ELEMENTWISE_OPS
