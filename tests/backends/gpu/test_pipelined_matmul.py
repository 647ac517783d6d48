"""Loops whose operands are copied ahead: the results, what the loop looks like, and faults where it waits too little."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attended
from support.gpu_interpreter import interpreter_backend
from support.gpu_stage import Fault
from support.passes import after
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, AsyncWait, Barrier, GlobalLoad, SharedLoad, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.pipeline_loads import PipelineLoads
from tilewright.transforms.instrumentation import observed_passes


def matmul(a: ct.Array, b: ct.Array, c: ct.Array, transposed: ct.Constant[bool]) -> None:
    acc = ct.zeros((32, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        x = ct.load(a, (ct.bid(0), k), (32, 32), padding_mode=ct.PaddingMode.ZERO)
        if transposed:
            y = ct.transpose(ct.load(b, (ct.bid(1), k), (64, 32), padding_mode=ct.PaddingMode.ZERO))
        else:
            y = ct.load(b, (k, ct.bid(1)), (32, 64), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (ct.bid(0), ct.bid(1)), acc)


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros at an address that is a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


def launch(
    k: int, dtype: Any = np.float16, transposed: bool = False, warps: int = 4, stages: int = 3
) -> list[Function]:
    """Multiply, check the product, and return the function of the gpu stage."""
    seen: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            seen.append(function)

    with observed_passes(see), interpreter_backend(warps, stages) as backend:
        multiply(k, dtype, transposed, backend)
    return seen


def multiply(k: int, dtype: Any, transposed: bool, backend: str) -> None:
    """Multiply on ``backend``, and check the product."""
    rng = np.random.default_rng(k)
    a, b = aligned((64, k), dtype), aligned((64, k) if transposed else (k, 64), dtype)
    for x in (a, b):
        x[...] = rng.integers(-4, 5, x.shape)
    c = aligned((64, 64), np.float32)
    ct.launch(None, (2, 1), ct.kernel(matmul), (a, b, c, transposed), backend=backend)
    wide = b.astype(np.float32)
    assert (c == a.astype(np.float32) @ (wide.T if transposed else wide)).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [32, 96, 176])
def test_products(k: int, stages: int, transposed: bool) -> None:
    """Also with fewer iterations than stages, and a last one that leaves the array."""
    launch(k, stages=stages, transposed=transposed)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32])
def test_other_dtypes(dtype: Any) -> None:
    launch(64, dtype)


def test_the_loop_copies_waits_and_multiplies() -> None:
    """Two copies ahead, one wait and one barrier an iteration; nothing goes through registers."""
    (function,) = launch(96)
    (loop,) = (op for op in function.walk() if isinstance(op, For))
    kinds = [type(op) for op in loop.body.ops]
    counted = (AsyncWait, Barrier, AsyncCopy, SharedLoad, GpuMma, GlobalLoad, SharedStore)
    assert [kinds.count(kind) for kind in counted] == [1, 1, 2, 2, 1, 0, 0]
    order = [k for k in kinds if k in (AsyncWait, Barrier, SharedLoad)]
    assert order == [AsyncWait, Barrier, SharedLoad, SharedLoad]
    copies = [op for op in loop.body.ops if isinstance(op, AsyncCopy)]
    assert [op.vector for op in copies] == [8, 8]


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_are_loaded_as_matrices(transposed: bool) -> None:
    """By ``ldmatrix``, the left one along its rows; the right one, too, where these lie along k, else across them."""
    with ptx_backend(4) as name:
        backend = registry.get_backend(name)
        assert isinstance(backend, PtxBackend)
        multiply(96, np.float16, transposed, name)
    text = backend.made[0].compiled.ptx
    assert text.count("ldmatrix.sync.aligned.m8n8.x4.trans.shared") == (0 if transposed else 4)
    assert text.count("ldmatrix.sync.aligned.m8n8.x4.shared") == (6 if transposed else 2)
    assert "ld.shared.b" not in text  # one by one


def of_heads(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    """Tiles of arrays of three axes, both square; the right ones are transposed as they are loaded."""
    acc = ct.zeros((32, 32), ct.float32)
    for k in range(ct.cdiv(a.shape[2], 32)):
        x = ct.load(a, (ct.bid(0), 0, k), (1, 32, 32), padding_mode=ct.PaddingMode.ZERO).reshape((32, 32))
        y = ct.load(b, (ct.bid(0), k, 0), (1, 32, 32), order=(0, 2, 1), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y.reshape((32, 32)), acc)
    ct.store(c, (ct.bid(0), 0, 0), acc.reshape((1, 32, 32)))


def test_operands_in_another_shape_are_copied_as_wide() -> None:
    rng = np.random.default_rng(2)
    a, b, c = (aligned((2, 32, n), d) for n, d in ((96, np.float16), (96, np.float16), (32, np.float32)))
    for x in (a, b):
        x[...] = rng.integers(-4, 5, x.shape)
    seen: list[Function] = []
    with (
        observed_passes(lambda name, f: seen.append(f) if name == InsertBarriers.name else None),
        interpreter_backend(4, 3) as backend,
    ):
        ct.launch(None, (2,), ct.kernel(of_heads), (a, b, c), backend=backend)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)).all()
    copies = [op.vector for op in seen[-1].walk() if isinstance(op, AsyncCopy)]
    assert copies and set(copies) == {8}
    (loop,) = (op for op in seen[-1].walk() if isinstance(op, For))
    loads = [op.type.shape for op in loop.body.ops if isinstance(op, SharedLoad)]
    assert loads == [(32, 32), (32, 32)], "as they are multiplied"


@pytest.mark.parametrize("stages", [1, 3])
def test_without_tensor_cores_operands_come_in_steps(stages: int) -> None:
    """Four of k at a time: not all of it in the registers of each thread."""
    (function,) = launch(96, np.float32, stages=stages)
    products = [op for op in function.walk() if isinstance(op, GpuMma)]
    assert [(op.instruction, op.x.tile.shape, op.y.tile.shape) for op in products] == [
        ((1, 1, 1), (32, 4), (4, 64))
    ] * 8
    for v in (products[0].x, products[0].y):
        assert v.tile.layout is not None and v.tile.layout.num_registers <= 64


def _changed(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    after(PipelineLoads, lambda function: [change(op) for op in function.walk()], monkeypatch)


def test_a_wait_for_too_few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(op: Any) -> None:
        if isinstance(op, AsyncWait) and op.pending:
            op.pending += 1

    _changed(change, monkeypatch)
    with pytest.raises(Fault) as found:
        launch(96)
    assert found.value.category == "read before arrival"


def test_a_loop_that_stores_is_left_alone() -> None:
    def program(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
        acc = ct.zeros((32, 64), ct.float32)
        for k in range(2):
            acc = ct.mma(ct.load(a, (0, k), (32, 32)), ct.load(b, (k, 0), (32, 64)), acc)
            ct.store(c, (0, 0), acc)

    a, b, c = aligned((32, 64), np.float16), aligned((64, 64), np.float16), aligned((32, 64), np.float32)
    a[...], b[...] = 1, 2
    with interpreter_backend(4) as backend:
        ct.launch(None, (1,), ct.kernel(program), (a, b, c), backend=backend)
    assert (c == 128).all()


@pytest.mark.parametrize(("target", "ahead"), [("sm_80", True), ("sm_86", False)])
def test_a_cta_that_fills_the_registers_may_fill_the_shared_memory(target: str, ahead: bool) -> None:
    """Two stages of keys and values take 128 KiB, of which there are 163 and 99."""
    schedule = compile_to_ptx(attended(128, 128, 128), target, 8).schedule
    assert ("copies 16 bytes a thread ahead" in schedule) == ahead
    assert "mma.sync of 16x8x16" in schedule
