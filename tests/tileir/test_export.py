"""Kernels as CUDA Tile IR: what is written reads back, names its sources, and is refused where a version lacks it."""

from __future__ import annotations

import dataclasses
import gc
import io
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tile_ir_round_trip import through_bytecode

import tilewright as ct
from tilewright import tileir
from tilewright.compilation import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ScalarConstraint,
    export_kernel,
)
from tilewright.compilation.lowering import lower
from tilewright.ir.opdef import OPS
from tilewright.ir.ops import control, linear
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.debug import CallSite, FileLoc
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.export.function import HANDLERS, Kernel, export
from tilewright.tileir.module import Block, Module, Operation, Value
from tilewright.tileir.text import print_module
from tilewright.tileir.types import TOKEN

V1 = CallingConvention.cutile_python_v1()


def array(rank: int, dtype: Any = ct.float32) -> ArrayConstraint:
    strides = (*[None] * (rank - 1), 1)
    return ArrayConstraint(
        dtype,
        rank,
        index_dtype=ct.int32,
        stride_constant=strides,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        base_addr_divisible_by=16,
    )


def exported(kernel: Any, *parameters: Any, version: str | None = None) -> Module:
    out = io.BytesIO()
    constraints = [ConstantConstraint(p) if isinstance(p, int) else p for p in parameters]
    signature = KernelSignature(constraints, V1, "k")
    export_kernel(kernel, [signature], out, output_format="tileir_bytecode", bytecode_version=version)
    module = read(out.getvalue())
    assert write(module) == out.getvalue()
    return module


def launch(kernel: Any, arguments: tuple[Any, ...], *, through: bool = True) -> None:
    """One block of a kernel on the reference, ``through`` bytecode."""
    again = ct.kernel(kernel.function)
    trace = again.trace
    again.trace = lambda signature: through_bytecode(trace(signature)) if through else trace(signature)
    ct.launch(None, (1,), again, arguments, backend="reference")


COPY = """\
entry @k(%0: tile<ptr<f32>>, %1: tile<i32>, %2: tile<i32>, %3: tile<ptr<f32>>, %4: tile<i32>, %5: tile<i32>) {
  %6 = assume bounded<0, ?>, %1 : tile<i32>
  %7 = assume bounded<0, ?>, %4 : tile<i32>
  %8, %9, %10 = get_tile_block_id : tile<i32>
  %11 = make_token : token
  %12 = assume div_by<16>, %0 : tile<ptr<f32>>
  %13 = assume div_by<16>, %3 : tile<ptr<f32>>
  %14 = make_tensor_view %12, shape = [%6], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %15 = make_partition_view %14 : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>
  %16, %17 = load_view_tko weak %15[%8] token = %11 : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<16xf32>, token
  %18 = make_tensor_view %13, shape = [%7], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %19 = make_partition_view %18 : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>
  %20 = store_view_tko weak %16, %19[%8] token = %11 : tile<16xf32>, partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
  return
}
"""


@ct.kernel
def copy(a, out):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(a, (i,), (16,)))


def test_the_text_of_a_small_kernel() -> None:
    assert print_module(exported(copy, array(1), array(1))) == COPY


def twice(x):
    return x + x


@ct.kernel
def everything(a, out, counts, n, T: ct.Constant[int]):
    i = ct.bid(0)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(a, 1, (T, T))):
        x = ct.load(a, (i, k), (T, T), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.permute(x, (1, 0)), total)
        if k > 2:
            ct.store(out, (i, k), twice(total))
    steps = 0
    while True:
        steps += 1
        if steps > n:
            break
    rows = ct.max(total, axis=1) + ct.max(ct.cumsum(total, axis=0), axis=0)
    which = ct.argmax(total, axis=0).astype(ct.uint32) // 3
    ct.atomic_add(counts, which, steps, check_bounds=True)
    ct.printf("%d and %f\n", steps, ct.sum(rows))
    ct.store(out, (i, 0), ct.where(total > 0, ct.exp(total), total % 3.0))


@pytest.mark.parametrize("version", ("13.2", "13.3", "13.4", "13.5", None))
def test_control_flow_reductions_and_atomics(version: str | None) -> None:
    module = exported(
        everything, array(2), array(2), array(1, ct.int32), ScalarConstraint(ct.int32), 16, version=version
    )
    assert module.minor == (3 if version is None else int(version[3:]))
    names = {op.name for op in module.entry("k").body.walk()}
    assert {"for", "loop", "if", "break", "reduce", "mmaf", "atomic_rmw_tko", "print_tko", "select", "divi"} <= names
    assert names.isdisjoint({"module", "entry"})


@ct.kernel
def ordered(x, y, n):
    ct.store(y, (0,), ct.load(x, (0,), (4,)) + ct.load(y, (0,), (4,)))
    for i in range(n):
        total = ct.load(x, (i,), (4,))
        for k in range(n):
            if k > 1:
                total += ct.load(x, (k,), (4,))
            total += ct.load(y, (k,), (4,))
        ct.store(y, (i,), total)


def memory_ops(body: Block) -> list[tuple[str, set[str]]]:
    """The memory ops in ``body``, and which of them each comes after by its token."""
    before: dict[Value, set[str]] = {}
    found: list[tuple[str, set[str]]] = []

    def walk(ops: Sequence[Operation]) -> None:
        for op in ops:
            tokens = [v for v in op.values() if v.type == TOKEN]
            known = set().union(*(before.get(v, set()) for v in tokens))
            before.update((v, known) for v in op.results if v.type == TOKEN)
            if "_view_tko" in op.name:
                name = f"{op.name.split('_')[0]}{len(found)}"
                found.append((name, known))
                before[op.results[-1]] = known | {name}
            for block in op.regions:
                if block is not None:
                    before.update((v, known) for v in block.args if v.type == TOKEN)
                    walk(block.ops)
                    ends = [v for v in block.ops[-1].values() if v.type == TOKEN]
                    for result, end in zip([r for r in op.results if r.type == TOKEN], ends):
                        before[result] = before[result] | before.get(end, set())

    walk(body.ops)
    return found


def test_a_memory_op_comes_after_those_of_the_same_array() -> None:
    """Loads after the last store to it, stores after the loads since as well; arrays do not overlap."""
    entry = exported(ordered, array(1), array(1), ScalarConstraint(ct.int32)).entry("k")
    assert memory_ops(entry.body) == [
        ("load0", set()),
        ("load1", set()),
        ("store2", {"load1"}),
        ("load3", set()),
        ("load4", set()),
        ("load5", {"load1", "store2"}),
        ("store6", {"load1", "store2", "load5"}),
    ]


@ct.kernel
def write_twice(y):
    ct.store(y, (0,), ct.zeros((4,), ct.float32))
    ct.store(y, (0,), ct.minimum(ct.load(y, (0,), (4,)), -1.0))


def test_a_store_names_the_one_before_it_beside_the_loads_since() -> None:
    """As a load may be taken away whose numbers nothing needs, and with it what it comes after."""
    ops = list(exported(write_twice, array(1)).entry("k").body.walk())
    first, last = (op for op in ops if op.name == "store_view_tko")
    (load,) = (op for op in ops if op.name == "load_view_tko")
    (join,) = (op for op in ops if op.name == "join_tokens")
    assert join.operands["tokens"] == [first.results[0], load.results[1]]
    assert last.operands["token"] is join.results[0]


@ct.kernel
def load_in_vain(x, y, out):
    for k in range(2):
        tile = ct.load(x, (k,), (8,))
        found = ct.gather(y, ct.arange(8, dtype=ct.int32)).astype(ct.int32)
        if k > 0:
            ct.cumsum(tile + found)
        ct.store(out, (k,), tile)
    ct.load(out, (0,), (8,))


def test_loads_that_nothing_needs_are_left_out_with_what_is_computed_of_them() -> None:
    """tileiras 13.5 may store them in shared memory where another tile is."""
    ops = [op.name for op in exported(load_in_vain, *[array(1)] * 3).entry("k").body.walk()]
    assert [name for name in ops if "load" in name or "store" in name] == ["load_view_tko", "store_view_tko"]
    assert not {"scan", "ftoi"} & {*ops}
    x, y = np.arange(16, dtype=np.float32), np.ones(8, np.float32)
    out = np.zeros(16, np.float32)
    launch(load_in_vain, (x, y, out))
    np.testing.assert_array_equal(out, x)


@ct.kernel
def copy_two(a, b, out):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(a, (i,), (16,)) + ct.load(b, (i,), (16,)))


def test_arrays_of_one_alias_group_may_overlap() -> None:
    shared = dataclasses.replace(array(1), alias_groups=("both",))
    body = exported(copy_two, shared, array(1), shared).entry("k").body
    assert memory_ops(body) == [("load0", set()), ("load1", set()), ("store2", {"load0"})]
    assert memory_ops(exported(copy_two, *[array(1)] * 3).entry("k").body)[-1] == ("store2", set())


def test_in_program_order_every_memory_op_comes_after_all_before_it() -> None:
    lowered = lower(copy, KernelSignature([array(1), array(1)], V1, "k"))
    module = read(export([Kernel(lowered.function, program_order=True)]))
    assert memory_ops(module.entry("copy").body) == [("load0", set()), ("store1", {"load0"})]


@ct.kernel
def backward(x, y):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (4,)) - 10 * ct.gather(x, ct.arange(4, dtype=ct.int32) + i * 4))


@pytest.mark.parametrize("index, stride", [(ct.int32, -1), (ct.int64, -2), (ct.uint32, 3), (ct.int32, 1 << 31)])
def test_constant_strides_may_be_any_number(index: Any, stride: int, tmp_path: Path) -> None:
    """Negative ones have 64 bits, and no tile goes backward through the TMA unit."""
    x = dataclasses.replace(array(1), index_dtype=index, stride_constant=(stride,), stride_lower_bound_incl=(None,))
    file = tmp_path / "k.tilebc"
    file.write_bytes(write(exported(backward, x, array(1))))
    (loaded,) = (op for op in read(file.read_bytes()).entry("k").body.walk() if op.name == "load_view_tko")
    assert ("allow_tma" in str(loaded.attributes["optimization_hints"])) == (stride < 0)
    values, out = np.arange(1, 26, dtype=np.float32), np.zeros(8, np.float32)
    view = values[::-1] if stride < 0 else values
    view = view[:: abs(stride)] if abs(stride) < 9 else view[:1]  # there is no room for more
    ct.launch(None, (2,), tileir.load(file).kernel("k"), tileir.flattened(view, out))
    wanted = np.zeros(8)
    wanted[: len(view)] = view[:8]
    assert np.array_equal(out, wanted * -9)


@ct.kernel
def in_loops(x, y, n):
    for i in range(n):
        for k in range(n):
            if k > 1:
                ct.store(y, (i,), ct.load(x, (k,), (4,)) + ct.load(x, (k + 1,), (4,)))


@pytest.mark.parametrize("version", ("13.2", "13.3"))
def test_views_are_made_once_outside_of_loops(version: str) -> None:
    """But not of branches. Before 13.3 partition views are made where they are used."""
    body = exported(in_loops, array(1), array(1), ScalarConstraint(ct.int32), version=version).entry("k").body
    inside = [op.name for op in body.walk() if op not in body.ops]
    views = [op.name for op in body.walk() if op.name.endswith("_view")]
    assert views.count("make_tensor_view") == 2
    assert inside.count("make_tensor_view") == 2
    assert views.count("make_partition_view") == (3 if version == "13.2" else 2)


@ct.kernel
def bits_of_new_floats(x, out):
    tile = ct.bitcast(ct.load(x, (0,), (8,)), ct.float8_e5m3fnu)
    ct.store(out, (0,), tile.astype(ct.float32))


def test_the_version_is_one_that_has_the_types_of_all_values() -> None:
    assert exported(bits_of_new_floats, array(1, ct.uint8), array(1)).minor == 4


@ct.kernel
def ahead(x, y, out):
    tile, other = ct.load(x, (0,), (4,)), ct.load(y, (0, 0), (2, 2))
    for k in range(3):
        ct.store(out, (k,), tile + other.reshape((4,)) + ct.load(x, (k,), (4,)))
        tile, other = ct.load(x, (k + 1,), (4,)), ct.load(y, (k + 1, 0), (2, 2))


def test_tiles_that_a_loop_carries_do_not_come_through_the_tma_unit() -> None:
    """tileiras 13.5 overwrites them before they are used."""
    body = exported(ahead, array(1), array(2), array(1)).entry("k").body
    hints = [op.attributes["optimization_hints"] for op in body.walk() if op.name == "load_view_tko"]
    assert [hint is not None and str(hint).count("allow_tma") for hint in hints] == [False, False, False, 1, 1]


def tma_of(kernel: Any, *arrays: Any) -> list[str | None]:
    """What the accesses through views say of the TMA unit, in the order of the program."""
    body = exported(kernel, *arrays).entry("k").body
    hints = [op.attributes["optimization_hints"] for op in body.walk() if op.name.endswith("_view_tko")]
    return [
        None if hint is None else str(dict(dict(hint.entries)["default"].entries)["allow_tma"].value) for hint in hints
    ]


@ct.kernel
def stored_again(x, out, other, last):
    tile = ct.load(x, (0,), (8,))
    ct.store(out, (0, 0), tile.reshape((2, 4)))
    ct.store(other, (0, 0), (tile + 1).reshape((2, 4)))
    ct.store(last, (0, 0), tile.reshape((2, 4)))


def test_a_tile_is_stored_once_through_the_tma_unit() -> None:
    """tileiras 13.5 stores it from shared memory that another tile may have taken."""
    assert tma_of(stored_again, array(1), *[array(2)] * 3) == [None, None, None, "False"]


@ct.kernel
def parts(x, out, flat, other):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store(out, (0, 0), ct.extract(tile, (1, 0), (2, 8)))
    ct.store(flat, (0,), ct.extract(tile, (1, 0), (2, 8)).reshape((16,)))
    ct.store(other, (0, 0), ct.extract(tile, (1, 0), (2, 8)) + 1)


def test_parts_of_tiles_are_not_stored_through_the_tma_unit() -> None:
    """tileiras 13.5 stores what lies behind the tile."""
    assert tma_of(parts, array(2), array(2), array(1), array(2)) == [None, "False", "False", None]


@ct.kernel
def read_again(x, out, apart):
    ct.store(out, (0,), ct.load(x, (0,), (8,)))
    tile = ct.load(out, (0,), (8,))
    ct.store(apart, (0,), tile)
    ct.store(apart, (1,), tile + 1)


@ct.kernel
def in_place(x, out):
    for k in range(2):
        ct.store(x, (k,), ct.load(x, (k,), (8,)) + 1)
        ct.store(out, (k,), ct.full((8,), k, ct.float32))


@ct.kernel
def in_branches(x, out, n):
    tile = ct.load(x, (n,), (8,))
    if n > 0:
        ct.store(out, (0,), tile)
    else:
        ct.store(out, (1,), tile + 1)
    ct.store(x, (n,), tile)


def test_what_is_accessed_after_a_write_does_not_go_through_the_tma_unit() -> None:
    """tileiras 13.5 does not wait for the unit, nor does the unit see what threads have written. A loop that only stores
    does so elsewhere each time, and one branch is done."""
    off = "False"
    assert tma_of(read_again, *[array(1)] * 3) == [None, off, off, off, off]
    assert tma_of(in_place, *[array(1)] * 2) == [off, off, None]
    assert tma_of(in_branches, array(1), array(1), ScalarConstraint(ct.int32)) == [None, None, None, off]


@ct.kernel
def fold_small_floats(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    larger = lambda a, b: ct.where(a.astype(ct.float32) > b.astype(ct.float32), a, b)
    ct.store(out, (0,), ct.reduce(tile, 1, larger, 0.3))
    ct.store(out, (1,), ct.reduce(ct.scan(tile, 0, larger, 0.3), 1, larger, 0.3))


@pytest.mark.parametrize("dtype", (ct.float8_e4m3fn, ct.float8_e5m2), ids=str)
def test_combiners_of_restricted_floats_have_arguments_of_float32(dtype: Any) -> None:
    """What tileiras takes. Their identities are numbers of the format still, and the results are the same."""
    body = exported(fold_small_floats, array(2, dtype), array(1, dtype)).entry("k").body
    folds = [op for op in body.walk() if op.name in ("reduce", "scan")]
    assert len(folds) == 3
    for op in folds:
        assert {str(a.type) for block in op.regions for a in block.args} == {"tile<f32>"}
        assert op.attributes["identities"].items[0].bits == np.array(0.3, dtype.storage).astype(np.float32).view(
            np.uint32
        )
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(dtype.storage)
    outs = np.zeros((2, 8), dtype.storage)
    for out, through in zip(outs, (False, True)):
        launch(fold_small_floats, (x, out), through=through)
    assert np.array_equal(*outs) and outs[0].astype(float).any()


@ct.kernel
def multiply_few(x, y, out):
    a, b = ct.load(x, (0, 0), (16, 4)).astype(ct.tfloat32), ct.load(y, (0, 0), (4, 8)).astype(ct.tfloat32)
    ct.store(out, (0, 0), ct.mma(a, b, ct.full((16, 8), 1, ct.float32)))


def test_products_of_four_tfloat32_have_zeros_behind_them() -> None:
    """Of four along k, tileiras 13.5 gives rows 8 to 15 of an instruction those of rows 0 to 7."""
    (product,) = (op for op in exported(multiply_few, *[array(2)] * 3).entry("k").body.walk() if op.name == "mmaf")
    assert [str(product.operands[n].type) for n in ("lhs", "rhs")] == ["tile<16x8xtf32>", "tile<8x8xtf32>"]
    x, y, out = np.arange(64.0).reshape(16, 4), np.arange(32.0).reshape(4, 8), np.zeros((16, 8), np.float32)
    launch(multiply_few, (x.astype(np.float32), y.astype(np.float32), out))
    assert np.array_equal(out, x @ y + 1)


_EQUAL = ("ones", "a row", "a column", "a triangle", "a triangle of what is loaded", "a sum of both")
_LEFT = (*_EQUAL, "a triangle of the block", "what is loaded")


@ct.kernel
def multiply_equal(x, y, out, LEFT: ct.Constant[int]):
    numbers = ct.arange(64, dtype=ct.int32)[:, None] - ct.arange(32, dtype=ct.int32)[None, :]
    loaded, zeros = ct.load(x, (0, 0), (64, 32)), ct.zeros((64, 32), x.dtype)
    row, column = ct.load(x, (0, 0), (1, 32)), ct.load(x, (0, 0), (64, 1))
    if LEFT == 0:
        left = ct.ones((64, 32), x.dtype)
    elif LEFT == 1:
        left = ct.broadcast_to(row, (64, 32))
    elif LEFT == 2:
        left = ct.broadcast_to(column, (64, 32))
    elif LEFT == 3:
        left = (numbers >= 0).astype(x.dtype)
    elif LEFT == 4:
        left = ct.where(numbers >= 0, loaded, zeros)
    elif LEFT == 5:
        left = row + column
    elif LEFT == 6:
        left = ct.where(numbers >= ct.bid(0), loaded, zeros)
    else:
        left = loaded * 2
    right = ct.load(y, (0, 0), (32, 16)).astype(left.dtype)
    ct.store(out, (0, 0), ct.mma(left, right, ct.zeros((64, 16), out.dtype)))


@pytest.mark.parametrize("left", _LEFT)
def test_left_operands_with_equal_numbers_are_not_seen_as_such(left: str) -> None:
    """Of registers with equal numbers, ptxas 13.5 fills one before the first instruction of a warp group."""
    for dtype, sums in ((ct.float16, ct.float32), (ct.int8, ct.int32)):
        given = array(2, dtype), array(2, dtype), array(2, sums), _LEFT.index(left)
        names = [op.name for op in exported(multiply_equal, *given).entry("k").body.walk()]
        assert ("xori" in names) == (left in _EQUAL)
        rng = np.random.default_rng(1)
        x, y = (rng.integers(-2, 3, shape).astype(dtype.storage) for shape in ((64, 32), (32, 16)))
        outs = np.zeros((2, 64, 16), sums.storage)
        for out, through in zip(outs, (False, True)):
            launch(multiply_equal, (x, y, out, _LEFT.index(left)), through=through)
        assert np.array_equal(*outs) and outs[0].any()


@ct.kernel
def clamped(x, out):
    ct.store(out, (0,), ct.maximum(ct.minimum(ct.load(x, (0,), (8,)), 1), 0))


@pytest.mark.parametrize("dtype", (ct.float16, ct.bfloat16, ct.float32, ct.float64), ids=str)
def test_clamps_do_not_saturate(dtype: Any) -> None:
    """Of a minimum with 1 and a maximum with 0 ptxas makes a saturation, which gives 0 for NaN."""
    ops = {op.name: op for op in exported(clamped, array(1, dtype), array(1, dtype)).entry("k").body.walk()}
    assert "select" in ops if dtype is ct.float64 else ops["maxf"].attributes["propagate_nan"]
    assert not ops["minf"].attributes["propagate_nan"]
    x = np.array([np.nan, -np.inf, -1, -0.0, 0.25, 1, 3, np.inf]).astype(dtype.storage)
    out = np.zeros_like(x)
    launch(clamped, (x, out))
    assert out.astype(float).tolist() == [1, 0, 0, 0, 0.25, 1, 1, 1]


@ct.kernel
def multiply_bytes(x, y, start, out, ZERO: ct.Constant[bool]):
    total = ct.zeros((16, 16), ct.int32) if ZERO else ct.load(start, (0, 0), (16, 16))
    for k in range(4):
        if k % 2 == 0:
            total = ct.mma(ct.load(x, (0, k), (16, 16)), ct.load(y, (k, 0), (16, 16)), total)
    ct.store(out, (0, 0), ct.mma(ct.load(x, (0, 0), (16, 16)), ct.load(y, (0, 0), (16, 16)), total))


@pytest.mark.parametrize("zero", (True, False))
def test_products_of_bytes_are_added_to_what_is_no_sum_of_products(zero: bool) -> None:
    """tileiras 13.5 saturates where such a sum leaves 32 bits; ours wraps."""
    arrays = array(2, ct.int8), array(2, ct.int8), array(2, ct.int32), array(2, ct.int32)
    ops = list(exported(multiply_bytes, *arrays, zero).entry("k").body.walk())
    products = [op for op in ops if op.name == "mmai"]
    made = [p.results[0] for p in products]
    uses = [op.name for op in ops if op.operands.get("lhs") in made and op not in products]
    # an addition of the product itself would become part of it
    assert len(products) == 2 and uses == ([] if zero else ["ori", "andi"] * 2)
    x, y = (np.arange(16 * 64, dtype=np.int8).reshape(s) for s in ((16, 64), (64, 16)))
    start, out = np.full((16, 16), 2**31 - 1, np.int32), np.zeros((16, 16), np.int32)
    launch(multiply_bytes, (x, y, start, out, zero))
    a, b = x.astype(np.int64), y.astype(np.int64)
    parts = [a[:, 16 * k : 16 * k + 16] @ b[16 * k : 16 * k + 16] for k in (0, 2, 0)]
    assert np.array_equal(out, (sum(parts) + (0 if zero else start)).astype(np.int32))


@ct.kernel
def replace_few(x, flags, total, y, z, out):
    few, flag, one = ct.load(x, 0, 4), ct.load(flags, 0, 4), ct.gather(total, 0)
    ct.store(x, 0, few + 1)
    ct.store(flags, 0, ~flag)
    ct.scatter(total, 0, one + 1)
    ct.store(z, 0, ct.load(z, 0, 256) + 1)
    ct.store(out, (0, 0), few[:, None] * ct.load(y, 0, 4) + ct.where(flag, one, 0))


def test_few_elements_of_what_is_written_are_reduced_alone_with_the_bits_that_they_have() -> None:
    """tileiras 13.5 loads tiles of fewer elements than threads again for each layout, behind stores, too."""
    kernel = ct.kernel(replace_few.function)
    parameters = array(1), array(1, ct.bool_), array(1, ct.int64), array(1), array(1), array(2)
    folds = [op for op in exported(kernel, *parameters).entry("k").body.walk() if op.name == "reduce"]
    assert [str(op.operands["operands"][0].type) for op in folds] == ["tile<4x1xi32>", "tile<4x1xi1>", "tile<1xi64>"]
    x, y, z = np.array([-0.0, np.nan, 3, -4], np.float32), np.ones(4, np.float32), np.zeros(256, np.float32)
    flags, total, out = np.array([True, False, True, False]), np.array([-5]), np.zeros((4, 4), np.float32)
    launch(kernel, (x, flags, total, y, z, out))
    assert np.array_equal(out[:, 0], [-5, np.nan, -2, -9], equal_nan=True) and total[0] == -4
    assert np.array_equal(flags, [False, True, False, True]) and np.array_equal(x, [1, np.nan, 4, -3], equal_nan=True)


def test_loads_of_every_size_are_kept_where_that_is_asked_for() -> None:
    parameters = array(1), array(1, ct.bool_), array(1, ct.int64), array(1), array(1), array(2)
    function = lower(replace_few, KernelSignature(parameters, V1, "k")).function
    counts = [
        sum(op.name == "reduce" for op in read(export([Kernel(function, keep_loads=kept)])).entries[0].body.walk())
        for kept in (False, True)
    ]
    assert counts == [3, 4]  # 256 elements of z, too, but not those of y, which is not written


@ct.kernel
def running_sums(a, b, out, TILE: ct.Constant[int], PRODUCT: ct.Constant[bool]):
    x, y = ct.load(a, (0, 0), (TILE, TILE)), ct.load(b, (0, 0), (TILE, TILE))
    total = ct.mma(x, y, ct.zeros((TILE, TILE), ct.float32)) if PRODUCT else x + y
    ct.store(out, (0, 0), ct.cumsum(ct.cumsum(total, 0), 1, reverse=True))


@pytest.mark.parametrize(("version", "product", "arrays"), (("13.3", True, 4), ("13.3", False, 0), ("13.2", True, 0)))
def test_scans_beside_products_stand_between_memory_ops(version: str, product: bool, arrays: int) -> None:
    """tileiras 13.5 refuses some in layouts of products, and computes others wrongly."""
    module = exported(running_sums, array(2), array(2), array(2), 8, product, version=version)
    ops = list(module.entry("k").body.walk())
    assert sum(op.name == "alloca" for op in ops) == arrays
    made_by = {value: op for op in ops for value in op.results}
    sources = [made_by[op.operands["operands"][0]].name for op in ops if op.name == "scan"]
    assert sources == (["load_ptr_tko"] * 2 if arrays else ["mmaf" if product else "addf", "scan"])
    stores = [op.operands.get("value", op.operands.get("tile")) for op in ops if "store" in op.name]
    stored = [made_by[value].name for value in stores]
    assert stored.count("scan") == (2 if arrays else 1)
    a, b = np.arange(64, dtype=np.float32).reshape(8, 8) % 5, np.arange(64, dtype=np.float32).reshape(8, 8) % 3
    wanted = np.cumsum((a @ b if product else a + b)[:, ::-1].cumsum(0), 1)[:, ::-1]
    out = np.zeros((8, 8), np.float32)
    launch(running_sums, (a, b, out, 8, product))
    assert np.array_equal(out, wanted)


@ct.kernel
def told(n):
    ct.printf("%d\n", n)


@pytest.mark.parametrize("version", ("13.1", "13.2"))
def test_prints_have_tokens_from_13_2_on(version: str) -> None:
    module = exported(told, ScalarConstraint(ct.int32), version=version)
    (shown,) = (op for op in module.entry("k").body.walk() if op.name == "print_tko")
    assert shown.attributes["str"] == "%d\n" and (shown.operands["token"] is None) == (version == "13.1")


def test_source_lines_and_calls() -> None:
    module = exported(everything, array(2), array(2), array(1, ct.int32), ScalarConstraint(ct.int32), 16)
    code = everything.__wrapped__.__code__ if hasattr(everything, "__wrapped__") else None
    places = [op.loc for op in module.entry("k").body.walk() if op.name == "mmaf"]
    assert all(isinstance(p, FileLoc) and p.file == __file__ for p in places)
    assert code is None or all(p.line > code.co_firstlineno for p in places if isinstance(p, FileLoc))
    inlined = [op.loc for op in module.entry("k").body.walk() if isinstance(op.loc, CallSite)]
    assert any(isinstance(p.callee, FileLoc) and p.callee.file == __file__ for p in inlined)


def test_what_a_version_lacks_is_named_with_its_place() -> None:
    @ct.kernel
    def angles(a, out):
        ct.store(out, (0,), ct.atan2(ct.load(a, (0,), (16,)), 2.0))

    with pytest.raises(VersionError, match=r"test_export.py:\d+:\d+: atan2 needs bytecode 13.2, which 13.1 lacks"):
        exported(angles, array(1), array(1), version="13.1")
    assert exported(angles, array(1), array(1), version="13.2").minor == 2


def test_numbers_of_worker_warps_that_a_version_lacks() -> None:
    many = copy.replace_hints(num_worker_warps=ct.ByTarget(sm_90=16, default=4))
    for version, minor in ((None, 5), ("13.5", 5)):
        assert exported(many, array(1), array(1), version=version).minor == minor
    with pytest.raises(VersionError, match=r"test_export.py:\d+:\d+: num_worker_warps=16 needs bytecode 13.5"):
        exported(many, array(1), array(1), version="13.4")
    few = copy.replace_hints(num_worker_warps=8)
    assert "num_worker_warps_per_cta" in str(exported(few, array(1), array(1), version="13.4").entry("k").hints)
    with pytest.warns(UserWarning, match=r"copy\(\): num_worker_warps needs bytecode 13.3"):
        assert exported(few, array(1), array(1), version="13.2").entry("k").hints is None


def test_what_no_version_has_is_named_with_its_op_and_place() -> None:
    @ct.kernel
    def rounded(a, out):
        tile = ct.load(a, (0,), (16,)).astype(ct.bfloat16)
        ct.store(out, (0,), tile.astype(ct.float16, rounding_mode=ct.RoundingMode.RA).astype(ct.float32))

    @ct.kernel
    def chosen(a, out):
        view = a.tiled_view((4,))
        if ct.bid(0) > 2:
            view = out.tiled_view((4,))
        ct.store(out, 0, view.load(1))

    no_version = r"no version of CUDA Tile IR up to 13\.5 can express it"
    for kernel, said in (
        (rounded, r"cast: bfloat16 to float16 by nearest_away, and this conversion rounds by .*"),
        (chosen, r"if: it carries partition<.*>, and loops and branches carry tiles only"),
    ):
        with pytest.raises(TileIRError, match=rf"test_export.py:\d+:\d+: {said}; {no_version}"):
            exported(kernel, array(1), array(1))


@pytest.mark.parametrize("dtype", (ct.int8, ct.uint8, ct.int32, ct.uint64), ids=str)
def test_integers_are_padded_with_their_extremes(dtype: Any) -> None:
    """Views pad them with zero only."""

    @ct.kernel
    def extremes(a, out):
        ct.store(out, (0, 0), ct.load(a, (1, 2), (2, 4), order="F", padding_mode=ct.PaddingMode.NEG_INF))
        view = a.tiled_view((2, 4), padding_mode=ct.PaddingMode.POS_INF, traversal_steps=(3, 3))
        ct.store(out, (1, 0), view.load((1, 1)))

    ops = list(exported(extremes, array(2, dtype), array(2, dtype)).entry("k").body.walk())
    assert sum(op.name == "select" for op in ops) == 4
    a, out, again = np.arange(15).reshape(3, 5).astype(np.dtype(str(dtype))), *np.zeros((2, 4, 4), np.dtype(str(dtype)))
    launch(extremes, (a, out))
    launch(extremes, (a, again), through=False)
    assert np.array_equal(out, again) and np.iinfo(out.dtype).max in out


def test_every_op_is_exported() -> None:
    structured = {cls for module in (control,) for cls in vars(module).values() if cls in OPS.values()}
    assert set(HANDLERS) | structured | {linear.Reduce, linear.Scan} == set(OPS.values())


@pytest.mark.skipif(shutil.which("tileiras") is None, reason="needs tileiras")
@pytest.mark.parametrize("target", ("sm_90", "sm_100"))
def test_the_assembler_accepts_it(target: str, tmp_path: Path) -> None:
    module = exported(everything, array(2), array(2), array(1, ct.int32), ScalarConstraint(ct.int32), 16)
    file = tmp_path / "k.tilebc"
    file.write_bytes(write(module))
    command = ["tileiras", f"--gpu-name={target}", str(file), "-o", str(tmp_path / "k.cubin")]
    subprocess.run(command, check=True, timeout=300)


@ct.kernel
def converted(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (16,)).astype(ct.float8_e5m3fnu))


@ct.kernel
def rounded(x, out):
    ct.store(out, (0,), ct.astype(ct.load(x, (0,), (16,)), ct.tfloat32, rounding_mode=ct.RoundingMode.RA))


@pytest.mark.parametrize(
    ("kernel", "dtype", "said"),
    [
        (converted, ct.float8_e5m3fnu, "the type fnv8E5M3FNU needs bytecode 13.4, which 13.3 lacks"),
        (rounded, ct.tfloat32, r"test_export.py:\d+:\d+: ftof by nearest_away needs bytecode 13.4, which 13.3 lacks"),
    ],
)
def test_the_version_is_the_first_that_has_what_a_kernel_needs(kernel: Any, dtype: Any, said: str) -> None:
    assert exported(kernel, array(1), array(1, dtype)).minor == 4
    with pytest.raises(VersionError, match=said):
        exported(kernel, array(1), array(1, dtype), version="13.3")


def test_export_and_reading_leave_nothing_to_the_garbage_collector() -> None:
    @ct.kernel
    def kernel(x: Any, y: Any, n: int) -> None:
        for i in range(n):
            if i > 2:
                ct.store(y, i, ct.cumsum(ct.load(x, i, 16)) + ct.sum(ct.load(x, i, 16)))

    signature = KernelSignature([array(1), array(1), ScalarConstraint(ct.int32)], V1, "k")
    function = lower(kernel, signature).function
    read(export([Kernel(function)]))  # what is made once stays
    gc.collect()
    gc.disable()
    try:
        left = []
        for _ in range(3):  # other threads of the process may leave something meanwhile
            read(export([Kernel(function)]))
            left.append(gc.collect())
        assert min(left) == 0
    finally:
        gc.enable()


@ct.kernel
def sums_in_blocks(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store(out, (0,), ct.reduce(tile, 1, lambda a, b: a + b + ct.bid(0) * ct.num_blocks(0), 0))


def test_combiners_ask_for_the_block_themselves() -> None:
    x, out = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros(4, np.int32)
    launch(sums_in_blocks, (x, out))
    np.testing.assert_array_equal(out, x.sum(1))


@ct.kernel
def carried_alike(out, n, x, flag, count):
    """What the next iteration has is the same number twice, and what the first one has is not."""
    first, second = x + 1, x + 2
    on, off = flag, not flag
    i, j = count, count * 3
    for _ in range(n):
        first = second = second + first
        on = off = on != off
        i = j = j + i
    ct.store(out, (0,), ct.full((2,), first, ct.float32))
    ct.store(out, (1,), ct.full((2,), second, ct.float32))
    ct.store(out, (2,), ct.full((2,), ct.where(on, 1, 0), ct.float32))
    ct.store(out, (3,), ct.full((2,), ct.where(off, 1, 0), ct.float32))
    ct.store(out, (4,), ct.full((2,), i - j, ct.float32))


def test_values_that_a_loop_carries_equally_stay_apart() -> None:
    """tileiras 13.5 takes them as one, also where no iteration is."""
    scalars = [ScalarConstraint(dtype) for dtype in (ct.int32, ct.float32, ct.bool_, ct.int64)]
    module = exported(carried_alike, array(1), *scalars)
    (carried,) = (op.operands["operands"] for op in module.entry("k").body.walk() if op.name == "continue")
    assert len(set(carried)) == len(carried)
    for n, wanted in ((0, [1, 2, 1, 0, -8]), (1, [3, 3, 1, 1, 0]), (2, [6, 6, 0, 0, 0])):
        out = np.zeros(10, np.float32)
        launch(carried_alike, (out, n, 0.0, True, 4))
        np.testing.assert_array_equal(out[::2], wanted)


@ct.kernel
def branches_in_loops(x, out, n):
    """Branches with accesses to memory in loops that are left by a condition, in the middle and from a branch."""
    i, total = 0, 0
    while True:
        if i >= n:
            break
        i += 1
        if i % 3 == 0:
            ct.scatter(out, i, ct.gather(x, i) + total)
            continue
        elif i == 7:
            ct.scatter(out, 0, total)
            break
        if i % 2 == 0:
            total += ct.gather(x, i)
            for j in range(2):
                if j == i:
                    break
                ct.scatter(out, 8 + j, i)
        else:
            ct.scatter(out, i, total)
    ct.scatter(out, 10, total)
    ct.scatter(out, 11, i)


def test_branches_with_memory_in_loops_that_a_condition_ends_are_loops_themselves() -> None:
    """tileiras 13.5 leaves out barriers in those branches, and behind jumps."""
    module = exported(branches_in_loops, array(1, ct.int32), array(1, ct.int32), ScalarConstraint(ct.int32))
    ops = list(module.entry("k").body.walk())
    loops = [op for op in ops if op.name == "loop"]
    branches = [op for loop in loops for op in loop.walk() if op.name == "if"]
    assert loops and not any("_tko" in inner.name for op in branches for inner in op.walk())
    assert sum(op.name == "break" for op in ops) == len(loops) == 2
    x = np.arange(1, 13, dtype=np.int32)
    for n in range(9):
        out, wanted = np.zeros((2, 12), np.int32)
        launch(branches_in_loops, (x, out, n))
        launch(branches_in_loops, (x, wanted, n), through=False)
        np.testing.assert_array_equal(out, wanted)


@ct.kernel
def stored_in_a_branch(a, out, other, n):
    tile = ct.load(a, (0, 0), (16, 16))
    product, i = ct.mma(tile, tile, ct.zeros((16, 16), ct.float32)), 0
    while i < n:
        if i != 2:
            ct.store(out, (i, 0), product + i)
        ct.store(other, (i, 0), product - i)
        i += 1


def test_what_a_branch_in_a_loop_stores_beside_a_product_does_not_go_through_the_tma_unit() -> None:
    """tileiras 13.5 waits without end for stores of branches that it finds out not to be taken."""
    arrays = array(2, ct.float16), array(2), array(2), ScalarConstraint(ct.int32)
    assert tma_of(stored_in_a_branch, *arrays) == [None, "False", None]


@ct.kernel
def clashes_in_loops(x, y, n):
    for i in range(n):
        tile = ct.load(x, (i,), (8,))
        if i == 3:
            ct.store(x, (i,), tile * 2)
            continue
        if i % 2 == 0:
            ct.store(y, (i,), tile)
            ct.store(y, (i,), ct.load(y, (i,), (8,)) + 1)
        else:
            ct.store(y, (i,), ct.load(x, (i + 1,), (8,)))


def test_branches_in_loops_that_access_what_they_have_written_are_loops_themselves() -> None:
    """tileiras 13.5 leaves out barriers in those branches, and behind jumps."""
    module = exported(clashes_in_loops, array(1), array(1), ScalarConstraint(ct.int32))
    branches = [op for op in module.entry("k").body.walk() if op.name == "if"]
    assert not any("_tko" in inner.name for op in branches for inner in op.walk())
    x = np.arange(72, dtype=np.float32)
    for n in range(8):
        found, wanted = (x.copy(), np.zeros(72, np.float32)), (x.copy(), np.zeros(72, np.float32))
        launch(clashes_in_loops, (*found, n))
        launch(clashes_in_loops, (*wanted, n), through=False)
        np.testing.assert_array_equal(found, wanted)


@ct.kernel
def written_again(a, b, y, out):
    c = ct.zeros((16, 16), ct.float32)
    for k in range(4):
        x = ct.load(a, (0, k), (16, 16))
        ct.store(y, (0, 0), c)
        ct.store(y, (0, 0), ct.transpose(c), order="F")
        c = ct.mma(x, ct.load(b, (k, 0), (16, 16)), c)
    ct.store(out, (0, 0), c)


def test_loops_with_products_that_write_one_memory_twice_are_in_program_order() -> None:
    """tileiras 13.5 leaves out barriers in the iteration that it does apart where it loads ahead."""
    body = exported(written_again, *[array(2, ct.float16)] * 2, *[array(2)] * 2).entry("k").body
    (loop,) = (op for op in body.ops if op.name == "for")
    assert len(loop.results) == 2  # the sum and one token
    assert [op.operands["token"].type for op in loop.walk() if "_view_tko" in op.name] == [TOKEN] * 4
    tokens = [op.operands["token"] for op in loop.walk() if "_view_tko" in op.name]
    assert len(set(tokens)) == 4


@ct.kernel
def sides_of_scans(x, firsts, lasts):
    tile = ct.load(x, (0,), (8,))
    ct.store(firsts, (0,), ct.scan(tile, 0, lambda left, right: left, 0))
    ct.store(lasts, (0,), ct.scan(tile, 0, lambda left, right: right, 0, reverse=True))


@ct.kernel
def nest(a, b, out, times: ct.Constant[int]):
    c = ct.zeros((16, 16), ct.float32)
    for k in range(times):
        c = ct.mma(ct.load(a, (0, k), (16, 16)), ct.load(b, (k, 0), (16, 16)), c)
        for i in range(2):
            ct.store(out, (k, i), c + i)


@pytest.mark.parametrize(("times", "unknown"), [(2, 0), (3, 2)])
def test_nests_beside_products_that_the_assembler_would_unroll_have_ends_that_it_does_not_know(
    times: int, unknown: int
) -> None:
    ops = list(exported(nest, *[array(2)] * 3, times).entries[0].body.walk())
    ends = [op.operands["upperBound"] for op in ops if op.name == "for"]
    sums = {op.results[0]: op.operands["rhs"] for op in ops if op.name == "addi"}
    shifts = {op.results[0] for op in ops if op.name == "shri"}
    assert len(ends) == 2
    assert sum(end in sums and sums[end] in shifts for end in ends) == unknown
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 3, shape).astype(np.float32) for shape in ((16, 48), (48, 16)))
    out = np.zeros((48, 32), np.float32)
    launch(nest, (a, b, out, times))
    for k in range(times):
        product = a[:, : 16 * (k + 1)] @ b[: 16 * (k + 1)]
        np.testing.assert_array_equal(out[16 * k : 16 * (k + 1)], np.hstack([product, product + 1]))


def test_combiners_have_the_left_side_first() -> None:
    """As cuTile Python writes them, and tileiras calls them."""
    ops = exported(sides_of_scans, *[array(1, ct.int32)] * 3).entry("k").body.walk()
    bodies = [op.regions[0] for op in ops if op.name == "scan"]
    assert [body.args.index(body.ops[-1].operands["operands"][0]) for body in bodies if body is not None] == [0, 1]
    x, firsts, lasts = np.arange(3, 11, dtype=np.int32), np.zeros(8, np.int32), np.zeros(8, np.int32)
    launch(sides_of_scans, (x, firsts, lasts))
    assert (firsts == 3).all() and np.array_equal(lasts, x)


@ct.kernel
def sums_between(x, out):
    ct.store(out, (0, 0, 0), ct.cumsum(ct.load(x, (0, 0, 0), (4, 8, 2)), 1, reverse=True))


def test_scans_along_an_axis_between_others_have_two_axes() -> None:
    """Where warps share the axis, tileiras 13.5 loses what they hand on."""
    (scan,) = (op for op in exported(sums_between, array(3), array(3)).entry("k").body.walk() if op.name == "scan")
    assert scan.attributes["dim"] == 1 and str(scan.results[0].type) == "tile<8x8xf32>"
    x, out = np.arange(64, dtype=np.float32).reshape(4, 8, 2), np.zeros((4, 8, 2), np.float32)
    launch(sums_between, (x, out))
    assert np.array_equal(out, x[:, ::-1].cumsum(1)[:, ::-1])


@ct.kernel
def sums_of_iotas(out):
    i = ct.arange(16, dtype=ct.int32)
    ct.store(out, (0,), i + i)
    ct.store(out, (1,), 64 - i)
    ct.store(
        out, (2,), ct.reshape(ct.arange(8, dtype=ct.int32)[:, None] + ct.arange(2, dtype=ct.int32)[None, :], (16,))
    )


def test_sums_of_iotas_are_no_multiples_for_tileiras() -> None:
    """It takes all numbers of one for multiples of what the first is; other sums stay."""
    ops = [op.name for op in exported(sums_of_iotas, array(1, ct.int32)).entry("k").body.walk()]
    assert ops.count("xori") == 2 and (ops.count("addi"), ops.count("subi")) == (3, 2)
    out, i = np.zeros(48, np.int32), np.arange(16)
    launch(sums_of_iotas, (out,))
    np.testing.assert_array_equal(out, [*(i + i), *(64 - i), *(i // 2 + i % 2)])


@ct.kernel
def sums_of_products(a, out, n):
    for k in range(n):
        x = ct.load(a, (k, 0), (8, 8))
        ct.store(out, (k, 0), ct.cumsum(ct.mma(x, x, ct.zeros((8, 8), ct.float32)), 1))


def test_scans_of_an_iteration_come_after_those_before_it() -> None:
    """Their tiles go through the same memory."""
    body = exported(sums_of_products, array(2), array(2), ScalarConstraint(ct.int32)).entry("k").body
    (loop,) = (op for op in body.walk() if op.name == "for")
    inner = loop.regions[0]
    assert inner is not None
    stores, loads = ([op for op in inner.ops if op.name == name] for name in ("store_ptr_tko", "load_ptr_tko"))
    assert stores[0].operands["token"] in inner.args and stores[1].operands["token"] is loads[0].results[1]
    assert loads[1].results[1] in inner.ops[-1].operands["operands"]
