"""Integers that are known to be small become narrow floats by way of float32, with the same results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check

import tilewright as ct
from tilewright.transforms.narrow_integers import NarrowIntegers

TEXT = """
func @f(%p: ptr<i64>[4] = "x".base, %q: ptr<bf16>[4] = "y".base) {{
  %x = load(%p, _, _) : i64[4]
  %m = constant() {{value = {mask}, type = !i64[4]}} : i64[4]
  %a = and(%x, %m) : i64[4]
{cast}  return()
}}
"""


def test_masked_integers_go_by_float32() -> None:
    """65535 is rounded as bf16, but once: float32 holds it."""
    direct = "  %y = cast(%a) {dtype = bf16} : bf16[4]\n  store(%q, %y, _)\n"
    by_float32 = (
        "  %0 = cast(%a) {dtype = i32} : i32[4]\n  %1 = cast(%0) {dtype = f32} : f32[4]\n"
        "  %2 = cast(%1) {dtype = bf16} : bf16[4]\n  store(%q, %2, _)\n"
    )
    check(NarrowIntegers(), TEXT.format(mask=65535, cast=direct), TEXT.format(mask=65535, cast=by_float32))
    check(NarrowIntegers(), TEXT.format(mask=(1 << 25) - 1, cast=direct), TEXT.format(mask=(1 << 25) - 1, cast=direct))


NUMBERS = """
func @f(%n: i32 = "x".shape.0, %k: i32 = "k".scalar) {{
  %b = bid() {{axis = 0}} : i32
  %c = constant() {{value = {most}, type = !i32}} : i32
  %m = {op}(%b, %n) {{rounding = RoundingMode.{down}}} : i32
  %q = {op}(%b, %k) {{rounding = RoundingMode.RM}} : i32
  %r = {op}(%k, %n) {{rounding = RoundingMode.RM}} : i32
  %s = {op}(%b, %c) {{rounding = RoundingMode.RM}} : i32
  %u = {op}(%b, %n) {{rounding = RoundingMode.RP}} : i32
  print([%m, %q, %r, %s, %u]) {{parts = (none, none, none, none, none), formats = ("", "", "", "", "")}}
  return()
}}
"""


@pytest.mark.parametrize("op", ["div", "rem"])
def test_quotients_of_what_is_not_negative_are_rounded_to_zero(op: str) -> None:
    """Those by constants are shifts."""
    down, zero = (NUMBERS.format(op=op, most=16, down=mode) for mode in ("RM", "RZ"))
    check(NarrowIntegers(), down, zero, names=False)


@pytest.mark.parametrize("bits", [4, 20, 30])
def test_results_are_those_of_the_reference(bits: int) -> None:
    """Halves of bytes, and numbers that float32 holds, or does not, where bf16 would be rounded twice."""

    @ct.kernel
    def kernel(x: ct.Array, out: ct.Array) -> None:
        low = (ct.load(x, (0,), (256,)) >> 1) & ct.static_eval((1 << bits) - 1)
        ct.store(out, (0,), (low - 8).astype(out.dtype))

    x = np.random.default_rng(bits).integers(0, 1 << 31, 256).astype(np.int32)
    x[:2] = 2 * (0x101_0001 + 8), 2 * (0x1_0101 + 8)  # halfway between two numbers of bf16, and just above
    found = []
    with interpreter_backend(4) as gpu:
        for backend in ("reference", "cpu", gpu):
            out = np.zeros(256, ml_dtypes.bfloat16)
            ct.launch(None, (1,), kernel, (x, out), backend=backend)
            found.append(out.tobytes())
    assert found[0] == found[1] == found[2]
