"""Attention with an online softmax: the matrix of scores never exists as a whole."""

import math

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE_Q, TILE_K = 64, 64


@ct.kernel
def attend(
    q: ct.Array,
    k: ct.Array,
    v: ct.Array,
    out: ct.Array,
    scale: float,
    D: ct.Constant[int],
    TQ: ct.Constant[int],
    TK: ct.Constant[int],
    CAUSAL: ct.Constant[bool],
) -> None:
    head, block = ct.bid(1), ct.bid(0)
    length = k.shape[1]
    queries = ct.load(q, (head, block, 0), (1, TQ, D), padding_mode=ct.PaddingMode.ZERO).reshape((TQ, D)) * scale
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32)
    top = ct.full((TQ, 1), -math.inf, ct.float32)  # the largest score so far, and the sum of exp(score - top)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    last = min(ct.cdiv((block + 1) * TQ, TK), ct.cdiv(length, TK)) if CAUSAL else ct.cdiv(length, TK)
    for j in range(last):
        # Axes 2 and 1 of the array in this order: the tile is transposed as it is loaded.
        keys = ct.load(k, (head, 0, j), (1, D, TK), order=(0, 2, 1), padding_mode=ct.PaddingMode.ZERO).reshape((D, TK))
        values = ct.load(v, (head, j, 0), (1, TK, D), padding_mode=ct.PaddingMode.ZERO).reshape((TK, D))
        scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
        columns = j * TK + ct.arange(TK, dtype=ct.int32)
        seen = columns[None, :] < length
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        scores = ct.where(seen, scores, -math.inf)
        new_top = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp(scores - new_top)
        correction = ct.exp(top - new_top)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        result = ct.mma(weights, values, result * correction)
        top = new_top
    ct.store(out, (head, block, 0), (result / total).reshape((1, TQ, D)))


def attention(q: Array, k: Array, v: Array, causal: bool) -> Array:
    heads, length, width = q.shape
    out = np.empty_like(q)
    grid = ct.cdiv(length, TILE_Q), heads
    ct.launch(None, grid, attend, (q, k, v, out, 1 / math.sqrt(width), width, TILE_Q, TILE_K, causal))
    return out


def attention_numpy(q: Array, k: Array, v: Array, causal: bool) -> Array:
    scores: Array = q @ np.swapaxes(k, 1, 2) * np.float32(1 / math.sqrt(q.shape[2]))
    if causal:
        scores = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True) @ v


def cases(small: bool = False) -> list[Case]:
    shape = (2, 150, 32) if small else (8, 1024, 64)
    q, k, v = normal(*shape), normal(*shape, seed=1), normal(*shape, seed=2)
    size = f"{by(*shape)} f32"
    return [
        Case("attention", size, lambda: attention(q, k, v, False), lambda: attention_numpy(q, k, v, False), 1e-5),
        Case("attention, causal", size, lambda: attention(q, k, v, True), lambda: attention_numpy(q, k, v, True), 1e-5),
    ]


if __name__ == "__main__":
    main(cases)
