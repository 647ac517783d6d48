"""Cats of single elements become selects, and complex numbers are computed in the loops that store them."""

from __future__ import annotations

import numpy as np
from support.passes import check

import tilewright as ct
from tilewright.backends.cpu.loops.interleave_cats import InterleaveCats


def test_elements_that_alternate_are_selected_and_halves_are_not() -> None:
    check(
        InterleaveCats(),
        """
func @f() {
  %a = constant() {value = 2, type = !i16[4,1]} : i16[4,1]
  %b = constant() {value = 3, type = !i16[4,1]} : i16[4,1]
  %c = cat(%a, %b) {axis = 1} : i16[4,2]
  %d = cat(%a, %b) {axis = 0} : i16[8,1]
  print([%c, %d]) {parts = (none, none), formats = ("", "")}
  return()
}
""",
        """
func @f() {
  %a = constant() {value = 2, type = !i16[4,1]} : i16[4,1]
  %b = constant() {value = 3, type = !i16[4,1]} : i16[4,1]
  %0 = iota() {type = !i32[2]} : i32[2]
  %1 = reshape(%0) {shape = (1, 2)} : i32[1,2]
  %2 = broadcast(%1) {shape = (4, 2)} : i32[4,2]
  %3 = constant() {value = 0, type = !i32[4,2]} : i32[4,2]
  %4 = cmp(%2, %3) {predicate = CmpPredicate.EQ} : i1[4,2]
  %5 = broadcast(%a) {shape = (4, 2)} : i16[4,2]
  %6 = broadcast(%b) {shape = (4, 2)} : i16[4,2]
  %7 = select(%4, %5, %6) : i16[4,2]
  %d = cat(%a, %b) {axis = 0} : i16[8,1]
  print([%7, %d]) {parts = (none, none), formats = ("", "")}
  return()
}
""",
    )


@ct.kernel
def swap(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    pairs = ct.load(x, (i, 0), (T, 2), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i, 0), ct.cat((pairs.extract((0, 1), (T, 1)), -pairs.extract((0, 0), (T, 1))), axis=1))


def test_pairs_of_every_size_and_distance_are_read_where_they_lie() -> None:
    for dtype in (np.float64, np.float32, np.float16, np.int8):
        for n, tile, distance in ((64, 32, 2), (61, 32, 2), (40, 16, 3), (7, 4, 2), (5, 1, 2)):
            x = np.arange(n * distance).astype(dtype).reshape(n, distance)[:, :2]
            out = np.zeros_like(x)
            ct.launch(None, (-(-n // tile),), swap, (x, out, tile), backend="cpu")
            np.testing.assert_array_equal(out, np.stack((x[:, 1], -x[:, 0]), 1))
