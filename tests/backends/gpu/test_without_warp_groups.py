"""MMA ops on GPUs without those of warp groups, by ``mma.sync``: results in both interpreters, and what the PTX does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from backends.gpu.test_attention import run
from support.gpu_attention import attended
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned, matmul
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.gpu.compiler import Compiled, compile_to_ptx
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
INTERPRETED = functools.partial(interpreter_backend, None, target="sm_80")
AS_PTX = functools.partial(ptx_backend, None)


def compiled(
    dtype: Any, tile: tuple[int, int, int], target: str, *, turned: bool = False, rounded: bool = False
) -> Compiled:
    a, b, c = aligned((256, 256), dtype), aligned((256, 256), dtype), aligned((256, 256), np.float32)
    arguments = (a, b, c, *tile, False, turned, ct.float32, rounded)
    return compile_to_ptx(specialization(ct.kernel(matmul), arguments, "reference").function, target, None)


def multiply(
    dtype: Any, tile: tuple[int, int, int], target: str = "sm_80", *, turned: bool = False, rounded: bool = False
) -> str:
    """Multiply in the interpreter of PTX, and check the product; the PTX."""
    rng = np.random.default_rng(3)
    a, b, c = (
        aligned((64, 192), dtype),
        aligned((64, 192) if turned else (192, 64), dtype),
        aligned((64, 64), np.float32),
    )
    for x in (a, b):
        x[...] = rng.integers(-4, 5, x.shape)
    with ptx_backend(None, target) as name:
        backend = registry.get_backend(name)
        assert isinstance(backend, PtxBackend)
        grid = 64 // tile[0], 64 // tile[1]
        ct.launch(None, grid, ct.kernel(matmul), (a, b, c, *tile, False, turned, ct.float32, rounded), backend=name)
    wide = b.astype(np.float32)
    assert (c == a.astype(np.float32) @ (wide.T if turned else wide)).all()
    text: str = backend.made[0].compiled.ptx
    return text


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("tile", [(64, 64, 32), (64, 64, 64)])
def test_tfloat32_is_rounded_behind_the_copies(tile: tuple[int, int, int], turned: bool) -> None:
    """What lies along k is loaded by ``ldmatrix``, words as they are."""
    text = multiply(np.float32, tile, turned=turned, rounded=True)
    assert "cp.async" in text and "mma.sync.aligned.m16n8k8.row.col.f32.tf32" in text
    assert ("ld.shared.b32" in text) == (not turned) and "ldmatrix" in text


def test_small_tiles_in_all_bits_have_two_warps() -> None:
    assert [compiled(np.float32, (n, 64, 16), "sm_80").threads for n in (32, 64, 128)] == [64, 64, 128]


def test_more_registers_for_operands_of_tfloat32_are_those_of_more_warps() -> None:
    assert compiled(np.float32, (128, 128, 32), "sm_80", rounded=True).threads == 256
    assert compiled(np.float16, (128, 128, 32), "sm_80").threads == 128


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize(("target", "native"), [("sm_80", False), ("sm_89", True), ("sm_120", True)])
def test_floats_of_8_bits_are_multiplied_as_they_are_where_that_is_possible(
    dtype: Any, target: str, native: bool
) -> None:
    text = multiply(dtype, (32, 64, 64), target, turned=True)
    kind = "e4m3" if dtype is E4M3 else "e5m2"
    assert (f"m16n8k32.row.col.f32.{kind}.{kind}.f32" in text) == native
    assert ("m16n8k16.row.col.f32.f16.f16.f32" in text) == (not native)
    assert ("ldmatrix" in text) == native
    multiply(dtype, (32, 64, 16), target, turned=True)  # fewer along k than the instruction has


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("target", ["sm_89", "sm_90"])
@pytest.mark.parametrize("tile", [(32, 64, 64), (16, 32, 32), (32, 32, 64)])
def test_bytes_that_lie_across_k_are_transposed_by_ldmatrix(
    dtype: Any, target: str, tile: tuple[int, int, int]
) -> None:
    """In pairs: instructions have every other column, and no byte is loaded alone."""
    text = multiply(dtype, tile, target)
    assert "m16n8k32" in text and "ldmatrix.sync.aligned.m8n8.x4.trans" in text and "ld.shared.b8" not in text
    assert compiled(dtype, tile, target).threads == 64


def test_that_needs_a_version_of_ptx_of_its_own() -> None:
    assert ".version 8.4" in compiled(E4M3, (32, 64, 64), "sm_89").ptx
    assert ".version 8.1" in compiled(np.float16, (32, 64, 64), "sm_89").ptx


@pytest.mark.parametrize("turned", [False, True])
def test_operands_without_tensor_cores_are_loaded_four_at_a_time(turned: bool) -> None:
    text = multiply(np.float32, (64, 64, 32), turned=turned)
    assert "fma.rn.f32" in text and "ld.shared.v4.b32" in text
    assert "ld.shared.b32" not in text


@pytest.mark.parametrize("make", [INTERPRETED, AS_PTX])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(make: Callable[[], Any], causal: bool) -> None:
    """Warps have whole rows of scores: after the barrier for the copies none waits for another one."""
    function = run(make, 128, 64, 64, causal=causal, dtype=BF16)
    loop = next(op for op in function.walk() if isinstance(op, For))
    assert sum(isinstance(op, Barrier) for op in loop.walk()) == 1


@pytest.mark.parametrize(("kernel", "stages"), [((128, 64), 2), ((64, 64), 2)])
def test_steps_that_wait_for_their_own_mma_ops_have_two_stages(kernel: tuple[int, int], stages: int) -> None:
    assert f"pipeline stages: {stages}" in compile_to_ptx(attended(*kernel, 64), "sm_80", None).schedule
    assert "pipeline stages: 3" in compiled(np.float16, (128, 64, 64), "sm_80").schedule


def test_a_few_roundings_are_made_before_operands_are_exchanged() -> None:
    """Of tfloat32, where a thread has few accumulators: what was copied ahead is read as it was loaded."""
    text = multiply(np.float32, (32, 32, 32), rounded=True)
    assert "cp.async" in text and "ld.shared.v4" in text


def test_one_instruction_rounds_where_there_is_one() -> None:
    """From sm_90 on, where tiles are multiplied: what was copied ahead is not stored again."""
    text = multiply(np.float32, (32, 32, 32), "sm_90", rounded=True)
    assert "cvt.rn.tf32.f32" in text and "st.shared.b32" not in text
    a, c = aligned((32, 32), np.float32), aligned((32, 32), np.float32)
    a[...] = np.random.default_rng(5).standard_normal(a.shape, np.float32)
    one = aligned((32, 32), np.float32)
    one[...] = np.eye(32)
    with ptx_backend(None, "sm_90") as backend:
        arguments = (a, one, c, 32, 32, 32, False, False, ct.float32, True)
        ct.launch(None, (1, 1), ct.kernel(matmul), arguments, backend=backend)
    bits = a.view(np.uint32)
    nearest = (bits + 0xFFF + (bits >> 13 & 1) & ~np.uint32(0x1FFF)).view(np.float32)
    assert (c == nearest).all() and (c != a).any()


@pytest.mark.parametrize("make", [INTERPRETED, AS_PTX])
def test_attention_with_queries_in_shared_memory(make: Callable[[], Any]) -> None:
    run(make, 128, 128, 64)


ROWS_ANYWHERE = [
    (np.float16, (64, 64, 32), "sm_80", False),
    (BF16, (64, 64, 64), "sm_80", True),
    (np.float16, (32, 64, 64), "sm_120", False),
    (np.float16, (64, 32, 16), "sm_80", True),
]


@pytest.mark.parametrize("aligned_left", [False, True])
@pytest.mark.parametrize(("dtype", "tile", "target", "turned"), ROWS_ANYWHERE)
def test_rows_that_begin_anywhere_go_through_registers_to_where_copies_would(
    dtype: Any, tile: tuple[int, int, int], target: str, turned: bool, aligned_left: bool
) -> None:
    """Two barriers an iteration, and ``ldmatrix`` as behind copies; also beside an operand that is copied."""
    rng = np.random.default_rng(7)
    a, c = aligned((70, 144 if aligned_left else 141), dtype), aligned((70, 67), np.float32)
    b = aligned((67, 141) if turned else (141, 67), dtype)
    for x in (a, b):
        x[...] = rng.integers(-4, 5, x.shape)
    a[:, 141:] = 0
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    arguments = (a, b, c, *tile, False, turned, ct.float32, False)
    for make in (lambda: interpreter_backend(None, target=target), lambda: ptx_backend(None, target)):
        c[...] = 0
        with observed_passes(see), make() as name:
            ct.launch(None, (-(-70 // tile[0]), -(-67 // tile[1])), ct.kernel(matmul), arguments, backend=name)
        wide = b.astype(np.float32)
        assert (c == a[:, :141].astype(np.float32) @ (wide.T if turned else wide)).all()
    loop = next(op for op in found[0].walk() if isinstance(op, For))
    assert sum(isinstance(op, Barrier) for op in loop.walk()) == 2
    text = compile_to_ptx(specialization(ct.kernel(matmul), arguments, "reference").function, target, None).ptx
    assert "ldmatrix" in text and ("cp.async" in text) == aligned_left
