"""Kernels and operators of a GPT-2 in bfloat16: attention, norms, MLP and loss, forward and backward."""

import math
from typing import Any

import torch

import tilewright as ct

Array = Any
INF, LOG2_E = math.inf, math.log2(math.e)
PARTS = 512  # sums of parts of the rows, of which the gradients of a norm's parameters are made
# Of tiles, and options of the backend: those that gpt2.py --tune found fastest on an H100 for 16 x 1024 tokens.
SIZES: dict[str, tuple[int, ...]] = {
    "attention": (64, 128),
    "queries": (64, 64),
    "keys": (64, 64),
    "norm": (2,),
    "norm back": (2,),
    "up": (128, 128, 64),
    "down": (128, 256, 64),
    "back": (128, 128, 64),
    "loss": (16384, 264),  # two blocks for each SM of an H100, with a row of 100 KB each
}
OPTIONS: dict[str, dict[str, int]] = {
    "attention": {"num_warps": 4, "num_stages": 2},
    "queries": {"num_warps": 4, "num_stages": 3},
    "keys": {"num_warps": 4, "num_stages": 2},
    "norm": {"num_warps": 4},
    "norm back": {"num_warps": 4},
    "up": {"num_warps": 8, "num_stages": 3},
    "down": {"num_warps": 8, "num_stages": 4},
    "back": {"num_warps": 4, "num_stages": 3},
    "loss": {"num_warps": 32},
}


def launch(stream: Any, name: str, grid: tuple[int, ...], kernel: Any, args: tuple[Any, ...]) -> None:
    """Launch with the options and the sizes of tiles of ``name``."""
    chosen = _CHOSEN.get(name)
    if chosen is None:
        options = OPTIONS[name]
        chosen = _CHOSEN[name] = kernel.replace_options("triton", **options) if options else kernel
    ct.launch(stream, grid, chosen, (*args, *SIZES[name]))


def choose(name: str, sizes: tuple[int, ...], options: dict[str, int]) -> None:
    """Launch ``name`` with these sizes and options from now on."""
    SIZES[name], OPTIONS[name] = sizes, options
    _CHOSEN.pop(name, None)


_CHOSEN: dict[str, Any] = {}


# -- causal attention: queries, keys and values are entries 0, 1 and 2 of an axis


def entry(array, b, i, which, h, T, D):
    """A tile of the queries, keys or values."""
    return ct.load(array, (b, i, which, h, 0), (1, T, 1, 1, D)).reshape((T, D))


@ct.kernel
def attention_kernel(
    qkv, out, lse, scale: float, H: ct.Constant[int], D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int]
):
    i = ct.num_blocks(0) - 1 - ct.bid(0)  # the longest rows first
    b, h = ct.bid(1) // H, ct.bid(1) % H
    queries = entry(qkv, b, i, 0, h, TQ, D)
    top, total = ct.full((TQ, 1), -INF, ct.float32), ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    rows, columns = i * TQ + ct.arange(TQ, dtype=ct.int32)[:, None], ct.arange(TK, dtype=ct.int32)[None, :]
    full = i * TQ // TK
    for j in range(full):
        scores = ct.mma(queries, ct.transpose(entry(qkv, b, j, 1, h, TK, D)), ct.zeros((TQ, TK), ct.float32))
        new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        result = ct.mma(weights.astype(qkv.dtype), entry(qkv, b, j, 2, h, TK, D), result * correction)
        top = new_top
    for j in range(full, ct.cdiv((i + 1) * TQ, TK)):
        scores = ct.mma(queries, ct.transpose(entry(qkv, b, j, 1, h, TK, D)), ct.zeros((TQ, TK), ct.float32))
        scores = ct.where(rows >= j * TK + columns, scores, -INF)
        new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        result = ct.mma(weights.astype(qkv.dtype), entry(qkv, b, j, 2, h, TK, D), result * correction)
        top = new_top
    ct.store(out, (b, i, h, 0), (result * (1 / total)).reshape((1, TQ, 1, D)).astype(out.dtype))
    ct.store(lse, (b, h, i), (top + ct.log2(total)).reshape((1, 1, TQ)))


def query_step(qkv, b, h, j, queries, grads, logs, means, scale, TQ, TK, D, result, rows, masked):
    """Adds to the gradient of ``queries`` what the keys of tile ``j`` give."""
    keys = entry(qkv, b, j, 1, h, TK, D)
    scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TQ, TK), ct.float32))
    weights = ct.exp2(scores * scale - logs, flush_to_zero=True)
    if masked:
        weights = ct.where(rows >= j * TK + ct.arange(TK, dtype=ct.int32)[None, :], weights, 0.0)
    change = ct.mma(grads, ct.transpose(entry(qkv, b, j, 2, h, TK, D)), ct.zeros((TQ, TK), ct.float32))
    return ct.mma((weights * (change - means)).astype(qkv.dtype), keys, result)


@ct.kernel
def attention_queries_kernel(
    qkv, mixed, lse, delta, grad, out, scale: float, factor: float, H: ct.Constant[int], D: ct.Constant[int],
    TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    i = ct.num_blocks(0) - 1 - ct.bid(0)
    b, h = ct.bid(1) // H, ct.bid(1) % H
    queries = entry(qkv, b, i, 0, h, TQ, D)
    grads = ct.load(grad, (b, i, h, 0), (1, TQ, 1, D)).reshape((TQ, D))
    logs = ct.load(lse, (b, h, i), (1, 1, TQ)).reshape((TQ, 1))
    results = ct.load(mixed, (b, i, h, 0), (1, TQ, 1, D)).reshape((TQ, D))
    means = ct.sum(results.astype(ct.float32) * grads.astype(ct.float32), axis=1, keepdims=True)
    ct.store(delta, (b, h, i), means.reshape((1, 1, TQ)))
    rows, full = i * TQ + ct.arange(TQ, dtype=ct.int32)[:, None], i * TQ // TK
    result = ct.zeros((TQ, D), ct.float32)
    for j in range(full):
        result = query_step(qkv, b, h, j, queries, grads, logs, means, scale, TQ, TK, D, result, rows, False)
    for j in range(full, ct.cdiv((i + 1) * TQ, TK)):
        result = query_step(qkv, b, h, j, queries, grads, logs, means, scale, TQ, TK, D, result, rows, True)
    ct.store(out, (b, i, 0, h, 0), (result * factor).astype(out.dtype).reshape((1, TQ, 1, 1, D)))


def key_step(qkv, lse, delta, grad, b, h, i, keys, values, scale, TQ, TK, D, of_keys, of_values, columns, masked):
    """Adds to the gradients of ``keys`` and ``values`` what the queries of tile ``i`` give."""
    queries = entry(qkv, b, i, 0, h, TQ, D)
    grads = ct.load(grad, (b, i, h, 0), (1, TQ, 1, D)).reshape((TQ, D))
    logs, means = (
        ct.load(lse, (b, h, i), (1, 1, TQ)).reshape((1, TQ)),
        ct.load(delta, (b, h, i), (1, 1, TQ)).reshape((1, TQ)),
    )
    scores = ct.mma(keys, ct.transpose(queries), ct.zeros((TK, TQ), ct.float32))
    weights = ct.exp2(scores * scale - logs, flush_to_zero=True)
    if masked:
        weights = ct.where(i * TQ + ct.arange(TQ, dtype=ct.int32)[None, :] >= columns, weights, 0.0)
    of_values = ct.mma(weights.astype(qkv.dtype), grads, of_values)
    change = ct.mma(values, ct.transpose(grads), ct.zeros((TK, TQ), ct.float32))
    of_keys = ct.mma((weights * (change - means)).astype(qkv.dtype), queries, of_keys)
    return of_keys, of_values


@ct.kernel
def attention_keys_kernel(
    qkv, lse, delta, grad, out, scale: float, factor: float, H: ct.Constant[int], D: ct.Constant[int],
    TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    j = ct.bid(0)
    b, h = ct.bid(1) // H, ct.bid(1) % H
    keys, values = entry(qkv, b, j, 1, h, TK, D), entry(qkv, b, j, 2, h, TK, D)
    columns = j * TK + ct.arange(TK, dtype=ct.int32)[:, None]
    of_keys, of_values = ct.zeros((TK, D), ct.float32), ct.zeros((TK, D), ct.float32)
    first, full = j * TK // TQ, ct.cdiv((j + 1) * TK, TQ)
    for i in range(first, full):
        of_keys, of_values = key_step(
            qkv, lse, delta, grad, b, h, i, keys, values, scale, TQ, TK, D, of_keys, of_values, columns, True
        )
    for i in range(full, ct.cdiv(qkv.shape[1], TQ)):
        of_keys, of_values = key_step(
            qkv, lse, delta, grad, b, h, i, keys, values, scale, TQ, TK, D, of_keys, of_values, columns, False
        )
    ct.store(out, (b, j, 1, h, 0), (of_keys * factor).astype(out.dtype).reshape((1, TK, 1, 1, D)))
    ct.store(out, (b, j, 2, h, 0), of_values.astype(out.dtype).reshape((1, TK, 1, 1, D)))


@ct.op("gpt2::attention", "b t 3 h d -> b t h d, b h t", dtypes="qkv float32", sharded="b")
def attention(stream: Any, qkv: Array, out: Array, lse: Array) -> None:
    """Causal attention, and the logarithms to base 2 of the sums of the exponentials."""
    b, t, _, h, d = qkv.shape
    grid = t // SIZES["attention"][0], b * h
    launch(stream, "attention", grid, attention_kernel, (qkv, out, lse, LOG2_E / math.sqrt(d), h, d))


@ct.op(
    "gpt2::attention_backward",
    "b t 3 h d, b t h d, b h t, b t h d -> b t 3 h d, b h t",
    dtypes="qkv float32",
    sharded="b",
)
def attention_backward(
    stream: Any, qkv: Array, mixed: Array, lse: Array, grad: Array, out: Array, delta: Array
) -> None:
    b, t, _, h, d = qkv.shape
    args = lse, delta, grad, out, LOG2_E / math.sqrt(d), 1 / math.sqrt(d), h, d
    launch(stream, "queries", (t // SIZES["queries"][0], b * h), attention_queries_kernel, (qkv, mixed, *args))
    launch(stream, "keys", (t // SIZES["keys"][1], b * h), attention_keys_kernel, (qkv, *args))


@attention.gradient
def attention_gradient(qkv: Array, out: Array, lse: Array, grad_out: Array) -> Any:
    return attention_backward(qkv, out, lse, grad_out.contiguous())[0]


# -- sum with layer norm


@ct.kernel
def add_norm_kernel(x, y, weight, bias, total, out, mean, inverse, C: ct.Constant[int], R: ct.Constant[int]):
    i, width = ct.bid(0), x.shape[1]
    inside = ct.arange(C, dtype=ct.int32)[None, :] < width
    rows = ct.load(x, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    rows = rows + ct.load(y, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    kept = rows.astype(total.dtype)
    ct.store(total, (i, 0), kept)
    rows = kept.astype(ct.float32)
    center = ct.sum(rows, axis=1, keepdims=True) / width
    apart = ct.where(inside, rows - center, 0.0)
    scale = ct.rsqrt(ct.sum(apart * apart, axis=1, keepdims=True) / width + 1e-5)
    w = ct.load(weight, (0,), (C,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    b = ct.load(bias, (0,), (C,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(out, (i, 0), (apart * scale * w[None, :] + b[None, :]).astype(out.dtype))
    ct.store(mean, (i,), center.reshape((R,)))
    ct.store(inverse, (i,), scale.reshape((R,)))


@ct.kernel
def add_norm_gradient_kernel(
    total, weight, mean, inverse, grad_total, grad_out, grad, weights, biases, C: ct.Constant[int], R: ct.Constant[int]
):
    part, width = ct.bid(0), total.shape[1]
    of_weight, of_bias = ct.zeros((C,), ct.float32), ct.zeros((C,), ct.float32)
    w = ct.load(weight, (0,), (C,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)[None, :]
    for i in range(part, ct.cdiv(total.shape[0], R), ct.num_blocks(0)):
        rows = ct.load(total, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        grads = ct.load(grad_out, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        passed = ct.load(grad_total, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        center, scale = ct.load(mean, (i,), (R,)).reshape((R, 1)), ct.load(inverse, (i,), (R,)).reshape((R, 1))
        normed = (rows - center) * scale  # outside of the row it meets zeros only
        scaled = grads * w
        one = ct.sum(scaled, axis=1, keepdims=True) / width
        two = ct.sum(scaled * normed, axis=1, keepdims=True) / width
        ct.store(grad, (i, 0), (passed + scale * (scaled - one - normed * two)).astype(grad.dtype))
        of_weight = of_weight + ct.sum(grads * normed, axis=0)
        of_bias = of_bias + ct.sum(grads, axis=0)
    ct.store(weights, (part, 0), of_weight[None, :])
    ct.store(biases, (part, 0), of_bias[None, :])


def padded(extent: int) -> int:
    return 1 << max(extent - 1, 0).bit_length()


@ct.op(
    "gpt2::add_norm",
    "rows cols, rows cols, cols, cols -> rows cols, rows cols, rows, rows",
    dtypes="x x float32 float32",
    sharded="rows",
)
def add_norm(
    stream: Any, x: Array, y: Array, weight: Array, bias: Array, total: Array, out: Array, mean: Array, inverse: Array
) -> None:
    """The sum of ``x`` and ``y``, and its layer norm; the means and the factors of the rows."""
    args = x, y, weight, bias, total, out, mean, inverse, padded(x.shape[1])
    launch(stream, "norm", (ct.cdiv(x.shape[0], SIZES["norm"][0]),), add_norm_kernel, args)


@ct.op(
    "gpt2::add_norm_backward",
    f"rows cols, cols, rows, rows, rows cols, rows cols -> rows cols, {PARTS} cols, {PARTS} cols",
    dtypes="total float32 float32",
)
def add_norm_backward(
    stream: Any, total: Array, weight: Array, mean: Array, inverse: Array, grad_total: Array, grad_out: Array,
    grad: Array, weights: Array, biases: Array,
) -> None:  # fmt: skip
    args = total, weight, mean, inverse, grad_total, grad_out, grad, weights, biases, padded(total.shape[1])
    launch(stream, "norm back", (PARTS,), add_norm_gradient_kernel, args)


@add_norm.gradient
def add_norm_gradient(
    weight: Array, total: Array, mean: Array, inverse: Array, grad_total: Array, grad_out: Array
) -> Any:
    grad, weights, biases = add_norm_backward(total, weight, mean, inverse, grad_total, grad_out)
    return grad, grad, weights.sum(0).to(weight.dtype), biases.sum(0).to(weight.dtype)


# -- MLP


def place(tile, rows, columns):
    """The row and the column of a tile; eight rows of tiles are done together."""
    wide = 8 * columns
    first = (tile // wide) * 8
    height = min(rows - first, 8)
    return first + (tile % wide) % height, (tile % wide) // height


def product(a, b, i, j, TM, TN, TK):
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TK)):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO), total)
    return total


def bend(x):
    """tanh of the argument in the approximation of GELU."""
    return ct.tanh(x * (0.7978845608 + 0.7978845608 * 0.044715 * x * x), rounding_mode=ct.RoundingMode.APPROX)


@ct.kernel
def up_kernel(x, w, bias, pre, act, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = place(ct.bid(0), ct.cdiv(pre.shape[0], TM), ct.cdiv(pre.shape[1], TN))
    total = product(x, w, i, j, TM, TN, TK) + ct.load(bias, (j,), (TN,)).astype(ct.float32)[None, :]
    kept = total.astype(pre.dtype)
    ct.store(pre, (i, j), kept)
    total = kept.astype(ct.float32)
    ct.store(act, (i, j), (0.5 * total * (1 + bend(total))).astype(act.dtype))


@ct.kernel
def down_kernel(x, w, bias, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = place(ct.bid(0), ct.cdiv(out.shape[0], TM), ct.cdiv(out.shape[1], TN))
    total = product(x, w, i, j, TM, TN, TK) + ct.load(bias, (j,), (TN,)).astype(ct.float32)[None, :]
    ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def back_kernel(grad, w, pre, sums, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = place(ct.bid(0), ct.cdiv(out.shape[0], TM), ct.cdiv(out.shape[1], TN))
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(grad.shape[1], TK)):
        g = ct.load(grad, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(w, (k, j), (TK, TN), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(g, y, total)
    x = ct.load(pre, (i, j), (TM, TN), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    t = bend(x)
    slope = 0.5 + 0.5 * t + x * (1 - t * t) * (0.5 * 0.7978845608 + 1.5 * 0.7978845608 * 0.044715 * x * x)
    total = total * slope
    ct.store(out, (i, j), total.astype(out.dtype))
    ct.store(sums, (i, j), ct.sum(total, axis=0, keepdims=True))


def tiles(name: str, out: Array) -> tuple[int]:
    return (ct.cdiv(out.shape[0], SIZES[name][0]) * ct.cdiv(out.shape[1], SIZES[name][1]),)


@ct.op("gpt2::mlp", "m k, k n, n, n k, k -> m k, m n, m n", sharded="m")
def mlp(
    stream: Any, x: Array, up: Array, up_bias: Array, down: Array, down_bias: Array, out: Array, pre: Array, act: Array
) -> None:
    """GELU between two products; what is before and after it."""
    launch(stream, "up", tiles("up", pre), up_kernel, (x, up, up_bias, pre, act))
    launch(stream, "down", tiles("down", out), down_kernel, (act, down, down_bias, out))


@ct.op("gpt2::mlp_backward", "m k, n k, m n, parts n -> m n", mutates="sums")
def mlp_backward(stream: Any, grad: Array, down: Array, pre: Array, sums: Array, out: Array) -> None:
    """``sums`` become those of the columns of each row of tiles."""
    launch(stream, "back", tiles("back", out), back_kernel, (grad, down, pre, sums, out))


@mlp.gradient
def mlp_gradient(x: Array, up: Array, down: Array, pre: Array, act: Array, grad_out: Array) -> Any:
    sums = pre.new_empty((ct.cdiv(pre.shape[0], SIZES["back"][0]), pre.shape[1]), dtype=torch.float32)
    before = mlp_backward(grad_out, down, pre, sums)
    return before @ up.T, x.T @ before, sums.sum(0).to(pre.dtype), act.T @ grad_out, grad_out.sum(0)


# -- loss


@ct.kernel
def loss_kernel(logits, targets, loss, change, C: ct.Constant[int], BLOCKS: ct.Constant[int]):
    """A block has a row at a time, which is still in the L2 cache when it is read again, unless blocks are many."""
    for i in range(ct.bid(0), logits.shape[0], BLOCKS):
        top, total = ct.full((C,), -1e30, ct.float32), ct.zeros((C,), ct.float32)
        for j in range(ct.cdiv(logits.shape[1], C)):
            row = ct.load(logits, (i, j), (1, C), padding_mode=ct.PaddingMode.NEG_INF).reshape((C,))
            row = row.astype(ct.float32) * LOG2_E
            new_top = ct.maximum(top, row)
            total = total * ct.exp2(top - new_top) + ct.exp2(row - new_top)
            top = new_top
        most = ct.max(top)
        log = most + ct.log2(ct.sum(total * ct.exp2(top - most)))
        target = ct.load(targets, (i,), ())
        wanted = ct.load(logits, (i, target), (1, 1)).reshape(()).astype(ct.float32)
        ct.store(loss, (i,), (log / LOG2_E - wanted).reshape((1,)))
        for j in range(ct.cdiv(logits.shape[1], C)):
            row = ct.load(logits, (i, j), (1, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
            weights = ct.exp2(row * LOG2_E - log)
            here = (j * C + ct.arange(C, dtype=ct.int32))[None, :] == target
            ct.store(change, (i, j), ct.where(here, weights - 1, weights).astype(change.dtype))


@ct.op("gpt2::loss", "rows classes, rows -> rows, rows classes", dtypes="float32 logits", sharded="rows")
def cross_entropy(stream: Any, logits: Array, targets: Array, loss: Array, change: Array) -> None:
    """The cross-entropy of each row, and its gradient."""
    launch(stream, "loss", (SIZES["loss"][1],), loss_kernel, (logits, targets, loss, change))


class LinearLoss(torch.autograd.Function):
    """The cross-entropies of ``rows @ weight.T``. Factors of rows come after or before the products of the backward
    pass, which take the gradient of the logits as the forward pass has left it."""

    @staticmethod
    def forward(ctx: Any, rows: Array, weight: Array, targets: Array) -> Array:
        loss, change = cross_entropy(rows @ weight.T, targets)
        ctx.save_for_backward(rows, weight, change)
        return loss

    @staticmethod
    def backward(ctx: Any, grad_loss: Array) -> Any:
        rows, weight, change = ctx.saved_tensors
        factors = grad_loss[:, None]
        scaled = (rows * factors).to(rows.dtype)
        return ((change @ weight) * factors).to(rows.dtype), change.T @ scaled, None
