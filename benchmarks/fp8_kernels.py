"""Kernels of 8-bit floats, as libraries of quantized products have them, for this package or the original.

``CASES`` are names, kernels and arguments: (dtype, shape) for an array.
"""

import importlib
import os

ct = importlib.import_module(os.environ["FP8_KERNELS_FOR"])
Int = ct.Constant[int]


@ct.kernel
def multiply(a, b, out, row_scales, scales, M: Int, N: Int, K: Int, TM: Int, GROUP: Int, SWAP: Int, TMA: Int):
    """A product of blocks of 128 that have scales; rows of blocks go in groups."""
    block = ct.bid(0)
    rows, columns = ct.cdiv(M, TM), N // 128
    first = block // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    i, j = first + block % height, block % (GROUP * columns) // height
    at_m, at_n = i * TM + ct.arange(TM, dtype=ct.int32), j * 128 + ct.arange(128, dtype=ct.int32)
    total = ct.zeros((TM, 128), ct.float32)
    for k in range(K // 128):
        at_k = ct.arange(128, dtype=ct.int32) + k * 128
        if TMA:
            x = ct.load(a, (i, k), (TM, 128), latency=3, allow_tma=True)
            y = ct.load(b, (j, k), (128, 128), latency=3, allow_tma=True)
        else:
            x = ct.gather(a, (at_m[:, None], at_k[None, :]), padding_value=ct.float8_e4m3fn(0.0))
            y = ct.gather(b, (at_n[:, None], at_k[None, :]), padding_value=ct.float8_e4m3fn(0.0))
        scale = ct.gather(row_scales, (at_m, k), padding_value=0.0)[:, None] * ct.gather(scales, (j, k))
        if SWAP:
            part = ct.permute(ct.mma(y, ct.permute(x, (1, 0)), ct.zeros((128, TM), ct.float32)), (1, 0))
        else:
            part = ct.mma(x, ct.permute(y, (1, 0)), ct.zeros((TM, 128), ct.float32))
        total = total + part * scale
    if TMA:
        ct.store(out, (i, j), ct.astype(total, out.dtype), allow_tma=True)
    else:
        ct.scatter(out, (at_m[:, None], at_n[None, :]), ct.astype(total, out.dtype))


@ct.kernel
def dequantize(x, scales, out, TILE: Int):
    i, j = ct.bid(0), ct.bid(1)
    rows, columns = i * TILE + ct.arange(TILE, dtype=ct.int32), j * TILE + ct.arange(TILE, dtype=ct.int32)
    tile = ct.gather(x, (rows[:, None], columns[None, :]), padding_value=ct.float8_e4m3fn(0.0))
    scaled = ct.astype(tile, ct.float32) * ct.gather(scales, (i, j))
    ct.scatter(out, (rows[:, None], columns[None, :]), ct.astype(scaled, out.dtype))


@ct.kernel
def quantize(x, out, scales, TILE: Int):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    tile = ct.astype(ct.gather(x, at, padding_value=0), ct.float32)
    largest = ct.max(ct.maximum(tile, -tile))
    scale = ct.where(largest == 0.0, 1.0, ct.truediv(largest, 448.0))
    ct.scatter(out, at, ct.astype(ct.maximum(ct.minimum(ct.truediv(tile, scale), 448.0), -448.0), out.dtype))
    ct.scatter(scales, (ct.bid(0),), scale)


_N = 1024
_FP8, _F16, _F32 = "float8_e4m3fn", "float16", "float32"
_PRODUCT = (_FP8, (_N, _N)), (_FP8, (_N, _N)), (_F16, (_N, _N)), (_F32, (_N, _N // 128)), (_F32, (_N // 128, _N // 128))
CASES = [
    (
        f"product of {rows} rows, {'exchanged' if swap else 'as it is'}, {'TMA' if tma else 'gathered'}",
        multiply,
        (*_PRODUCT, _N, _N, _N, rows, 16, swap, tma),
    )
    for rows in (16, 64, 128)
    for swap in (0, 1)
    for tma in (0, 1)
]
CASES += [
    ("dequantize", dequantize, ((_FP8, (_N, _N)), (_F32, (_N // 128, _N // 128)), (_F16, (_N, _N)), 128)),
    ("quantize", quantize, ((_F16, (_N * 128,)), (_FP8, (_N * 128,)), (_F32, (_N,)), 128)),
]
