"""Kernels that wait for memory, of the kinds that serving and training code consists of, as it writes them."""

from __future__ import annotations

import math

import tilewright as ct

INF = math.inf


@ct.kernel
def fused_add_rms_norm(x, residual, weight, eps, N: ct.Constant[int], T: ct.Constant[int]):
    """In place: the residual is the sum, and x what follows from it."""
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at), padding_value=0).astype(ct.float32)
    v = v + ct.gather(residual, (row, at), padding_value=0).astype(ct.float32)
    ct.scatter(residual, (row, at), v.astype(residual.dtype))
    r = ct.rsqrt(ct.sum(v * v) / N + eps)
    w = ct.gather(weight, at, padding_value=0).astype(ct.float32)
    ct.scatter(x, (row, at), (v * r * w).astype(x.dtype))


@ct.kernel
def int8_per_token(x, out, scales, T: ct.Constant[int]):
    """Dynamic quantization, with a scale for each token."""
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at), padding_value=0).astype(ct.float32)
    top = ct.maximum(ct.max(ct.abs(v)), 1e-10)
    ct.scatter(scales, row, top / 127.0)
    q = ct.floor(v * (127.0 / top) + 0.5)
    ct.scatter(out, (row, at), ct.minimum(ct.maximum(q, -128.0), 127.0).astype(ct.int8))


@ct.kernel
def fp8_per_token(x, out, scales, T: ct.Constant[int]):
    row = ct.bid(0)
    v = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    s = ct.maximum(ct.max(ct.abs(v), axis=1, keepdims=True), 1e-10) / 448.0
    ct.store(scales, (row, 0), s)
    q = ct.minimum(ct.maximum(v / s, -448.0), 448.0)
    ct.store(out, (row, 0), q.astype(out.dtype))


@ct.kernel
def swiglu_flat(x, out, N: ct.Constant[int], T: ct.Constant[int]):
    """Gates and values are halves of rows; blocks go through all results, and find row and column."""
    per_row = N // T
    total = out.shape[0] * per_row
    for i in range(ct.bid(0), total, ct.num_blocks(0)):
        row, j = i // per_row, i % per_row
        g = ct.load(x, (row, j), (1, T)).astype(ct.float32)
        u = ct.load(x, (row, j + per_row), (1, T)).astype(ct.float32)
        ct.store(out, (row, j), (g / (1.0 + ct.exp(-g)) * u).astype(out.dtype))


@ct.kernel
def rope_cached(q, k, positions, cos, sin, H: ct.Constant[int], K: ct.Constant[int], D: ct.Constant[int]):
    """In place, of queries and keys of a token, with caches of half the width of a head."""
    token = ct.bid(0)
    p = ct.gather(positions, token)
    c = ct.load(cos, (p, 0), (1, D)).astype(ct.float32).reshape((1, 1, D))
    s = ct.load(sin, (p, 0), (1, D)).astype(ct.float32).reshape((1, 1, D))
    a = ct.load(q, (token, 0, 0), (1, H, D)).astype(ct.float32)
    b = ct.load(q, (token, 0, 1), (1, H, D)).astype(ct.float32)
    ct.store(q, (token, 0, 0), (a * c - b * s).astype(q.dtype))
    ct.store(q, (token, 0, 1), (b * c + a * s).astype(q.dtype))
    a = ct.load(k, (token, 0, 0), (1, K, D)).astype(ct.float32)
    b = ct.load(k, (token, 0, 1), (1, K, D)).astype(ct.float32)
    ct.store(k, (token, 0, 0), (a * c - b * s).astype(k.dtype))
    ct.store(k, (token, 0, 1), (b * c + a * s).astype(k.dtype))


@ct.kernel
def smooth_loss(x, labels, loss, smoothing, N: ct.Constant[int], T: ct.Constant[int]):
    """Cross entropy with label smoothing, a row a tile."""
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at), padding_value=-INF).astype(ct.float32)
    top = ct.max(v)
    total = ct.sum(ct.exp(v - top))
    mean = ct.sum(ct.where(at < N, v, 0.0)) / N
    wanted = ct.gather(x, (row, ct.gather(labels, row))).astype(ct.float32)
    ct.scatter(loss, row, ct.log(total) + top - (1.0 - smoothing) * wanted - smoothing * mean)


@ct.kernel
def bias_softmax(x, bias, out, scale, T: ct.Constant[int]):
    """Scores (batch, heads, S, S) with a bias for each head, and a mask of what comes later."""
    row, bh = ct.bid(0), ct.bid(1)
    head = bh % bias.shape[0]
    at = ct.arange(T, dtype=ct.int32)
    v = ct.load(x, (bh, row, 0), (1, 1, T)).astype(ct.float32).reshape((T,)) * scale
    v = v + ct.load(bias, (head, row, 0), (1, 1, T)).astype(ct.float32).reshape((T,))
    v = ct.where(at <= row, v, -INF)
    e = ct.exp(v - ct.max(v))
    ct.store(out, (bh, row, 0), (e / ct.sum(e)).astype(out.dtype).reshape((1, 1, T)))


@ct.kernel
def column_sums(parts, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    """The second stage of gradients of weights: sums of what blocks have summed up."""
    j = ct.bid(0)
    total = ct.zeros((TM, TN), ct.float32)
    for i in range(ct.cdiv(parts.shape[0], TM)):
        total += ct.load(parts, (i, j), (TM, TN), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (j,), ct.sum(total, axis=0).astype(out.dtype))


@ct.kernel
def embedding_padded(table, tokens, out, pad, scale, T: ct.Constant[int]):
    """Rows of a table, scaled, and zeros for the token that pads."""
    i, j = ct.bid(0), ct.bid(1)
    token = ct.gather(tokens, i)
    at = j * T + ct.arange(T, dtype=ct.int32)
    v = ct.gather(table, (token, at), padding_value=0).astype(ct.float32) * scale
    ct.scatter(out, (i, at), ct.where(token == pad, 0.0, v).astype(out.dtype))


@ct.kernel
def top_p(p, out, limit, T: ct.Constant[int]):
    """Probabilities in falling order: those whose sum reaches the limit stay, and are scaled to one."""
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(p, (row, at), padding_value=0)
    kept = ct.where(ct.cumsum(v) - v <= limit, v, 0.0)
    ct.scatter(out, (row, at), kept / ct.sum(kept))


@ct.kernel
def padded_images(x, out, P: ct.Constant[int], T: ct.Constant[int]):
    """Zeros around images (planes, H, W), a row a block."""
    row, plane = ct.bid(0), ct.bid(1)
    at = ct.arange(T, dtype=ct.int32)
    y, column = row - P, at - P
    inside = (column >= 0) & (column < x.shape[2]) & (y >= 0) & (y < x.shape[1])
    v = ct.gather(x, (plane, y, column), mask=inside, padding_value=0)
    ct.scatter(out, (plane, row, at), v)


@ct.kernel
def cropped_images(x, out, P: ct.Constant[int], TM: ct.Constant[int], T: ct.Constant[int]):
    """The middle of images (planes, H, W), several rows a block."""
    i, plane = ct.bid(0), ct.bid(1)
    y = (i * TM + ct.arange(TM, dtype=ct.int32))[:, None]
    at = ct.arange(T, dtype=ct.int32)[None, :]
    inside = (y < out.shape[1]) & (at < out.shape[2])
    v = ct.gather(x, (plane, y + P, at + P), mask=inside, padding_value=0)
    ct.scatter(out, (plane, y, at), v, mask=inside)


@ct.kernel
def bias_gelu(x, bias, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, j), (TM, TN)).astype(ct.float32) + ct.load(bias, (j,), (TN,)).astype(ct.float32)[None, :]
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    ct.store(out, (i, j), (0.5 * v * (1.0 + ct.tanh(inner))).astype(out.dtype))


@ct.kernel
def adamw(p, grad, m, v, rate, beta1, beta2, eps, decay, first, second, T: ct.Constant[int]):
    """A step of AdamW in place; ``first`` and ``second`` correct the averages."""
    i = ct.bid(0)
    g = ct.load(grad, (i,), (T,)).astype(ct.float32)
    w = ct.load(p, (i,), (T,))
    a = beta1 * ct.load(m, (i,), (T,)) + (1.0 - beta1) * g
    b = beta2 * ct.load(v, (i,), (T,)) + (1.0 - beta2) * g * g
    ct.store(m, (i,), a)
    ct.store(v, (i,), b)
    step = (a * first) / (ct.sqrt(b * second) + eps)
    ct.store(p, (i,), w - rate * (step + decay * w))


@ct.kernel
def masked_mean(x, lengths, out, TS: ct.Constant[int], TD: ct.Constant[int]):
    """Means over the tokens of each sequence (batch, S, D), of which each has its length."""
    b, j = ct.bid(0), ct.bid(1)
    n = ct.gather(lengths, b)
    total = ct.zeros((1, TD), ct.float32)
    for i in range(ct.cdiv(n, TS)):
        v = ct.load(x, (b, i, j), (1, TS, TD), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32).reshape((TS, TD))
        rows = i * TS + ct.arange(TS, dtype=ct.int32)
        total += ct.sum(ct.where((rows < n)[:, None], v, 0.0), axis=0, keepdims=True)
    ct.store(out, (b, j), (total / n).astype(out.dtype))


@ct.kernel
def group_norm(x, weight, bias, out, eps, C: ct.Constant[int], T: ct.Constant[int]):
    """Groups of C channels of images (batch, channels, pixels): sums in two loops, and once more to normalize."""
    b, g = ct.bid(0), ct.bid(1)
    pixels = x.shape[2]
    s, q = 0.0, 0.0
    for c in range(C):
        for j in range(ct.cdiv(pixels, T)):
            v = ct.load(x, (b, g * C + c, j), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
            s += ct.sum(v)
            q += ct.sum(v * v)
    n = C * pixels
    mean = s / n
    r = ct.rsqrt(q / n - mean * mean + eps)
    for c in range(C):
        w = ct.gather(weight, g * C + c).astype(ct.float32) * r
        h = ct.gather(bias, g * C + c).astype(ct.float32)
        for j in range(ct.cdiv(pixels, T)):
            v = ct.load(x, (b, g * C + c, j), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
            ct.store(out, (b, g * C + c, j), ((v - mean) * w + h).astype(out.dtype))
