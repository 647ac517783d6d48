"""The kernels of the GPU benchmark as one writes them in Triton by hand."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

_MOST = 16  # descriptors that are kept, with their arrays
_descriptors: dict[Any, TensorDescriptor] = {}


def descriptor(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    """That of ``x``. Making it takes longer than some products do, so that those of the last arrays are kept."""
    key = x.data_ptr(), x.dtype, x.shape, tuple(block)
    if key not in _descriptors:
        if len(_descriptors) >= _MOST:
            _descriptors.clear()
        _descriptors[key] = TensorDescriptor.from_tensor(x, block)
    return _descriptors[key]


@triton.jit
def _softmax(x, out, rows, columns, stride, T: tl.constexpr, STAGES: tl.constexpr):
    offsets = tl.arange(0, T)
    mask = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * stride + offsets, mask=mask, other=-float("inf")).to(tl.float32)
        values = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * stride + offsets, (values / tl.sum(values, 0)).to(out.dtype.element_ty), mask=mask)


def softmax(x, out, config):
    warps, stages, per_processor = config
    rows, columns = x.shape
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    blocks = min(rows, processors * per_processor) if per_processor else rows
    _softmax[(blocks,)](x, out, rows, columns, x.stride(0), triton.next_power_of_2(columns), stages, num_warps=warps)


@triton.jit
def _layer_norm(x, weight, bias, out, columns, eps, stride, T: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, T)
    mask = offsets < columns
    values = tl.load(x + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(values, 0) / columns
    centered = tl.where(mask, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, 0) / columns + eps)
    w = tl.load(weight + offsets, mask=mask).to(tl.float32)
    b = tl.load(bias + offsets, mask=mask).to(tl.float32)
    tl.store(out + row * stride + offsets, (centered * scale * w + b).to(out.dtype.element_ty), mask=mask)


def layer_norm(x, weight, bias, out, config):
    rows, columns = x.shape
    T = triton.next_power_of_2(columns)
    _layer_norm[(rows,)](x, weight, bias, out, columns, 1e-5, x.stride(0), T, num_warps=config)


@triton.jit
def _matmul(
    a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr, TF32: tl.constexpr
):
    rows, columns = tl.cdiv(M, TM), tl.cdiv(N, TN)
    block = tl.program_id(0)
    wide = GROUP * columns
    first = (block // wide) * GROUP
    height = min(rows - first, GROUP)
    i = first + (block % wide) % height
    j = (block % wide) // height
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.cdiv(K, TK)):
        x = a.load([i * TM, k * TK])
        y = b.load([k * TK, j * TN])
        total = tl.dot(x, y, total, input_precision="tf32" if TF32 else "ieee")
    c.store([i * TM, j * TN], total.to(c.dtype))


def matmul(a, b, c, config):
    TM, TN, TK, warps, stages = config
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, TM) * triton.cdiv(N, TN),)
    da = descriptor(a, [TM, TK])
    db = descriptor(b, [TK, TN])
    dc = descriptor(c, [TM, TN])
    tf32 = a.dtype == torch.float32
    _matmul[grid](da, db, dc, M, N, K, TM, TN, TK, 8, tf32, num_warps=warps, num_stages=stages)


@triton.jit
def _step(q, keys, values, top, total, result, scale, j, rows, TK: tl.constexpr, MASK: tl.constexpr):
    scores = tl.dot(q, keys.T)
    if MASK:
        columns = j + tl.arange(0, TK)
        scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
    new_top = tl.maximum(top, tl.max(scores, 1) * scale)
    weights = tl.math.exp2(scores * scale - new_top[:, None])
    correction = tl.math.exp2(top - new_top)
    total = total * correction + tl.sum(weights, 1)
    result = tl.dot(weights.to(q.dtype), values, result * correction[:, None])
    return new_top, total, result


@triton.jit
def _attention(q, k, v, out, scale, S, D: tl.constexpr, TQ: tl.constexpr, TK: tl.constexpr, CAUSAL: tl.constexpr):
    block = tl.program_id(0)
    if CAUSAL:
        block = tl.num_programs(0) - 1 - block
    base = tl.program_id(1) * S
    queries = q.load([base + block * TQ, 0])
    top = tl.zeros([TQ], tl.float32) - float("inf")
    total = tl.zeros([TQ], tl.float32)
    result = tl.zeros([TQ, D], tl.float32)
    rows = block * TQ + tl.arange(0, TQ)
    full = block * TQ if CAUSAL else S
    for j in tl.range(0, full, TK):
        keys = k.load([base + j, 0])
        values = v.load([base + j, 0])
        top, total, result = _step(queries, keys, values, top, total, result, scale, j, rows, TK, False)
    if CAUSAL:
        for j in tl.range(full, (block + 1) * TQ, TK):
            keys = k.load([base + j, 0])
            values = v.load([base + j, 0])
            top, total, result = _step(queries, keys, values, top, total, result, scale, j, rows, TK, True)
    out.store([base + block * TQ, 0], (result / total[:, None]).to(out.dtype))


def attention(q, k, v, out, scale, causal, config):
    TQ, TK, warps, stages = config
    B, H, S, D = q.shape
    flat = [x.view(B * H * S, D) for x in (q, k, v, out)]
    blocks = [[TQ, D], [TK, D], [TK, D], [TQ, D]]
    descriptors = [descriptor(x, b) for x, b in zip(flat, blocks)]
    grid = (S // TQ, B * H)
    _attention[grid](*descriptors, scale, S, D, TQ, TK, causal, num_warps=warps, num_stages=stages)
