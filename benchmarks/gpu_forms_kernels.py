"""Kernels that wait for memory, as strangers write them, with the tiles and grids that come to mind first."""

from __future__ import annotations

import math

import tilewright as ct

INF = math.inf


@ct.kernel
def rotary_pairs(x, cos, sin, out, H: ct.Constant[int], D: ct.Constant[int]):
    """Pairs side by side: x and out are (tokens, H, D, 2)."""
    token = ct.bid(0)
    c = ct.load(cos, (token, 0), (1, D)).reshape((1, 1, D, 1))
    s = ct.load(sin, (token, 0), (1, D)).reshape((1, 1, D, 1))
    a = ct.load(x, (token, 0, 0, 0), (1, H, D, 1)).astype(ct.float32)
    b = ct.load(x, (token, 0, 0, 1), (1, H, D, 1)).astype(ct.float32)
    ct.store(out, (token, 0, 0, 0), (a * c - b * s).astype(out.dtype))
    ct.store(out, (token, 0, 0, 1), (b * c + a * s).astype(out.dtype))


@ct.kernel
def rotary_gather(x, cos, sin, out, H: ct.Constant[int], D: ct.Constant[int]):
    """One head a block, by gathers: x is (tokens, 2 H D)."""
    token, head = ct.bid(0), ct.bid(1)
    at = ct.arange(D, dtype=ct.int32)
    c = ct.gather(cos, (token, at))
    s = ct.gather(sin, (token, at))
    a = ct.gather(x, (token, head * 2 * D + at)).astype(ct.float32)
    b = ct.gather(x, (token, head * 2 * D + D + at)).astype(ct.float32)
    ct.scatter(out, (token, head * 2 * D + at), (a * c - b * s).astype(out.dtype))
    ct.scatter(out, (token, head * 2 * D + D + at), (b * c + a * s).astype(out.dtype))


@ct.kernel
def int4_rows(q, scales, out, T: ct.Constant[int]):
    """Two values of 4 bits in a byte, with a scale for each 128: out is (rows, n / 2, 2)."""
    row, j = ct.bid(0), ct.bid(1)
    b = ct.load(q, (row, j), (1, T)).astype(ct.int32)
    s = ct.load(scales, (row, j), (1, 1))
    low = ((b & 15) - 8).astype(ct.float32) * s
    high = (((b >> 4) & 15) - 8).astype(ct.float32) * s
    ct.store(out, (row, j, 0), low.astype(out.dtype).reshape((1, T, 1)))
    ct.store(out, (row, j, 1), high.astype(out.dtype).reshape((1, T, 1)))


@ct.kernel
def row_cumsum(x, out, T: ct.Constant[int]):
    row = ct.bid(0)
    v = ct.load(x, (row, 0), (1, T)).astype(ct.float32)
    ct.store(out, (row, 0), ct.cumsum(v, axis=1).astype(out.dtype))


@ct.kernel
def swap_axes(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    """(B, M, N, D) to (B, N, M, D): heads and tokens."""
    b, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    v = ct.load(x, (b, i, j, 0), (1, TM, TN, 128))
    ct.store(out, (b, j, i, 0), ct.permute(v, (0, 2, 1, 3)))


@ct.kernel
def batched_transpose(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    b, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    v = ct.load(x, (b, i, j), (1, TM, TN))
    ct.store(out, (b, j, i), ct.permute(v, (0, 2, 1)))


@ct.kernel
def masked_fill(x, mask, out, T: ct.Constant[int]):
    at = ct.bid(0), ct.bid(1)
    v, m = ct.load(x, at, (1, T)), ct.load(mask, at, (1, T))
    ct.store(out, at, ct.where(m != 0, -1.0e4, v.astype(ct.float32)).astype(out.dtype))


@ct.kernel
def welford(x, mean_out, var_out, T: ct.Constant[int]):
    """Mean and variance of each row, in steps."""
    row, n = ct.bid(0), x.shape[1]
    mean, m2, count = ct.zeros((1, 1), ct.float32), ct.zeros((1, 1), ct.float32), ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(n, T)):
        v = ct.load(x, (row, j), (1, T)).astype(ct.float32)
        m = ct.sum(v, axis=1, keepdims=True) / T
        d = v - m
        s = ct.sum(d * d, axis=1, keepdims=True)
        delta = m - mean
        total = count + T
        m2 += s + delta * delta * count * T / total
        mean += delta * T / total
        count = total
    ct.store(mean_out, (row,), mean.reshape((1,)))
    ct.store(var_out, (row,), (m2 / count).reshape((1,)))


@ct.kernel
def column_mean(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    j = ct.bid(0)
    total = ct.zeros((TN,), ct.float32)
    for i in range(ct.cdiv(x.shape[0], TM)):
        total += ct.sum(ct.load(x, (i, j), (TM, TN), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32), axis=0)
    ct.store(out, (j,), total / x.shape[0])


@ct.kernel
def histogram(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.atomic_add(out, ct.load(x, (i,), (T,)), 1)


@ct.kernel
def concat(x, y, out, T: ct.Constant[int]):
    row = ct.bid(0)
    for j in range(x.shape[1] // T):
        ct.store(out, (row, j), ct.load(x, (row, j), (1, T)))
    for j in range(y.shape[1] // T):
        ct.store(out, (row, x.shape[1] // T + j), ct.load(y, (row, j), (1, T)))


@ct.kernel
def embedding_backward(rows, grad, dtable, T: ct.Constant[int]):
    i = ct.bid(0)
    r = ct.gather(rows, i)
    at = ct.arange(T, dtype=ct.int32)
    ct.atomic_add(dtable, (r, at), ct.load(grad, (i, 0), (1, T)).reshape((T,)).astype(dtable.dtype))


@ct.kernel
def fp8_rows(x, scales, out, T: ct.Constant[int]):
    """To 8-bit floats, with a scale for each 128."""
    row, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (row, j), (1, T)).astype(ct.float32).reshape((T // 128, 128))
    s = ct.maximum(ct.max(ct.abs(v), axis=1, keepdims=True), 1e-8) / 448.0
    ct.store(scales, (row, j), s.reshape((1, T // 128)))
    ct.store(out, (row, j), (v / s).reshape((1, T)).astype(out.dtype))


@ct.kernel
def entropy_gathers(x, labels, loss, T: ct.Constant[int]):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    top = ct.full((T,), -INF, ct.float32)
    total = ct.zeros((T,), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        v = ct.gather(x, (row, j * T + at), padding_value=-INF).astype(ct.float32)
        new = ct.maximum(top, v)
        total = total * ct.exp(top - new) + ct.exp(v - new)
        top = new
    m = ct.max(top)
    s = ct.sum(total * ct.exp(top - m))
    wanted = ct.gather(x, (row, ct.gather(labels, row))).astype(ct.float32)
    ct.scatter(loss, row, ct.log(s) + m - wanted)


@ct.kernel
def silu_mul_row(x, out, N: ct.Constant[int], T: ct.Constant[int]):
    """One row a block, by gathers, with a tile that is larger than the row."""
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    g = ct.gather(x, (row, at), padding_value=0.0).astype(ct.float32)
    u = ct.gather(x, (row, at + N), padding_value=0.0).astype(ct.float32)
    s = 1.0 / (1.0 + ct.exp(-g))
    ct.scatter(out, (row, at), (g * s * u).astype(out.dtype))


@ct.kernel
def silu_mul_2d(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    """Tiles of several rows; both halves are in one array."""
    i, j = ct.bid(0), ct.bid(1)
    half = ct.num_blocks(1)
    g = ct.load(x, (i, j), (TM, TN)).astype(ct.float32)
    u = ct.load(x, (i, j + half), (TM, TN)).astype(ct.float32)
    ct.store(out, (i, j), (g / (1 + ct.exp(-g)) * u).astype(out.dtype))


@ct.kernel
def add_rms_gather(x, residual, weight, out, eps, N: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at), padding_value=0.0).astype(ct.float32)
    v = v + ct.gather(residual, (row, at), padding_value=0.0).astype(ct.float32)
    ct.scatter(residual, (row, at), v.astype(residual.dtype))
    r = ct.rsqrt(ct.sum(v * v) / N + eps)
    w = ct.gather(weight, at, padding_value=0.0).astype(ct.float32)
    ct.scatter(out, (row, at), (v * r * w).astype(out.dtype))


@ct.kernel
def entropy_loss_grad(x, labels, loss, dx, T: ct.Constant[int]):
    """Loss and gradient of a row, in steps by gathers."""
    row, n = ct.bid(0), x.shape[1]
    label = ct.gather(labels, row)
    at = ct.arange(T, dtype=ct.int32)
    m = -INF
    d = 0.0
    for i in range(ct.cdiv(n, T)):
        v = ct.gather(x, (row, i * T + at), padding_value=-INF).astype(ct.float32)
        m_new = max(m, ct.max(v))
        d = d * ct.exp(m - m_new) + ct.sum(ct.exp(v - m_new))
        m = m_new
    for i in range(ct.cdiv(n, T)):
        c = i * T + at
        v = ct.gather(x, (row, c), padding_value=-INF).astype(ct.float32)
        p = ct.exp(v - m) / d
        ct.scatter(dx, (row, c), ct.where(c == label, p - 1.0, p).astype(dx.dtype))
    ct.scatter(loss, row, m + ct.log(d) - ct.gather(x, (row, label)).astype(ct.float32))


@ct.kernel
def layer_norm_rows(x, weight, bias, out, eps, TM: ct.Constant[int], N: ct.Constant[int]):
    """Several rows a block."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (TM, N)).astype(ct.float32)
    mean = ct.sum(v, axis=1, keepdims=True) / N
    v = v - mean
    var = ct.sum(v * v, axis=1, keepdims=True) / N
    w, b = ct.load(weight, (0,), (N,)).astype(ct.float32), ct.load(bias, (0,), (N,)).astype(ct.float32)
    ct.store(out, (i, 0), (v * ct.rsqrt(var + eps) * w + b).astype(out.dtype))


@ct.kernel
def dropout_rounds(x, out, seed, T: ct.Constant[int]):
    """Ten rounds of a hash with products of 32 by 32 bits, as Philox has them."""
    i = ct.bid(0)
    c0 = ct.arange(T, dtype=ct.uint32) + (i * T).astype(ct.uint32)
    c1 = ct.zeros((T,), ct.uint32)
    k = seed.astype(ct.uint32)
    for _ in ct.static_iter(range(10)):
        p = c0.astype(ct.uint64) * 0xD256D193
        c0 = (p >> 32).astype(ct.uint32) ^ k ^ c1
        c1 = p.astype(ct.uint32)
        k = k + 0x9E3779B9
    u = (c0 >> 8).astype(ct.float32) * (1.0 / 16777216.0)
    v = ct.load(x, (i,), (T,)).astype(ct.float32)
    ct.store(out, (i,), ct.where(u >= 0.125, v * (1.0 / 0.875), 0.0).astype(out.dtype))


@ct.kernel
def int4_halves(q, scales, zeros, out, G: ct.Constant[int], K: ct.Constant[int]):
    """Low halves of bytes are the first half of a row, high ones the second; a scale and a zero point for each G."""
    row, j = ct.bid(0), ct.bid(1)
    b = ct.load(q, (row, j), (1, K * G)).astype(ct.int32).reshape((K, G))
    half = ct.num_blocks(1)
    s = ct.load(scales, (row, j), (1, K)).reshape((K, 1)).astype(ct.float32)
    z = ct.load(zeros, (row, j), (1, K)).reshape((K, 1)).astype(ct.float32)
    low = ((b & 15).astype(ct.float32) - z) * s
    ct.store(out, (row, j), low.reshape((1, K * G)).astype(out.dtype))
    s = ct.load(scales, (row, j + half), (1, K)).reshape((K, 1)).astype(ct.float32)
    z = ct.load(zeros, (row, j + half), (1, K)).reshape((K, 1)).astype(ct.float32)
    high = (((b >> 4) & 15).astype(ct.float32) - z) * s
    ct.store(out, (row, j + half), high.reshape((1, K * G)).astype(out.dtype))


@ct.kernel
def fp8_blocks(q, scales, out, B: ct.Constant[int]):
    """Blocks of B by B with a scale each."""
    i, j = ct.bid(0), ct.bid(1)
    s = ct.load(scales, (i, j), (1, 1))
    ct.store(out, (i, j), (ct.load(q, (i, j), (B, B)).astype(ct.float32) * s).astype(out.dtype))


@ct.kernel
def fp8_groups(q, scales, out, TM: ct.Constant[int], G: ct.Constant[int]):
    """A scale for each G of a row, several rows a block."""
    i, j = ct.bid(0), ct.bid(1)
    s = ct.load(scales, (i, j), (TM, 1))
    ct.store(out, (i, j), (ct.load(q, (i, j), (TM, G)).astype(ct.float32) * s).astype(out.dtype))


@ct.kernel
def softmax_online(x, out, T: ct.Constant[int]):
    row, n = ct.bid(0), x.shape[1]
    at = ct.arange(T, dtype=ct.int32)
    m, d = -INF, 0.0
    for i in range(ct.cdiv(n, T)):
        v = ct.gather(x, (row, i * T + at), padding_value=-INF).astype(ct.float32)
        m_new = max(m, ct.max(v))
        d = d * ct.exp(m - m_new) + ct.sum(ct.exp(v - m_new))
        m = m_new
    for i in range(ct.cdiv(n, T)):
        v = ct.gather(x, (row, i * T + at), padding_value=-INF).astype(ct.float32)
        ct.scatter(out, (row, i * T + at), (ct.exp(v - m) / d).astype(out.dtype))


@ct.kernel
def top_experts(x, values, numbers, TM: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The K largest of each row, one after another."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (TM, N)).astype(ct.float32)
    at = ct.arange(N, dtype=ct.int32)[None, :]
    for k in range(K):
        best = ct.argmax(v, axis=1, keepdims=True)
        ct.store(values, (i, k), ct.max(v, axis=1, keepdims=True))
        ct.store(numbers, (i, k), best)
        v = ct.where(at == best, -INF, v)


@ct.kernel
def group_norm_last(x, weight, bias, out, eps, S: ct.Constant[int], C: ct.Constant[int]):
    """x is (batch, S, groups, C): channels last."""
    b, g = ct.bid(0), ct.bid(1)
    v = ct.load(x, (b, 0, g, 0), (1, S, 1, C)).reshape((S, C)).astype(ct.float32)
    mean = ct.sum(v) / (S * C)
    d = v - mean
    r = ct.rsqrt(ct.sum(d * d) / (S * C) + eps)
    w = ct.load(weight, (g, 0), (1, C)).astype(ct.float32)
    h = ct.load(bias, (g, 0), (1, C)).astype(ct.float32)
    ct.store(out, (b, 0, g, 0), (d * r * w + h).astype(out.dtype).reshape((1, S, 1, C)))


@ct.kernel
def argmax_rows(x, out, TM: ct.Constant[int], N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.argmax(ct.load(x, (i, 0), (TM, N)), axis=1))


@ct.kernel
def argmax_steps(x, out, T: ct.Constant[int]):
    """Argmax of long rows in steps."""
    row, n = ct.bid(0), x.shape[1]
    best, at = -INF, 0
    for j in range(ct.cdiv(n, T)):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        m = ct.max(v)
        k = ct.argmax(v.reshape((T,)), axis=0) + j * T
        at = ct.where(m > best, k, at)
        best = max(best, m)
    ct.scatter(out, row, at)


@ct.kernel
def transpose_tiles(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (TM, TN))))


@ct.kernel
def channels_last(x, out, TC: ct.Constant[int], TW: ct.Constant[int]):
    """NCHW to NHWC."""
    n, h, i = ct.bid(0), ct.bid(1), ct.bid(2)
    for c in range(ct.cdiv(x.shape[1], TC)):
        v = ct.load(x, (n, c, h, i), (1, TC, 1, TW))
        ct.store(out, (n, h, i, c), ct.permute(v, (0, 2, 3, 1)))


@ct.kernel
def heads_first(x, out, TS: ct.Constant[int], D: ct.Constant[int]):
    """(B, S, H, D) to (B, H, S, D), one head a block."""
    b, s, h = ct.bid(0), ct.bid(1), ct.bid(2)
    v = ct.load(x, (b, s, h, 0), (1, TS, 1, D)).reshape((TS, D))
    ct.store(out, (b, h, s, 0), v.reshape((1, 1, TS, D)))


@ct.kernel
def permute_3210(x, out, T: ct.Constant[int]):
    """All four axes turned around."""
    a, b, i = ct.bid(0), ct.bid(1), ct.bid(2)
    n = x.shape[0] // T
    v = ct.load(x, (i % n, a, b, i // n), (T, 1, 1, T))
    ct.store(out, (i // n, b, a, i % n), ct.permute(v, (3, 2, 1, 0)))


@ct.kernel
def rotary_interleaved(x, cos, sin, out, D: ct.Constant[int]):
    """Pairs side by side, by gathers: x is (tokens, heads * D), a head a block."""
    token, head = ct.bid(0), ct.bid(1)
    i = ct.arange(D // 2, dtype=ct.int32)
    c, s = ct.gather(cos, (token, i)), ct.gather(sin, (token, i))
    even = head * D + 2 * i
    a = ct.gather(x, (token, even)).astype(ct.float32)
    b = ct.gather(x, (token, even + 1)).astype(ct.float32)
    ct.scatter(out, (token, even), (a * c - b * s).astype(out.dtype))
    ct.scatter(out, (token, even + 1), (a * s + b * c).astype(out.dtype))


@ct.kernel
def rotary_heads(x, cos, sin, out, H: ct.Constant[int], D: ct.Constant[int]):
    """Halves, all heads of a token by gathers of a matrix of places."""
    token = ct.bid(0)
    i = ct.arange(D // 2, dtype=ct.int32)[None, :]
    at = ct.arange(H, dtype=ct.int32)[:, None] * D + i
    c, s = ct.gather(cos, (token, i)), ct.gather(sin, (token, i))
    a = ct.gather(x, (token, at)).astype(ct.float32)
    b = ct.gather(x, (token, at + D // 2)).astype(ct.float32)
    ct.scatter(out, (token, at), (a * c - b * s).astype(out.dtype))
    ct.scatter(out, (token, at + D // 2), (b * c + a * s).astype(out.dtype))


@ct.kernel
def cache_copy(k, v, slots, kcache, vcache, PAGE: ct.Constant[int], T: ct.Constant[int]):
    """Keys and values of a token to its place in pages: caches are (pages, PAGE, heads * D)."""
    token = ct.bid(0)
    slot = ct.gather(slots, token)
    at = ct.arange(T, dtype=ct.int32)
    ct.scatter(kcache, (slot // PAGE, slot % PAGE, at), ct.gather(k, (token, at)))
    ct.scatter(vcache, (slot // PAGE, slot % PAGE, at), ct.gather(v, (token, at)))


@ct.kernel
def residual_gate(x, gate, y, out, T: ct.Constant[int]):
    """x + sigmoid(gate) * y, a gate for each row."""
    row, j = ct.bid(0), ct.bid(1)
    g = 1.0 / (1.0 + ct.exp(-ct.load(gate, (row,), (1,)).astype(ct.float32)))
    v = ct.load(x, (row, j), (1, T)).astype(ct.float32) + g[:, None] * ct.load(y, (row, j), (1, T)).astype(ct.float32)
    ct.store(out, (row, j), v.astype(out.dtype))


@ct.kernel
def sum_axis0(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    """Sums of columns by atomics, as the gradient of a bias."""
    i, j = ct.bid(0), ct.bid(1)
    v = ct.sum(ct.load(x, (i, j), (TM, TN)).astype(ct.float32), axis=0)
    ct.atomic_add(out, j * TN + ct.arange(TN, dtype=ct.int32), v)


@ct.kernel
def rms_norm_heads(x, weight, out, eps, TM: ct.Constant[int], D: ct.Constant[int]):
    """Norms of heads, as those of queries and keys: x is (tokens * heads, D)."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (TM, D)).astype(ct.float32)
    w = ct.load(weight, (0,), (D,)).astype(ct.float32)
    r = ct.rsqrt(ct.sum(v * v, axis=1, keepdims=True) / D + eps)
    ct.store(out, (i, 0), (v * r * w).astype(out.dtype))


@ct.kernel
def geglu_erf(x, out, N: ct.Constant[int], T: ct.Constant[int]):
    """Gated GELU by the polynomial of erf (Abramowitz and Stegun 7.1.26)."""
    row, j = ct.bid(0), ct.bid(1)
    at = j * T + ct.arange(T, dtype=ct.int32)
    g = ct.gather(x, (row, at)).astype(ct.float32)
    u = ct.gather(x, (row, at + N)).astype(ct.float32)
    z = ct.abs(g) * 0.7071067811865476
    t = 1.0 / (1.0 + 0.3275911 * z)
    e = 1.0 - t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    ) * ct.exp(-z * z)
    erf = ct.where(g < 0, -e, e)
    ct.scatter(out, (row, at), (0.5 * g * (1.0 + erf) * u).astype(out.dtype))
