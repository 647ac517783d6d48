"""Kernels that wait for memory, as people write them: nothing but the sizes of tiles is said."""

from __future__ import annotations

import math

import tilewright as ct

INF = math.inf
SQRT_HALF = math.sqrt(0.5)


@ct.kernel
def copy(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)))


@ct.kernel
def add(x, y, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)) + ct.load(y, (i,), (T,)))


@ct.kernel
def transpose(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (TM, TN))))


@ct.kernel
def gather_rows(table, rows, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(table, (ct.load(rows, (i,), ()), 0), (1, T)))


def softmax_of(x, out, row, T):
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    values = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(out, (row, 0), (values / ct.sum(values, axis=1, keepdims=True)).astype(out.dtype))


@ct.kernel
def softmax(x, out, T: ct.Constant[int]):
    softmax_of(x, out, ct.bid(0), T)


@ct.kernel
def softmax_persistent(x, out, T: ct.Constant[int]):
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        softmax_of(x, out, row, T)


@ct.kernel
def softmax_gather(x, out, T: ct.Constant[int]):
    columns = ct.arange(T, dtype=ct.int32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.gather(x, (row, columns), padding_value=-INF).astype(ct.float32)
        values = ct.exp(values - ct.max(values, axis=0, keepdims=True))
        ct.scatter(out, (row, columns), (values / ct.sum(values, axis=0, keepdims=True)).astype(out.dtype))


@ct.kernel
def softmax_in_steps(x, out, T: ct.Constant[int]):
    row, steps = ct.bid(0), ct.cdiv(x.shape[1], T)
    top = ct.full((1, 1), -INF, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(steps):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    for j in range(steps):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        ct.store(out, (row, j), (ct.exp(values - top) / total).astype(out.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, eps, T: ct.Constant[int]):
    row, n = ct.bid(0), x.shape[1]
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    mean = ct.sum(values, axis=1, keepdims=True) / n
    centered = ct.where(ct.arange(T, dtype=ct.int32)[None, :] < n, values - mean, 0.0)
    scale = ct.rsqrt(ct.sum(centered * centered, axis=1, keepdims=True) / n + eps)
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    b = ct.load(bias, (0,), (T,)).astype(ct.float32)[None, :]
    ct.store(out, (row, 0), (centered * scale * w + b).astype(out.dtype))


@ct.kernel
def layer_norm_backward(x, weight, grad, mean, scale, dx, dweights, dbiases, T: ct.Constant[int]):
    """Each block sums up the gradients of weight and bias of its rows; another kernel adds the sums of blocks."""
    n = x.shape[1]
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    dw, db = ct.zeros((1, T), ct.float32), ct.zeros((1, T), ct.float32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        g = ct.load(grad, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        s = ct.load(scale, (row,), ())
        normal = (values - ct.load(mean, (row,), ())) * s
        wg = w * g
        first = ct.sum(normal * wg, axis=1, keepdims=True) / n
        second = ct.sum(wg, axis=1, keepdims=True) / n
        ct.store(dx, (row, 0), ((wg - (normal * first + second)) * s).astype(dx.dtype))
        dw += g * normal
        db += g
    ct.store(dweights, (ct.bid(0), 0), dw)
    ct.store(dbiases, (ct.bid(0), 0), db)


@ct.kernel
def rms_norm(x, weight, out, eps, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(values * values, axis=1, keepdims=True) / x.shape[1] + eps)
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    ct.store(out, (row, 0), (values * scale * w).astype(out.dtype))


@ct.kernel
def rms_norm_backward(x, weight, grad, scale, dx, dweights, T: ct.Constant[int]):
    n = x.shape[1]
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    dw = ct.zeros((1, T), ct.float32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        g = ct.load(grad, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        s = ct.load(scale, (row,), ())
        normal = values * s
        wg = w * g
        ct.store(dx, (row, 0), ((wg - normal * (ct.sum(normal * wg, axis=1, keepdims=True) / n)) * s).astype(dx.dtype))
        dw += g * normal
    ct.store(dweights, (ct.bid(0), 0), dw)


@ct.kernel
def cross_entropy(x, labels, loss, T: ct.Constant[int]):
    row = ct.bid(0)
    top = ct.full((1, 1), -INF, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    wanted = ct.gather(x, (row, ct.gather(labels, row))).astype(ct.float32)
    ct.scatter(loss, row, (ct.log(total) + top).reshape(()) - wanted)


@ct.kernel
def swiglu(gate, up, out, T: ct.Constant[int]):
    at = ct.bid(0), ct.bid(1)
    g = ct.load(gate, at, (1, T)).astype(ct.float32)
    u = ct.load(up, at, (1, T)).astype(ct.float32)
    ct.store(out, at, (g / (1.0 + ct.exp(-g)) * u).astype(out.dtype))


@ct.kernel
def swiglu_backward(gate, up, grad, dgate, dup, T: ct.Constant[int]):
    at = ct.bid(0), ct.bid(1)
    g = ct.load(gate, at, (1, T)).astype(ct.float32)
    u = ct.load(up, at, (1, T)).astype(ct.float32)
    d = ct.load(grad, at, (1, T)).astype(ct.float32)
    sigmoid = 1.0 / (1.0 + ct.exp(-g))
    silu = g * sigmoid
    ct.store(dup, at, (d * silu).astype(dup.dtype))
    ct.store(dgate, at, (d * u * (sigmoid + silu * (1.0 - sigmoid))).astype(dgate.dtype))


@ct.kernel
def geglu(gate, up, out, T: ct.Constant[int]):
    at = ct.bid(0), ct.bid(1)
    g = ct.load(gate, at, (1, T)).astype(ct.float32)
    u = ct.load(up, at, (1, T)).astype(ct.float32)
    inner = 0.7978845608 * (g + 0.044715 * g * g * g)
    ct.store(out, at, (0.5 * g * (1.0 + ct.tanh(inner)) * u).astype(out.dtype))


@ct.kernel
def rotary(x, cos, sin, out, H: ct.Constant[int], D: ct.Constant[int]):
    """The halves of every head of a token: out has the shape of x, (tokens, 2 H, D)."""
    token = ct.bid(0)
    c = ct.load(cos, (token, 0), (1, D)).reshape((1, 1, D))
    s = ct.load(sin, (token, 0), (1, D)).reshape((1, 1, D))
    a = ct.load(x, (token, 0, 0), (1, H, D)).astype(ct.float32)
    b = ct.load(x, (token, 0, 1), (1, H, D)).astype(ct.float32)
    ct.store(out, (token, 0, 0), (a * c - b * s).astype(out.dtype))
    ct.store(out, (token, 0, 1), (b * c + a * s).astype(out.dtype))


@ct.kernel
def dropout(x, out, seed, T: ct.Constant[int]):
    i = ct.bid(0)
    bits = ct.arange(T, dtype=ct.uint32) + (i * T + seed).astype(ct.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = bits ^ (bits >> 16)
    values = ct.load(x, (i,), (T,))
    ct.store(out, (i,), ct.where(bits >= 0x20000000, values * (8 / 7), 0.0).astype(out.dtype))


@ct.kernel
def dequantize(x, scales, out, T: ct.Constant[int]):
    """8-bit integers with a scale for each T of a row."""
    at = ct.bid(0), ct.bid(1)
    scale = ct.load(scales, at, (1, 1))
    ct.store(out, at, (ct.load(x, at, (1, T)).astype(ct.float32) * scale).astype(out.dtype))


@ct.kernel
def softmax_backward(y, grad, dx, T: ct.Constant[int]):
    row = ct.bid(0)
    p = ct.load(y, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    g = ct.load(grad, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    pg = p * g
    ct.store(dx, (row, 0), (pg - p * ct.sum(pg, axis=1, keepdims=True)).astype(dx.dtype))


@ct.kernel
def log_softmax(x, out, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    values = values - ct.max(values, axis=1, keepdims=True)
    ct.store(out, (row, 0), (values - ct.log(ct.sum(ct.exp(values), axis=1, keepdims=True))).astype(out.dtype))


@ct.kernel
def rms_norm_in_steps(x, weight, out, eps, T: ct.Constant[int]):
    row, n = ct.bid(0), x.shape[1]
    total = ct.zeros((T,), ct.float32)
    columns = ct.arange(T, dtype=ct.int32)
    for j in range(ct.cdiv(n, T)):
        values = ct.gather(x, (row, j * T + columns), padding_value=0).astype(ct.float32)
        total += values * values
    scale = ct.rsqrt(ct.sum(total, axis=0) / n + eps)
    for j in range(ct.cdiv(n, T)):
        values = ct.gather(x, (row, j * T + columns), padding_value=0).astype(ct.float32)
        w = ct.gather(weight, j * T + columns, padding_value=0).astype(ct.float32)
        ct.scatter(out, (row, j * T + columns), (values * scale * w).astype(out.dtype))


@ct.kernel
def rms_norm_persistent(x, weight, out, eps, T: ct.Constant[int]):
    n = x.shape[1]
    w = ct.load(weight, (0,), (T,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)[None, :]
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        scale = ct.rsqrt(ct.sum(values * values, axis=1, keepdims=True) / n + eps)
        ct.store(out, (row, 0), (values * scale * w).astype(out.dtype))


@ct.kernel
def add_rms_norm(x, residual, weight, out, eps, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    values += ct.load(residual, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(residual, (row, 0), values.astype(residual.dtype))
    scale = ct.rsqrt(ct.sum(values * values, axis=1, keepdims=True) / x.shape[1] + eps)
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    ct.store(out, (row, 0), (values * scale * w).astype(out.dtype))


@ct.kernel
def silu_and_mul(x, out, N: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    columns = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    g = ct.gather(x, (row, columns), padding_value=0).astype(ct.float32)
    u = ct.gather(x, (row, columns + N), padding_value=0).astype(ct.float32)
    ct.scatter(out, (row, columns), (g / (1.0 + ct.exp(-g)) * u).astype(out.dtype))


@ct.kernel
def geglu_backward(gate, up, grad, dgate, dup, T: ct.Constant[int]):
    at = ct.bid(0), ct.bid(1)
    g = ct.load(gate, at, (1, T)).astype(ct.float32)
    u = ct.load(up, at, (1, T)).astype(ct.float32)
    d = ct.load(grad, at, (1, T)).astype(ct.float32)
    t = ct.tanh(0.7978845608 * (g + 0.044715 * g * g * g))
    half = 0.5 * (1.0 + t)
    slope = half + 0.5 * g * (1.0 - t * t) * 0.7978845608 * (1.0 + 3 * 0.044715 * g * g)
    ct.store(dup, at, (d * g * half).astype(dup.dtype))
    ct.store(dgate, at, (d * u * slope).astype(dgate.dtype))


@ct.kernel
def cross_entropy_backward(x, labels, dx, T: ct.Constant[int]):
    row, steps = ct.bid(0), ct.cdiv(x.shape[1], T)
    top = ct.full((1, 1), -INF, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(steps):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    label = ct.gather(labels, row)
    for j in range(steps):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        wanted = (j * T + ct.arange(T, dtype=ct.int32))[None, :] == label
        ct.store(dx, (row, j), (ct.exp(values - top) / total - ct.where(wanted, 1.0, 0.0)).astype(dx.dtype))


@ct.kernel
def embedding(table, rows, out, T: ct.Constant[int]):
    columns = ct.arange(T, dtype=ct.int32)
    for i in range(ct.bid(0), rows.shape[0], ct.num_blocks(0)):
        row = ct.gather(rows, i)
        ct.scatter(out, (i, columns), ct.gather(table, (row, columns), padding_value=0))


@ct.kernel
def dequantize_rows(x, scales, out, T: ct.Constant[int]):
    """A scale for each row."""
    row = ct.bid(0)
    scale = ct.load(scales, (row,), ())
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(out, (row, 0), (values * scale).astype(out.dtype))


@ct.kernel
def quantize_rows(x, scales, out, T: ct.Constant[int]):
    """To 8-bit integers with a scale for each row."""
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    scale = ct.maximum(ct.max(ct.maximum(values, -values), axis=1, keepdims=True), 1e-8) / 127.0
    ct.store(scales, (row, 0), scale)
    ct.store(out, (row, 0), ct.floor(values / scale + 0.5).astype(ct.int8))
