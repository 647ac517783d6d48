"""Kernels that wait for memory, in further shapes: several passes, strides, odd sizes, loops over the grid."""

from __future__ import annotations

import math

import tilewright as ct

INF = math.inf


@ct.kernel
def permute_tokens(x, places, weights, out, T: ct.Constant[int]):
    """Rows go to other places, with a weight each, as tokens to experts: a loop over the grid."""
    at = ct.arange(T, dtype=ct.int32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        w = ct.gather(weights, row)
        v = ct.gather(x, (row, at), padding_value=0).astype(ct.float32) * w
        ct.scatter(out, (ct.gather(places, row), at), v.astype(out.dtype))


@ct.kernel
def channel_norm(x, weight, bias, out, eps, C: ct.Constant[int], TC: ct.Constant[int], TW: ct.Constant[int]):
    """Layer norm over the channels of (batch, C, pixels), which lie far apart."""
    b, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (b, 0, j), (1, TC, TW), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32).reshape((TC, TW))
    inside = (ct.arange(TC, dtype=ct.int32) < C)[:, None]
    mean = ct.sum(v, axis=0, keepdims=True) / C
    d = ct.where(inside, v - mean, 0.0)
    r = ct.rsqrt(ct.sum(d * d, axis=0, keepdims=True) / C + eps)
    w = ct.load(weight, (0,), (TC,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)[:, None]
    h = ct.load(bias, (0,), (TC,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)[:, None]
    ct.store(out, (b, 0, j), (d * r * w + h).astype(out.dtype).reshape((1, TC, TW)))


@ct.kernel
def batch_stats(x, sums, squares, T: ct.Constant[int]):
    """Sum and sum of squares of each channel of (batch, C, pixels), a channel a block."""
    c = ct.bid(0)
    s, q = 0.0, 0.0
    for b in range(x.shape[0]):
        for j in range(ct.cdiv(x.shape[2], T)):
            v = ct.load(x, (b, c, j), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
            s += ct.sum(v)
            q += ct.sum(v * v)
    ct.scatter(sums, c, s)
    ct.scatter(squares, c, q)


@ct.kernel
def masked_softmax(x, out, scale, T: ct.Constant[int]):
    """Rows of causal scores (heads, S, S)."""
    head, row = ct.bid(0), ct.bid(1)
    v = ct.load(x, (head, row, 0), (1, 1, T)).astype(ct.float32) * scale
    v = ct.where(ct.arange(T, dtype=ct.int32)[None, None, :] <= row, v, -INF)
    e = ct.exp(v - ct.max(v, axis=2, keepdims=True))
    ct.store(out, (head, row, 0), (e / ct.sum(e, axis=2, keepdims=True)).astype(out.dtype))


@ct.kernel
def softmax_block(x, out, TM: ct.Constant[int], T: ct.Constant[int]):
    """Several rows a block, with rows that begin anywhere."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (TM, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    e = ct.exp(v - ct.max(v, axis=1, keepdims=True))
    ct.store(out, (i, 0), (e / ct.sum(e, axis=1, keepdims=True)).astype(out.dtype))


@ct.kernel
def dequantize_turned(q, scales, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    """8-bit integers with a scale for each row, stored turned."""
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(q, (i, j), (TM, TN)).astype(ct.float32) * ct.load(scales, (i,), (TM,))[:, None]
    ct.store(out, (j, i), ct.transpose(v.astype(out.dtype)))


@ct.kernel
def quantize_fp8(x, scale, out, T: ct.Constant[int]):
    """By one scale, in a loop over the grid."""
    s = 1.0 / ct.gather(scale, 0)
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], T), ct.num_blocks(0)):
        v = ct.load(x, (i,), (T,)).astype(ct.float32) * s
        ct.store(out, (i,), ct.minimum(ct.maximum(v, -448.0), 448.0).astype(out.dtype))


@ct.kernel
def swiglu_packed_backward(x, grad, dx, N: ct.Constant[int], T: ct.Constant[int]):
    """Gates and values side by side in a row, as gradients are, by gathers."""
    row = ct.bid(0)
    for j in range(ct.cdiv(N, T)):
        at = j * T + ct.arange(T, dtype=ct.int32)
        inside = at < N
        g = ct.gather(x, (row, at), mask=inside, padding_value=0).astype(ct.float32)
        u = ct.gather(x, (row, at + N), mask=inside, padding_value=0).astype(ct.float32)
        d = ct.gather(grad, (row, at), padding_value=0).astype(ct.float32)
        s = 1.0 / (1.0 + ct.exp(-g))
        ct.scatter(dx, (row, at), (d * u * s * (1.0 + g * (1.0 - s))).astype(dx.dtype), mask=inside)
        ct.scatter(dx, (row, at + N), (d * g * s).astype(dx.dtype), mask=inside)


@ct.kernel
def dropout_add_norm(x, y, weight, bias, out, seed, eps, N: ct.Constant[int], T: ct.Constant[int]):
    """Layer norm of x and y, of which an eighth is dropped; rows of odd lengths."""
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    bits = (row * N + at + seed).astype(ct.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = bits ^ (bits >> 15)
    v = ct.gather(y, (row, at), padding_value=0).astype(ct.float32)
    v = ct.where(bits >= 0x20000000, v * (8 / 7), 0.0) + ct.gather(x, (row, at), padding_value=0).astype(ct.float32)
    mean = ct.sum(v) / N
    d = ct.where(at < N, v - mean, 0.0)
    r = ct.rsqrt(ct.sum(d * d) / N + eps)
    w = ct.gather(weight, at, padding_value=0).astype(ct.float32)
    h = ct.gather(bias, at, padding_value=0).astype(ct.float32)
    ct.scatter(out, (row, at), (d * r * w + h).astype(out.dtype))


@ct.kernel
def rotary_in_place(qkv, cos, sin, H: ct.Constant[int], D: ct.Constant[int]):
    """Queries and keys of (tokens, 3, H, 2, D), of which values stay as they are."""
    token, which = ct.bid(0), ct.bid(1)
    c = ct.load(cos, (token, 0), (1, D)).reshape((1, 1, 1, 1, D))
    s = ct.load(sin, (token, 0), (1, D)).reshape((1, 1, 1, 1, D))
    a = ct.load(qkv, (token, which, 0, 0, 0), (1, 1, H, 1, D)).astype(ct.float32)
    b = ct.load(qkv, (token, which, 0, 1, 0), (1, 1, H, 1, D)).astype(ct.float32)
    ct.store(qkv, (token, which, 0, 0, 0), (a * c - b * s).astype(qkv.dtype))
    ct.store(qkv, (token, which, 0, 1, 0), (b * c + a * s).astype(qkv.dtype))


@ct.kernel
def embedding_bag(table, rows, out, K: ct.Constant[int], T: ct.Constant[int]):
    """The sums of K rows each."""
    i = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    total = ct.zeros((T,), ct.float32)
    for k in range(K):
        total += ct.gather(table, (ct.gather(rows, (i, k)), at), padding_value=0).astype(ct.float32)
    ct.scatter(out, (i, at), total.astype(out.dtype))


@ct.kernel
def gated_group_norm(x, z, weight, out, eps, G: ct.Constant[int], D: ct.Constant[int]):
    """RMS norm of groups of x * silu(z), as in Mamba 2: all groups of a token."""
    token = ct.bid(0)
    v = ct.load(x, (token, 0, 0), (1, G, D)).astype(ct.float32)
    g = ct.load(z, (token, 0, 0), (1, G, D)).astype(ct.float32)
    v = v * (g / (1.0 + ct.exp(-g)))
    r = ct.rsqrt(ct.sum(v * v, axis=2, keepdims=True) / D + eps)
    w = ct.load(weight, (0, 0), (G, D)).astype(ct.float32).reshape((1, G, D))
    ct.store(out, (token, 0, 0), (v * r * w).astype(out.dtype))


@ct.kernel
def column_cumsum(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    """Running sums along the first axis, in steps."""
    j = ct.bid(0)
    carry = ct.zeros((1, TN), ct.float32)
    for i in range(ct.cdiv(x.shape[0], TM)):
        v = ct.load(x, (i, j), (TM, TN), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        ct.store(out, (i, j), (ct.cumsum(v, axis=0) + carry).astype(out.dtype))
        carry += ct.sum(v, axis=0, keepdims=True)


@ct.kernel
def norm_two_passes(x, weight, bias, out, eps, T: ct.Constant[int]):
    """Layer norm of long rows by sums and sums of squares, then once more over the row."""
    row, n = ct.bid(0), x.shape[1]
    s, q = 0.0, 0.0
    for j in range(ct.cdiv(n, T)):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        s += ct.sum(v)
        q += ct.sum(v * v)
    mean = s / n
    r = ct.rsqrt(q / n - mean * mean + eps)
    for j in range(ct.cdiv(n, T)):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        w = ct.load(weight, (j,), (T,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)[None, :]
        h = ct.load(bias, (j,), (T,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)[None, :]
        ct.store(out, (row, j), ((v - mean) * r * w + h).astype(out.dtype))
