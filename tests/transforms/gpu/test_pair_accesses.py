"""Tiles whose elements alternate in memory are moved in words of two, and all others as they were."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.transforms.gpu.pair_accesses import PairAccesses

ROWS, PAIRS = 3, 64


@ct.kernel
def turned_columns(x, out, T: ct.Constant[int]):
    """Complex numbers times i + 1: x and out are (rows, T, 2)."""
    row = ct.bid(0)
    a = ct.load(x, (row, 0, 0), (1, T, 1), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    b = ct.load(x, (row, 0, 1), (1, T, 1), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(out, (row, 0, 1), (a + b).astype(out.dtype))
    ct.store(out, (row, 0, 0), (a - b).astype(out.dtype))


@ct.kernel
def turned_gathers(x, out, T: ct.Constant[int]):
    """The same by places: x and out are (rows, 2 T)."""
    row, even = ct.bid(0), 2 * ct.arange(T, dtype=ct.int32)
    a = ct.gather(x, (row, even), padding_value=0).astype(ct.float32)
    b = ct.gather(x, (row, even + 1), padding_value=0).astype(ct.float32)
    ct.scatter(out, (row, even), (a - b).astype(out.dtype))
    ct.scatter(out, (row, even + 1), (a + b).astype(out.dtype))


# Where the first pair begins, from row to row, from pair to pair, and how many columns there are.
GEOMETRIES = {
    "pairs on multiples of their size": (0, 128, 2, 2),
    "rows of odd lengths": (0, 129, 2, 2),
    "pairs that are apart": (0, 192, 3, 2),
    "one column": (0, 128, 2, 1),
    "an odd begin": (1, 128, 2, 2),
}


def run(backend: str, kernel: ct.Kernel, dtype: type[np.generic], geometry: tuple[int, ...]) -> np.ndarray:
    """All memory around what ``kernel`` stores."""
    begin, row, pair, columns = geometry
    memory = np.random.default_rng(row).integers(-50, 50, (2, ROWS * row + 8)).astype(dtype)
    strides = [n * memory.itemsize for n in (row, pair, 1)]
    x, out = (np.lib.stride_tricks.as_strided(m[begin:], (ROWS, PAIRS, columns), strides) for m in memory)
    if kernel is turned_gathers:
        x, out = (np.lib.stride_tricks.as_strided(m[begin:], (ROWS, 2 * PAIRS), strides[::2]) for m in memory)
    ct.launch(None, (ROWS,), kernel, (x, out, PAIRS), backend=backend)
    return memory


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
@pytest.mark.parametrize("kernel", [turned_columns, turned_gathers])
def test_all_geometries(kernel: ct.Kernel, dtype: type[np.generic], geometry: tuple[int, ...]) -> None:
    expected = run("reference", kernel, dtype, geometry)
    with interpreter_backend(2) as gpu, ptx_backend(1, "sm_80") as ptx:
        for backend in (gpu, ptx):
            np.testing.assert_array_equal(run(backend, kernel, dtype, geometry), expected)


def test_loads() -> None:
    """The load that comes first waits for the other one, and so does what depends on it."""
    head = """
func @f(%p: ptr<f16> = "x".base, %n: i32 = "n".scalar) {
  %q = assume_divisible(%p) {divisor = 16} : ptr<f16>
  %m = assume_divisible(%n) {divisor = 2} : i32
  %b = reshape(%q) {shape = (1)} : ptr<f16>[1]
  %base = broadcast(%b) {shape = (32)} : ptr<f16>[32]
  %c = reshape(%m) {shape = (1)} : i32[1]
  %end = broadcast(%c) {shape = (32)} : i32[32]
  %i = iota() {type = !i32[32]} : i32[32]
  %two = constant() {value = 2, type = !i32[32]} : i32[32]
  %one = constant() {value = 1, type = !i32[32]} : i32[32]
  %even = mul(%i, %two) : i32[32]
  %odd = add(%even, %one) : i32[32]
  %in = cmp(%even, %end) {predicate = CmpPredicate.LT} : i1[32]
  %too = cmp(%odd, %end) {predicate = CmpPredicate.LT} : i1[32]
  %first = ptr_offset(%base, %even) : ptr<f16>[32]
  %second = ptr_offset(%base, %odd) : ptr<f16>[32]
"""
    check(
        PairAccesses(),
        head
        + """  %x = load(%first, %in, _) : f16[32]
  %d = add(%x, %x) : f16[32]
  %y = load(%second, %too, _) : f16[32]
  %s = add(%d, %y) : f16[32]
  store(%first, %s, %in)
  return()
}
""",
        head
        + """  %0 = bitcast(%first) {dtype = ptr<u32>} : ptr<u32>[32]
  %1 = load(%0, %in, _) : u32[32]
  %2 = cast(%1) {dtype = u16} : u16[32]
  %3 = bitcast(%2) {dtype = f16} : f16[32]
  %4 = constant() {value = 16, type = !u32[32]} : u32[32]
  %5 = shr(%1, %4) : u32[32]
  %6 = cast(%5) {dtype = u16} : u16[32]
  %7 = bitcast(%6) {dtype = f16} : f16[32]
  %d = add(%3, %3) : f16[32]
  %s = add(%d, %7) : f16[32]
  store(%first, %s, %in)
  return()
}
""",
        names=False,
    )


def test_stores_where_strides_are_even() -> None:
    """And where both elements are stored."""
    head = """
func @f(%p: ptr<i8> = "x".base, %n: i32 = "x".stride.0, %c: i1 = "c".scalar) {
  %b = reshape(%p) {shape = (1)} : ptr<i8>[1]
  %base = broadcast(%b) {shape = (32)} : ptr<i8>[32]
  %t = reshape(%n) {shape = (1)} : i32[1]
  %stride = broadcast(%t) {shape = (32)} : i32[32]
  %i = iota() {type = !i32[32]} : i32[32]
  %v = cast(%i) {dtype = i8} : i8[32]
  %w = add(%v, %v) : i8[32]
  %j = mul(%i, %stride) : i32[32]
  %first = ptr_offset(%base, %j) : ptr<i8>[32]
  %one = constant() {value = 1, type = !i32[32]} : i32[32]
  %second = ptr_offset(%first, %one) : ptr<i8>[32]
  %k = reshape(%c) {shape = (1)} : i1[1]
  %mask = broadcast(%k) {shape = (32)} : i1[32]
"""
    check(
        PairAccesses(),
        head
        + """  store(%second, %w, %mask)
  store(%first, %v, _)
  return()
}
""",
        head
        + """  %0 = ptr_to_int(%p) {dtype = i64} : i64
  %1 = constant() {value = 1, type = !i64} : i64
  %2 = and(%0, %1) : i64
  %3 = constant() {value = 0, type = !i64} : i64
  %4 = cmp(%2, %3) {predicate = CmpPredicate.EQ} : i1
  %5 = constant() {value = 1, type = !i32} : i32
  %6 = and(%n, %5) : i32
  %7 = constant() {value = 0, type = !i32} : i32
  %8 = cmp(%6, %7) {predicate = CmpPredicate.EQ} : i1
  %9 = and(%c, %4) : i1
  %10 = and(%9, %8) : i1
  if(%10) {types = ()} {
    %11 = bitcast(%first) {dtype = ptr<u16>} : ptr<u16>[32]
    %12 = bitcast(%v) {dtype = u8} : u8[32]
    %13 = cast(%12) {dtype = u16} : u16[32]
    %14 = bitcast(%w) {dtype = u8} : u8[32]
    %15 = cast(%14) {dtype = u16} : u16[32]
    %16 = constant() {value = 8, type = !u16[32]} : u16[32]
    %17 = shl(%15, %16) : u16[32]
    %18 = or(%13, %17) : u16[32]
    store(%11, %18, _)
    yield([])
  } {
    store(%first, %v, _)
    store(%second, %w, %mask)
    yield([])
  }
  return()
}
""",
        names=False,
        settles=False,  # what the other branch does alone
    )


STAY = {
    "a store between loads": (
        "%x = load(%first, _, _) : f16[32]",
        "store(%base, %x, _)",
        "%y = load(%second, _, _) : f16[32]",
    ),
    "a load between stores": ("store(%first, %z, _)", "%x = load(%base, _, _) : f16[32]", "store(%second, %z, _)"),
    "elements side by side": ("%x = load(%all, _, _) : f16[32]", "", "%y = load(%next, _, _) : f16[32]"),
    "an order": (
        "%x = load(%first, _, _) : f16[32]",
        "",
        "%y = load(%second, _, _) {memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE} : f16[32]",
    ),
}


@pytest.mark.parametrize("ops", STAY.values(), ids=STAY)
def test_what_stays(ops: tuple[str, str, str]) -> None:
    first, between, second = ops
    text = f"""
func @f(%p: ptr<f16> = "x".base) {{
  %q = assume_divisible(%p) {{divisor = 16}} : ptr<f16>
  %b = reshape(%q) {{shape = (1)}} : ptr<f16>[1]
  %base = broadcast(%b) {{shape = (32)}} : ptr<f16>[32]
  %i = iota() {{type = !i32[32]}} : i32[32]
  %z = cast(%i) {{dtype = f16}} : f16[32]
  %one = constant() {{value = 1, type = !i32[32]}} : i32[32]
  %two = constant() {{value = 2, type = !i32[32]}} : i32[32]
  %even = mul(%i, %two) : i32[32]
  %odd = add(%even, %one) : i32[32]
  %after = add(%i, %one) : i32[32]
  %all = ptr_offset(%base, %i) : ptr<f16>[32]
  %next = ptr_offset(%base, %after) : ptr<f16>[32]
  %first = ptr_offset(%base, %even) : ptr<f16>[32]
  %second = ptr_offset(%base, %odd) : ptr<f16>[32]
  {first}
  {between}
  {second}
  return()
}}
"""
    check(PairAccesses(), text, text)
