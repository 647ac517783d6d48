"""Pack and unpack as arithmetic give what the reference gives, for every dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check

import tilewright as ct
from tilewright.transforms.lower_packing import LowerPacking

DTYPES = (
    *(np.int8, np.uint8, np.int16, np.uint32, np.int64, np.float16, np.float32, np.float64),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_of_elements_and_back(dtype: Any) -> None:
    kind = ct.float4_e2m1fn if dtype is ml_dtypes.float4_e2m1fn else None

    @ct.kernel
    def kernel(x: ct.Array, packed: ct.Array, back: ct.Array, N: ct.Constant[int]) -> None:
        bytes_ = ct.pack_to_bytes(ct.load(x, (0, 0), (2, N)))
        ct.store(packed, (0,), bytes_)
        ct.store(back, (0,), ct.unpack_from_bytes(bytes_, x.dtype if ct.static_eval(kind is None) else kind))

    bits = np.random.default_rng(3).integers(0, 256, 2 * 32 * np.dtype(dtype).itemsize).astype(np.uint8)
    x = (bits & 15 if kind else bits).view(dtype).reshape(2, -1)
    found = []
    with interpreter_backend(2) as gpu:
        for backend in ("reference", gpu, "cpu"):
            packed = np.zeros(x.nbytes // (2 if kind else 1), np.uint8)
            back = np.zeros(x.size, dtype)
            ct.launch(None, (1,), kernel, (x, packed, back, x.shape[1]), backend=backend)
            found.append((packed.tobytes(), back.tobytes()))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == x.tobytes()


def test_wider_integers_are_put_together_by_shifts() -> None:
    check(
        LowerPacking(),
        """
func @f(%p: ptr<i16> = "x".base) {
  %a = constant() {value = 2, type = !u8[4]} : u8[4]
  %b = unpack(%a) {dtype = i16} : i16[2]
  print([%b]) {parts = (none), formats = ("")}
  return()
}
""",
        """
func @f(%p: ptr<i16> = "x".base) {
  %a = constant() {value = 2, type = !u8[4]} : u8[4]
  %0 = reshape(%a) {shape = (2, 2)} : u8[2,2]
  %1 = cast(%0) {dtype = u16} : u16[2,2]
  %2 = iota() {type = !u16[2]} : u16[2]
  %3 = reshape(%2) {shape = (1, 2)} : u16[1,2]
  %4 = constant() {value = 3, type = !u16[1,2]} : u16[1,2]
  %5 = shl(%3, %4) : u16[1,2]
  %6 = broadcast(%5) {shape = (2, 2)} : u16[2,2]
  %7 = shl(%1, %6) : u16[2,2]
  %8 = reduce([%7]) {axis = 1, identities = (0), commutative = true} : u16[2] { ^(%9: u16, %10: u16)
    %11 = or(%9, %10) : u16
    yield([%11])
  }
  %12 = bitcast(%8) {dtype = i16} : i16[2]
  print([%12]) {parts = (none), formats = ("")}
  return()
}
""",
    )


def test_bytes_in_memory_stay_those_of_unsigned_integers() -> None:
    check(
        LowerPacking(in_memory=True),
        """
func @f(%p: ptr<f32> = "x".base) {
  %a = constant() {value = 2.0, type = !f32[4]} : f32[4]
  %b = pack(%a) : u8[16]
  %c = unpack(%b) {dtype = u16} : u16[8]
  print([%c]) {parts = (none), formats = ("")}
  return()
}
""",
        """
func @f(%p: ptr<f32> = "x".base) {
  %a = constant() {value = 2.0, type = !f32[4]} : f32[4]
  %0 = bitcast(%a) {dtype = u32} : u32[4]
  %1 = pack(%0) : u8[16]
  %c = unpack(%1) {dtype = u16} : u16[8]
  print([%c]) {parts = (none), formats = ("")}
  return()
}
""",
    )
