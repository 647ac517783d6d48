"""The kernels of ``gpu_memory_kernels.py`` as one writes them in Triton by hand."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def copy(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def add(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def transpose(x, out, m, n, TM: tl.constexpr, TN: tl.constexpr):
    i = tl.program_id(0) * TM + tl.arange(0, TM)
    j = tl.program_id(1) * TN + tl.arange(0, TN)
    values = tl.load(x + i[:, None] * n + j[None, :], mask=(i[:, None] < m) & (j[None, :] < n))
    tl.store(out + j[:, None] * m + i[None, :], tl.trans(values), mask=(j[:, None] < n) & (i[None, :] < m))


@triton.jit
def gather_rows(table, rows, out, n, T: tl.constexpr):
    i = tl.program_id(0)
    at = tl.arange(0, T)
    row = tl.load(rows + i).to(tl.int64)
    tl.store(out + i.to(tl.int64) * n + at, tl.load(table + row * n + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, rows, n, T: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, T)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        base = row.to(tl.int64) * n
        values = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
        values = tl.exp(values - tl.max(values, 0))
        tl.store(out + base + at, (values / tl.sum(values, 0)).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def softmax_in_steps(x, out, n, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    top = -float("inf")
    total = 0.0
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        values = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(values, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(values - new_top), 0)
        top = new_top
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        values = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + base + at, (tl.exp(values - top) / total).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def layer_norm(x, weight, bias, out, n, eps, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    values = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(values, 0) / n
    centered = tl.where(at < n, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, 0) / n + eps)
    w = tl.load(weight + at, mask=at < n).to(tl.float32)
    b = tl.load(bias + at, mask=at < n).to(tl.float32)
    tl.store(out + base + at, (centered * scale * w + b).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def layer_norm_backward(x, weight, grad, mean, scale, dx, dweights, dbiases, rows, n, T: tl.constexpr):
    at = tl.arange(0, T)
    w = tl.load(weight + at, mask=at < n).to(tl.float32)
    dw = tl.zeros((T,), tl.float32)
    db = tl.zeros((T,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row.to(tl.int64) * n
        values = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
        g = tl.load(grad + base + at, mask=at < n, other=0.0).to(tl.float32)
        s = tl.load(scale + row)
        normal = (values - tl.load(mean + row)) * s
        wg = w * g
        first = tl.sum(normal * wg, 0) / n
        second = tl.sum(wg, 0) / n
        tl.store(dx + base + at, ((wg - (normal * first + second)) * s).to(dx.dtype.element_ty), mask=at < n)
        dw += g * normal
        db += g
    tl.store(dweights + tl.program_id(0) * n + at, dw, mask=at < n)
    tl.store(dbiases + tl.program_id(0) * n + at, db, mask=at < n)


@triton.jit
def rms_norm(x, weight, out, n, eps, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    values = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / n + eps)
    w = tl.load(weight + at, mask=at < n).to(tl.float32)
    tl.store(out + base + at, (values * scale * w).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def rms_norm_backward(x, weight, grad, scale, dx, dweights, rows, n, T: tl.constexpr):
    at = tl.arange(0, T)
    w = tl.load(weight + at, mask=at < n).to(tl.float32)
    dw = tl.zeros((T,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row.to(tl.int64) * n
        values = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
        g = tl.load(grad + base + at, mask=at < n, other=0.0).to(tl.float32)
        s = tl.load(scale + row)
        normal = values * s
        wg = w * g
        found = (wg - normal * (tl.sum(normal * wg, 0) / n)) * s
        tl.store(dx + base + at, found.to(dx.dtype.element_ty), mask=at < n)
        dw += g * normal
    tl.store(dweights + tl.program_id(0) * n + at, dw, mask=at < n)


@triton.jit
def cross_entropy(x, labels, loss, n, T: tl.constexpr):
    row = tl.program_id(0)
    base = row.to(tl.int64) * n
    top = -float("inf")
    total = 0.0
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        values = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(values, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(values - new_top), 0)
        top = new_top
    wanted = tl.load(x + base + tl.load(labels + row)).to(tl.float32)
    tl.store(loss + row, tl.log(total) + top - wanted)


@triton.jit
def swiglu(gate, up, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.program_id(1) * T + tl.arange(0, T)
    mask = tl.program_id(1) * T + tl.arange(0, T) < n
    g = tl.load(gate + at, mask=mask).to(tl.float32)
    u = tl.load(up + at, mask=mask).to(tl.float32)
    tl.store(out + at, (g / (1.0 + tl.exp(-g)) * u).to(out.dtype.element_ty), mask=mask)


@triton.jit
def swiglu_backward(gate, up, grad, dgate, dup, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.program_id(1) * T + tl.arange(0, T)
    mask = tl.program_id(1) * T + tl.arange(0, T) < n
    g = tl.load(gate + at, mask=mask).to(tl.float32)
    u = tl.load(up + at, mask=mask).to(tl.float32)
    d = tl.load(grad + at, mask=mask).to(tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-g))
    silu = g * sigmoid
    tl.store(dup + at, (d * silu).to(dup.dtype.element_ty), mask=mask)
    tl.store(dgate + at, (d * u * (sigmoid + silu * (1.0 - sigmoid))).to(dgate.dtype.element_ty), mask=mask)


@triton.jit
def geglu(gate, up, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.program_id(1) * T + tl.arange(0, T)
    mask = tl.program_id(1) * T + tl.arange(0, T) < n
    g = tl.load(gate + at, mask=mask).to(tl.float32)
    u = tl.load(up + at, mask=mask).to(tl.float32)
    inner = 0.7978845608 * (g + 0.044715 * g * g * g)
    tl.store(out + at, (0.5 * g * (1.0 + libdevice.tanh(inner)) * u).to(out.dtype.element_ty), mask=mask)


@triton.jit
def rotary(x, cos, sin, out, H: tl.constexpr, D: tl.constexpr):
    token = tl.program_id(0)
    lanes = tl.arange(0, D)[None, :]
    c = tl.load(cos + token * D + lanes)
    s = tl.load(sin + token * D + lanes)
    at = token.to(tl.int64) * (2 * H * D) + tl.arange(0, H)[:, None] * (2 * D) + lanes
    a = tl.load(x + at).to(tl.float32)
    b = tl.load(x + at + D).to(tl.float32)
    tl.store(out + at, (a * c - b * s).to(out.dtype.element_ty))
    tl.store(out + at + D, (b * c + a * s).to(out.dtype.element_ty))


@triton.jit
def dropout(x, out, n, seed, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    bits = (at + seed).to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = bits ^ (bits >> 16)
    values = tl.load(x + at, mask=at < n)
    kept = tl.where(bits >= 0x20000000, values.to(tl.float32) * (8 / 7), 0.0)
    tl.store(out + at, kept.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def dequantize(x, scales, out, n, T: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = row.to(tl.int64) * n + part * T + tl.arange(0, T)
    scale = tl.load(scales + row * (n // T) + part)
    tl.store(out + at, (tl.load(x + at).to(tl.float32) * scale).to(out.dtype.element_ty))


@triton.jit
def softmax_backward(y, grad, dx, n, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    p = tl.load(y + base + at, mask=at < n, other=0.0).to(tl.float32)
    g = tl.load(grad + base + at, mask=at < n, other=0.0).to(tl.float32)
    pg = p * g
    tl.store(dx + base + at, (pg - p * tl.sum(pg, 0)).to(dx.dtype.element_ty), mask=at < n)


@triton.jit
def log_softmax(x, out, n, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    v = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
    v = v - tl.max(v, 0)
    tl.store(out + base + at, (v - tl.log(tl.sum(tl.exp(v), 0))).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def rms_norm_in_steps(x, weight, out, n, eps, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    total = tl.zeros((T,), tl.float32)
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
        total += v * v
    scale = tl.rsqrt(tl.sum(total, 0) / n + eps)
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
        w = tl.load(weight + at, mask=at < n).to(tl.float32)
        tl.store(out + base + at, (v * scale * w).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def rms_norm_persistent(x, weight, out, rows, n, eps, T: tl.constexpr):
    at = tl.arange(0, T)
    w = tl.load(weight + at, mask=at < n).to(tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        base = row.to(tl.int64) * n
        v = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
        tl.store(out + base + at, (v * scale * w).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def add_rms_norm(x, residual, weight, out, n, eps, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    v = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
    v += tl.load(residual + base + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(residual + base + at, v.to(residual.dtype.element_ty), mask=at < n)
    scale = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
    w = tl.load(weight + at, mask=at < n).to(tl.float32)
    tl.store(out + base + at, (v * scale * w).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def silu_and_mul(x, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * T + tl.arange(0, T)
    g = tl.load(x + row * 2 * n + at, mask=at < n).to(tl.float32)
    u = tl.load(x + row * 2 * n + n + at, mask=at < n).to(tl.float32)
    tl.store(out + row * n + at, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def geglu_backward(gate, up, grad, dgate, dup, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.program_id(1) * T + tl.arange(0, T)
    g = tl.load(gate + at).to(tl.float32)
    u = tl.load(up + at).to(tl.float32)
    d = tl.load(grad + at).to(tl.float32)
    t = libdevice.tanh(0.7978845608 * (g + 0.044715 * g * g * g))
    half = 0.5 * (1.0 + t)
    slope = half + 0.5 * g * (1.0 - t * t) * 0.7978845608 * (1.0 + 3 * 0.044715 * g * g)
    tl.store(dup + at, (d * g * half).to(dup.dtype.element_ty))
    tl.store(dgate + at, (d * u * slope).to(dgate.dtype.element_ty))


@triton.jit
def cross_entropy_backward(x, labels, dx, n, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    top = -float("inf")
    total = 0.0
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(v - new_top), 0)
        top = new_top
    label = tl.load(labels + tl.program_id(0))
    for j in range(0, n, T):
        at = j + tl.arange(0, T)
        v = tl.load(x + base + at, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(
            dx + base + at,
            (tl.exp(v - top) / total - tl.where(at == label, 1.0, 0.0)).to(dx.dtype.element_ty),
            mask=at < n,
        )


@triton.jit
def embedding(table, rows, out, m, n, T: tl.constexpr):
    at = tl.arange(0, T)
    for i in tl.range(tl.program_id(0), m, tl.num_programs(0), num_stages=2):
        row = tl.load(rows + i).to(tl.int64)
        tl.store(out + i.to(tl.int64) * n + at, tl.load(table + row * n + at, mask=at < n), mask=at < n)


@triton.jit
def dequantize_rows(x, scales, out, n, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    scale = tl.load(scales + tl.program_id(0))
    v = tl.load(x + base + at, mask=at < n).to(tl.float32)
    tl.store(out + base + at, (v * scale).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def quantize_rows(x, scales, out, n, T: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, T)
    v = tl.load(x + base + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(v), 0), 1e-8) / 127.0
    tl.store(scales + tl.program_id(0), scale)
    tl.store(out + base + at, tl.floor(v / scale + 0.5).to(tl.int8), mask=at < n)


def whole(n: int) -> int:
    """The power of two that holds ``n`` columns."""
    return triton.next_power_of_2(n)
