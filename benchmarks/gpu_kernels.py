# ruff: noqa: F821
"""The kernels of the GPU benchmark, in the language that tilewright and the original share.

``gpu.py`` runs this file once per implementation, with the module ``ct`` in its namespace.
"""

import math

INF = math.inf
LOG2_E = 1 / math.log(2)


@ct.kernel
def copy(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)))


@ct.kernel
def vadd(x, y, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (T,)) + ct.load(y, (i,), (T,)))


@ct.kernel
def transpose(x, out, TM: ct.Constant[int], TN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (TM, TN))))


@ct.kernel
def softmax(x, out, T: ct.Constant[int]):
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32) * LOG2_E
        values = ct.exp2(values - ct.max(values, axis=1, keepdims=True), flush_to_zero=True)
        ct.store(out, (row, 0), (values * (1.0 / ct.sum(values, axis=1, keepdims=True))).astype(out.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, eps, N: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    mean = ct.sum(values, axis=1, keepdims=True) / N
    inside = ct.arange(T, dtype=ct.int32)[None, :] < N
    centered = ct.where(inside, values - mean, 0.0)
    scale = ct.rsqrt(ct.sum(centered * centered, axis=1, keepdims=True) / N + eps)
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    b = ct.load(bias, (0,), (T,)).astype(ct.float32)[None, :]
    ct.store(out, (row, 0), (centered * scale * w + b).astype(out.dtype))


@ct.kernel
def rms_norm(x, weight, out, eps, N: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(values * values, axis=1, keepdims=True) / N + eps)
    w = ct.load(weight, (0,), (T,)).astype(ct.float32)[None, :]
    ct.store(out, (row, 0), (values * scale * w).astype(out.dtype))


@ct.kernel
def gather_rows(table, rows, out, T: ct.Constant[int]):
    i = ct.bid(0)
    row = ct.load(rows, (i,), ())
    ct.store(out, (i, 0), ct.load(table, (row, 0), (1, T)))


def place(tile, rows, columns, GROUP):
    """The row and the column of a tile; GROUP rows of tiles are done together."""
    wide = GROUP * columns
    first = (tile // wide) * GROUP
    height = min(rows - first, GROUP)
    return first + (tile % wide) % height, (tile % wide) // height


def steps_of(a, TK, split, SPLITS):
    """From which step along K up to which one a split goes."""
    first, stop = 0, ct.cdiv(a.shape[1], TK)
    if SPLITS > 1:
        each = ct.cdiv(stop, SPLITS)
        first, stop = split * each, min(split * each + each, stop)
    return first, stop


def sum_of_steps(a, b, i, j, TM, TN, TK, TF32, first, stop):
    """What these steps along K add to the tile of a @ b in row i and column j."""
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(first, stop):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        if TF32:
            x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        total = ct.mma(x, y, total)
    return total


def product(a, b, i, j, TM, TN, TK, TF32):
    """The tile of a @ b in row i and column j."""
    return sum_of_steps(a, b, i, j, TM, TN, TK, TF32, 0, ct.cdiv(a.shape[1], TK))


@ct.kernel
def matmul(
    a,
    b,
    c,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    GROUP: ct.Constant[int],
    TF32: ct.Constant[bool],
):
    i, j = place(ct.bid(0), ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN), GROUP)
    ct.store(c, (i, j), product(a, b, i, j, TM, TN, TK, TF32).astype(c.dtype))


@ct.kernel
def matmul_grid(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], TF32: ct.Constant[bool]):
    """A block per tile, in a grid of two dimensions: nothing is divided before the first load."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, (i, j), product(a, b, i, j, TM, TN, TK, TF32).astype(c.dtype))


@ct.kernel
def matmul_persistent(
    a,
    b,
    c,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    GROUP: ct.Constant[int],
    TF32: ct.Constant[bool],
):
    rows, columns = ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = place(tile, rows, columns, GROUP)
        ct.store(c, (i, j), product(a, b, i, j, TM, TN, TK, TF32).astype(c.dtype))


@ct.kernel
def matmul_by_rows(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], GROUP: ct.Constant[int]):
    """a @ b.T: the right operand lies along K, as tensor cores want those of 8 bits."""
    rows, columns = ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = place(tile, rows, columns, GROUP)
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], TK)):
            x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (j, k), (TN, TK), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, ct.transpose(y), total, use_fast_acc=True)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def matmul_of_batches(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """A matrix of each array for each block along the third axis of the grid."""
    i, j, matrix = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[2], TK)):
        x = ct.load(a, (matrix, i, k), (1, TM, TK), padding_mode=ct.PaddingMode.ZERO).reshape((TM, TK))
        y = ct.load(b, (matrix, k, j), (1, TK, TN), padding_mode=ct.PaddingMode.ZERO).reshape((TK, TN))
        total = ct.mma(x, y, total)
    ct.store(c, (matrix, i, j), total.astype(c.dtype).reshape((1, TM, TN)))


def product_of_few_rows(a, b, i, j, TM, TN, TK, TF32, first, stop):
    """The transpose of what these steps along K add to the tile: tensor cores want many rows, and take few columns."""
    total = ct.zeros((TN, TM), ct.float32)
    for k in range(first, stop):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        if TF32:
            x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        total = ct.mma(ct.transpose(y), ct.transpose(x), total)
    return total


def finish(c, i, j, total, sums, counts, part, split, TM, TN, SPLITS, TURNED=False):
    """Store a tile whose steps are divided among splits, unless the split is negative: the one that comes last adds up
    what all have found. The counts are zeros before and after."""
    last = True
    if SPLITS > 1 and split >= 0:
        ct.store(sums, (part, split, 0, 0), total.reshape((1, 1, TM, TN)))
        last = ct.atomic_add(counts, part, 1) == SPLITS - 1
    if last:
        if SPLITS > 1 and split >= 0:
            total = ct.zeros((TM, TN), ct.float32)
            for other in ct.static_iter(range(SPLITS)):
                total += ct.load(sums, (part, other, 0, 0), (1, 1, TM, TN), allow_tma=False).reshape((TM, TN))
            ct.store(counts, part, 0)
        if TURNED:
            ct.store(c, (i, j), ct.transpose(total).astype(c.dtype), allow_tma=True)
        else:
            ct.store(c, (i, j), total.astype(c.dtype), allow_tma=True)


@ct.kernel
def matmul_strips(
    a,
    b,
    c,
    sums,
    counts,
    rounds,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    LENGTH: ct.Constant[int],
    WIDTH: ct.Constant[int],
    SK: ct.Constant[int],
    SPLITS: ct.Constant[int],
    GROUP: ct.Constant[int],
    TF32: ct.Constant[bool],
):
    """Large tiles where whole ones fit, then narrow strips, cut in parts, along the right and the lower edge. The
    blocks with one large tile less than the others do that many ``rounds`` of parts, the others splits of the rest."""
    rows, columns = c.shape[0] // TM, c.shape[1] // TN
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = place(tile, rows, columns, GROUP)
        ct.store(c, (i, j), product(a, b, i, j, TM, TN, TK, TF32).astype(c.dtype))
    top, left = rows * (TM // WIDTH), columns * (TN // WIDTH)
    tall, long = ct.cdiv(c.shape[0], LENGTH), columns * (TN // LENGTH)
    right = tall * (ct.cdiv(c.shape[1], WIDTH) - left)
    parts = right + long * (ct.cdiv(c.shape[0], WIDTH) - top)
    block, blocks = ct.bid(0), ct.num_blocks(0)
    idle = (blocks - rows * columns % blocks) % blocks  # blocks with one large tile less than the others
    busy = blocks - idle
    early = min(parts, idle * rounds)
    start, end, step = block - busy, early, idle
    if block < busy:
        start, end, step = block, (parts - early) * SPLITS, busy
    for work in range(start, end, step):
        part, split, first, stop = work, -1, 0, ct.cdiv(a.shape[1], SK)
        if block < busy:
            part, split = early + work // SPLITS, work % SPLITS
            first, stop = steps_of(a, SK, split, SPLITS)
        place_of_sums = part - early
        if part < right:
            i, j = part % tall, left + part // tall
            total = sum_of_steps(a, b, i, j, LENGTH, WIDTH, SK, TF32, first, stop)
            finish(c, i, j, total, sums, counts, place_of_sums, split, LENGTH, WIDTH, SPLITS)
        else:
            i, j = top + (part - right) // long, (part - right) % long
            total = product_of_few_rows(a, b, i, j, WIDTH, LENGTH, SK, TF32, first, stop)
            finish(c, i, j, total, sums, counts, place_of_sums, split, LENGTH, WIDTH, SPLITS, True)


@ct.kernel
def matmul_shares(
    a,
    b,
    c,
    sums,
    counts,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    SM: ct.Constant[int],
    SN: ct.Constant[int],
    SK: ct.Constant[int],
    SPLITS: ct.Constant[int],
    GROUP: ct.Constant[int],
    TF32: ct.Constant[bool],
):
    """Large tiles as long as every block has one, then for each block a share of the steps of one part of the others;
    neighbouring blocks have the same share of parts side by side."""
    block, blocks = ct.bid(0), ct.num_blocks(0)
    rows, columns = ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN)
    rest = rows * columns % blocks
    for tile in range(block, rows * columns - rest, blocks):
        i, j = place(tile, rows, columns, GROUP)
        ct.store(c, (i, j), product(a, b, i, j, TM, TN, TK, TF32).astype(c.dtype))
    parts, pair = (TM // SM) * (TN // SN), block // 2
    part, split = pair // SPLITS * 2 + block % 2, pair % SPLITS
    last = min(part, rest * parts - 1)
    i, j = place(rows * columns - rest + last // parts, rows, columns, GROUP)
    i = min(i * (TM // SM) + last % (TM // SM), ct.cdiv(c.shape[0], SM) - 1)
    j = min(j * (TN // SN) + last % parts // (TM // SM), ct.cdiv(c.shape[1], SN) - 1)
    first, stop = steps_of(a, SK, split, SPLITS)
    stop = ct.where(pair // SPLITS * 2 < rest * parts, stop, first)
    total = sum_of_steps(a, b, i, j, SM, SN, SK, TF32, first, stop)
    if part < rest * parts:
        finish(c, i, j, total, sums, counts, part, split, SM, SN, SPLITS)


def store_parts(a, b, c, i, j, TM, TN, TK, ROWS, COLUMNS):
    """Store the tile of a @ b in row i and column j, which has so many rows and columns of parts."""
    sums = tuple(ct.zeros((TM, TN), ct.float32) for _ in ct.static_iter(range(ROWS * COLUMNS)))
    for k in range(ct.cdiv(a.shape[1], TK)):
        xs = tuple(
            ct.load(a, (ROWS * i + row, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            for row in ct.static_iter(range(ROWS))
        )
        ys = tuple(
            ct.load(b, (k, COLUMNS * j + column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
            for column in ct.static_iter(range(COLUMNS))
        )
        sums = tuple(
            ct.mma(xs[part // COLUMNS], ys[part % COLUMNS], sums[part])
            for part in ct.static_iter(range(ROWS * COLUMNS))
        )
    for part in ct.static_iter(range(ROWS * COLUMNS)):
        ct.store(c, (ROWS * i + part // COLUMNS, COLUMNS * j + part % COLUMNS), sums[part].astype(c.dtype))


@ct.kernel
def matmul_parts(
    a,
    b,
    c,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    ROWS: ct.Constant[int],
    COLUMNS: ct.Constant[int],
    GROUP: ct.Constant[int],
):
    """Tiles whose sizes are no powers of two: some sizes leave fewer processors without one in the last round."""
    rows, columns = ct.cdiv(c.shape[0], ROWS * TM), ct.cdiv(c.shape[1], COLUMNS * TN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = place(tile, rows, columns, GROUP)
        store_parts(a, b, c, i, j, TM, TN, TK, ROWS, COLUMNS)


@ct.kernel
def matmul_parts_grid(
    a,
    b,
    c,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    ROWS: ct.Constant[int],
    COLUMNS: ct.Constant[int],
):
    """A block for each of these."""
    store_parts(a, b, c, ct.bid(0), ct.bid(1), TM, TN, TK, ROWS, COLUMNS)


@ct.kernel
def attention(
    q,
    k,
    v,
    out,
    scale,
    H: ct.Constant[int],
    D: ct.Constant[int],
    TQ: ct.Constant[int],
    TK: ct.Constant[int],
    CAUSAL: ct.Constant[bool],
):
    """Forward attention; ``scale`` includes log2(e)."""
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
    steps = k.shape[2] // TK
    full = block * TQ // TK if CAUSAL else steps
    for j in range(full):
        keys = ct.load(k, (b, h, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2)).reshape((D, TK))
        scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
        new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, (b, h, j, 0), (1, 1, TK, D)).reshape((TK, D))
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        top = new_top
    if CAUSAL:
        for j in range(full, ct.cdiv((block + 1) * TQ, TK)):
            keys = ct.load(k, (b, h, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2)).reshape((D, TK))
            scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
            scores = ct.where(rows >= j * TK + columns, scores, -INF)
            new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
            weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
            correction = ct.exp2(top - new_top, flush_to_zero=True)
            total = total * correction + ct.sum(weights, axis=1, keepdims=True)
            values = ct.load(v, (b, h, j, 0), (1, 1, TK, D)).reshape((TK, D))
            result = ct.mma(weights.astype(q.dtype), values, result * correction)
            top = new_top
    result = ct.truediv(result, total, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(out, (b, h, block, 0), result.reshape((1, 1, TQ, D)).astype(out.dtype))


@ct.kernel
def layer_norm_in_steps(x, weight, bias, out, eps, T: ct.Constant[int]):
    """As people write it for rows of any length: three loops over the pieces of a row."""
    row, n = ct.bid(0), x.shape[1]
    total = ct.zeros((1, T), ct.float32)
    for j in range(ct.cdiv(n, T)):
        total += ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    mean = ct.sum(total, axis=1, keepdims=True) / n
    squares = ct.zeros((1, T), ct.float32)
    for j in range(ct.cdiv(n, T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        centered = ct.where(j * T + ct.arange(T, dtype=ct.int32)[None, :] < n, values - mean, 0.0)
        squares += centered * centered
    scale = ct.rsqrt(ct.sum(squares, axis=1, keepdims=True) / n + eps)
    for j in range(ct.cdiv(n, T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        w = ct.load(weight, (j,), (T,)).astype(ct.float32)[None, :]
        b = ct.load(bias, (j,), (T,)).astype(ct.float32)[None, :]
        ct.store(out, (row, j), ((values - mean) * scale * w + b).astype(out.dtype))


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
def gated(x, gate, up, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], GROUP: ct.Constant[int]):
    """silu(x @ gate) * (x @ up)"""
    i, j = place(ct.bid(0), ct.cdiv(out.shape[0], TM), ct.cdiv(out.shape[1], TN), GROUP)
    first, second = ct.zeros((TM, TN), ct.float32), ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(x.shape[1], TK)):
        rows = ct.load(x, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        first = ct.mma(rows, ct.load(gate, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO), first)
        second = ct.mma(rows, ct.load(up, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO), second)
    ct.store(out, (i, j), (first / (1.0 + ct.exp(-first)) * second).astype(out.dtype))


@ct.kernel
def scaled_blocks(
    a,
    b,
    a_scales,
    b_scales,
    c,
    TM: ct.Constant[int],
    TN: ct.Constant[int],
    TK: ct.Constant[int],
    GROUP: ct.Constant[int],
):
    """a @ b.T of 8-bit floats with a scale for each TK of a row of a, and for each TK by TK of b."""
    i, j = place(ct.bid(0), ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN), GROUP)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TK)):
        x, y = ct.load(a, (i, k), (TM, TK)), ct.load(b, (j, k), (TN, TK))
        scale = ct.load(a_scales, (i, k), (TM, 1)) * ct.load(b_scales, (j * TN // TK, k), (1, 1))
        total += ct.mma(x, ct.transpose(y), ct.zeros((TM, TN), ct.float32)) * scale
    ct.store(c, (i, j), total.astype(c.dtype))
