"""The tile kernels that ``benchmarks/cpu.py`` times. Tile sizes are chosen here, as a user would choose them."""

from __future__ import annotations

import math

import tilewright as ct

F32 = ct.float32
ZERO, LOWEST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
LOG2_E = math.log2(math.e)
SQRT_2_PI = math.sqrt(2 / math.pi)


@ct.kernel
def copy(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)))


@ct.kernel
def add(x, y, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)) + ct.load(y, (i,), (T,)))


@ct.kernel
def scale_add(x, y, out, factor, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)) * factor + ct.load(y, (i,), (T,)))


@ct.kernel
def transpose(x, out, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (T, T))))


@ct.kernel
def softmax(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (R, C), padding_mode=LOWEST).astype(F32)
    weights = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (i, 0), (weights / ct.sum(weights, axis=1, keepdims=True)).astype(out.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, epsilon, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (R, C)).astype(F32)
    distance = tile - ct.sum(tile, axis=1, keepdims=True) * (1.0 / C)
    variance = ct.sum(distance * distance, axis=1, keepdims=True) * (1.0 / C)
    scaled = distance * ct.rsqrt(variance + epsilon)
    result = scaled * ct.load(weight, (0,), (C,)).astype(F32) + ct.load(bias, (0,), (C,)).astype(F32)
    ct.store(out, (i, 0), result.astype(out.dtype))


@ct.kernel
def rms_norm(x, weight, out, epsilon, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (R, C)).astype(F32)
    mean = ct.sum(tile * tile, axis=1, keepdims=True) * (1.0 / C)
    result = tile * ct.rsqrt(mean + epsilon) * ct.load(weight, (0,), (C,)).astype(F32)
    ct.store(out, (i, 0), result.astype(out.dtype))


@ct.kernel
def softmax_backward(gradient, y, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    given, result = ct.load(gradient, (i, 0), (R, C)).astype(F32), ct.load(y, (i, 0), (R, C)).astype(F32)
    ct.store(out, (i, 0), (result * (given - ct.sum(given * result, axis=1, keepdims=True))).astype(out.dtype))


@ct.kernel
def layer_norm_backward(
    gradient, x, weight, mean, rstd, weights, biases, out, S: ct.Constant[int], R: ct.Constant[int], C: ct.Constant[int]
):
    """The gradient of x, and the parts that S times R rows have in those of weight and bias."""
    part = ct.bid(0)
    scale = ct.load(weight, (0, 0), (1, C)).astype(F32)
    of_weight = of_bias = ct.zeros((1, C), F32)
    for i in range(part * S, (part + 1) * S):
        given, value = ct.load(gradient, (i, 0), (R, C)).astype(F32), ct.load(x, (i, 0), (R, C)).astype(F32)
        inverse = ct.load(rstd, (i, 0), (R, 1))
        normal = (value - ct.load(mean, (i, 0), (R, 1))) * inverse
        scaled = given * scale
        first = ct.sum(scaled, axis=1, keepdims=True) * (1.0 / C)
        second = ct.sum(scaled * normal, axis=1, keepdims=True) * (1.0 / C)
        ct.store(out, (i, 0), ((scaled - first - normal * second) * inverse).astype(out.dtype))
        of_weight += ct.sum(given * normal, axis=0, keepdims=True)
        of_bias += ct.sum(given, axis=0, keepdims=True)
    ct.store(weights, (part, 0), of_weight)
    ct.store(biases, (part, 0), of_bias)


@ct.kernel
def rms_norm_backward(
    gradient, x, weight, rstd, weights, out, S: ct.Constant[int], R: ct.Constant[int], C: ct.Constant[int]
):
    """The gradient of x, and the parts that S times R rows have in that of weight."""
    part = ct.bid(0)
    scale = ct.load(weight, (0, 0), (1, C)).astype(F32)
    of_weight = ct.zeros((1, C), F32)
    for i in range(part * S, (part + 1) * S):
        given, value = ct.load(gradient, (i, 0), (R, C)).astype(F32), ct.load(x, (i, 0), (R, C)).astype(F32)
        inverse = ct.load(rstd, (i, 0), (R, 1))
        normal, scaled = value * inverse, given * scale
        along = ct.sum(scaled * normal, axis=1, keepdims=True) * (1.0 / C)
        ct.store(out, (i, 0), ((scaled - normal * along) * inverse).astype(out.dtype))
        of_weight += ct.sum(given * normal, axis=0, keepdims=True)
    ct.store(weights, (part, 0), of_weight)


@ct.kernel
def row_sum(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.sum(ct.load(x, (i, 0), (R, C)), axis=1))


@ct.kernel
def row_max(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.max(ct.load(x, (i, 0), (R, C)), axis=1))


@ct.kernel
def row_argmax(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.argmax(ct.load(x, (i, 0), (R, C)), axis=1))


@ct.kernel
def row_cumsum(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.cumsum(ct.load(x, (i, 0), (R, C)), axis=1))


@ct.kernel
def part_argmax(x, best, place, T: ct.Constant[int]):
    """The largest element of each part and where it is."""
    i = ct.bid(0)
    found = i * T + ct.argmax(ct.load(x, (i,), (T,), padding_mode=LOWEST))
    ct.store(best, (i,), ct.gather(x, found))
    ct.store(place, (i,), found)


@ct.kernel
def pick_argmax(best, place, out, P: ct.Constant[int]):
    winner = ct.argmax(ct.load(best, (0,), (P,), padding_mode=LOWEST))
    ct.store(out, (0,), ct.gather(place, winner))


@ct.kernel
def exclusive_cumsum(x, out, P: ct.Constant[int]):
    tile = ct.load(x, (0,), (P,), padding_mode=ZERO)
    ct.store(out, (0,), ct.cumsum(tile) - tile)


@ct.kernel
def cumsum_parts(x, start, out, R: ct.Constant[int], C: ct.Constant[int]):
    """Each block scans ``R`` runs of ``C`` elements side by side, then adds what lies before each run."""
    i = ct.bid(0)
    runs = ct.cumsum(ct.load(x, (i,), (R * C,), padding_mode=ZERO).reshape((R, C)), axis=1)
    ends = ct.extract(runs, (0, C - 1), (R, 1))
    before = ct.cumsum(ends, axis=0) - ends + ct.load(start, (i,), (1,)).reshape((1, 1))
    ct.store(out, (i,), (runs + before).reshape((R * C,)))


@ct.kernel
def matmul(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], ACC: ct.Constant[object]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ACC)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        left = ct.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        right = ct.load(b, (k, j), (TK, TN), padding_mode=ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def batched_matmul(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((TM, TN), F32)
    for k in range(ct.num_tiles(a, 2, (1, TM, TK))):
        left = ct.load(a, (batch, i, k), (1, TM, TK), padding_mode=ZERO).reshape((TM, TK))
        right = ct.load(b, (batch, k, j), (1, TK, TN), padding_mode=ZERO).reshape((TK, TN))
        total = ct.mma(left, right, total)
    ct.store(c, (batch, i, j), total.reshape((1, TM, TN)))


@ct.kernel
def transposed_matmul(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """a @ b.T"""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), F32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        right = ct.load(b, (j, k), (TN, TK), padding_mode=ZERO)
        total = ct.mma(ct.load(a, (i, k), (TM, TK), padding_mode=ZERO), right.transpose(), total)
    ct.store(c, (i, j), total)


@ct.kernel
def linear_gelu(a, b, bias, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """GELU(a @ b + bias), in its tanh form."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), F32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        total = ct.mma(ct.load(a, (i, k), (TM, TK)), ct.load(b, (k, j), (TK, TN)), total)
    x = total + ct.load(bias, (j,), (TN,))
    ct.store(c, (i, j), 0.5 * x * (1.0 + ct.tanh(SQRT_2_PI * (x + 0.044715 * x * x * x))))


@ct.kernel
def attention(
    q, k, v, out, scale, D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int], CAUSAL: ct.Constant[bool]
):
    """Softmax(q @ k.T * scale) @ v with an online softmax. Lengths are multiples of the tiles.

    All of it is done transposed: keys and values are the left operands, and the softmax runs along columns.
    """
    head, block = ct.bid(1), ct.bid(0)
    if CAUSAL:
        block = ct.num_blocks(0) - 1 - block  # those with the most keys first
    queries = ct.load(q, (head, 0, block), (1, D, TQ), order=(0, 2, 1)).reshape((D, TQ)) * (scale * LOG2_E)
    top = ct.full((1, TQ), -math.inf, F32)
    total = ct.zeros((1, TQ), F32)
    result = ct.zeros((D, TQ), F32)
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32)
    whole = block * TQ // TK if CAUSAL else ct.num_tiles(k, 1, (1, TK, D))
    last = ct.cdiv((block + 1) * TQ, TK) if CAUSAL else whole
    for j in range(last):
        keys = ct.load(k, (head, j, 0), (1, TK, D)).reshape((TK, D))
        values = ct.load(v, (head, 0, j), (1, D, TK), order=(0, 2, 1)).reshape((D, TK))
        scores = ct.mma(keys, queries, ct.zeros((TK, TQ), F32))
        if CAUSAL and j >= whole:
            columns = j * TK + ct.arange(TK, dtype=ct.int32)
            scores = ct.where(columns[:, None] <= rows[None, :], scores, -math.inf)
        new_top = ct.maximum(top, ct.max(scores, axis=0, keepdims=True))
        weights = ct.exp2(scores - new_top)
        correction = ct.exp2(top - new_top)
        total = total * correction + ct.sum(weights, axis=0, keepdims=True)
        result = ct.mma(values, weights, result * correction)
        top = new_top
    ct.store(out, (head, block, 0), ct.transpose(result / total).reshape((1, TQ, D)))


@ct.kernel
def gather_rows(table, rows, out, R: ct.Constant[int], C: ct.Constant[int]):
    i = ct.bid(0)
    picked = ct.load(rows, (i,), (R,))
    ct.store(out, (i, 0), ct.gather(table, (picked[:, None], ct.arange(C, dtype=ct.int32)[None, :])))


@ct.kernel
def count(values, counts, T: ct.Constant[int], BINS: ct.Constant[int]):
    """Every block counts its share of the values in a row of ``counts`` that no other block touches."""
    i = ct.bid(0)
    for j in range(i, ct.num_tiles(values, 0, (T,)), ct.num_blocks(0)):
        found = ct.load(values, (j,), (T,), padding_mode=ZERO)
        ct.atomic_add(counts, (i, found), 1, memory_order=ct.MemoryOrder.RELAXED, memory_scope=ct.MemoryScope.BLOCK)


@ct.kernel
def column_sums(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    ct.store(out, (0,), ct.sum(ct.load(x, (0, 0), (R, C)), axis=0))


@ct.kernel
def exp(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.exp(ct.load(x, (i,), (T,))))


@ct.kernel
def tanh(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.tanh(ct.load(x, (i,), (T,))))


@ct.kernel
def sin(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.sin(ct.load(x, (i,), (T,))))


@ct.kernel
def power(x, y, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.pow(ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,))))


@ct.kernel
def tiny(out):
    ct.store(out, (0,), 1)


@ct.kernel
def uneven(out, steps, HEAVY: ct.Constant[int]):
    """One block in 64 does 100 times the work of the others."""
    i = ct.bid(0)
    value = ct.full((16,), 1.0, F32)
    for _ in range(steps * 100 if i % 64 < HEAVY else steps):
        value = value * 0.999 + 0.5
    ct.store(out, (i,), ct.sum(value))
