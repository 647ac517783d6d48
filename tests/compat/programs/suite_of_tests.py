"""A test suite for pytest, as libraries of kernels have them: parametrised dtypes and shapes, helpers, expected errors."""

import math

import cuda.tile as ct
import pytest
import torch
from torch.testing import assert_close, make_tensor

float_dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
int_dtypes = [torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8]


@pytest.fixture
def shape():
    return (70, 36)


@ct.kernel
def copy_kernel(x, y, TX: ct.Constant[int], TY: ct.Constant[int]):
    at = (ct.bid(0), ct.bid(1))
    ct.store(y, index=at, tile=ct.load(x, index=at, shape=(TX, TY)))


@pytest.mark.parametrize("dtype", float_dtypes + int_dtypes + [torch.bool], ids=str)
@pytest.mark.parametrize("tile", [(16, 8), (64, 64)])
def test_copy(shape, dtype, tile):
    x = make_tensor(shape, dtype=dtype, device="cuda")
    y = torch.zeros_like(x)
    grid = (*map(math.ceil, (shape[0] / tile[0], shape[1] / tile[1])), 1)
    ct.launch(torch.cuda.current_stream(), grid, copy_kernel, (x, y, *tile))
    assert torch.equal(x, y)


@ct.kernel
def binary_kernel(x, y, z, OP: ct.Constant[int], TILE: ct.Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(x, i, TILE), ct.load(y, i, TILE)
    if OP == 0:
        c = a + b
    elif OP == 1:
        c = ct.mul(a, b)
    elif OP == 2:
        c = ct.maximum(a, b)
    else:
        c = ct.where(a > b, a, b - a)
    ct.store(z, i, c.astype(z.dtype))


OPERATIONS = [torch.add, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a, b - a)]


@pytest.mark.parametrize("op", range(4))
@pytest.mark.parametrize("dtype", float_dtypes + int_dtypes, ids=str)
def test_binary(op, dtype):
    x = make_tensor((100,), dtype=dtype, device="cuda", low=0, high=9)
    y = make_tensor((100,), dtype=dtype, device="cuda", low=0, high=9)
    z = torch.zeros_like(x)
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(100, 32),), binary_kernel, (x, y, z, op, 32))
    assert_close(z, OPERATIONS[op](x, y))


@ct.kernel
def astype_kernel(x, y, TILE: ct.Constant[int], use_method: ct.Constant[bool]):
    tile = ct.load(x, index=(ct.bid(0),), shape=(TILE,))
    tile = tile.astype(y.dtype) if use_method else ct.astype(tile, y.dtype)
    ct.store(y, index=(ct.bid(0),), tile=tile)


@pytest.mark.parametrize("use_method", [True, False])
@pytest.mark.parametrize("target", [torch.float16, torch.int64, torch.float8_e5m2], ids=str)
def test_astype(target, use_method):
    x = torch.arange(64, dtype=torch.float32, device="cuda") - 20
    y = torch.zeros(64, dtype=target, device="cuda")
    ct.launch(torch.cuda.current_stream(), (2, 1, 1), astype_kernel, (x, y, 32, use_method))
    assert_close(y.float(), x.to(target).float())


@ct.kernel
def scalar_index_kernel(x, y, TILE: ct.Constant[int]):
    value = ct.load(x, index=TILE // 2, shape=()) + 5
    ct.store(y, index=0, tile=ct.full(TILE, value.item(), dtype=y.dtype))


def test_scalar_index():
    x = make_tensor((128,), dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    ct.launch(torch.cuda.current_stream(), (1,), scalar_index_kernel, (x, y, 128))
    assert_close(y, torch.full((128,), x[64].item() + 5, device="cuda"))


def test_errors():
    @ct.kernel
    def wrong_rank(x):
        ct.load(x, index=(0, 0), shape=(4,))

    @ct.kernel
    def not_static(x, n):
        ct.zeros((n,), ct.float32)

    @ct.kernel
    def fails(x):
        ct.static_assert(x.ndim == 2, "a matrix is needed")

    x = torch.zeros(8, device="cuda")
    stream = torch.cuda.current_stream()
    with pytest.raises(ct.TileTypeError):
        ct.launch(stream, (1,), wrong_rank, (x,))
    with pytest.raises(ct.TileTypeError, match="compile time|constant"):
        ct.launch(stream, (1,), not_static, (x, 4))
    with pytest.raises(ct.TileStaticAssertionError, match="a matrix is needed"):
        ct.launch(stream, (1,), fails, (x,))
    with pytest.raises(TypeError):
        ct.launch(stream, (1,), wrong_rank, (x, x))
    with pytest.raises(TypeError):
        wrong_rank(x)


def test_print(capfd):
    @ct.kernel
    def printing(x):
        ct.printf("value: %d %f\n", ct.bid(0), ct.load(x, 1, ()))
        print(f"tile: {ct.load(x, (0,), (2,))}")

    ct.launch(torch.cuda.current_stream(), (1,), printing, (torch.tensor([1.5, 2.5], device="cuda"),))
    torch.cuda.synchronize()
    out = capfd.readouterr().out
    assert "value: 0 2.500000" in out and "tile: [1.500000, 2.500000]" in out
