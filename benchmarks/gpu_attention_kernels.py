# ruff: noqa: F821
"""The kernels of ``gpu_attention.py``, in the language that tilewright and the original share.

It runs this file once per implementation, with the module ``ct`` in its namespace. Scales include log2(e).
"""

import math

INF = math.inf


def softmax_step(scores, values, top, total, result, scale):
    """One step of an online softmax: the new maxima, sums of weights and results."""
    new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
    weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
    correction = ct.exp2(top - new_top, flush_to_zero=True)
    total = total * correction + ct.sum(weights, axis=1, keepdims=True)
    result = ct.mma(weights.astype(values.dtype), values, result * correction)
    return new_top, total, result


@ct.kernel
def attend(
    q, k, v, out, lse, scale, inner,
    H: ct.Constant[int], GROUP: ct.Constant[int], CAUSAL: ct.Constant[bool], CAPPED: ct.Constant[bool],
    WINDOW: ct.Constant[int], SUMS: ct.Constant[bool], D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """Forward attention. ``scale`` is of the scores or of what ``tanh`` gives, and ``inner`` of what that takes.
    ``GROUP`` heads of queries share those of keys. With ``SUMS`` also the logarithms of the sums of weights."""
    block = ct.bid(0)
    if CAUSAL:
        block = ct.num_blocks(0) - 1 - block  # the longest rows first
    b, h = ct.bid(1) // H, ct.bid(1) % H
    queries = ct.load(q, (b, h, block, 0), (1, 1, TQ, D)).reshape((TQ, D))
    top = ct.full((TQ, 1), -INF, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32)[:, None]
    columns = ct.arange(TK, dtype=ct.int32)[None, :]
    first, last = 0, k.shape[2] // TK
    if CAUSAL:
        last = ct.cdiv((block + 1) * TQ, TK)
    if WINDOW > 0:
        first = max(block * TQ - WINDOW + 1, 0) // TK
    full = block * TQ // TK if CAUSAL and WINDOW == 0 else (first if CAUSAL else last)
    for j in range(first, full):
        keys = ct.load(k, (b, h // GROUP, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2)).reshape((D, TK))
        scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
        if CAPPED:
            scores = ct.tanh(scores * inner, rounding_mode=ct.RoundingMode.APPROX)
        values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
        top, total, result = softmax_step(scores, values, top, total, result, scale)
    if CAUSAL:
        for j in range(full, last):
            keys = ct.load(k, (b, h // GROUP, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2)).reshape((D, TK))
            scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
            if CAPPED:
                scores = ct.tanh(scores * inner, rounding_mode=ct.RoundingMode.APPROX)
            seen = rows >= j * TK + columns
            if WINDOW > 0:
                seen = seen & (rows < j * TK + columns + WINDOW)
            scores = ct.where(seen, scores, -1e6)
            values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
            top, total, result = softmax_step(scores, values, top, total, result, scale)
    result = ct.truediv(result, total, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(out, (b, h, block, 0), result.reshape((1, 1, TQ, D)).astype(out.dtype))
    if SUMS:
        ct.store(lse, (b, h, block), (top + ct.log2(total)).reshape((1, 1, TQ)))


@ct.kernel
def gradient_of_queries(
    q, k, v, out, lse, grad, delta, of_q, scale, factor,
    H: ct.Constant[int], GROUP: ct.Constant[int], CAUSAL: ct.Constant[bool], D: ct.Constant[int],
    TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """That of ``q``, and ``delta``: of each row the sum of products of results and their gradients."""
    block = ct.bid(0)
    if CAUSAL:
        block = ct.num_blocks(0) - 1 - block
    b, h = ct.bid(1) // H, ct.bid(1) % H
    queries = ct.load(q, (b, h, block, 0), (1, 1, TQ, D)).reshape((TQ, D))
    grads = ct.load(grad, (b, h, block, 0), (1, 1, TQ, D)).reshape((TQ, D))
    logs = ct.load(lse, (b, h, block), (1, 1, TQ)).reshape((TQ, 1))
    results = ct.load(out, (b, h, block, 0), (1, 1, TQ, D)).reshape((TQ, D))
    means = ct.sum(results.astype(ct.float32) * grads.astype(ct.float32), axis=1, keepdims=True)
    ct.store(delta, (b, h, block), means.reshape((1, 1, TQ)))
    rows, columns = block * TQ + ct.arange(TQ, dtype=ct.int32)[:, None], ct.arange(TK, dtype=ct.int32)[None, :]
    last = k.shape[2] // TK
    full = last
    if CAUSAL:
        full, last = block * TQ // TK, ct.cdiv((block + 1) * TQ, TK)
    result = ct.zeros((TQ, D), ct.float32)
    for j in range(full):
        keys = ct.load(k, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
        values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TQ, TK), ct.float32))
        weights = ct.exp2(scores * scale - logs, flush_to_zero=True)
        change = ct.mma(grads, ct.transpose(values), ct.zeros((TQ, TK), ct.float32))
        result = ct.mma((weights * (change - means)).astype(q.dtype), keys, result)
    if CAUSAL:
        for j in range(full, last):
            keys = ct.load(k, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
            values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
            scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TQ, TK), ct.float32))
            weights = ct.exp2(scores * scale - logs, flush_to_zero=True)
            weights = ct.where(rows >= j * TK + columns, weights, 0.0)
            change = ct.mma(grads, ct.transpose(values), ct.zeros((TQ, TK), ct.float32))
            result = ct.mma((weights * (change - means)).astype(q.dtype), keys, result)
    ct.store(of_q, (b, h, block, 0), (result * factor).astype(of_q.dtype).reshape((1, 1, TQ, D)))


@ct.kernel
def gradient_of_keys(
    q, k, v, lse, grad, delta, of_k, of_v, scale, factor,
    G: ct.Constant[int], GROUP: ct.Constant[int], CAUSAL: ct.Constant[bool], D: ct.Constant[int],
    TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """Those of ``k`` and ``v``, summed over the heads of queries that share them."""
    block = ct.bid(0)
    b, g = ct.bid(1) // G, ct.bid(1) % G
    keys = ct.load(k, (b, g, block, 0), (1, 1, TK, D)).reshape((TK, D))
    values = ct.load(v, (b, g, block, 0), (1, 1, TK, D)).reshape((TK, D))
    rows, columns = block * TK + ct.arange(TK, dtype=ct.int32)[:, None], ct.arange(TQ, dtype=ct.int32)[None, :]
    keys_sum, values_sum = ct.zeros((TK, D), ct.float32), ct.zeros((TK, D), ct.float32)
    first = block * TK // TQ if CAUSAL else 0
    for h in range(g * GROUP, (g + 1) * GROUP):
        for i in range(first, ct.cdiv(q.shape[2], TQ)):
            queries = ct.load(q, (b, h, i, 0), (1, 1, TQ, D)).reshape((TQ, D))
            grads = ct.load(grad, (b, h, i, 0), (1, 1, TQ, D)).reshape((TQ, D))
            logs = ct.load(lse, (b, h, i), (1, 1, TQ)).reshape((1, TQ))
            means = ct.load(delta, (b, h, i), (1, 1, TQ)).reshape((1, TQ))
            scores = ct.mma(keys, ct.transpose(queries), ct.zeros((TK, TQ), ct.float32))
            weights = ct.exp2(scores * scale - logs, flush_to_zero=True)
            if CAUSAL:
                weights = ct.where(i * TQ + columns >= rows, weights, 0.0)
            values_sum = ct.mma(weights.astype(q.dtype), grads, values_sum)
            change = ct.mma(values, ct.transpose(grads), ct.zeros((TK, TQ), ct.float32))
            keys_sum = ct.mma((weights * (change - means)).astype(q.dtype), queries, keys_sum)
    ct.store(of_k, (b, g, block, 0), (keys_sum * factor).astype(of_k.dtype).reshape((1, 1, TK, D)))
    ct.store(of_v, (b, g, block, 0), values_sum.astype(of_v.dtype).reshape((1, 1, TK, D)))


@ct.kernel
def gradients(
    q, k, v, lse, grad, delta, of_q, of_k, of_v, scale, factor,
    H: ct.Constant[int], CAUSAL: ct.Constant[bool], D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """All of them for ``TK`` keys, of which that of ``q`` is added to what other blocks have."""
    block = ct.bid(0)
    b, h = ct.bid(1) // H, ct.bid(1) % H
    keys = ct.load(k, (b, h, block, 0), (1, 1, TK, D)).reshape((TK, D))
    values = ct.load(v, (b, h, block, 0), (1, 1, TK, D)).reshape((TK, D))
    rows, columns = block * TK + ct.arange(TK, dtype=ct.int32)[:, None], ct.arange(TQ, dtype=ct.int32)[None, :]
    keys_sum, values_sum = ct.zeros((TK, D), ct.float32), ct.zeros((TK, D), ct.float32)
    sums = of_q.tiled_view((1, 1, TQ, D))
    for i in range(block * TK // TQ if CAUSAL else 0, ct.cdiv(q.shape[2], TQ)):
        queries = ct.load(q, (b, h, i, 0), (1, 1, TQ, D)).reshape((TQ, D))
        grads = ct.load(grad, (b, h, i, 0), (1, 1, TQ, D)).reshape((TQ, D))
        logs = ct.load(lse, (b, h, i), (1, 1, TQ)).reshape((1, TQ))
        means = ct.load(delta, (b, h, i), (1, 1, TQ)).reshape((1, TQ))
        scores = ct.mma(keys, ct.transpose(queries), ct.zeros((TK, TQ), ct.float32))
        weights = ct.exp2(scores * scale - logs, flush_to_zero=True)
        if CAUSAL:
            weights = ct.where(i * TQ + columns >= rows, weights, 0.0)
        values_sum = ct.mma(weights.astype(q.dtype), grads, values_sum)
        change = ct.mma(values, ct.transpose(grads), ct.zeros((TK, TQ), ct.float32))
        changed = (weights * (change - means)).astype(q.dtype)
        keys_sum = ct.mma(changed, queries, keys_sum)
        part = ct.mma(ct.transpose(changed), keys, ct.zeros((TQ, D), ct.float32)) * factor
        sums.atomic_store_add((b, h, i, 0), part.reshape((1, 1, TQ, D)))
    ct.store(of_k, (b, h, block, 0), (keys_sum * factor).astype(of_k.dtype).reshape((1, 1, TK, D)))
    ct.store(of_v, (b, h, block, 0), values_sum.astype(of_v.dtype).reshape((1, 1, TK, D)))


@ct.kernel
def decode(
    q, k, v, parts, lse, scale,
    G: ct.Constant[int], GROUP: ct.Constant[int], D: ct.Constant[int], STEPS: ct.Constant[int], T: ct.Constant[int],
):  # fmt: skip
    """One query of each head over a part of the keys: ``STEPS`` tiles of ``T``."""
    b, g, part = ct.bid(0) // G, ct.bid(0) % G, ct.bid(1)
    queries = ct.load(q, (b, g, 0), (1, GROUP, D)).reshape((GROUP, D))
    top, total = ct.full((GROUP, 1), -INF, ct.float32), ct.zeros((GROUP, 1), ct.float32)
    result = ct.zeros((GROUP, D), ct.float32)
    for j in range(part * STEPS, (part + 1) * STEPS):
        keys = ct.load(k, (b, g, j, 0), (1, 1, T, D)).reshape((T, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((GROUP, T), ct.float32))
        values = ct.load(v, (b, g, j, 0), (1, 1, T, D)).reshape((T, D))
        top, total, result = softmax_step(scores, values, top, total, result, scale)
    ct.store(parts, (b, part, g, 0), (result / total).reshape((1, 1, GROUP, D)).astype(parts.dtype))
    ct.store(lse, (b, part, g), (top + ct.log2(total)).reshape((1, 1, GROUP)))


@ct.kernel
def decode_latent(
    q, q_rope, kv, k_rope, parts, lse, scale,
    D: ct.Constant[int], R: ct.Constant[int], STEPS: ct.Constant[int], TH: ct.Constant[int], T: ct.Constant[int],
):  # fmt: skip
    """``TH`` heads, all of which share ``kv``, the keys and the values, and what keys have for positions."""
    b, i, part = ct.bid(0), ct.bid(1), ct.bid(2)
    queries = ct.load(q, (b, i, 0), (1, TH, D)).reshape((TH, D))
    turned = ct.load(q_rope, (b, i, 0), (1, TH, R)).reshape((TH, R))
    top, total = ct.full((TH, 1), -INF, ct.float32), ct.zeros((TH, 1), ct.float32)
    result = ct.zeros((TH, D), ct.float32)
    for j in range(part * STEPS, (part + 1) * STEPS):
        keys = ct.load(kv, (b, j, 0), (1, T, D)).reshape((T, D))
        places = ct.load(k_rope, (b, j, 0), (1, T, R)).reshape((T, R))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TH, T), ct.float32))
        scores = ct.mma(turned, ct.transpose(places), scores)
        top, total, result = softmax_step(scores, keys, top, total, result, scale)
    ct.store(parts, (b, part, i, 0), (result / total).reshape((1, 1, TH, D)).astype(parts.dtype))
    ct.store(lse, (b, part, i), (top + ct.log2(total)).reshape((1, 1, TH)))


@ct.kernel
def decode_pages(
    q, k, v, table, parts, lse, length, scale,
    G: ct.Constant[int], GROUP: ct.Constant[int], M: ct.Constant[int], PAGE: ct.Constant[int], D: ct.Constant[int],
    STEPS: ct.Constant[int], T: ct.Constant[int],
):  # fmt: skip
    """The last ``M`` queries of each head over a part of the keys, which lie in pages of ``PAGE`` tokens. Queries are
    ordered by heads of keys, then by tokens."""
    b, g, part = ct.bid(0) // G, ct.bid(0) % G, ct.bid(1)
    queries = ct.load(q, (b, g, 0), (1, M * GROUP, D)).reshape((M * GROUP, D))
    top, total = ct.full((M * GROUP, 1), -INF, ct.float32), ct.zeros((M * GROUP, 1), ct.float32)
    result = ct.zeros((M * GROUP, D), ct.float32)
    last = length - M + ct.arange(M * GROUP, dtype=ct.int32)[:, None] // GROUP
    columns = ct.arange(D, dtype=ct.int32)[None, :]
    for j in range(part * STEPS, (part + 1) * STEPS):
        tokens = j * T + ct.arange(T, dtype=ct.int32)
        rows = ct.gather(table, (b, tokens // PAGE)) * PAGE + tokens % PAGE
        keys = ct.gather(k, (rows[:, None], g, columns))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((M * GROUP, T), ct.float32))
        if M > 1:
            scores = ct.where(tokens[None, :] <= last, scores, -1e6)
        values = ct.gather(v, (rows[:, None], g, columns))
        top, total, result = softmax_step(scores, values, top, total, result, scale)
    ct.store(parts, (b, part, g, 0), (result / total).reshape((1, 1, M * GROUP, D)).astype(parts.dtype))
    ct.store(lse, (b, part, g), (top + ct.log2(total)).reshape((1, 1, M * GROUP)))


@ct.kernel
def decode_quantized(
    q, k, v, k_scales, v_scales, parts, lse, scale,
    G: ct.Constant[int], GROUP: ct.Constant[int], D: ct.Constant[int], STEPS: ct.Constant[int], T: ct.Constant[int],
):  # fmt: skip
    """As ``decode``, of keys and values of 8 bits with a scale for each token."""
    b, g, part = ct.bid(0) // G, ct.bid(0) % G, ct.bid(1)
    queries = ct.load(q, (b, g, 0), (1, GROUP, D)).reshape((GROUP, D))
    top, total = ct.full((GROUP, 1), -INF, ct.float32), ct.zeros((GROUP, 1), ct.float32)
    result = ct.zeros((GROUP, D), ct.float32)
    for j in range(part * STEPS, (part + 1) * STEPS):
        keys = ct.load(k, (b, g, j, 0), (1, 1, T, D)).reshape((T, D)).astype(q.dtype)
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((GROUP, T), ct.float32))
        scores = scores * ct.load(k_scales, (b, g, j), (1, 1, T)).reshape((1, T)) * scale
        new_top = max(top, ct.max(scores, axis=1, keepdims=True))
        weights, correction = ct.exp2(scores - new_top), ct.exp2(top - new_top)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        weights = weights * ct.load(v_scales, (b, g, j), (1, 1, T)).reshape((1, T))
        values = ct.load(v, (b, g, j, 0), (1, 1, T, D)).reshape((T, D)).astype(q.dtype)
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        top = new_top
    ct.store(parts, (b, part, g, 0), (result / total).reshape((1, 1, GROUP, D)).astype(parts.dtype))
    ct.store(lse, (b, part, g), (top + ct.log2(total)).reshape((1, 1, GROUP)))


@ct.kernel
def attend_tiles(
    q, k, v, tiles, out, scale,
    H: ct.Constant[int], GROUP: ct.Constant[int], COUNT: ct.Constant[int], D: ct.Constant[int],
    TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """Block-sparse attention: ``COUNT`` tiles of keys, of a list for each tile of queries."""
    i, b, h = ct.bid(0), ct.bid(1) // H, ct.bid(1) % H
    queries = ct.load(q, (b, h, i, 0), (1, 1, TQ, D)).reshape((TQ, D))
    top, total = ct.full((TQ, 1), -INF, ct.float32), ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    for n in range(COUNT):
        j = ct.load(tiles, (b, h // GROUP, i, n), (1, 1, 1, 1)).item()
        keys = ct.load(k, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TQ, TK), ct.float32))
        values = ct.load(v, (b, h // GROUP, j, 0), (1, 1, TK, D)).reshape((TK, D))
        top, total, result = softmax_step(scores, values, top, total, result, scale)
    ct.store(out, (b, h, i, 0), (result / total).reshape((1, 1, TQ, D)).astype(out.dtype))


@ct.kernel
def combine(parts, lse, out, H: ct.Constant[int], D: ct.Constant[int], PARTS: ct.Constant[int]):
    """Results of all keys from those of their parts."""
    b, h = ct.bid(0) // H, ct.bid(0) % H
    logs = ct.load(lse, (b, 0, h), (1, PARTS, 1)).reshape((PARTS, 1))
    weights = ct.exp2(logs - ct.max(logs))
    found = ct.load(parts, (b, 0, h, 0), (1, PARTS, 1, D)).reshape((PARTS, D)).astype(ct.float32)
    result = ct.sum(found * weights, axis=0) / ct.sum(weights)
    ct.store(out, (b, h, 0), result.reshape((1, 1, D)).astype(out.dtype))


@ct.kernel
def linear(q, k, v, out, D: ct.Constant[int], T: ct.Constant[int]):
    """Attention without a softmax, in chunks of ``T`` rows, of a head."""
    head = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    seen = ct.arange(T, dtype=ct.int32)[:, None] >= ct.arange(T, dtype=ct.int32)[None, :]
    for i in range(q.shape[1] // T):
        queries = ct.load(q, (head, i, 0), (1, T, D)).reshape((T, D))
        keys = ct.load(k, (head, i, 0), (1, T, D)).reshape((T, D))
        values = ct.load(v, (head, i, 0), (1, T, D)).reshape((T, D))
        scores = ct.where(seen, ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32)), 0.0)
        result = ct.mma(queries, state.astype(q.dtype), ct.zeros((T, D), ct.float32))
        result = ct.mma(scores.astype(q.dtype), values, result)
        state = ct.mma(ct.transpose(keys), values, state)
        ct.store(out, (head, i, 0), result.astype(out.dtype).reshape((1, T, D)))


@ct.kernel
def selective_scan(x, rates, decay, into, out_of, out, N: ct.Constant[int], T: ct.Constant[int]):
    """The recurrence of Mamba for ``T`` channels with ``N`` states each, one token after the other."""
    b, d = ct.bid(0), ct.bid(1)
    slowed, state = ct.load(decay, (d, 0), (T, N)), ct.zeros((T, N), ct.float32)
    for t in range(x.shape[1]):
        new = ct.load(x, (b, t, d), (1, 1, T)).reshape((T, 1)).astype(ct.float32)
        rate = ct.load(rates, (b, t, d), (1, 1, T)).reshape((T, 1)).astype(ct.float32)
        left = ct.load(into, (b, t, 0), (1, 1, N)).reshape((1, N)).astype(ct.float32)
        right = ct.load(out_of, (b, t, 0), (1, 1, N)).reshape((1, N)).astype(ct.float32)
        state = ct.exp2(rate * slowed) * state + rate * new * left
        ct.store(out, (b, t, d), ct.sum(state * right, axis=1).reshape((1, 1, T)).astype(out.dtype))


@ct.kernel
def gated_delta(
    q, k, v, decay, beta, out,
    D: ct.Constant[int], ROUNDS: ct.Constant[int], T: ct.Constant[int], TV: ct.Constant[int],
):  # fmt: skip
    """The gated delta rule in chunks of ``T`` = 2 ** (``ROUNDS`` + 1) rows, of a head and ``TV`` columns of its values.
    ``decay`` has logarithms to base 2. In a chunk the inverse of a unit triangular matrix corrects the values."""
    head, part = ct.bid(0), ct.bid(1)
    state = ct.zeros((D, TV), ct.float32)
    rows, columns = ct.arange(T, dtype=ct.int32)[:, None], ct.arange(T, dtype=ct.int32)[None, :]
    for i in range(q.shape[1] // T):
        queries = ct.load(q, (head, i, 0), (1, T, D)).reshape((T, D))
        keys = ct.load(k, (head, i, 0), (1, T, D)).reshape((T, D))
        values = ct.load(v, (head, i, part), (1, T, TV)).reshape((T, TV))
        rates = ct.load(beta, (head, i), (1, T)).reshape((T, 1)).astype(ct.float32)
        sums = ct.cumsum(ct.load(decay, (head, i), (1, T)).reshape((T,)), axis=0)
        since = ct.exp2(ct.where(rows >= columns, sums[:, None] - sums[None, :], -INF))
        across = ct.mma(keys, ct.transpose(keys), ct.zeros((T, T), ct.float32)) * since * rates
        power = ct.where(rows > columns, -across, 0.0)
        inverse = ct.where(rows == columns, 1.0, power)
        for _ in range(ROUNDS):
            half = power.astype(q.dtype)
            power = ct.mma(half, half, ct.zeros((T, T), ct.float32))
            inverse = ct.mma(inverse.astype(q.dtype), power.astype(q.dtype), inverse)
        begun = ct.exp2(sums)[:, None]
        known = ct.mma(keys, state.astype(q.dtype), ct.zeros((T, TV), ct.float32)) * begun
        change = ((values.astype(ct.float32) - known) * rates).astype(q.dtype)
        new = ct.mma(inverse.astype(q.dtype), change, ct.zeros((T, TV), ct.float32)).astype(q.dtype)
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32)) * since
        result = ct.mma(queries, state.astype(q.dtype), ct.zeros((T, TV), ct.float32)) * begun
        result = ct.mma(scores.astype(q.dtype), new, result)
        ct.store(out, (head, i, part), result.reshape((1, T, TV)).astype(out.dtype))
        total = ct.sum(ct.load(decay, (head, i), (1, T)).reshape((T,)))
        late = (keys.astype(ct.float32) * ct.exp2(total - sums)[:, None]).astype(q.dtype)
        state = ct.mma(ct.transpose(late), new, state * ct.exp2(total))


@ct.kernel
def linear_loss(
    x, weight, labels, top, total, wanted,
    STEPS: ct.Constant[int], TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """Of rows of ``x`` the largest product with ``STEPS`` tiles of classes, the sum of exponentials, and the product
    with their own class, without the matrix of all products in memory. To base 2: ``x`` is scaled by log2(e)."""
    i, part = ct.bid(0), ct.bid(1)
    most, sums = ct.full((TM, 1), -INF, ct.float32), ct.zeros((TM, 1), ct.float32)
    own = ct.zeros((TM, 1), ct.float32)
    classes = ct.load(labels, (i,), (TM,))[:, None]
    columns = ct.arange(TN, dtype=ct.int32)[None, :]
    for j in range(part * STEPS, (part + 1) * STEPS):
        found = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(x.shape[1], TK)):
            rows = ct.load(x, (i, k), (TM, TK))
            found = ct.mma(rows, ct.transpose(ct.load(weight, (j, k), (TN, TK))), found)
        new = max(most, ct.max(found, axis=1, keepdims=True))
        sums = sums * ct.exp2(most - new) + ct.sum(ct.exp2(found - new, flush_to_zero=True), axis=1, keepdims=True)
        own += ct.sum(ct.where(j * TN + columns == classes, found, 0.0), axis=1, keepdims=True)
        most = new
    ct.store(top, (part, i), most.reshape((1, TM)))
    ct.store(total, (part, i), sums.reshape((1, TM)))
    ct.store(wanted, (part, i), own.reshape((1, TM)))
