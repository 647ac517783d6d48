"""Loops of products that follow each other: rotated by the engine, with loads that run ahead and products in flight."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.chains import find_chains
from tilewright.backends.triton.contract import contract
from tilewright.backends.triton.footprint import footprint
from tilewright.backends.triton.rotate import rotate
from tilewright.backends.triton.target import parse_target
from tilewright.ir.core import Function
from tilewright.ir.verifier import verify
from tilewright.passes.pipelines import optimize
from tilewright.runtime.launch import specialization
from tilewright.runtime.specialize import Launchable

HOPPER = parse_target("sm_90")
SPILLED = "bytes of stack and spilled registers per thread"


@ct.kernel
def attend(q, k, v, out, scale, keys, D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int]):
    """Attention to the first ``keys`` keys, whose last tile has a mask."""
    block = ct.bid(0)
    queries = ct.load(q, (block, 0), (TQ, D))
    top = ct.full((TQ, 1), -1e30, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    columns = ct.arange(TK, dtype=ct.int32)[None, :]
    for j in range(ct.cdiv(keys, TK)):
        kt = ct.load(k, (0, j), (D, TK), order="F", padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(queries, kt, ct.zeros((TQ, TK), ct.float32))
        scores = ct.where(j * TK + columns < keys, scores, -1e30)
        new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, (j, 0), (TK, D), padding_mode=ct.PaddingMode.ZERO)
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        top = new_top
    ct.store(out, (block, 0), ct.where(total > 0, result / total, 0.0).astype(out.dtype))


@ct.kernel
def stepping(a, b, c, out, T: ct.Constant[int]):
    """Loads by a carried index: no load can run ahead."""
    x = ct.load(a, (0, 0), (T, T))
    total, at = ct.zeros((T, T), ct.float32), 0
    for _ in range(b.shape[0]):
        y = ct.mma(x, ct.load(b, (at, 0), (T, T)), ct.zeros((T, T), ct.float32))
        total = ct.mma(y.astype(a.dtype), ct.load(c, (at, 0), (T, T)), total)
        at = (at * 3 + 1) % b.shape[0]
    ct.store(out, (0, 0), total.astype(out.dtype))


@ct.kernel
def stepping_sum(a, b, c, out, T: ct.Constant[int]):
    """Two products of one sum, with loads by a carried index."""
    x = ct.load(a, (0, 0), (T, T))
    total, at = ct.zeros((T, T), ct.float32), 0
    for _ in range(b.shape[0]):
        y = ct.mma(x, ct.load(b, (at, 0), (T, T)), ct.zeros((T, T), ct.float32))
        total += ct.exp2(ct.mma(x, ct.load(c, (at, 0), (T, T)), y))
        at = (at * 3 + 1) % b.shape[0]
    ct.store(out, (0, 0), total.astype(out.dtype))


@ct.kernel
def same_tile(a, b, out, T: ct.Constant[int]):
    """Both products read one tile."""
    x = ct.load(a, (0, 0), (T, T))
    total = ct.zeros((T, T), ct.float32)
    for j in range(b.shape[0]):
        y = ct.load(b, (j, 0), (T, T))
        total = ct.mma(ct.mma(x, y, ct.zeros((T, T), ct.float32)).astype(a.dtype), y, total)
    ct.store(out, (0, 0), total.astype(out.dtype))


HALF = np.zeros((256, 128), ml_dtypes.bfloat16)


def optimized(kernel: Launchable, *args: Any) -> Function:
    return optimize(specialization(kernel, args, "reference").function)


def rotated(function: Function, warps: int = 4) -> Function:
    return rotate(function, find_chains(function, HOPPER, staging=True), warps)


@pytest.mark.parametrize("keys", [0, 1, 128, 129, 300])
def test_a_rotated_loop_does_the_same(keys: int) -> None:
    rng = np.random.default_rng(keys)
    q, k, v = (rng.standard_normal((n, 128)).astype(ml_dtypes.bfloat16) for n in (64, 300, 300))
    function = optimized(attend, q, k, v, q, 0.1, keys, 128, 64, 128)
    turned = rotated(function)
    assert turned is not function
    verify(turned)
    out = np.full((2, 64, 128), np.nan, ml_dtypes.bfloat16)
    for form, result in zip((function, turned), out):
        run(REFERENCE, form, (1,), q=q, k=k, v=v, out=result, scale=np.float32(0.1), keys=keys)
    np.testing.assert_array_equal(out[0], out[1])
    assert np.isfinite(out.astype(np.float32)).all()


@pytest.mark.parametrize(
    "function",
    [
        optimized(attend, HALF, HALF, HALF, HALF, 0.1, 9, 128, 64, 64),  # tiles so small that more blocks fill the gaps
        optimized(stepping, HALF, HALF, HALF, HALF, 128),
        optimized(same_tile, HALF, HALF, HALF, 128),
    ],
    ids=["small", "stepping", "same tile"],
)
def test_what_is_not_rotated(function: Function) -> None:
    assert rotated(function) is function


def test_only_the_argument_of_a_fast_power_is_contracted() -> None:
    @ct.kernel
    def powers(x, y, z):
        a, b, c = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,)), ct.load(z, (0,), (16,))
        ct.store(x, (0,), ct.exp2(a * b - c, flush_to_zero=True))
        ct.store(y, (0,), ct.exp2(a * b - c))
        ct.store(z, (0,), a * b - c)

    row = np.zeros(16, np.float32)
    function = contract(optimized(powers, row, row, row), HOPPER)
    verify(function)
    fused = [op for op in function.walk() if op.name == "fma"]
    assert len(fused) == 1
    assert [op.attributes["flush_to_zero"] for op in function.walk() if fused[0].result in op.operands] == [True]


@pytest.fixture(scope="module", params=[(64, 128), (64, 64)], ids=["rotated", "plain"])
def machine_code(request: pytest.FixtureRequest) -> tuple[bool, Any]:
    pytest.importorskip("triton", reason="the package triton is not installed")
    tq, tk = request.param
    function = specialization(attend, (HALF, HALF, HALF, HALF, 0.1, 9, 128, tq, tk), "reference").function
    return tk == 128, compile_for(function, HOPPER, {}).binary


def test_loads_run_ahead_and_products_overlap(machine_code: tuple[bool, Any]) -> None:
    turned, binary = machine_code
    ttgir = binary.texts["TTGIR"]
    loop = re.search(r"\n(\s*)%\S+ = scf\.for .*?\n\1\}", ttgir, re.DOTALL)
    assert loop is not None
    body = loop[0]
    assert "ttg.local_alloc" not in body  # neither tiles nor weights get new memory
    assert body.count("ttng.async_tma_copy_global_to_local") == 2
    pending = [int(n) for n in re.findall(r"warp_group_dot_wait .*pendings = (\d)", body)]
    assert pending == ([1, 0] if turned else [0, 0])
    assert body.index("ttng.wait_barrier") < body.index("ttng.async_tma_copy")
    assert footprint(binary, HOPPER)[SPILLED] == 0
    assert binary.shared_bytes <= (HOPPER.shared_memory // (2 if turned else 4))


def test_no_product_runs_beside_a_load_that_cannot_run_ahead() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    function = specialization(stepping_sum, (HALF, HALF, HALF, HALF, 64), "reference").function
    ttgir = compile_for(function, HOPPER, {"num_stages": 1}).binary.texts["TTGIR"]
    order = re.findall(r"ttng\.(init_barrier|warp_group_dot_wait|warp_group_dot) ", ttgir[ttgir.index("scf.for") :])
    assert order == ["init_barrier", "warp_group_dot", "warp_group_dot_wait"] * 2


def test_tiles_for_which_there_is_no_room_ahead_share_memory() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    wide = np.zeros((256, 256), ml_dtypes.bfloat16)
    function = specialization(attend, (wide, wide, wide, wide, 0.1, 9, 256, 64, 256), "reference").function
    binary = compile_for(function, HOPPER, {}).binary
    assert 2 * wide.nbytes > HOPPER.shared_memory >= binary.shared_bytes


def test_two_blocks_of_eight_warps_share_a_multiprocessor_where_rows_are_many() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    function = specialization(attend, (HALF, HALF, HALF, HALF, 0.1, 9, 128, 128, 64), "reference").function
    artifact = compile_for(function, HOPPER, {})
    assert "warps per block: 8\n" in artifact.binary.texts["choices"]
    assert "registers per thread, at most: 128\n" in artifact.binary.texts["choices"]
    assert footprint(artifact.binary, HOPPER)[SPILLED] == 0
