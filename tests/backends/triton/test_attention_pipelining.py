"""Loops of products that follow each other: rotated by the backend, with loads that run ahead and products in flight."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.analysis.gpu.dependent_mma import find_dependent_mma_loops
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.resource_usage import resource_usage
from tilewright.ir.core import Function
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.gpu.attention_pipelining import PipelineAttention
from tilewright.transforms.gpu.fma_contraction import ContractFma
from tilewright.transforms.pipelines import optimize

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
    return PipelineAttention(tuple(find_dependent_mma_loops(function, HOPPER, realign=True)), warps).run(function)


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
        a, b = ct.load(x, (0, 0), (16, 16)), ct.load(y, (0, 0), (16, 16))
        a = ct.mma(a, a, ct.zeros((16, 16), ct.float32))
        ct.store(x, (0, 0), ct.exp2(a * 3 - b, flush_to_zero=True))
        ct.store(y, (0, 0), ct.exp2(a * 3 - b))
        ct.store(z, (0, 0), a * 3 - b)

    square = np.zeros((16, 16), np.float32)
    function = ContractFma(HOPPER).run(optimized(powers, square, square, square))
    verify(function)
    fused = [op for op in function.walk() if op.name == "fma"]
    assert len(fused) == 1
    assert [op.attributes["flush_to_zero"] for op in function.walk() if fused[0].result in op.operands] == [True]


@ct.kernel
def masked_softmax(x, mask, out, scale, hidden: ct.Constant[float], loaded: ct.Constant[bool]):
    """The softmax of products; ``hidden``, or what ``mask`` holds, stands for what is not seen."""
    seen = ct.load(mask, (0, 0), (16, 16))
    scores = ct.load(x, (0, 0), (16, 16))
    scores = ct.mma(scores, scores, ct.zeros((16, 16), ct.float32))
    if loaded:
        scores += seen
    else:
        scores = ct.where(seen == 0, scores, hidden)
    top = ct.max(scores * scale, axis=1, keepdims=True)
    powers = ct.exp2(scores * scale - top, flush_to_zero=True)
    ct.store(out, (0, 0), powers / ct.sum(powers, axis=1, keepdims=True))


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("hidden", [-1e4, -1e6, -1e9, -1e30, float(np.finfo(np.float32).min) / 2])
def test_rows_that_are_hidden_by_a_large_number_are_finite(hidden: float, loaded: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 16)).astype(np.float32)
    mask = np.where(rng.random((16, 16)) < 0.5, np.float32(hidden), np.float32(0))
    mask[5:9] = hidden  # nothing is seen
    function = optimized(masked_softmax, x, mask, x, 0.1803, hidden, loaded)
    out = np.full((2, 16, 16), np.nan, np.float32)
    for form, result in zip((function, ContractFma(HOPPER).run(function)), out):
        run(REFERENCE, form, (1,), x=x, mask=mask, out=result, scale=np.float32(0.1803))
    np.testing.assert_allclose(out[1], out[0], rtol=0.02, atol=1e-6)


def test_scores_without_large_numbers_are_contracted() -> None:
    square = np.zeros((16, 16), np.float32)
    for hidden in (-np.inf, -1e6):
        function = ContractFma(HOPPER).run(optimized(masked_softmax, square, square, square, 0.1, hidden, False))
        assert any(op.name == "fma" for op in function.walk())


@pytest.fixture(scope="module", params=[(64, 128), (64, 64)], ids=["rotated", "plain"])
def machine_code(request: pytest.FixtureRequest) -> tuple[bool, Any]:
    pytest.importorskip("triton", reason="the package triton is not installed")
    tq, tk = request.param
    function = specialization(attend, (HALF, HALF, HALF, HALF, 0.1, 9, 128, tq, tk), "reference").function
    return tk == 128, compile_for(function, HOPPER, {}).binary


def test_loads_run_ahead_and_mmas_overlap(machine_code: tuple[bool, Any]) -> None:
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
    assert resource_usage(binary, HOPPER)[SPILLED] == 0
    assert binary.shared_bytes <= (HOPPER.shared_memory // (2 if turned else 4))


@ct.kernel
def decode(q, k, v, out, D: ct.Constant[int], N: ct.Constant[int]):
    """Attention of a few queries, transposed: the weights take the place of the keys in another layout."""
    queries = ct.transpose(ct.load(q, (0, 0), (N, D)))
    keys = ct.load(k, (ct.bid(0), 0), (128, D), padding_mode=ct.PaddingMode.ZERO)
    scores = ct.mma(keys, queries, ct.zeros((128, N), ct.float32))
    weights = ct.exp2(scores - ct.max(scores, axis=0, keepdims=True))
    values = ct.transpose(ct.load(v, (ct.bid(0), 0), (128, D), padding_mode=ct.PaddingMode.ZERO))
    result = ct.mma(values, weights.astype(q.dtype), ct.zeros((D, N), ct.float32))
    ct.store(out, (ct.bid(0), 0), ct.transpose(result).astype(out.dtype))


@pytest.mark.parametrize("n", [16, 32, 64])
def test_descriptors_of_several_layouts_of_one_place_are_no_sums_of_64_bits(n: int) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    function = specialization(decode, (HALF, HALF, HALF, HALF, 128, n), "reference").function
    text = compile_for(function, HOPPER, {}).binary.texts["PTX"]
    layouts: dict[str, set[int]] = {}
    places = re.findall(r"cvt\.u64\.u32\s+(%rd\d+), ", text)
    for place, number in re.findall(r"(?:or\.b64|add\.s64)\s+%rd\d+, (%rd\d+), (-?\d+);", text):
        layouts.setdefault(place, set()).add(int(number) >> 32)
    assert "wgmma.mma_async" in text
    assert all(len(layouts.get(place, set()) - {0}) <= 1 for place in places)


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


def test_two_blocks_of_eight_warps_share_an_sm_where_rows_are_many() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    function = specialization(attend, (HALF, HALF, HALF, HALF, 0.1, 9, 128, 128, 64), "reference").function
    artifact = compile_for(function, HOPPER, {})
    assert "warps per block: 8\n" in artifact.binary.texts["compile decisions"]
    assert "registers per thread, at most: 128\n" in artifact.binary.texts["compile decisions"]
    assert resource_usage(artifact.binary, HOPPER)[SPILLED] == 0
