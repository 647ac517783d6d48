"""Products of scaled operands, text in and text out; and they give what the reference gives, for each pair of dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check

import tilewright as ct
from tilewright.ir.dtypes import float64
from tilewright.transforms.lower_mma_scaled import LowerMmaScaled

OPERANDS = """
func @f() {
  %x = constant() {value = 1.0, type = !f8e4m3fn[16,64]} : f8e4m3fn[16,64]
  %s = constant() {value = 2.0, type = !f8e8m0fnu[16,2]} : f8e8m0fnu[16,2]
  %y = constant() {value = 1.0, type = !f8e4m3fn[64,8]} : f8e4m3fn[64,8]
  %t = constant() {value = 2.0, type = !f8e8m0fnu[2,8]} : f8e8m0fnu[2,8]
  %z = constant() {value = 0.0, type = !f32[16,8]} : f32[16,8]
PRODUCT
  print([%w]) {parts = (none), formats = ("")}
  return()
}
"""
SCALED = "  %w = mma_scaled(%x, %s, %y, %t, %z) : f32[16,8]"
PLAIN = """
  %sf = cast(%s) {dtype = f32} : f32[16,2]
  %sr = reshape(%sf) {shape = (16, 2, 1)} : f32[16,2,1]
  %sb = broadcast(%sr) {shape = (16, 2, 32)} : f32[16,2,32]
  %sw = reshape(%sb) {shape = (16, 64)} : f32[16,64]
  %xf = cast(%x) {dtype = f32} : f32[16,64]
  %xs = mul(%xf, %sw) : f32[16,64]
  %xb = cast(%xs) {dtype = bf16} : bf16[16,64]
  %tf = cast(%t) {dtype = f32} : f32[2,8]
  %tr = reshape(%tf) {shape = (2, 1, 8)} : f32[2,1,8]
  %tb = broadcast(%tr) {shape = (2, 32, 8)} : f32[2,32,8]
  %tw = reshape(%tb) {shape = (64, 8)} : f32[64,8]
  %yf = cast(%y) {dtype = f32} : f32[64,8]
  %ys = mul(%yf, %tw) : f32[64,8]
  %yb = cast(%ys) {dtype = bf16} : bf16[64,8]
  %w = mma(%xb, %yb, %z) : f32[16,8]"""


def test_operands_are_scaled_along_k() -> None:
    """Each scale serves 32 elements of a row on the left, of a column on the right."""
    check(LowerMmaScaled(), OPERANDS.replace("PRODUCT", SCALED), OPERANDS.replace("PRODUCT", PLAIN), names=False)


WIDE = """
  %sf = cast(%s) {dtype = f64} : f64[16,2]
  %sr = reshape(%sf) {shape = (16, 2, 1)} : f64[16,2,1]
  %sb = broadcast(%sr) {shape = (16, 2, 32)} : f64[16,2,32]
  %sw = reshape(%sb) {shape = (16, 64)} : f64[16,64]
  %xf = cast(%x) {dtype = f64} : f64[16,64]
  %xs = mul(%xf, %sw) : f64[16,64]
  %tf = cast(%t) {dtype = f64} : f64[2,8]
  %tr = reshape(%tf) {shape = (2, 1, 8)} : f64[2,1,8]
  %tb = broadcast(%tr) {shape = (2, 32, 8)} : f64[2,32,8]
  %tw = reshape(%tb) {shape = (64, 8)} : f64[64,8]
  %yf = cast(%y) {dtype = f64} : f64[64,8]
  %ys = mul(%yf, %tw) : f64[64,8]
  %zf = cast(%z) {dtype = f64} : f64[16,8]
  %p = mma(%xs, %ys, %zf) : f64[16,8]
  %w = cast(%p) {dtype = f32} : f32[16,8]"""


def test_sums_in_float64_are_rounded_once() -> None:
    pass_ = LowerMmaScaled(float64)
    check(pass_, OPERANDS.replace("PRODUCT", SCALED), OPERANDS.replace("PRODUCT", WIDE), names=False)


@ct.kernel
def scaled(x, xs, y, ys, out, B: ct.Constant[int]):
    a, b = ct.load(x, (0, 0), (16, 64)), ct.load(y, (0, 0), (64, 16))
    s, t = ct.load(xs, (0, 0), (16, 64 // B)), ct.load(ys, (0, 0), (64 // B, 16))
    ct.store(out, (0, 0), ct.mma_scaled(a, s, b, t, ct.full((16, 16), 0.5, ct.float32)))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_same_as_the_reference(dtype: Any) -> None:
    """The sums are exact, so that their order does not matter."""
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-4, 5, shape).astype(np.float32).astype(dtype) for shape in ((16, 64), (64, 16)))
    scales = [np.exp2(rng.integers(-3, 4, s)).astype(ml_dtypes.float8_e8m0fnu) for s in ((16, 2), (2, 16))]
    found = [np.zeros((16, 16), np.float32) for _ in range(2)]
    with interpreter_backend(2) as gpu:
        for backend, out in zip(("reference", gpu), found):
            ct.launch(None, (1,), scaled, (x, scales[0], y, scales[1], out, 32), backend=backend)
    np.testing.assert_array_equal(*found)
