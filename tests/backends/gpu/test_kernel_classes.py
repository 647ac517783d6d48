"""Which kernels another backend takes from gpu."""

from __future__ import annotations

import importlib.util
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from backends.gpu.test_lists import Lists
from support.gpu_products import aligned, matmul

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import has_slower_mma
from tilewright.backends.registry import classes_of
from tilewright.runtime.launch import specialization

E4M3 = ml_dtypes.float8_e4m3fn


def is_taken(
    dtype: Any, tile: tuple[int, int, int], target: str = "sm_90", *, rounded: bool = False, columns: int = 256
) -> bool:
    sums = np.int32 if np.dtype(dtype).kind == "i" else np.float64 if dtype is np.float64 else np.float32
    arrays = *(aligned((256, columns), dtype) for _ in range(2)), aligned((256, 256), sums)
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
def test_matmuls_on_hopper_stay(dtype: Any, tile: tuple[int, int, int]) -> None:
    assert not is_taken(dtype, tile)


def test_matmuls_of_32_and_64_bits_stay() -> None:
    assert not is_taken(np.float32, (64, 64, 32)) and not is_taken(np.float32, (128, 64, 32))
    assert not is_taken(np.float32, (128, 128, 32), rounded=True) and not is_taken(np.float64, (64, 64, 32))


def test_mma_ops_of_floats_are_taken_where_accumulators_have_a_memory() -> None:
    assert is_taken(np.float16, (128, 128, 64), "sm_100") and not is_taken(np.int8, (128, 128, 64), "sm_100")


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_120"])
def test_mma_ops_on_other_gpus_stay_but_those_of_bytes_of_which_threads_load_less_than_four_at_once(
    target: str,
) -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, E4M3, np.int8):
        assert not is_taken(dtype, (64, 64, 64), target)
    assert not is_taken(np.float16, (64, 64, 32), target, columns=255)
    assert is_taken(E4M3, (64, 64, 32), target, columns=254)
    assert not is_taken(np.float16, (64, 64, 32), target, columns=248)
    assert not is_taken(np.float32, (64, 64, 32), target, columns=255)


@pytest.mark.parametrize("tile", [(128, 64, 8), (64, 64, 4), (128, 128, 16)])
def test_short_steps_on_hopper_stay(tile: tuple[int, int, int]) -> None:
    assert not is_taken(np.float16, tile) and not is_taken(E4M3, tile)


@ct.kernel
def in_float16(a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int]) -> None:
    x, y = ct.load(a, (0, 0), (M, 64)), ct.load(b, (0, 0), (64, 64))
    ct.store(c, (0, 0), ct.mma(x, y, ct.zeros((M, 64), ct.float16)))


@pytest.mark.parametrize("rows", [32, 64, 128])
def test_sums_in_float16_stay_on_hopper(rows: int) -> None:
    half = aligned((256, 256), np.float16)
    function = specialization(in_float16, (half, half, half, rows), "reference").function
    assert not has_slower_mma(function, GpuBackend("sm_90"))


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


def test_operands_that_threads_convert_stay() -> None:
    half = aligned((256, 256), np.float16)
    function = specialization(converted, (half, aligned((256, 256), np.int8), half), "reference").function
    assert not has_slower_mma(function, GpuBackend("sm_90"))


@ct.kernel
def converted_rows(a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int]) -> None:
    total = ct.zeros((M, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, 64))):
        y = ct.load(b, (0, k), (64, 64)).astype(a.dtype)
        total = ct.mma(ct.load(a, (0, k), (M, 64)), ct.transpose(y), total)
    ct.store(c, (0, 0), total.astype(c.dtype))


@pytest.mark.parametrize("rows", [16, 64, 128])
def test_rows_that_threads_convert_stay(rows: int) -> None:
    half = aligned((256, 256), np.float16)
    arguments = half, aligned((256, 256), np.int8), half, rows
    assert not has_slower_mma(specialization(converted_rows, arguments, "reference").function, GpuBackend("sm_90"))


@ct.kernel
def carried(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    state = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        x = ct.load(a, (0, k), (64, 64))
        state = ct.mma(x, state.astype(a.dtype), ct.mma(x, ct.load(b, (k, 0), (64, 64)), state))
    ct.store(c, (0, 0), state.astype(c.dtype))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_operands_that_threads_gather_by_few_numbers_stay(target: str) -> None:
    half = aligned((256, 256), np.float16)
    function = specialization(gathered, (half, np.zeros(64, np.int32), half, half), "reference").function
    assert not has_slower_mma(function, GpuBackend(target))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_operands_that_threads_compute_stay(target: str) -> None:
    half = aligned((256, 256), np.float16)
    function = specialization(carried, (half, half, half), "reference").function
    assert not has_slower_mma(function, GpuBackend(target))


@ct.kernel
def scaled(a: ct.Array, s: ct.Array, b: ct.Array, t: ct.Array, c: ct.Array) -> None:
    x, y = ct.load(a, (0, 0), (64, 64)), ct.load(b, (0, 0), (64, 64))
    u, v = ct.load(s, (0, 0), (64, 2)), ct.load(t, (0, 0), (2, 64))
    ct.store(c, (0, 0), ct.mma_scaled(x, u, y, v, ct.zeros((64, 64), ct.float32)))


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_120"])
def test_scaled_operands_stay(target: str) -> None:
    e8m0 = ml_dtypes.float8_e8m0fnu
    values, scales = aligned((64, 64), E4M3), (aligned((64, 2), e8m0), aligned((2, 64), e8m0))
    arguments = values, scales[0], values, scales[1], aligned((64, 64), np.float32)
    assert not has_slower_mma(specialization(scaled, arguments, "reference").function, GpuBackend(target))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_kernels_without_mma_ops_stay(target: str) -> None:
    half = aligned((256, 256), np.float16)
    assert not has_slower_mma(specialization(added, (half, half, half), "reference").function, GpuBackend(target))


def test_triton_takes_them_where_it_is_installed() -> None:
    taken = {kernels.backend for kernels in classes_of("gpu")}
    assert taken == ({"triton"} if importlib.util.find_spec("triton") is not None else set())


@pytest.mark.parametrize(("target", "backend"), [("sm_90", "gpu"), ("sm_100", "gpu"), ("gfx942", "triton")])
def test_the_backend_of_a_target(target: str, backend: str) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    half = aligned((256, 256), np.float16)
    assert added.compile_for(target, (half, half, half)).compilation.backend == backend


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_lists_stay(target: str) -> None:
    """Also in all bits of float32; where the copy engine cannot read an array, on Hopper."""
    for dtype, columns in ((np.float16, 64), (np.float16, 61), (np.float32, 64)):
        function = Lists(((64, columns, columns),), dtype=dtype).function
        assert not has_slower_mma(function, GpuBackend(target))
