# ruff: noqa: F821
"""Products whose operands a step computes, or gathers, in the language that tilewright and the original share.

``gpu_operands.py`` runs this file once per implementation, with the module ``ct`` in its namespace.
"""


@ct.kernel
def clamped(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The left operand is clamped."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.maximum(ct.load(a, (i, k), (M, K)), 0), ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def scaled(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step scales the columns of its left operand."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K)) * ct.load(more, (k,), (K,))[None, :]
        total = ct.mma(x, ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def activated(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """SiLU of the left operand."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K)).astype(ct.float32)
        total = ct.mma((x / (1 + ct.exp(-x))).astype(a.dtype), ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def rows_of_steps(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step has rows of its own, by numbers that it loads."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (ct.load(more, (i + k,), (M,))[:, None], columns[None, :]))
        total = ct.mma(x, ct.transpose(ct.load(b, (j, k), (N, K))), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def right_rows_of_steps(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The rows of each right operand are anywhere."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = j * N + ct.arange(N, dtype=ct.int32)
        y = ct.gather(b, (ct.load(more, (k,), (K,))[:, None], columns[None, :]))
        total = ct.mma(ct.load(a, (i, k), (M, K)), y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def weights(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The right operand are int8 by rows, with a scale for each row and step."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.load(b, (j, k), (N, K)).astype(a.dtype) * ct.load(more, (j, k), (N, 1))
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def packed_weights(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The same of four bits, eight of an int32."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    shifts = (ct.arange(8, dtype=ct.int32) * 4)[None, None, :]
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ((ct.load(b, (j, k), (N, K // 8))[:, :, None] >> shifts) & 15).reshape((N, K)) - 8
        y = y.astype(a.dtype) * ct.load(more, (j, k), (N, 1))
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def halves_of_bytes(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Two products a step, of the halves of bytes, which are for columns of ``a`` that lie K apart."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 2 * K)):
        both, scales = ct.load(b, (k, j), (K, N)), ct.load(more, (k, j), (1, N))
        low, high = (both & 15).astype(a.dtype) - 8, (both >> 4).astype(a.dtype) - 8
        total = ct.mma(ct.load(a, (i, 2 * k), (M, K)), low * scales, total)
        total = ct.mma(ct.load(a, (i, 2 * k + 1), (M, K)), high * scales, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def right_clamped(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The right operand is clamped."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.maximum(ct.load(b, (k, j), (K, N)), 0), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def right_scaled(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step scales the rows of its right operand."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.load(b, (k, j), (K, N)) * ct.load(more, (k,), (K,))[:, None]
        total = ct.mma(ct.load(a, (i, k), (M, K)), y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def right_activated_turned(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """SiLU of the right operand, which lies along k."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.load(b, (j, k), (N, K)).astype(ct.float32)
        y = (y / (1 + ct.exp(-y))).astype(b.dtype)
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def gated(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The left operand is a product of two tiles."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K)) * ct.load(more, (i, k), (M, K))
        total = ct.mma(x, ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def both_scaled(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step scales both operands."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        scales = ct.load(more, (k,), (K,))
        y = ct.load(b, (k, j), (K, N)) * scales[:, None]
        total = ct.mma(ct.load(a, (i, k), (M, K)) * scales[None, :], y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def strided(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Every other element of the rows of its left operand, by a gather."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    for k in range(ct.cdiv(b.shape[0], K)):
        columns = 2 * (k * K + ct.arange(K, dtype=ct.int32))
        x = ct.gather(a, (rows[:, None], columns[None, :]))
        total = ct.mma(x, ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def permuted(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The columns of its left operand by numbers that each step loads."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    for k in range(ct.cdiv(b.shape[0], K)):
        x = ct.gather(a, (rows[:, None], ct.load(more, (k,), (K,))[None, :]))
        total = ct.mma(x, ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def in_order(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Tiles are gathered, and scattered, by numbers that follow each other."""
    m, n = ct.bid(0) * M + ct.arange(M, dtype=ct.int32), ct.bid(1) * N + ct.arange(N, dtype=ct.int32)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        along = k * K + ct.arange(K, dtype=ct.int32)
        x, y = ct.gather(a, (m[:, None], along[None, :])), ct.gather(b, (along[:, None], n[None, :]))
        total = ct.mma(x, y, total)
    ct.scatter(c, (m[:, None], n[None, :]), total.astype(c.dtype))


@ct.kernel
def right_bytes_of_steps(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The rows of each right operand, of int8, are anywhere."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = j * N + ct.arange(N, dtype=ct.int32)
        y = ct.gather(b, (ct.load(more, (k,), (K,))[:, None], columns[None, :]))
        total = ct.mma(ct.load(a, (i, k), (M, K)), y.astype(a.dtype), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def right_bytes_by_rows(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The columns of the right operand are rows of int8 that are anywhere."""
    i, j = ct.bid(0), ct.bid(1)
    total, rows = ct.zeros((M, N), ct.float32), ct.load(more, (j,), (N,))
    for k in range(ct.cdiv(a.shape[1], K)):
        columns = k * K + ct.arange(K, dtype=ct.int32)
        y = ct.gather(b, (rows[:, None], columns[None, :])).astype(a.dtype)
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def float16_accumulators(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Sums in float16."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float16)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))
