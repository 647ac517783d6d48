"""Ops of CUDA Tile IR that NVIDIA's verifier refuses are told with their place, and what they should be."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct
from tilewright import tileir
from tilewright.tileir.bytecode import write
from tilewright.tileir.errors import TextError, TileIRError
from tilewright.tileir.text import parse_module

KERNEL = """entry @k(%n: tile<i32>, %p: tile<ptr<i32>>) {{
  %i = constant <i32: 3> : tile<4xi32>
  %j = constant <i64: 3> : tile<4xi64>
  %f = constant <f32: 3.0> : tile<4xf32>
  %h = constant <f16: 3.0> : tile<4xf16>
  %b = constant <i1: true> : tile<4xi1>
  %wide = constant <i64: 1> : tile<i64>
  {}
  return
}}
"""
BROKEN = {
    "%r = addi %f, %f : tile<4xf32>": r"addi: expected elements of i1 or i8 or i16 or i32 or i64, not tile<4xf32>",
    "%r = addf %i, %i rounding<nearest_even> : tile<4xi32>": r"addf: expected elements of f16 or bf16 or f32 or f64",
    "%r = exti %j signed : tile<4xi64> -> tile<4xi32>": r"exti: expected a wider type than tile<4xi64>, not tile<4xi32>",
    "%r = trunci %i : tile<4xi32> -> tile<4xi64>": r"trunci: expected a narrower type than tile<4xi32>",
    "%r = ftof %f : tile<4xf32> -> tile<4xf32>": r"ftof: expected another type than tile<4xf32>",
    "%r = ftof %f rounding<positive_inf> : tile<4xf32> -> tile<4xf16>": r"ftof: expected rounding by nearest_even or zero",
    "%r = ftof %h rounding<approx> : tile<4xf16> -> tile<4xf32>": r"ftof: expected rounding by nearest_even or .*approx",
    "%r = ftoi %i signed : tile<4xi32> -> tile<4xi32>": r"ftoi: expected elements of f16",
    "%r = exp %h rounding<approx> : tile<4xf16>": r"exp: expected elements of f32",
    "%r = divi %i, %i signed rounding<nearest_even> : tile<4xi32>": r"divi: expected rounding by zero or negative_inf",
    "%r = negi %i overflow<no_unsigned_wrap> : tile<4xi32>": r"negi: expected another promise than no_unsigned_wrap",
    "%r = bitcast %f : tile<4xf32> -> tile<4xi64>": r"bitcast: expected elements of as many bits",
    "%r = itof %i signed : tile<4xi32> -> tile<8xf32>": r"itof: expected a result of the shape of the operands",
    "%r = reshape %i : tile<4xi32> -> tile<2x2xi64>": r"reshape: the result is tile<2x2xi64>, and i32\[2,2\] is made",
    "%r = iota : tile<4xf32>": r"iota: expected elements of i1",
    "%r, %t = load_ptr_tko release device %p : tile<ptr<i32>> -> tile<i32>, token": r"expected the order weak or relaxed",
    "%r, %t = load_ptr_tko acquire %p : tile<ptr<i32>> -> tile<i32>, token": r"expected a scope where the order is acquire",
    "%r, %t = load_ptr_tko weak device %p : tile<ptr<i32>> -> tile<i32>, token": r"expected no scope where the order is weak",
    "%r, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<f32>, token": r"the result is tile<f32>, and i32 is made",
    "%r, %t = load_ptr_tko weak %p token=%n : tile<ptr<i32>> -> tile<i32>, token": r"expected a token, not tile<i32>",
    "%r, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, tile<i32>": r"expected a token, not tile<i32>",
    "%t = make_token : tile<i32>": r"make_token: expected a token, not tile<i32>",
    "%r = iota : tile<2x2xi32>": r"iota: expected a tile of one axis",
    "%v = make_tensor_view %p, shape = [%n], strides = [%wide] : tile<i32> -> tensor_view<?xi32, strides=[?]>": (
        r"make_tensor_view: expected dynamicShape and dynamicStrides of one type, not of tile<i32> and tile<i64>"
    ),
}


def test_a_terminator_ends_its_block() -> None:
    module = parse_module("entry @k() {\n  return\n}", "a.mlir")
    module.entries[0].body.ops *= 2
    with pytest.raises(TileIRError, match="return: expected the end of the region"):
        tileir.load(write(module)).kernel("k")


@pytest.mark.parametrize("op", BROKEN)
def test_broken_rules_are_told(op: str) -> None:
    module = tileir.load(KERNEL.format(op).encode())
    with pytest.raises(TileIRError, match=rf"<bytes>:8:3: .*{BROKEN[op]}"):
        ct.launch(None, (1,), module.kernel("k"), (1, np.zeros(1, np.int32)), backend="reference")


def test_what_follows_the_rules_runs() -> None:
    """An i1 is a number of one bit: as a signed one true is -1, also in formats without arithmetic."""
    ops = "%r = itof %b signed : tile<4xi1> -> tile<4xf8E4M3FN>\n  %s = ftof %r : tile<4xf8E4M3FN> -> tile<4xf32>\n"
    ops += "  %u = ftoi %s signed : tile<4xf32> -> tile<4xi32>\n  %v = extract %u[%n] : tile<4xi32> -> tile<1xi32>\n"
    ops += "  %w = reshape %v : tile<1xi32> -> tile<i32>\n  %t = store_ptr_tko weak %p, %w : tile<ptr<i32>>, tile<i32> -> token"
    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), tileir.load(KERNEL.format(ops).encode()).kernel(), (1, out))
    assert out[0] == -1


@pytest.mark.parametrize("exponent", ("i8", "i32", "i64"))
def test_exponents_are_integers_of_any_width(exponent: str) -> None:
    ops = f"%e = constant <{exponent}: 2> : tile<4x{exponent}>\n  %r = fpowi %f, %e : tile<4xf32>, tile<4x{exponent}>\n"
    ops += "  %s = ftoi %r signed : tile<4xf32> -> tile<4xi32>\n  %u = extract %s[%n] : tile<4xi32> -> tile<1xi32>\n"
    ops += "  %v = reshape %u : tile<1xi32> -> tile<i32>\n  %t = store_ptr_tko weak %p, %v : tile<ptr<i32>>, tile<i32> -> token"
    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), tileir.load(KERNEL.format(ops).encode()).kernel(), (1, out))
    assert out[0] == 9


@pytest.mark.parametrize("name", ("%i", "%n"))
def test_names_are_not_defined_again(name: str) -> None:
    with pytest.raises(TextError, match=rf"<bytes>:8:3: expected another name than {name}, which is defined before"):
        tileir.load(KERNEL.format(f"{name} = iota : tile<4xi32>").encode())


def test_kernels_have_names_of_their_own() -> None:
    with pytest.raises(TileIRError, match="several kernels of one name in a module: k$"):
        tileir.load(2 * KERNEL.format("").encode())


@pytest.mark.parametrize("length", range(1, 8))
def test_a_part_of_the_magic_is_no_text(length: int) -> None:
    with pytest.raises(TileIRError, match="at byte 0: expected .*the magic"):
        tileir.load(b"\x7fTileIR\0"[:length])


def test_bits_of_bytes_are_packed_from_the_lowest_on() -> None:
    ops = "%o = iota : tile<16xi32>\n  %m = constant <i32: 11> : tile<16xi32>\n"
    ops += "  %c = cmpi less_than %o, %m, signed : tile<16xi32> -> tile<16xi1>\n  %d = pack %c : tile<16xi1> -> tile<2xi8>\n"
    ops += "  %e = unpack %d : tile<2xi8> -> tile<16xi1>\n  %g = xori %c, %e : tile<16xi1>\n"
    ops += "  %k = exti %g unsigned : tile<16xi1> -> tile<16xi8>\n  %q = bitcast %d : tile<2xi8> -> tile<2xi8>\n"
    ops += "  %r = extract %k[%n] : tile<16xi8> -> tile<2xi8>\n  %s = ori %q, %r : tile<2xi8>\n"
    ops += (
        "  %u = exti %s unsigned : tile<2xi8> -> tile<2xi32>\n  %v = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>\n"
    )
    ops += "  %w = broadcast %v : tile<1xptr<i32>> -> tile<2xptr<i32>>\n  %x = iota : tile<2xi32>\n"
    ops += "  %y = offset %w, %x : tile<2xptr<i32>>, tile<2xi32> -> tile<2xptr<i32>>\n"
    ops += "  %z = store_ptr_tko weak %y, %u : tile<2xptr<i32>>, tile<2xi32> -> token"
    for part in range(8):
        out = np.zeros(2, np.int32)
        ct.launch(None, (1,), tileir.load(KERNEL.format(ops).encode()).kernel(), (part, out))
        assert out.tolist() == [0b11111111, 0b00000111]
