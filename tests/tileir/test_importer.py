"""Import: kernels of CUDA Tile IR do on our backends what the format says, and exported kernels come back as they were."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import kernel_runs, tile_ir_round_trip
from support.kernel_runs import generated, generated_product, seeds
from support.tile_ir_ops import multimem

import tilewright as ct
from tilewright import tileir
from tilewright.tileir.bytecode import write
from tilewright.tileir.errors import TileIRError
from tilewright.tileir.importer import import_entry
from tilewright.tileir.importer.function import HANDLERS
from tilewright.tileir.optable import BY_OPCODE
from tilewright.tileir.text import parse_module

DATA = Path(__file__).parent / "data"
BACKENDS = ("reference", "cpu")


def kernel(text: str) -> Any:
    """The only kernel of ``text``, through bytecode."""
    return tileir.load(write(parse_module(text, "test.mlir"))).kernel()


def run(text: str, *args: Any, grid: tuple[int, ...] = (1,), backend: str = "reference") -> None:
    ct.launch(None, grid, kernel(text), args, backend=backend)


# -- there and back


@pytest.mark.parametrize("seed", seeds(10))
def test_random_kernels_come_back(seed: int) -> None:
    made = generated(seed)
    wanted = kernel_runs.outcome(made, "reference")
    for name, found in tile_ir_round_trip.outcome(made, "reference").items():
        np.testing.assert_array_equal(found, wanted[name])


@pytest.mark.parametrize("seed", seeds(4, 500))
def test_random_kernels_come_back_compiled(seed: int) -> None:
    for made in (generated(seed), generated_product(seed)):
        wanted = kernel_runs.outcome(made, "reference")
        for name, found in tile_ir_round_trip.outcome(made, "cpu").items():
            np.testing.assert_array_equal(found, wanted[name])


def test_every_op_is_known() -> None:
    structured = {"for", "loop", "if", "reduce", "scan", "yield", "continue", "break", "return"}
    assert set(HANDLERS) | structured == {spec.name for spec in BY_OPCODE.values()}


# -- values


def unary(body: str, source: str, target: str, n: int = 8, more: str = "") -> str:
    """A kernel that stores ``%r``, made from ``%x``."""
    return f"""
    entry @k(%a: tile<ptr<{source}>>, %out: tile<ptr<{target}>>) {{
      %i = iota : tile<{n}xi32>
      %pa = reshape %a : tile<ptr<{source}>> -> tile<1xptr<{source}>>
      %pb = broadcast %pa : tile<1xptr<{source}>> -> tile<{n}xptr<{source}>>
      %pc = offset %pb, %i : tile<{n}xptr<{source}>>, tile<{n}xi32> -> tile<{n}xptr<{source}>>
      %qa = reshape %out : tile<ptr<{target}>> -> tile<1xptr<{target}>>
      %qb = broadcast %qa : tile<1xptr<{target}>> -> tile<{n}xptr<{target}>>
      %qc = offset %qb, %i : tile<{n}xptr<{target}>>, tile<{n}xi32> -> tile<{n}xptr<{target}>>
      %x, %t = load_ptr_tko weak %pc : tile<{n}xptr<{source}>> -> tile<{n}x{source}>, token
      {more}
      {body}
      %s = store_ptr_tko weak %qc, %r token=%t : tile<{n}xptr<{target}>>, tile<{n}x{target}> -> token
      return
    }}"""


INTEGERS = np.array([0, 1, -1, 5, -7, 127, -128, 64], np.int8)
SIGNED, UNSIGNED = INTEGERS.astype(np.int64), INTEGERS.view(np.uint8).astype(np.int64)
OTHERS = np.array([3, -2, 5, 5, 7, -128, -127, 1], np.int8)
DENSE = f"%y = constant <i8: {OTHERS.tolist()}> : tile<8xi8>"
S, U = OTHERS.astype(np.int64), OTHERS.view(np.uint8).astype(np.int64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("addi %x, %y : tile<8xi8>", SIGNED + S),
        ("subi %x, %y overflow<no_signed_wrap> : tile<8xi8>", SIGNED - S),
        ("muli %x, %y : tile<8xi8>", SIGNED * S),
        ("divi %x, %y signed : tile<8xi8>", np.trunc(SIGNED / S)),
        ("divi %x, %y signed rounding<negative_inf> : tile<8xi8>", SIGNED // S),
        ("divi %x, %y signed rounding<positive_inf> : tile<8xi8>", -(-SIGNED // S)),
        ("divi %x, %y unsigned : tile<8xi8>", UNSIGNED // U),
        ("divi %x, %y unsigned rounding<positive_inf> : tile<8xi8>", -(-UNSIGNED // U)),
        ("remi %x, %y signed : tile<8xi8>", np.fmod(SIGNED, S)),
        ("remi %x, %y unsigned : tile<8xi8>", UNSIGNED % U),
        ("maxi %x, %y signed : tile<8xi8>", np.maximum(SIGNED, S)),
        ("maxi %x, %y unsigned : tile<8xi8>", np.maximum(UNSIGNED, U)),
        ("mini %x, %y unsigned : tile<8xi8>", np.minimum(UNSIGNED, U)),
        ("mulhii %x, %y : tile<8xi8>", UNSIGNED * U >> 8),
        ("xori %x, %y : tile<8xi8>", SIGNED ^ S),
        ("negi %x : tile<8xi8>", -SIGNED),
        ("absi %x : tile<8xi8>", abs(SIGNED)),
    ],
)
def test_integers_are_read_as_the_op_says(op: str, wanted: np.ndarray[Any, Any], backend: str) -> None:
    out = np.zeros(8, np.int8)
    run(unary(f"%r = {op}", "i8", "i8", more=DENSE), INTEGERS.copy(), out, backend=backend)
    np.testing.assert_array_equal(out, wanted.astype(np.int64).astype(np.int8))


COUNTS = "%y = constant <i8: [0, 1, 2, 3, 4, 5, 6, 7]> : tile<8xi8>"


@pytest.mark.parametrize("backend", BACKENDS)
def test_shifts(backend: str) -> None:
    out = np.zeros(8, np.int8)
    for op, wanted in (
        ("shli %x, %y", SIGNED << np.arange(8)),
        ("shri %x, %y signed", SIGNED >> np.arange(8)),
        ("shri %x, %y unsigned", UNSIGNED >> np.arange(8)),
    ):
        run(unary(f"%r = {op} : tile<8xi8>", "i8", "i8", more=COUNTS), INTEGERS.copy(), out, backend=backend)
        np.testing.assert_array_equal(out, wanted.astype(np.int8))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("signedness", ("signed", "unsigned"))
def test_conversions_of_integers(signedness: str, backend: str) -> None:
    numbers = SIGNED if signedness == "signed" else UNSIGNED
    wide, half, low = np.zeros(8, np.int32), np.zeros(8, np.float32), np.zeros(8, np.int8)
    run(
        unary(f"%r = exti %x {signedness} : tile<8xi8> -> tile<8xi32>", "i8", "i32"),
        INTEGERS.copy(),
        wide,
        backend=backend,
    )
    run(
        unary(f"%r = itof %x {signedness} : tile<8xi8> -> tile<8xf32>", "i8", "f32"),
        INTEGERS.copy(),
        half,
        backend=backend,
    )
    run(unary(f"%r = ftoi %x {signedness} : tile<8xf32> -> tile<8xi8>", "f32", "i8"), half, low, backend=backend)
    np.testing.assert_array_equal(wide, numbers)
    np.testing.assert_array_equal(half, numbers)
    np.testing.assert_array_equal(low, INTEGERS)


@pytest.mark.parametrize("signedness", ("signed", "unsigned"))
def test_one_bit(signedness: str) -> None:
    """As a signed number true is -1."""
    true = -1 if signedness == "signed" else 1
    a, b = np.array([0, 0, 1, 1, 0, 0, 1, 1], bool), np.array([0, 1, 0, 1, 0, 1, 0, 1], bool)
    x, y = a.astype(int) * true, b.astype(int) * true
    more = "%y = constant <i1: [false, true, false, true, false, true, false, true]> : tile<8xi1>"
    out = np.zeros(8, bool)
    for op, wanted in (
        ("addi %x, %y : tile<8xi1>", (x + y) & 1),
        ("muli %x, %y : tile<8xi1>", (x * y) & 1),
        (f"maxi %x, %y {signedness} : tile<8xi1>", np.maximum(x, y) != 0),
        (f"mini %x, %y {signedness} : tile<8xi1>", np.minimum(x, y) != 0),
        (f"cmpi less_than %x, %y, {signedness} : tile<8xi1> -> tile<8xi1>", x < y),
        (f"shri %x, %y {signedness} : tile<8xi1>", x if signedness == "signed" else a & ~b),
    ):
        run(unary(f"%r = {op}", "i1", "i1", more=more), a, out)
        np.testing.assert_array_equal(out, np.asarray(wanted) != 0)
    wide = np.zeros(8, np.int16)
    run(unary(f"%r = exti %x {signedness} : tile<8xi1> -> tile<8xi16>", "i1", "i16"), a, wide)
    np.testing.assert_array_equal(wide, x)
    numbers = np.arange(-3, 5, dtype=np.int16)
    run(unary("%r = trunci %x : tile<8xi16> -> tile<8xi1>", "i16", "i1"), numbers, out)
    np.testing.assert_array_equal(out, numbers & 1)


@pytest.mark.parametrize("ordering", ("ordered", "unordered"))
@pytest.mark.parametrize(
    ("predicate", "compare"),
    [
        ("equal", np.equal),
        ("not_equal", np.not_equal),
        ("less_than", np.less),
        ("less_than_or_equal", np.less_equal),
        ("greater_than", np.greater),
        ("greater_than_or_equal", np.greater_equal),
    ],
)
def test_comparisons_with_nan(predicate: str, compare: Any, ordering: str) -> None:
    x = np.array([0, 1, 2, np.nan, np.inf, -1, np.nan, 3], np.float32)
    y = np.array([0, 2, 1, 1, np.inf, np.nan, np.nan, 3], np.float32)
    listed = ", ".join("0x7FC00000" if np.isnan(v) else "0x7F800000" if np.isinf(v) else f"{v:e}" for v in y)
    out = np.zeros(8, bool)
    more = f"%y = constant <f32: [{listed}]> : tile<8xf32>"
    run(unary(f"%r = cmpf {predicate} {ordering} %x, %y : tile<8xf32> -> tile<8xi1>", "f32", "i1", more=more), x, out)
    nan = np.isnan(x) | np.isnan(y)
    np.testing.assert_array_equal(out, compare(x, y) & ~nan if ordering == "ordered" else compare(x, y) | nan)


@pytest.mark.parametrize("backend", BACKENDS)
def test_integer_powers(backend: str) -> None:
    x, out = np.array([2, -2, 3, -1, 0.5, -1, 10, 1.5], np.float32), np.zeros(8, np.float32)
    n = np.array([3, 3, -2, 2**30 + 1, 10, 2**24 + 1, 0, 2])
    more = f"%y = constant <i32: {n.tolist()}> : tile<8xi32>"
    run(unary("%r = fpowi %x, %y : tile<8xf32>, tile<8xi32>", "f32", "f32", more=more), x, out, backend=backend)
    np.testing.assert_allclose(out, x.astype(np.float64) ** n, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_four_bits(backend: str) -> None:
    data, packed = np.array([0x21, 0xF8, 0x7F, 0x90], np.uint8), np.zeros(4, np.int8)
    wide = np.zeros(8, np.int32)
    more = """
      %u = unpack %x : tile<4xi8> -> tile<8xi4>
      %w = exti %u {s} : tile<8xi4> -> tile<8xi32>
      %n = trunci %w : tile<8xi32> -> tile<8xi4>
      %r = pack %n : tile<8xi4> -> tile<4xi8>"""
    for signedness in ("signed", "unsigned"):
        run(unary("", "i8", "i8", 4, more.replace("{s}", signedness)), data, packed, backend=backend)
        np.testing.assert_array_equal(packed.view(np.uint8), data)
        text = f"""
        entry @k(%a: tile<ptr<i8>>, %out: tile<ptr<i32>>) {{
          %v = make_tensor_view %a, shape = [4], strides = [1] : tensor_view<4xi8, strides=[1]>
          %p = make_partition_view %v : partition_view<tile=(4), tensor_view<4xi8, strides=[1]>>
          %z = constant <i32: 0> : tile<i32>
          %x, %t = load_view_tko weak %p[%z] : partition_view<tile=(4), tensor_view<4xi8, strides=[1]>>, tile<i32> -> tile<4xi8>, token
          %u = unpack %x : tile<4xi8> -> tile<8xi4>
          %w = exti %u {signedness} : tile<8xi4> -> tile<8xi32>
          %ov = make_tensor_view %out, shape = [8], strides = [1] : tensor_view<8xi32, strides=[1]>
          %q = make_partition_view %ov : partition_view<tile=(8), tensor_view<8xi32, strides=[1]>>
          %s = store_view_tko weak %w, %q[%z] : tile<8xi32>, partition_view<tile=(8), tensor_view<8xi32, strides=[1]>>, tile<i32> -> token
          return
        }}"""
        run(text, data, wide, backend=backend)
        nibbles = np.stack([data & 15, data >> 4], axis=1).reshape(-1).astype(int)
        np.testing.assert_array_equal(
            wide, np.where(nibbles > 7, nibbles - 16, nibbles) if signedness == "signed" else nibbles
        )


# -- views


GATHER = """
entry @k(%a: tile<ptr<f32>>, %rows: tile<i32>, %index: tile<ptr<i32>>, %out: tile<ptr<f32>>) {
  %v = make_tensor_view %a, shape = [%rows, 6], strides = [6, 1] : tile<i32> -> tensor_view<?x6xf32, strides=[6,1]>
  %g = make_gather_scatter_view %v : gather_scatter_view<tile=(4x4), padding_value = neg_inf, tensor_view<?x6xf32, strides=[6,1]>, sparse_dim=0>
  %iv = make_tensor_view %index, shape = [4], strides = [1] : tensor_view<4xi32, strides=[1]>
  %ip = make_partition_view %iv : partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>
  %z = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %i, %t = load_view_tko weak %ip[%z] : partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>, tile<i32> -> tile<4xi32>, token
  %x, %u = load_view_tko weak %g[%i, %one] token = %t : gather_scatter_view<tile=(4x4), padding_value = neg_inf, tensor_view<?x6xf32, strides=[6,1]>, sparse_dim=0>, tile<4xi32>, tile<i32> -> tile<4x4xf32>, token
  %ov = make_tensor_view %out, shape = [4, 4], strides = [4, 1] : tensor_view<4x4xf32, strides=[4,1]>
  %op = make_partition_view %ov : partition_view<tile=(4x4), tensor_view<4x4xf32, strides=[4,1]>>
  %s = store_view_tko weak %x, %op[%z, %z] token = %u : tile<4x4xf32>, partition_view<tile=(4x4), tensor_view<4x4xf32, strides=[4,1]>>, tile<i32> -> token
  %w = store_view_tko weak %x, %g[%i, %z] token = %s : tile<4x4xf32>, gather_scatter_view<tile=(4x4), padding_value = neg_inf, tensor_view<?x6xf32, strides=[6,1]>, sparse_dim=0>, tile<4xi32>, tile<i32> -> token
  return
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_gather_and_scatter(backend: str) -> None:
    a = np.arange(42, dtype=np.float32).reshape(7, 6)
    rows, out = np.array([6, 0, 9, 3], np.int32), np.zeros((4, 4), np.float32)
    wanted = np.full((4, 4), -np.inf, np.float32)
    for k, row in enumerate(rows):
        if row < 7:
            wanted[k] = a[row, 1:5]
    after = a.copy()
    for k, row in enumerate(rows):
        if row < 7:
            after[row, :4] = wanted[k]
    run(GATHER, a, 7, rows, out, backend=backend)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(a, after)


SHAPES = """
entry @k(%a: tile<ptr<f32>>, %n: tile<i32>, %out: tile<ptr<i64>>) {
  %v = make_tensor_view %a, shape = [%n, 9], strides = [9, 1] : tile<i32> -> tensor_view<?x9xf32, strides=[9,1]>
  %p = make_partition_view %v : partition_view<tile=(4x2), tensor_view<?x9xf32, strides=[9,1]>, dim_map=[1, 0]>
  %w = make_strided_view %v : strided_view<tile=(4x4), traversal_strides=[3,1], tensor_view<?x9xf32, strides=[9,1]>>
  %s:2 = get_tensor_shape %v : tensor_view<?x9xf32, strides=[9,1]> -> tile<i64>
  %q:2 = get_index_space_shape %p : partition_view<tile=(4x2), tensor_view<?x9xf32, strides=[9,1]>, dim_map=[1, 0]> -> tile<i64>
  %r:2 = get_index_space_shape %w : strided_view<tile=(4x4), traversal_strides=[3,1], tensor_view<?x9xf32, strides=[9,1]>> -> tile<i64>
  %ov = make_tensor_view %out, shape = [6], strides = [1] : tensor_view<6xi64, strides=[1]>
  %op = make_partition_view %ov : partition_view<tile=(1), tensor_view<6xi64, strides=[1]>>
  %c0 = constant <i32: 0> : tile<i32>
  %c1 = constant <i32: 1> : tile<i32>
  %c2 = constant <i32: 2> : tile<i32>
  %c3 = constant <i32: 3> : tile<i32>
  %c4 = constant <i32: 4> : tile<i32>
  %c5 = constant <i32: 5> : tile<i32>
  STORES
  return
}"""


def test_extents_and_numbers_of_tiles() -> None:
    stores = "".join(
        f"%e{i} = reshape %{v} : tile<i64> -> tile<1xi64>\n"
        f"%t{i} = store_view_tko weak %e{i}, %op[%c{i}] : tile<1xi64>, partition_view<tile=(1), "
        "tensor_view<6xi64, strides=[1]>>, tile<i32> -> token\n"
        for i, v in enumerate(("s#0", "s#1", "q#0", "q#1", "r#0", "r#1"))
    )
    out = np.zeros(6, np.int64)
    run(SHAPES.replace("STORES", stores), np.zeros((7, 9), np.float32), 7, out)
    np.testing.assert_array_equal(out, [7, 9, 3, 4, 3, 9])


@pytest.mark.parametrize("backend", BACKENDS)
def test_atomics_on_views_read_the_sign_of_the_mode(backend: str) -> None:
    type = "partition_view<tile=(4), tensor_view<?xi32, strides=[1]>>"
    text = f"""
    entry @k(%a: tile<ptr<i32>>, %n: tile<i32>) {{
      %v = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
      %p = make_partition_view %v : {type}
      %b, %by, %bz = get_tile_block_id : tile<i32>
      %x = constant <i32: [-1, 5, 3, 2]> : tile<4xi32>
      %t = atomic_red_view_tko relaxed device %p[%b], MODE, %x : tile<4xi32>, {type}, tile<i32> -> token
      return
    }}"""
    for mode, fold in (
        ("umax", np.maximum),
        ("max", np.maximum),
        ("umin", np.minimum),
        ("add", np.add),
        ("xor", np.bitwise_xor),
    ):
        a = np.array([1, -9, 3, 7, 0, 0, 0], np.int32)
        sign = np.uint32 if mode.startswith("u") else np.int32
        x = np.array([-1, 5, 3, 2, -1, 5, 3], np.int32)
        wanted = fold(a.view(sign), x.view(sign)).view(np.int32)
        run(text.replace("MODE", mode), a, 7, grid=(2,), backend=backend)
        np.testing.assert_array_equal(a, wanted)


# -- memory of the module


GLOBALS = """
global @table <f32: [1.5, 2.5, 3.5, 4.5]> : tile<4xf32>
global @count <i32: 0> : tile<1xi32>
entry @k(%out: tile<ptr<f32>>) {
  %g = get_global @table : tile<ptr<f32>>
  %c = get_global @count : tile<ptr<i32>>
  %one = constant <i32: 1> : tile<i32>
  %old, %t = atomic_rmw_tko relaxed device %c, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %p = offset %g, %old : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
  %x, %u = load_ptr_tko weak %p token=%t : tile<ptr<f32>> -> tile<f32>, token
  %q = offset %out, %old : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
  %s = store_ptr_tko weak %q, %x token=%u : tile<ptr<f32>>, tile<f32> -> token
  return
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_globals_are_shared_by_blocks_and_launches(backend: str) -> None:
    out = np.zeros(4, np.float32)
    made = kernel(GLOBALS)
    for _ in range(2):
        ct.launch(None, (2,), made, (out,), backend=backend)
    np.testing.assert_array_equal(np.sort(out), [1.5, 2.5, 3.5, 4.5])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "dtype"), (("f32", np.float32), ("i64", np.int64), ("i16", np.int16)))
def test_constants_of_thousands_of_numbers(name: str, dtype: Any, backend: str) -> None:
    """They are in memory of the module; those that are counted, or repeat themselves, are computed."""
    numbers = np.random.default_rng(0).integers(-30000, 30000, (64, 64)).astype(dtype)
    counted, repeated = np.arange(4096).astype(dtype), np.tile(np.arange(8), 512).astype(dtype)
    for wanted, brought in ((numbers, 1), (counted, dtype is np.float32), (repeated, 0)):
        text = str(wanted.tolist())
        extents = "x".join(map(str, wanted.shape))
        made = kernel(f"""
        entry @k(%out: tile<ptr<{name}>>) {{
          %c = constant <{name}: {text}> : tile<{extents}x{name}>
          %d = constant <{name}: {text}> : tile<{extents}x{name}>
          %flat = reshape %c : tile<{extents}x{name}> -> tile<4096x{name}>
          %one = reshape %out : tile<ptr<{name}>> -> tile<1xptr<{name}>>
          %all = broadcast %one : tile<1xptr<{name}>> -> tile<4096xptr<{name}>>
          %i = iota : tile<4096xi32>
          %p = offset %all, %i : tile<4096xptr<{name}>>, tile<4096xi32> -> tile<4096xptr<{name}>>
          %t = store_ptr_tko weak %p, %flat : tile<4096xptr<{name}>>, tile<4096x{name}> -> token
          return
        }}""")
        out = np.zeros(4096, dtype)
        ct.launch(None, (1,), made, (out,), backend=backend)
        np.testing.assert_array_equal(out, wanted.ravel())
        assert len(made._memory) == brought


def test_an_array_that_all_blocks_share() -> None:
    text = """
    entry @k(%out: tile<ptr<i32>>) {
      %m = alloca num_elem = 4, alignment = 4 global : tile<ptr<i32>>
      %b, %by, %bz = get_tile_block_id : tile<i32>
      %p = offset %m, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %s = store_ptr_tko weak %p, %b : tile<ptr<i32>>, tile<i32> -> token
      %x, %t = load_ptr_tko weak %p token=%s : tile<ptr<i32>> -> tile<i32>, token
      %q = offset %out, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %u = store_ptr_tko weak %q, %x token=%t : tile<ptr<i32>>, tile<i32> -> token
      return
    }"""
    out = np.zeros(4, np.int32)
    run(text, out, grid=(4,))
    np.testing.assert_array_equal(out, np.arange(4))


# -- control flow


RETURNS = """
entry @k(%out: tile<ptr<i32>>, %n: tile<i32>) {
  %b, %by, %bz = get_tile_block_id : tile<i32>
  %q = offset %out, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %c1 = constant <i32: 1> : tile<i32>
  %c2 = constant <i32: 2> : tile<i32>
  %c3 = constant <i32: 3> : tile<i32>
  %big = cmpi greater_than %b, %n, signed : tile<i32> -> tile<i1>
  %first = cmpi equal %b, %c1, signed : tile<i32> -> tile<i1>
  %r = if %big -> (tile<i32>) {
    if %first {
      %s = store_ptr_tko weak %q, %c3 : tile<ptr<i32>>, tile<i32> -> token
      return
    }
    yield %c1 : tile<i32>
  } else {
    yield %c2 : tile<i32>
  }
  %s = store_ptr_tko weak %q, %r : tile<ptr<i32>>, tile<i32> -> token
  %last = cmpi equal %b, %c3, signed : tile<i32> -> tile<i1>
  if %last {
    return
  } else {
    %more = addi %r, %c2 : tile<i32>
    %t = store_ptr_tko weak %q, %more : tile<ptr<i32>>, tile<i32> -> token
  }
  return
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_return_in_a_branch(backend: str) -> None:
    out = np.zeros(4, np.int32)
    run(RETURNS, out, 0, grid=(4,), backend=backend)
    np.testing.assert_array_equal(out, [4, 3, 3, 1])


RETURNS_IN_LOOPS = """
entry @k(%out: tile<ptr<i32>>, %n: tile<i32>) {
  %b, %by, %bz = get_tile_block_id : tile<i32>
  %q = offset %out, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %ten = constant <i32: 10> : tile<i32>
  %last = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
    %there = cmpi equal %i, %b, signed : tile<i32> -> tile<i1>
    if %there {
      %s = store_ptr_tko weak %q, %i : tile<ptr<i32>>, tile<i32> -> token
    }
    %j = loop iter_values(%k = %i) : tile<i32> -> tile<i32> {
      %more = addi %k, %ten : tile<i32>
      %odd = trunci %b : tile<i32> -> tile<i1>
      if %there {
        if %odd {
          %s = store_ptr_tko weak %q, %more : tile<ptr<i32>>, tile<i32> -> token
          return
        }
      }
      break %more : tile<i32>
    }
    %next = addi %i, %one : tile<i32>
    %far = cmpi greater_than %next, %n, signed : tile<i32> -> tile<i1>
    if %far {
      break %j : tile<i32>
    }
    continue %next : tile<i32>
  }
  %is_four = cmpi equal %b, %n, signed : tile<i32> -> tile<i1>
  if %is_four {
    loop {
      return
    }
  }
  %t = store_ptr_tko weak %q, %last : tile<ptr<i32>>, tile<i32> -> token
  return
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_return_in_loops(backend: str) -> None:
    """Odd blocks return in a loop in a loop, the fourth one in a loop in a branch; the others get to the end."""
    out = np.zeros(7, np.int32)
    run(RETURNS_IN_LOOPS, out, 4, grid=(7,), backend=backend)
    np.testing.assert_array_equal(out, [14, 11, 14, 13, 4, 14, 14])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%a: tile<4xi32>) {\n  return", r"1:7: parameter 0 is tile<4xi32>; parameters are numbers and pointers"),
        ("%a: tile<i32>) {\n  return %a : tile<i32>", r"2:3: return: kernels return no values"),
        (
            "%a: tile<i32>) {\n  for %i in (%a to %a, step %a) : tile<i32> {\n    return\n  }\n  return",
            r"3:5: return: return inside for",
        ),
    ],
)
def test_what_ends_or_begins_a_kernel_wrongly_is_told(text: str, message: str) -> None:
    with pytest.raises(TileIRError, match=message):
        tileir.load(f"entry @k({text}\n}}".encode()).kernel()


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_of_unsigned_numbers_and_early_ends(backend: str) -> None:
    text = """
    entry @k(%out: tile<ptr<i32>>, %from: tile<i32>, %to: tile<i32>) {
      %one = constant <i32: 1> : tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %five = constant <i32: 5> : tile<i32>
      %t = make_token : token
      %n, %u = for unsigned %i in (%from to %to, step %one) : tile<i32> iter_values(%a = %zero, %tok = %t) -> (tile<i32>, token) {
        %next = addi %a, %one : tile<i32>
        %odd = trunci %i : tile<i32> -> tile<i1>
        if %odd {
          continue %a, %tok : tile<i32>, token
        }
        continue %next, %tok : tile<i32>, token
      }
      %m = loop iter_values(%b = %n) : tile<i32> -> tile<i32> {
        %done = cmpi greater_than %b, %five, signed : tile<i32> -> tile<i1>
        if %done {
          break %b : tile<i32>
        }
        %c = addi %b, %one : tile<i32>
        continue %c : tile<i32>
      }
      %s = store_ptr_tko weak %out, %m token=%u : tile<ptr<i32>>, tile<i32> -> token
      return
    }"""
    for start, stop, wanted in ((0x7FFFFFF0, -0x7FFFFFF0, 16), (0, 5, 6)):
        out = np.zeros(1, np.int32)
        run(text, out, start, stop, backend=backend)
        assert out[0] == wanted


def test_output(capfd: pytest.CaptureFixture[str]) -> None:
    text = r"""
    entry @k(%n: tile<i32>, %x: tile<f32>) {
      %t = print_tko "100%% of %d, %u and %5.2f\0A", %n, %n, %x : tile<i32>, tile<i32>, tile<f32> -> token
      return
    }"""
    run(text, -1, 2.5)
    assert capfd.readouterr().out == "100% of -1, 4294967295 and  2.50\n"


# -- arguments, modules


def test_arrays_of_unsigned_integers_and_small_floats() -> None:
    out = np.zeros(8, np.uint8)
    run(unary("%r = addi %x, %x : tile<8xi8>", "i8", "i8"), np.arange(8, dtype=np.uint8), out)
    np.testing.assert_array_equal(out, 2 * np.arange(8))
    small, wide = np.arange(8).astype(ml_dtypes.float8_e5m2), np.zeros(8, np.float32)
    run(unary("%r = ftof %x : tile<8xf8E5M2> -> tile<8xf32>", "f8E5M2", "f32"), small, wide)
    np.testing.assert_array_equal(wide, small.astype(np.float32))
    with pytest.raises(TypeError, match="is a float32 array, but its parameter is a pointer to int8"):
        run(unary("%r = addi %x, %x : tile<8xi8>", "i8", "i8"), wide, out)


def test_kernels_can_be_copied_pickled_and_named() -> None:
    module = tileir.load(DATA / "cutile_matmul_13.1.tilebc")
    first = module.kernel(module.kernels[0])
    assert module.kernel(module.kernels[0]) is first
    assert pickle.loads(pickle.dumps(first)).name == first.name
    assert copy.deepcopy(first) is first
    with pytest.raises(KeyError, match="has no kernel add; it has: mm_"):
        module.kernel("add")
    with pytest.raises(KeyError, match="has no one kernel that is meant without a name; it has: none"):
        tileir.load(b"// nothing").kernel()
    with pytest.raises(TypeError, match="is a kernel and cannot be called"):
        first()


# -- errors, checks


def test_what_cannot_be_lowered_is_named() -> None:
    module = multimem()
    with pytest.raises(TileIRError, match=r"multimem_\w+_tko: ops on memory of several GPUs need a multi-GPU runtime"):
        import_entry(module, module.entries[0])


def test_types_that_do_not_fit_are_told_with_their_place() -> None:
    text = (
        "entry @k(%a: tile<i32>) {\n  %b = constant <i64: 1> : tile<i64>\n  %c = addi %a, %b : tile<i32>\n  return\n}"
    )
    module = parse_module(text, "test.mlir")
    with pytest.raises(TileIRError, match=r"test.mlir:3:3: addi: expected operands of one type"):
        import_entry(module, module.entries[0])


@pytest.mark.parametrize(
    ("op", "value", "message"),
    [
        ("addi %x, %y overflow<no_signed_wrap> : tile<8xi8>", 127, "127 + 1 does not fit int8"),
        ("addi %x, %y overflow<no_unsigned_wrap> : tile<8xi8>", -1, "255 + 1 does not fit uint8, as no_unsigned_wrap"),
        ("subi %x, %y overflow<no_wrap> : tile<8xi8>", 0, "0 - 1 does not fit uint8, as no_unsigned_wrap"),
        ("muli %x, %x overflow<no_unsigned_wrap> : tile<8xi8>", 16, "16 * 16 does not fit uint8"),
        ("shli %x, %y overflow<no_signed_wrap> : tile<8xi8>", 64, "64 << 1 does not fit int8, as no_signed_wrap"),
        ("shli %x, %y overflow<no_unsigned_wrap> : tile<8xi8>", -1, "255 << 1 does not fit uint8"),
        ("divi %x, %z signed : tile<8xi8>", 5, "division of 1 by zero"),
    ],
)
def test_the_sanitizer_reports_broken_promises(op: str, value: int, message: str) -> None:
    more = "%y = constant <i8: 1> : tile<8xi8>\n%z = constant <i8: 0> : tile<8xi8>"
    text = unary(f"%r = {op}", "i8", "i8", more=more)
    x, out = np.ones(8, np.int8), np.zeros(8, np.int8)
    if "%z" not in op:
        with ct.sanitize() as report:
            ct.launch(None, (1,), kernel(text), (x, out))
        assert report.clean, report.render()
    x[3] = value
    with ct.sanitize() as report:
        ct.launch(None, (1,), kernel(text), (x, out))
    assert message in report.render()


def test_the_sanitizer_knows_saturating_conversions() -> None:
    x, out = np.full(8, 1e10, np.float32), np.zeros(8, np.int8)
    for saturating, clean in (("saturating ", True), ("", False)):
        text = unary(f"%r = ftoi %x signed {saturating}: tile<8xf32> -> tile<8xi8>", "f32", "i8")
        with ct.sanitize() as report:
            ct.launch(None, (1,), kernel(text), (x, out))
        assert report.clean == clean
