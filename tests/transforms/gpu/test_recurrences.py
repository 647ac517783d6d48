"""Loops that change what they carry, one step after the other: nothing in a step waits for memory or other warps."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier, GlobalLoad, SharedMemoryOp
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize

BF16 = ml_dtypes.bfloat16


@ct.kernel
def scan(x, rates, decay, into, out_of, out, N: ct.Constant[int], T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """T channels with N states each, which vectors along both axes change."""
    slowed, state = ct.load(decay, (ct.bid(0), 0), (T, N)), ct.zeros((T, N), ct.float32)
    for t in range(x.shape[0]):
        new = ct.load(x, (t, ct.bid(0)), (1, T)).reshape((T, 1)).astype(ct.float32)
        rate = ct.load(rates, (t, ct.bid(0)), (1, T)).reshape((T, 1)).astype(ct.float32)
        left = ct.load(into, (t, 0), (1, N)).astype(ct.float32)
        right = ct.load(out_of, (t, 0), (1, N)).astype(ct.float32)
        state = ct.exp2(rate * slowed) * state + rate * new * left
        ct.store(out, (t, ct.bid(0)), ct.sum(state * right, axis=1).reshape((1, T)).astype(out.dtype))


@ct.kernel
def states(x, y, rates, first, found, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """Products with rows that fade, added to what is loaded first, and stored in each step."""
    state = ct.load(first, (0, 0), (M, N))
    for k in range(ct.cdiv(y.shape[0], K)):
        ct.store(found, (k, 0, 0), state.reshape((1, M, N)))
        rate = ct.load(rates, (k,), (K,))
        last = ct.extract(rate, (K - 1,), (1,))
        faded = ct.load(y, (k, 0), (K, N)) * ct.exp2(last - rate)[:, None]
        left = ct.transpose(ct.load(x, (k, 0), (K, M)))
        state = ct.mma(left, faded.astype(x.dtype), state * ct.exp2(last))


@ct.kernel
def pages(numbers, x, y, last, out, T: ct.Constant[int], PAGE: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """Products with rows of pages that a table lists; the last tile is masked."""
    total = ct.zeros((16, T), ct.float32)
    queries = ct.load(y, (0, 0), (16, 64))
    for j in range(ct.cdiv(last, T)):
        tokens = j * T + ct.arange(T, dtype=ct.int32)
        rows = ct.gather(numbers, tokens // PAGE, padding_value=0) * PAGE + tokens % PAGE
        keys = ct.gather(x, (rows[:, None], ct.arange(64, dtype=ct.int32)[None, :]))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((16, T), ct.float32))
        if (j + 1) * T > last:
            scores = ct.where(tokens[None, :] < last, scores, 0.0)
        total += scores
    ct.store(out, (0, 0), total)


def interpreters() -> list[AbstractContextManager[str]]:
    return [interpreter_backend(4), ptx_backend(4)]


def loop_of(kernel: ct.kernel, *args: object) -> For:
    return lower_to_gpu(optimize(specialization(kernel, args, "reference").function), 4).ops_of(For)[0]


def scanned(rows: int, channels: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    shapes = (rows, channels), (rows, channels), (channels, n), (rows, n), (rows, n)
    x, rates, decay, into, out_of = (rng.random(shape, np.float32) for shape in shapes)
    return [x.astype(BF16), rates.astype(BF16), -decay, into.astype(BF16), out_of.astype(BF16)]


def test_vectors_are_loaded_as_threads_need_them() -> None:
    arrays = [*scanned(9, 128, 16), np.zeros((9, 128), BF16)]
    loop = loop_of(scan, *arrays, 16, 64)
    assert not [op for op in loop.walk() if isinstance(op, (ConvertLayout, SharedMemoryOp, AsyncCopy))]
    assert sorted(op.vector for op in loop.body.ops if isinstance(op, GlobalLoad)) == [2] * 8 + [4] * 8, (
        "of four iterations"
    )


def test_scans() -> None:
    for gpu in interpreters():
        with gpu as name:
            for rows, tile in ((0, 64), (3, 32), (9, 64), (4, 128)):
                arrays = scanned(rows, 100, 16)
                found = [np.zeros((rows, 100), BF16) for _ in range(2)]
                for backend, out in zip((name, "reference"), found):
                    ct.launch(None, (-(-100 // tile),), scan, (*arrays, out, 16, tile), backend=backend)
                np.testing.assert_allclose(*(out.astype(np.float32) for out in found), rtol=1e-2)


def test_what_is_loaded_for_a_later_step_is_not_touched_in_this_one() -> None:
    """A shift of a word that holds two bfloat16 would wait for the load."""
    arrays = [*scanned(9, 128, 16), np.zeros((9, 128), BF16)]
    function = specialization(scan, (*arrays, 16, 64), "reference").function
    ptx = compile_to_ptx(function, "sm_90", 4).ptx
    start, end = next(m.span() for m in re.finditer(r"(\$L__\w+):(?s:.*)bra\.uni\s+\1;", ptx))
    lines = [line.strip() for line in ptx[start:end].splitlines()]
    registers = [set(re.findall(r"%r\d+", line.rpartition("ld.global")[2])) for line in lines]
    loads = {i: found for i, found in enumerate(registers) if "ld.global" in lines[i]}
    assert sum(map(len, loads.values())) == 4 * 6
    used = [k for i, found in loads.items() for k in range(i + 1, len(lines)) if not found.isdisjoint(registers[k])]
    assert all(lines[k].startswith("mov.b32") for k in used)


@pytest.mark.parametrize("tile", [(64, 32, 64), (32, 64, 32)])
def test_a_loop_carries_sums_as_mma_ops_hold_them(tile: tuple[int, int, int]) -> None:
    """Also those that begin with what is loaded."""
    m, n, k = tile
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-2, 3, (3 * k, size)).astype(BF16) for size in (m, n))
    rates, first = -rng.integers(0, 2, 3 * k).astype(np.float32), rng.integers(-4, 5, (m, n)).astype(np.float32)
    found = [np.zeros((3, m, n), np.float32) for _ in range(3)]
    loop = loop_of(states, x, y, rates, first, found[0], m, n, k)
    (mma,) = (op for op in loop.body.ops if isinstance(op, GpuMma))
    assert sum(isinstance(op, Barrier) for op in loop.body.ops) == 4, "copies, and what is exchanged"
    assert loop.carried[0].type == mma.result.type and loop.next_values[0] is mma.result
    for gpu, out in zip((*interpreters(), None), found):
        with gpu or interpreter_backend(4) as name:
            backend = "reference" if gpu is None else name
            ct.launch(None, (1,), states, (x, y, rates, first, out, m, n, k), backend=backend)
    for out in found[:2]:
        np.testing.assert_allclose(out, found[2], rtol=1e-5)


def test_numbers_of_pages_are_loaded_ahead_in_a_loop_with_a_branch() -> None:
    numbers = np.random.default_rng(0).permutation(16).astype(np.int32)
    x, y = (np.random.default_rng(n).integers(-2, 3, (n, 64)).astype(BF16) for n in (256, 16))
    found = [np.zeros((16, 32), np.float32) for _ in range(3)]
    loop = loop_of(pages, numbers, x, y, 200, found[0], 32, 16)
    loads = [op.result for op in loop.body.ops if isinstance(op, GlobalLoad)]
    assert loads and all(v in loop.next_values for v in loads), "of the iteration after those that are copied"
    for gpu, out in zip((*interpreters(), None), found):
        with gpu or interpreter_backend(4) as name:
            backend = "reference" if gpu is None else name
            ct.launch(None, (1,), pages, (numbers, x, y, 200, out, 32, 16), backend=backend)
    for out in found[:2]:
        np.testing.assert_array_equal(out, found[2])


@ct.kernel
def converted(q, k, v, out, M: ct.Constant[int], D: ct.Constant[int], T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """Attention to keys and values of 8 bits, which threads convert."""
    queries, result = ct.load(q, (0, 0), (M, D)), ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], T)):
        keys = ct.load(k, (j, 0), (T, D)).astype(q.dtype)
        weights = ct.exp2(ct.mma(queries, ct.transpose(keys), ct.zeros((M, T), ct.float32)))
        result = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (T, D)).astype(q.dtype), result)
    ct.store(out, (0, 0), result)


def test_keys_and_values_of_8_bits_of_few_queries() -> None:
    """Both operands of a transposed MMA op are in shared memory."""
    k = np.zeros((256, 128), np.int8)
    arrays = np.zeros((16, 128), BF16), k, k.copy(), np.zeros((16, 128), np.float32)
    function = specialization(converted, (*arrays, 16, 128, 64), "reference").function
    assert "wgmma" in compile_to_ptx(function, "sm_90", None).ptx
