"""The tile kernels that ``benchmarks/cpu_forms.py`` times, as people write them for GPUs."""

from __future__ import annotations

import math

import tilewright as ct

F32, I32 = ct.float32, ct.int32
ZERO, LOWEST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
SQRT_2_PI = math.sqrt(2 / math.pi)


@ct.kernel
def group_norm(x, weight, bias, out, epsilon, CHANNELS: ct.Constant[int], S: ct.Constant[int]):
    """A group of channels a block, of x (batch, channels, positions)."""
    n, g = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (n, g, 0), (1, CHANNELS, S)).reshape((CHANNELS, S)).astype(F32)
    distance = tile - ct.sum(ct.sum(tile, axis=1), axis=0) * (1.0 / (CHANNELS * S))
    variance = ct.sum(ct.sum(distance * distance, axis=1), axis=0) * (1.0 / (CHANNELS * S))
    scale, shift = ct.load(weight, (g,), (CHANNELS,)), ct.load(bias, (g,), (CHANNELS,))
    result = distance * ct.rsqrt(variance + epsilon) * scale[:, None] + shift[:, None]
    ct.store(out, (n, g, 0), result.reshape((1, CHANNELS, S)).astype(out.dtype))


@ct.kernel
def log_softmax(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (1, T), padding_mode=LOWEST).astype(F32)
    tile = tile - ct.max(tile, axis=1, keepdims=True)
    ct.store(out, (i, 0), (tile - ct.log(ct.sum(ct.exp(tile), axis=1, keepdims=True))).astype(out.dtype))


@ct.kernel
def geglu_backward(gradient, a, b, db, da, T: ct.Constant[int]):
    i, o = ct.bid(0), ct.arange(T, dtype=I32)
    g = ct.gather(gradient, (i, o), padding_value=0.0).astype(F32)
    x = ct.gather(a, (i, o), padding_value=0.0).astype(F32)
    y = ct.gather(b, (i, o), padding_value=0.0).astype(F32)
    t = ct.tanh(SQRT_2_PI * (x + 0.044715 * x * x * x))
    ct.scatter(db, (i, o), (g * 0.5 * x * (1 + t)).astype(db.dtype))
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (SQRT_2_PI * (1 + 3 * 0.044715 * x * x))
    ct.scatter(da, (i, o), (g * y * slope).astype(da.dtype))


@ct.kernel
def rope(q, cos, sin, out, HEADS: ct.Constant[int], HALF: ct.Constant[int]):
    """The heads of a token a block, of q (tokens, heads, 2 * HALF)."""
    t = ct.bid(0)
    c = ct.load(cos, (t, 0), (1, HALF)).reshape((1, 1, HALF))
    s = ct.load(sin, (t, 0), (1, HALF)).reshape((1, 1, HALF))
    a = ct.load(q, (t, 0, 0), (1, HEADS, HALF)).astype(F32)
    b = ct.load(q, (t, 0, 1), (1, HEADS, HALF)).astype(F32)
    ct.store(out, (t, 0, 0), (a * c - b * s).astype(out.dtype))
    ct.store(out, (t, 0, 1), (b * c + a * s).astype(out.dtype))


@ct.kernel
def rms_norm_residual(x, residual, weight, out, epsilon, T: ct.Constant[int]):
    i, o = ct.bid(0), ct.arange(T, dtype=I32)
    h = ct.gather(x, (i, o), padding_value=0.0).astype(F32) + ct.gather(residual, (i, o), padding_value=0.0).astype(F32)
    ct.scatter(residual, (i, o), h.astype(residual.dtype))
    inverse = ct.rsqrt(ct.sum(h * h) / x.shape[1] + epsilon)
    ct.scatter(out, (i, o), (h * inverse * ct.gather(weight, o, padding_value=0.0).astype(F32)).astype(out.dtype))


@ct.kernel
def layer_norm_backward(gradient, x, weight, mean, rstd, dw, db, dx, M: ct.Constant[int], T: ct.Constant[int]):
    """Persistent: each block has every so many rows, and adds its sums of columns in the end."""
    scale = ct.load(weight, (0,), (T,)).astype(F32)
    of_weight = of_bias = ct.zeros((T,), F32)
    for i in range(ct.bid(0), M, ct.num_blocks(0)):
        g = ct.load(gradient, (i, 0), (1, T)).reshape((T,)).astype(F32)
        value = ct.load(x, (i, 0), (1, T)).reshape((T,)).astype(F32)
        inverse = ct.gather(rstd, i)
        normal, scaled = (value - ct.gather(mean, i)) * inverse, scale * g
        first, second = ct.sum(normal * scaled) * (1.0 / T), ct.sum(scaled) * (1.0 / T)
        ct.store(dx, (i, 0), ((scaled - (normal * first + second)) * inverse).reshape((1, T)).astype(dx.dtype))
        of_weight += g * normal
        of_bias += g
    ct.atomic_add(dw, ct.arange(T, dtype=I32), of_weight)
    ct.atomic_add(db, ct.arange(T, dtype=I32), of_bias)


@ct.kernel
def quantization(x, scale, out, T: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (1, T)).astype(F32)
    largest = ct.max(ct.abs(tile)) * (1.0 / 127)
    ct.scatter(scale, i, largest)
    ct.store(out, (i, 0), ct.floor(tile / largest + 0.5).astype(ct.int8))


@ct.kernel
def dequantization(q, scale, out, G: ct.Constant[int], T: ct.Constant[int]):
    """Eight numbers of four bits a word, along the rows of out; a scale for G of them."""
    i, j = ct.bid(0), ct.bid(1)
    words, factor = ct.load(q, (i, j), (G // 8, T)), ct.load(scale, (i, j), (1, T))
    numbers = (words[:, None, :] >> (ct.arange(8, dtype=I32) * 4)[None, :, None]) & 15
    ct.store(out, (i, j), ((numbers - 8).astype(F32).reshape((G, T)) * factor).astype(out.dtype))


@ct.kernel
def embedding(table, rows, out, T: ct.Constant[int]):
    i, o = ct.bid(0), ct.bid(1) * T + ct.arange(T, dtype=I32)
    ct.scatter(out, (i, o), ct.gather(table, (ct.gather(rows, i), o)))


@ct.kernel
def argmax(x, out, R: ct.Constant[int], T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.argmax(ct.load(x, (i, 0), (R, T), padding_mode=LOWEST), axis=1))


@ct.kernel
def gating(logits, expert, weight, R: ct.Constant[int], E: ct.Constant[int]):
    """The two likeliest experts of a token."""
    i = ct.bid(0)
    tile = ct.load(logits, (i, 0), (R, E), padding_mode=LOWEST)
    p = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    p = p / ct.sum(p, axis=1, keepdims=True)
    for k in ct.static_iter(range(2)):
        best = ct.argmax(p, axis=1, keepdims=True)
        ct.store(expert, (i, k), best)
        ct.store(weight, (i, k), ct.max(p, axis=1, keepdims=True))
        p = ct.where(ct.arange(E, dtype=I32)[None, :] == best, -1.0, p)


@ct.kernel
def convolution(x, weight, out, K: ct.Constant[int], T: ct.Constant[int]):
    """Causal, each channel for itself."""
    channel, positions = ct.bid(0), ct.bid(1) * T + ct.arange(T, dtype=I32)
    total = ct.zeros((T,), F32)
    for k in range(K):
        total += ct.gather(weight, (channel, k)) * ct.gather(x, (channel, positions - (K - 1 - k)), padding_value=0.0)
    ct.scatter(out, (channel, positions), total * (1 / (1 + ct.exp(-total))))


@ct.kernel
def pooling(x, out, H: ct.Constant[int], W: ct.Constant[int]):
    """The largest of each 2 x 2."""
    n, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    rows = (i * H + ct.arange(H, dtype=I32))[:, None] * 2
    columns = (j * W + ct.arange(W, dtype=I32))[None, :] * 2
    best = ct.full((H, W), -math.inf, F32)
    for a in range(2):
        for b in range(2):
            best = ct.maximum(best, ct.gather(x, (n, rows + a, columns + b), padding_value=-math.inf))
    ct.store(out, (n, i, j), best.reshape((1, H, W)))


@ct.kernel
def column_sums(x, out, R: ct.Constant[int], T: ct.Constant[int]):
    """Running sums down the columns, some rows at a time."""
    j, before = ct.bid(0), ct.zeros((1, T), F32)
    for i in range(ct.num_tiles(x, 0, (R, T))):
        sums = ct.cumsum(ct.load(x, (i, j), (R, T), padding_mode=ZERO), axis=0) + before
        ct.store(out, (i, j), sums)
        before = ct.extract(sums, (R - 1, 0), (1, T))


@ct.kernel
def small_matmuls(a, b, c, S: ct.Constant[int]):
    i = ct.bid(0)
    left, right = ct.load(a, (i, 0, 0), (1, S, S)).reshape((S, S)), ct.load(b, (i, 0, 0), (1, S, S)).reshape((S, S))
    ct.store(c, (i, 0, 0), ct.mma(left, right, ct.zeros((S, S), F32)).reshape((1, S, S)))


@ct.kernel
def matrix_vector(a, x, y, R: ct.Constant[int], T: ct.Constant[int]):
    i, total = ct.bid(0), ct.zeros((R, T), F32)
    for k in range(ct.num_tiles(a, 1, (R, T))):
        total += ct.load(a, (i, k), (R, T)) * ct.load(x, (k,), (T,)).reshape((1, T))
    ct.store(y, (i,), ct.sum(total, axis=1))


@ct.kernel
def top_k(x, values, K: ct.Constant[int], T: ct.Constant[int]):
    """The largest of a row again and again."""
    i, columns = ct.bid(0), ct.arange(T, dtype=I32)
    row = ct.load(x, (i, 0), (1, T), padding_mode=LOWEST).reshape((T,))
    for k in range(K):
        best = ct.argmax(row, axis=0)
        ct.scatter(values, (i, k), ct.max(row))
        row = ct.where(columns == best, -math.inf, row)


@ct.kernel
def cross_entropy(logits, labels, loss, V: ct.Constant[int], T: ct.Constant[int]):
    """Of some columns at a time, whose maximum and sum are put right."""
    i = ct.bid(0)
    largest, total = ct.full((), -math.inf, F32), ct.zeros((), F32)
    for j in range(ct.cdiv(V, T)):
        tile = ct.load(logits, (i, j), (1, T), padding_mode=LOWEST).astype(F32)
        new = ct.maximum(largest, ct.max(tile))
        total = total * ct.exp(largest - new) + ct.sum(ct.exp(tile - new))
        largest = new
    at_label = ct.gather(logits, (i, ct.gather(labels, i))).astype(F32)
    ct.scatter(loss, i, ct.log(total) + largest - at_label)


@ct.function
def philox(counter, key):
    """The first of the four random numbers of Philox-4x32-7, a counter for each element."""
    c0, c1, k0, k1 = counter, ct.zeros(counter.shape, ct.uint32), key, key
    c2, c3 = c1, c1
    for _ in ct.static_iter(range(7)):
        a, b = c0.astype(ct.uint64) * 0xD2511F53, c2.astype(ct.uint64) * 0xCD9E8D57
        c0, c1 = (b >> 32).astype(ct.uint32) ^ c1 ^ k0, b.astype(ct.uint32)
        c2, c3 = (a >> 32).astype(ct.uint32) ^ c3 ^ k1, a.astype(ct.uint32)
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    return c0


@ct.kernel
def dropout(x, out, probability, seed, T: ct.Constant[int]):
    i = ct.bid(0)
    bits = philox((i * T + ct.arange(T, dtype=I32)).astype(ct.uint32), ct.uint32(seed))
    kept = (bits >> 8).astype(F32) * (1.0 / (1 << 24)) > probability
    ct.store(out, (i,), ct.where(kept, ct.load(x, (i,), (T,)) / (1 - probability), 0.0))


@ct.kernel
def running_mean(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    count = (1 + ct.arange(T, dtype=I32)).astype(F32)[None, :]
    ct.store(out, (i, 0), ct.cumsum(ct.load(x, (i, 0), (1, T)), axis=1) / count)


@ct.kernel
def integral_image(x, out, H: ct.Constant[int], W: ct.Constant[int]):
    """Running sums along both axes."""
    n = ct.bid(0)
    image = ct.load(x, (n, 0, 0), (1, H, W)).reshape((H, W))
    ct.store(out, (n, 0, 0), ct.cumsum(ct.cumsum(image, axis=1), axis=0).reshape((1, H, W)))


@ct.kernel
def embedding_backward(gradient, rows, table, T: ct.Constant[int]):
    i, o = ct.bid(0), ct.arange(T, dtype=I32)
    ct.atomic_add(table, (ct.gather(rows, i), o), ct.gather(gradient, (i, o), padding_value=0.0))


@ct.kernel
def bias_gelu(x, bias, out, R: ct.Constant[int], T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, j), (R, T)).astype(F32) + ct.load(bias, (j,), (T,)).astype(F32)[None, :]
    ct.store(out, (i, j), (0.5 * v * (1 + ct.tanh(SQRT_2_PI * (v + 0.044715 * v * v * v)))).astype(out.dtype))


@ct.kernel
def box_blur(x, out, H: ct.Constant[int], W: ct.Constant[int]):
    """The mean of 3 x 3, zeros around."""
    i, j, total = ct.bid(0), ct.bid(1), ct.zeros((H, W), F32)
    rows, columns = (i * H + ct.arange(H, dtype=I32))[:, None], (j * W + ct.arange(W, dtype=I32))[None, :]
    for a in range(-1, 2):
        for b in range(-1, 2):
            total += ct.gather(x, (rows + a, columns + b), padding_value=0.0)
    ct.store(out, (i, j), total * (1 / 9))


@ct.kernel
def masked_softmax(x, mask, out, scale, T: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (1, T), padding_mode=LOWEST).astype(F32) * scale
    tile = ct.where(ct.load(mask, (i, 0), (1, T)), tile, -math.inf)
    tile = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (i, 0), (tile / ct.sum(tile, axis=1, keepdims=True)).astype(out.dtype))


@ct.kernel
def rope_of_pairs(q, cos, sin, out, HEADS: ct.Constant[int], HALF: ct.Constant[int]):
    """Interleaved: each two neighbours of a head turn, of q (tokens, heads, 2 * HALF)."""
    t, head, even = ct.bid(0), ct.arange(HEADS, dtype=I32)[:, None], ct.arange(HALF, dtype=I32)[None, :] * 2
    c, s = ct.load(cos, (t, 0), (1, HALF)), ct.load(sin, (t, 0), (1, HALF))
    a, b = ct.gather(q, (t, head, even)).astype(F32), ct.gather(q, (t, head, even + 1)).astype(F32)
    ct.scatter(out, (t, head, even), (a * c - b * s).astype(out.dtype))
    ct.scatter(out, (t, head, even + 1), (b * c + a * s).astype(out.dtype))


@ct.kernel
def group_norm_channels_last(x, weight, bias, out, S: ct.Constant[int], C: ct.Constant[int], R: ct.Constant[int]):
    """A group of C channels a block, some positions at a time, of x (batch, positions, groups, C)."""
    n, g = ct.bid(0), ct.bid(1)
    total, squares = ct.zeros((R, C), F32), ct.zeros((R, C), F32)
    for i in range(S // R):
        v = ct.load(x, (n, i, g, 0), (1, R, 1, C)).reshape((R, C)).astype(F32)
        total += v
        squares += v * v
    mean = ct.sum(total) / (S * C)
    inverse = ct.rsqrt(ct.sum(squares) / (S * C) - mean * mean + 1e-5)
    scale, shift = ct.load(weight, (g, 0), (1, C)), ct.load(bias, (g, 0), (1, C))
    for i in range(S // R):
        v = ct.load(x, (n, i, g, 0), (1, R, 1, C)).reshape((R, C)).astype(F32)
        ct.store(out, (n, i, g, 0), ((v - mean) * inverse * scale + shift).astype(out.dtype).reshape((1, R, 1, C)))


@ct.kernel
def channels_to_last(x, out, C: ct.Constant[int], S: ct.Constant[int]):
    """(batch, channels, positions) to (batch, positions, channels)."""
    n, j = ct.bid(0), ct.bid(1)
    ct.store(out, (n, j, 0), ct.transpose(ct.load(x, (n, 0, j), (1, C, S)).reshape((C, S))).reshape((1, S, C)))


@ct.kernel
def complex_product(a, b, out, T: ct.Constant[int]):
    """Of complex numbers as rows of two."""
    i = ct.bid(0)
    x, y = ct.load(a, (i, 0), (T, 2)), ct.load(b, (i, 0), (T, 2))
    real_x, real_y = ct.extract(x, (0, 0), (T, 1)), ct.extract(y, (0, 0), (T, 1))
    imag_x, imag_y = ct.extract(x, (0, 1), (T, 1)), ct.extract(y, (0, 1), (T, 1))
    product = real_x * real_y - imag_x * imag_y, real_x * imag_y + imag_x * real_y
    ct.store(out, (i, 0), ct.cat(product, axis=1))
