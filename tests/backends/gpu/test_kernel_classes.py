"""Which kernels another backend takes from gpu."""

from __future__ import annotations

import importlib.util
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attended, backward_of_keys, backward_of_queries
from support.gpu_products import aligned, matmul

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import has_slower_mma, is_slower_attention
from tilewright.backends.registry import classes_of
from tilewright.runtime.launch import specialization

E4M3 = ml_dtypes.float8_e4m3fn


def is_taken(dtype: Any, tile: tuple[int, int, int], target: str = "sm_90", *, rounded: bool = False) -> bool:
    sums = np.int32 if np.dtype(dtype).kind == "i" else np.float64 if dtype is np.float64 else np.float32
    arrays = aligned((256, 256), dtype), aligned((256, 256), dtype), aligned((256, 256), sums)
    arguments = (
        *arrays,
        *tile,
        False,
        False,
        {np.int32: ct.int32, np.float64: ct.float64}.get(sums, ct.float32),
        rounded,
    )
    function = specialization(ct.kernel(matmul), arguments, "reference").function
    return has_slower_mma(function, GpuBackend(target))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, E4M3, np.int8])
@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 64, 32), (16, 32, 64), (32, 128, 64)])
def test_matmuls_on_hopper_stay_but_small_ones_of_8_bit_floats(dtype: Any, tile: tuple[int, int, int]) -> None:
    assert is_taken(dtype, tile) == (dtype is E4M3 and tile[0] < 64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matmuls_with_all_bits_are_taken_but_not_those_of_tfloat32(dtype: Any) -> None:
    assert is_taken(dtype, (64, 64, 32))
    assert not is_taken(np.float32, (128, 128, 32), rounded=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_100", "sm_120"])
def test_mma_ops_of_floats_on_other_gpus_are_taken(target: str) -> None:
    assert is_taken(np.float16, (128, 128, 64), target) and not is_taken(np.int8, (128, 128, 64), target)


@ct.kernel
def gathered(a: ct.Array, rows: ct.Array, b: ct.Array, c: ct.Array) -> None:
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        columns = k * 64 + ct.arange(64, dtype=ct.int32)
        x = ct.gather(a, (ct.load(rows, (0,), (64,))[:, None], columns[None, :]))
        total = ct.mma(x, ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (0, 0), total.astype(c.dtype))


@ct.kernel
def added(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    ct.store(c, (0, 0), ct.load(a, (0, 0), (64, 64)) + ct.load(b, (0, 0), (64, 64)))


@ct.kernel
def converted(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        total = ct.mma(ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64)).astype(a.dtype), total)
    ct.store(c, (0, 0), total.astype(c.dtype))


def test_operands_that_threads_convert() -> None:
    half = aligned((256, 256), np.float16)
    function = specialization(converted, (half, aligned((256, 256), np.int8), half), "reference").function
    assert has_slower_mma(function, GpuBackend("sm_90"))


def test_operands_that_threads_gather() -> None:
    half = aligned((256, 256), np.float16)
    function = specialization(gathered, (half, np.zeros(64, np.int32), half, half), "reference").function
    assert has_slower_mma(function, GpuBackend("sm_90"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_kernels_without_mma_ops_stay(target: str) -> None:
    half = aligned((256, 256), np.float16)
    assert not has_slower_mma(specialization(added, (half, half, half), "reference").function, GpuBackend(target))


def is_slower(kernel: Any, arrays: list[Any], *sizes: int) -> bool:
    function = specialization(kernel, (*arrays, *sizes), "reference").function
    return is_slower_attention(function, GpuBackend("sm_90"))


@ct.kernel
def biased(
    q: ct.Array, k: ct.Array, v: ct.Array, bias: ct.Array, o: ct.Array, T: ct.Constant[int], D: ct.Constant[int]
) -> None:
    x, total = ct.load(q, (0, 0), (T, D)), ct.zeros((T, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], T)):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (T, D))), ct.load(bias, (0, j), (T, T)).astype(ct.float32))
        total = ct.mma(ct.exp(scores).astype(q.dtype), ct.load(v, (j, 0), (T, D)), total)
    ct.store(o, (0, 0), total.astype(o.dtype))


@pytest.mark.parametrize(
    ("T", "D", "dtype", "wanted"),
    [(128, 64, np.float16, False), (64, 64, np.float16, True), (128, 128, np.float16, True), (128, 64, np.int8, True)],
)
def test_tiles_beside_scores(T: int, D: int, dtype: type, wanted: bool) -> None:
    q, k, v, o = (aligned((256, D), np.float16) for _ in range(4))
    assert is_slower(biased, [q, k, v, aligned((256, 256), dtype), o], T, D) == wanted


def test_attention_of_loaded_keys_and_values_stays() -> None:
    assert not is_slower_attention(attended(64, 64, 64), GpuBackend("sm_90"))


@pytest.mark.parametrize(
    ("kernel", "sizes", "wanted"),
    [
        (backward_of_queries, (64, 64, 64), False),
        (backward_of_queries, (64, 32, 64), True),
        (backward_of_queries, (32, 64, 128), False),
        (backward_of_keys, (64, 64, 128), False),
        (backward_of_keys, (32, 64, 64), False),
        (backward_of_keys, (32, 64, 128), True),
        (backward_of_keys, (128, 64, 128), False),
    ],
)
def test_small_steps_of_backward_passes(kernel: Any, sizes: tuple[int, int, int], wanted: bool) -> None:
    arrays = [aligned((256, sizes[2]), np.float16) for _ in range(5 + (kernel is backward_of_keys))]
    arrays[4:4] = [aligned((256,), np.float32) for _ in range(2)]
    assert is_slower(kernel, arrays, *sizes) == wanted


@ct.kernel
def shared_keys(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, dk: ct.Array, dv: ct.Array, M: ct.Constant[int],
    D: ct.Constant[int],
) -> None:  # fmt: skip
    """Gradients of 64 keys and values that all heads of queries share."""
    y, z = ct.load(k, (0, 0), (64, D)), ct.load(v, (0, 0), (64, D))
    keys, values = ct.zeros((64, D), ct.float32), ct.zeros((64, D), ct.float32)
    for h in range(q.shape[0]):
        for i in range(q.shape[1] // M):
            x = ct.load(q, (h, i, 0), (1, M, D)).reshape((M, D))
            grads = ct.load(g, (h, i, 0), (1, M, D)).reshape((M, D))
            weights = ct.exp2(ct.mma(y, ct.transpose(x), ct.zeros((64, M), ct.float32)))
            values = ct.mma(weights.astype(q.dtype), grads, values)
            change = ct.mma(z, ct.transpose(grads), ct.zeros((64, M), ct.float32))
            keys = ct.mma((weights * change).astype(q.dtype), x, keys)
    ct.store(dk, (0, 0), keys.astype(dk.dtype))
    ct.store(dv, (0, 0), values.astype(dv.dtype))


@pytest.mark.parametrize(("M", "D", "wanted"), [(64, 64, False), (128, 64, False), (64, 128, True), (128, 128, False)])
def test_gradients_of_keys_that_heads_share(M: int, D: int, wanted: bool) -> None:
    q, g = (aligned((2, 256, D), np.float16) for _ in range(2))
    k, v, dk, dv = (aligned((256, D), np.float16) for _ in range(4))
    assert is_slower(shared_keys, [q, k, v, g, dk, dv], M, D) == wanted


def test_triton_takes_them_where_it_is_installed() -> None:
    taken = {kernels.backend for kernels in classes_of("gpu")}
    assert taken == ({"triton"} if importlib.util.find_spec("triton") is not None else set())


@pytest.mark.parametrize(("target", "backend"), [("sm_90", "gpu"), ("sm_100", "gpu"), ("gfx942", "triton")])
def test_the_backend_of_a_target(target: str, backend: str) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    half = aligned((256, 256), np.float16)
    assert added.compile_for(target, (half, half, half)).compilation.backend == backend
