"""Launching: threads, print, assert, storage of compiled kernels, stages."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support.irbuild import KernelBuilder, launch_arguments, run

import tilewright as ct
from tilewright.backends.cpu import BACKEND, openmp, threads
from tilewright.backends.cpu.context import Cancellation, Field
from tilewright.backends.cpu.parallel import Context
from tilewright.backends.registry import get_backend
from tilewright.ir import dtypes
from tilewright.ir.core import Function
from tilewright.ir.dtypes import DType, bool_, float16, float32, int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.ir.ops.arith import Add, Cast, Cmp, Mul, Or
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.memory import Assert, NumBlocks, Print
from tilewright.ir.types import TileType
from tilewright.system.deadlines import time_limit

SERIALIZATION = BACKEND.capabilities.serialization
assert SERIALIZATION is not None


def double_kernel() -> Function:
    k = KernelBuilder()
    x, y = k.array("x", float32, 1), k.array("y", float32, 1)
    tile = k.load_tile(x, (32,), [k.bid(0)])
    k.store_tile(y, k.emit(Add, tile, tile), [k.bid(0)])
    return k.function()


def test_registry() -> None:
    assert get_backend("cpu") is BACKEND
    assert BACKEND.unavailable() is None
    assert BACKEND.device == "cpu"


@pytest.mark.parametrize("count", ["1", "2", "5"])
def test_grid_and_threads(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", count)
    k = KernelBuilder()
    out = k.array("out", int32, 3)
    x, y, z = (k.bid(axis) for axis in range(3))
    width, height = (k.emit(NumBlocks, axis=axis) for axis in range(2))
    number = k.emit(Add, x, k.emit(Mul, width, k.emit(Add, y, k.emit(Mul, height, z))))
    k.store_tile(out, k.fill(number, (1, 1, 1)), [z, y, x])
    found = np.zeros((5, 7, 11), np.int32)
    run(BACKEND, k.function(), (11, 7, 5), out=found)
    np.testing.assert_array_equal(found.ravel(), np.arange(5 * 7 * 11))


def note_order(counter: ct.Array, order: ct.Array, rounds: int) -> None:
    for _ in range(rounds):  # how many is not known: a launch that may take long
        ct.scatter(order, ct.bid(0), ct.atomic_add(counter, 0, 1))


@pytest.mark.parametrize(
    "number, order", [(0, [0, 1, 2, 3, 4, 5, 6]), (1, [4, 5, 6, 0, 1, 2, 3]), (2, [1, 2, 3, 4, 5, 6, 0])]
)
def test_threads_begin_with_blocks_of_their_own(number: int, order: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three threads one comes, which runs the blocks of the others after its own."""
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    monkeypatch.setattr(openmp, "runtime", lambda wanted: None)
    monkeypatch.setattr(threads, "number", lambda: number)
    monkeypatch.setattr(threads.POOL, "run", lambda work, count, own, cancel: own())
    counter, found = np.zeros(1, np.int32), np.zeros(7, np.int32)
    ct.launch(None, (7,), ct.kernel(note_order), (counter, found, 1), backend="cpu")
    assert found.tolist() == order


def test_thread_count_must_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "many")
    values = {"x": np.zeros(64, np.float32), "y": np.zeros(64, np.float32)}
    with pytest.raises(ValueError, match="TILEWRIGHT_NUM_THREADS='many' is not a positive number"):
        run(BACKEND, double_kernel(), (5000,), **values)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL_DTYPES if d.is_arithmetic], ids=lambda d: d.short)
def test_scalar_arguments(dtype: DType) -> None:
    k = KernelBuilder()
    values = [True, 1, 0] if dtype.is_bool else [0.1, -3.5, 1e30] if dtype.is_float else [1, dtype.min, dtype.max]
    out = k.array("out", dtype, 1)
    for i in range(3):
        k.store_tile(out, k.fill(k.scalar(f"s{i}", dtype), (1,)), [k.constant(i)])
    found = np.zeros(3, dtype.storage)
    run(BACKEND, k.function(), out=found, s0=values[0], s1=values[1], s2=values[2])
    expected = np.array(values, np.float64 if dtype.is_float else dtype.storage).astype(dtype.storage)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("dtype", "lower", "upper", "step"),
    [
        (int32, 0, 10, 3),
        (int32, -5, 5, 4),
        (int32, 5, 5, 1),
        (int32, 5, -5, 1),
        (int32, 2**31 - 3, 2**31 - 1, 2),
        (dtypes.int64, 2**62, 2**63 - 1, 2**61),
        (dtypes.int64, -(2**63), 2**63 - 1, 2**62),
        (dtypes.uint8, 250, 255, 4),
        (dtypes.int8, -128, 127, 100),
    ],
)
def test_for_bounds(dtype: DType, lower: int, upper: int, step: int) -> None:
    """The induction variable takes every value once, even at the ends of its type."""
    k = KernelBuilder()
    out = k.array("out", dtype, 1)
    bounds = [k.scalar(name, dtype) for name in ("lower", "upper", "step")]
    with k.region(TileType(dtype), TileType(int32)) as body:
        k.store_tile(out, k.fill(body.args[0], (1,)), [body.args[1]])
        k.b.emit_op(Continue, [k.emit(Add, body.args[1], k.constant(1))])
    k.b.emit_op(For, *bounds, [k.constant(0)], body=body)
    found = np.zeros(8, dtype.storage)
    run(BACKEND, k.function(), out=found, lower=lower, upper=upper, step=step)
    expected = list(range(lower, upper, step))
    assert found.tolist() == expected + [0] * (8 - len(expected))


@ct.kernel
def count(out: Any, step: int) -> None:
    n = 0
    for _ in range(0, 4, step):
        n += 1
    ct.store(out, 0, n)


def test_a_step_of_zero() -> None:
    """Undefined, but no reason to end the process."""
    out = np.zeros(1, np.int32)
    ct.launch(None, (1,), count, (out, 0), backend="cpu")
    ct.launch(None, (1,), count, (out, 3), backend="cpu")
    assert out[0] == 2


def test_long_chain_of_operations() -> None:
    """Longer than Python's recursion limit allows the code generator to follow at once."""
    k = KernelBuilder()
    x = k.array("x", float32, 1)
    tile = k.load_tile(x, (64,), [k.constant(0)])
    total = tile
    for _ in range(2000):
        total = k.emit(Add, total, tile)
    k.store_tile(x, total, [k.constant(0)])
    found = np.ones(64, np.float32)
    run(BACKEND, k.function(), x=found)
    np.testing.assert_array_equal(found, 2001)


def test_empty_grid() -> None:
    k = KernelBuilder()
    k.b.emit_op(Assert, k.constant(False, bool_), [], message="never")
    run(BACKEND, k.function(), (0, 4))


def test_launches_from_several_threads() -> None:
    function = double_kernel()
    executable = BACKEND.compile(function, {})
    results: list[np.ndarray[Any, Any]] = [np.zeros(3200, np.float32) for _ in range(4)]
    sources = [np.random.default_rng(i).random(3200).astype(np.float32) for i in range(4)]

    def work(i: int) -> None:
        for _ in range(50):
            results[i][:] = 0
            executable.launch((100, 1, 1), launch_arguments(function, {"x": sources[i], "y": results[i]}))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for source, result in zip(sources, results):
        np.testing.assert_array_equal(result, source + source)


def test_stored_kernel_runs_again() -> None:
    function = double_kernel()
    data = SERIALIZATION.to_bytes(BACKEND.compile(function, {}))
    again = SERIALIZATION.from_bytes(function, data, {}, None)
    x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    again.launch((2, 1, 1), launch_arguments(function, {"x": x, "y": y}))
    np.testing.assert_array_equal(y, x + x)


def test_what_a_cancelled_launch_leaves_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what one with a time limit leaves, by launches of the same grid: their record would be the same."""
    function = double_kernel()
    executable: Any = BACKEND.compile(function, {})
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    arguments = launch_arguments(function, {"x": x, "y": y})
    found: list[list[int]] = []

    def look(packed: bytes, context: int, *memory: int) -> None:
        words = Context.from_address(context)
        found.append(list(words[: Field.FAILED_ELEMENT]))
        if not words[Field.DEADLINE]:
            words[Field.CANCELLED] = Cancellation.RAISED
            raise KeyboardInterrupt

    executable.launch((1, 1, 1), arguments)
    monkeypatch.setattr(executable, "_alone", look)
    for limit in (None, None, 60.0, None):
        with time_limit(limit) if limit else pytest.raises(KeyboardInterrupt):
            executable.launch((1, 1, 1), arguments)
    first, second, limited, last = found
    assert (
        first == second == last and not first[Field.CANCELLED] and limited[Field.DEADLINE] > first[Field.DEADLINE] == 0
    )


def test_stages() -> None:
    stages = BACKEND.compile(double_kernel(), {}).stages()
    assert list(stages) == [
        "optimized Tile IR",
        "loops",
        "LLVM IR",
        "optimized LLVM IR",
        "assembly",
        "sizes",
        "performance",
    ]
    assert "load_view" in stages["optimized Tile IR"]
    assert "define internal void @" in stages["LLVM IR"]
    assert "kernel" in stages["assembly"]
    assert stages["sizes"].startswith("scratch bytes per thread: ")


@pytest.mark.parametrize("stored", [False, True])
def test_print(stored: bool, capsys: pytest.CaptureFixture[str]) -> None:
    k = KernelBuilder()
    n = k.scalar("n", int32)
    tile = k.emit(Cast, k.iota(2, 4), dtype=float16)
    flags = k.emit(Cmp, k.iota(2), k.fill(n, (2,)), predicate=CmpPredicate.EQ)
    k.b.emit_op(Print, [n, tile, flags], parts=("n=", None, " ", None, " ", None, "\n"), formats=("%3d", "%.1f", ""))
    function = k.function()
    executable = BACKEND.compile(function, {})
    if stored:
        executable = SERIALIZATION.from_bytes(function, SERIALIZATION.to_bytes(executable), {}, None)
    executable.launch((1, 1, 1), launch_arguments(function, {"n": 1}))
    text = capsys.readouterr().out
    assert text == "n=  1 [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]] [0, 1]\n"


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL_DTYPES if d.is_floating], ids=lambda d: d.short)
def test_print_of_narrow_floats(dtype: DType, capsys: pytest.CaptureFixture[str]) -> None:
    k = KernelBuilder()
    tile = k.constant(2.0, dtype, (2,))
    k.b.emit_op(Print, [tile], parts=(None,), formats=("%g",))
    run(BACKEND, k.function())
    assert capsys.readouterr().out == "[2, 2]"


@pytest.mark.parametrize("rank", [0, 1])
def test_assert_names_the_block(rank: int) -> None:
    k = KernelBuilder()
    k.b.loc = Loc("kernel.py", 12, 4)
    bad = k.emit(Cmp, k.bid(1), k.constant(3), predicate=CmpPredicate.NE)
    last = k.emit(Cmp, k.iota(16), k.constant(15, int32, (16,)), predicate=CmpPredicate.NE)
    k.b.emit_op(Assert, k.constant(True, bool_), [], message="holds")
    condition = bad if rank == 0 else k.emit(Or, k.fill(bad, (16,)), last)
    k.b.emit_op(Assert, condition, [], message="row 3 is bad")
    with pytest.raises(TileError, match=r"assertion failed: row 3 is bad, in block \(0, 3, 0\)") as caught:
        run(BACKEND, k.function(), (1, 5))
    assert caught.value.loc == Loc("kernel.py", 12, 4)
