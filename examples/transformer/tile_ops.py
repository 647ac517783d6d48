"""The operators of a small transformer: attention, norm, MLP and loss as tile kernels, with their gradients.

Each declaration serves PyTorch and JAX, on one device and on many: see ``train_torch.py`` and ``train_jax.py``.
"""

from typing import Any

import tilewright as ct

Array = Any
ROWS, TILE = 8, 32


def padded(extent: int) -> int:
    """The extent of the tile that holds a whole row."""
    return 1 << max(extent - 1, 0).bit_length()


# -- matrix products


@ct.kernel
def matmul_kernel(a: ct.Array, b: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.cdiv(a.shape[1], T)):
        left = ct.load(a, (i, k), (T, T), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (T, T), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (i, j), total.astype(out.dtype))


matmul = ct.op(
    "transformer::matmul",
    "m k, k n -> m n",
    kernel=matmul_kernel,
    grid={"m": TILE, "n": TILE},
    constants=(TILE,),
    summed="k",
)


@matmul.gradient
def matmul_gradient(a: Array, b: Array, grad_out: Array) -> Any:
    return matmul(grad_out, b.T), matmul(a.T, grad_out)


# -- root-mean-square norm


@ct.kernel
def norm_kernel(
    x: ct.Array,
    weight: ct.Array,
    out: ct.Array,
    inverse: ct.Array,
    eps: float,
    R: ct.Constant[int],
    C: ct.Constant[int],
) -> None:
    i = ct.bid(0)
    rows = ct.load(x, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO)
    scale = ct.rsqrt(ct.sum(rows * rows, axis=1, keepdims=True) / x.shape[1] + eps)
    weights = ct.load(weight, (0,), (C,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i, 0), rows * scale * weights[None, :])
    ct.store(inverse, (i,), scale.reshape((R,)))


@ct.kernel
def norm_rows_kernel(
    x: ct.Array,
    weight: ct.Array,
    inverse: ct.Array,
    grad: ct.Array,
    out: ct.Array,
    R: ct.Constant[int],
    C: ct.Constant[int],
) -> None:
    i = ct.bid(0)
    rows = ct.load(x, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO)
    weights = ct.load(weight, (0,), (C,), padding_mode=ct.PaddingMode.ZERO)
    scaled = ct.load(grad, (i, 0), (R, C), padding_mode=ct.PaddingMode.ZERO) * weights[None, :]
    scale = ct.load(inverse, (i,), (R,), padding_mode=ct.PaddingMode.ZERO).reshape((R, 1))
    along = ct.sum(scaled * rows, axis=1, keepdims=True) / x.shape[1]
    ct.store(out, (i, 0), scale * (scaled - rows * scale * scale * along))


@ct.kernel
def norm_weight_kernel(
    x: ct.Array, inverse: ct.Array, grad: ct.Array, out: ct.Array, R: ct.Constant[int], C: ct.Constant[int]
) -> None:
    j = ct.bid(0)
    total = ct.zeros((C,), ct.float32)
    for i in range(ct.cdiv(x.shape[0], R)):
        rows = ct.load(x, (i, j), (R, C), padding_mode=ct.PaddingMode.ZERO)
        grads = ct.load(grad, (i, j), (R, C), padding_mode=ct.PaddingMode.ZERO)
        scale = ct.load(inverse, (i,), (R,), padding_mode=ct.PaddingMode.ZERO)
        total = total + ct.sum(rows * grads * scale[:, None], axis=0)
    ct.store(out, (j,), total)


@ct.op("transformer::norm", "rows cols, cols -> rows cols, rows", sharded="rows")
def norm(stream: Any, x: Array, weight: Array, out: Array, inverse: Array, eps: float = 1e-5) -> None:
    """The rows divided by their root mean square, times ``weight``; and the factors."""
    grid = (ct.cdiv(x.shape[0], ROWS),)
    ct.launch(stream, grid, norm_kernel, (x, weight, out, inverse, eps, ROWS, padded(x.shape[1])))


@ct.op("transformer::norm_rows", "rows cols, cols, rows, rows cols -> rows cols", sharded="rows")
def norm_rows(stream: Any, x: Array, weight: Array, inverse: Array, grad: Array, out: Array) -> None:
    grid = (ct.cdiv(x.shape[0], ROWS),)
    ct.launch(stream, grid, norm_rows_kernel, (x, weight, inverse, grad, out, ROWS, padded(x.shape[1])))


norm_weight = ct.op(
    "transformer::norm_weight",
    "rows cols, rows, rows cols -> cols",
    kernel=norm_weight_kernel,
    grid={"cols": TILE},
    constants=(ROWS, TILE),
    summed="rows",
)


@norm.gradient
def norm_gradient(x: Array, weight: Array, inverse: Array, grad_out: Array) -> Any:
    return norm_rows(x, weight, inverse, grad_out), norm_weight(x, inverse, grad_out)


# -- gated activation of the MLP


@ct.kernel
def swiglu_kernel(gate: ct.Array, up: ct.Array, out: ct.Array, R: ct.Constant[int], C: ct.Constant[int]) -> None:
    at = ct.bid(0), ct.bid(1)
    x = ct.load(gate, at, (R, C), padding_mode=ct.PaddingMode.ZERO)
    y = ct.load(up, at, (R, C), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, at, x / (1 + ct.exp(-x)) * y)


@ct.kernel
def swiglu_gradient_kernel(
    gate: ct.Array,
    up: ct.Array,
    grad: ct.Array,
    grad_gate: ct.Array,
    grad_up: ct.Array,
    R: ct.Constant[int],
    C: ct.Constant[int],
) -> None:
    at = ct.bid(0), ct.bid(1)
    x = ct.load(gate, at, (R, C), padding_mode=ct.PaddingMode.ZERO)
    y = ct.load(up, at, (R, C), padding_mode=ct.PaddingMode.ZERO)
    g = ct.load(grad, at, (R, C), padding_mode=ct.PaddingMode.ZERO)
    s = 1 / (1 + ct.exp(-x))
    ct.store(grad_gate, at, g * y * s * (1 + x * (1 - s)))
    ct.store(grad_up, at, g * x * s)


_both = {"rows": ROWS, "cols": TILE}
swiglu = ct.op(
    "transformer::swiglu", "rows cols, rows cols -> rows cols", kernel=swiglu_kernel, grid=_both, constants=(ROWS, TILE)
)
swiglu_backward = ct.op(
    "transformer::swiglu_backward",
    "rows cols, rows cols, rows cols -> rows cols, rows cols",
    kernel=swiglu_gradient_kernel,
    grid=_both,
    constants=(ROWS, TILE),
)


@swiglu.gradient
def swiglu_gradient(gate: Array, up: Array, grad_out: Array) -> Any:
    return swiglu_backward(gate, up, grad_out)


# -- causal attention


@ct.kernel
def attention_kernel(
    q: ct.Array, k: ct.Array, v: ct.Array, out: ct.Array, lse: ct.Array, T: ct.Constant[int], D: ct.Constant[int]
) -> None:
    i, h, b = ct.bid(0), ct.bid(1), ct.bid(2)
    scale = 1 / ct.sqrt(ct.astype(q.shape[3], ct.float32))
    queries = ct.load(q, (b, h, i, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D)) * scale
    rows = i * T + ct.arange(T, dtype=ct.int32)
    top = ct.full((T, 1), -1e30, ct.float32)
    total = ct.zeros((T, 1), ct.float32)
    result = ct.zeros((T, D), ct.float32)
    for j in range(i + 1):
        keys = ct.load(k, (b, h, j, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
        values = ct.load(v, (b, h, j, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
        columns = j * T + ct.arange(T, dtype=ct.int32)
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        scores = ct.where(columns[None, :] <= rows[:, None], scores, -1e30)
        new_top = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp(scores - new_top)
        correction = ct.exp(top - new_top)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        result = ct.mma(weights, values, result * correction)
        top = new_top
    ct.store(out, (b, h, i, 0), (result / total).reshape((1, 1, T, D)))
    ct.store(lse, (b, h, i), (top + ct.log(total)).reshape((1, 1, T)))


@ct.kernel
def attention_queries_kernel(
    q: ct.Array,
    k: ct.Array,
    v: ct.Array,
    lse: ct.Array,
    delta: ct.Array,
    grad: ct.Array,
    grad_q: ct.Array,
    T: ct.Constant[int],
    D: ct.Constant[int],
) -> None:
    i, h, b = ct.bid(0), ct.bid(1), ct.bid(2)
    scale = 1 / ct.sqrt(ct.astype(q.shape[3], ct.float32))
    queries = ct.load(q, (b, h, i, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D)) * scale
    grads = ct.load(grad, (b, h, i, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
    logs = ct.load(lse, (b, h, i), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).reshape((T, 1))
    means = ct.load(delta, (b, h, i), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).reshape((T, 1))
    rows = i * T + ct.arange(T, dtype=ct.int32)
    result = ct.zeros((T, D), ct.float32)
    for j in range(i + 1):
        keys = ct.load(k, (b, h, j, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
        values = ct.load(v, (b, h, j, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
        columns = j * T + ct.arange(T, dtype=ct.int32)
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        weights = ct.where(columns[None, :] <= rows[:, None], ct.exp(scores - logs), 0.0)
        change = ct.mma(grads, ct.transpose(values), ct.zeros((T, T), ct.float32))
        result = ct.mma(weights * (change - means), keys, result)
    ct.store(grad_q, (b, h, i, 0), (result * scale).reshape((1, 1, T, D)))


@ct.kernel
def attention_keys_kernel(
    q: ct.Array,
    k: ct.Array,
    v: ct.Array,
    lse: ct.Array,
    delta: ct.Array,
    grad: ct.Array,
    grad_k: ct.Array,
    grad_v: ct.Array,
    T: ct.Constant[int],
    D: ct.Constant[int],
) -> None:
    j, h, b = ct.bid(0), ct.bid(1), ct.bid(2)
    scale = 1 / ct.sqrt(ct.astype(q.shape[3], ct.float32))
    keys = ct.load(k, (b, h, j, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
    values = ct.load(v, (b, h, j, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
    columns = j * T + ct.arange(T, dtype=ct.int32)
    of_keys, of_values = ct.zeros((T, D), ct.float32), ct.zeros((T, D), ct.float32)
    for i in range(j, ct.cdiv(q.shape[2], T)):
        queries = ct.load(q, (b, h, i, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D)) * scale
        grads = ct.load(grad, (b, h, i, 0), (1, 1, T, D), padding_mode=ct.PaddingMode.ZERO).reshape((T, D))
        logs = ct.load(lse, (b, h, i), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).reshape((T, 1))
        means = ct.load(delta, (b, h, i), (1, 1, T), padding_mode=ct.PaddingMode.ZERO).reshape((T, 1))
        rows = i * T + ct.arange(T, dtype=ct.int32)
        seen = (columns[None, :] <= rows[:, None]) & (rows[:, None] < q.shape[2])
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        weights = ct.where(seen, ct.exp(scores - logs), 0.0)
        of_values = ct.mma(ct.transpose(weights), grads, of_values)
        change = ct.mma(grads, ct.transpose(values), ct.zeros((T, T), ct.float32))
        of_keys = ct.mma(ct.transpose(weights * (change - means)), queries, of_keys)
    ct.store(grad_k, (b, h, j, 0), of_keys.reshape((1, 1, T, D)))
    ct.store(grad_v, (b, h, j, 0), of_values.reshape((1, 1, T, D)))


@ct.op("transformer::attention", "b h t d, b h t d, b h t d -> b h t d, b h t", sharded="b h")
def attention(stream: Any, q: Array, k: Array, v: Array, out: Array, lse: Array) -> None:
    """Causal attention, and the logarithms of the sums of the exponentials."""
    batch, heads, length, width = q.shape
    ct.launch(stream, (ct.cdiv(length, TILE), heads, batch), attention_kernel, (q, k, v, out, lse, TILE, padded(width)))


@ct.op(
    "transformer::attention_backward",
    "b h t d, b h t d, b h t d, b h t, b h t, b h t d -> b h t d, b h t d, b h t d",
    sharded="b h",
)
def attention_backward(
    stream: Any,
    q: Array,
    k: Array,
    v: Array,
    lse: Array,
    delta: Array,
    grad: Array,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
) -> None:
    batch, heads, length, width = q.shape
    grid, given, tiles = (ct.cdiv(length, TILE), heads, batch), (q, k, v, lse, delta, grad), (TILE, padded(width))
    ct.launch(stream, grid, attention_queries_kernel, (*given, grad_q, *tiles))
    ct.launch(stream, grid, attention_keys_kernel, (*given, grad_k, grad_v, *tiles))


@attention.gradient
def attention_gradient(q: Array, k: Array, v: Array, out: Array, lse: Array, grad_out: Array) -> Any:
    return attention_backward(q, k, v, lse, (out * grad_out).sum(-1), grad_out)


# -- loss


@ct.kernel
def loss_kernel(logits: ct.Array, targets: ct.Array, loss: ct.Array, lse: ct.Array, C: ct.Constant[int]) -> None:
    i = ct.bid(0)
    row = ct.load(logits, (i, 0), (1, C), padding_mode=ct.PaddingMode.ZERO).reshape((C,))
    columns = ct.arange(C, dtype=ct.int32)
    row = ct.where(columns < logits.shape[1], row, -1e30)
    top = ct.max(row)
    log = top + ct.log(ct.sum(ct.exp(row - top)))
    target = ct.load(targets, (i,), (1,)).astype(ct.int32)
    wanted = ct.sum(ct.where(columns == target, row, 0.0))
    ct.store(loss, (i,), (log - wanted).reshape((1,)))
    ct.store(lse, (i,), log.reshape((1,)))


@ct.kernel
def loss_gradient_kernel(
    logits: ct.Array, targets: ct.Array, lse: ct.Array, grad: ct.Array, out: ct.Array, C: ct.Constant[int]
) -> None:
    i = ct.bid(0)
    row = ct.load(logits, (i, 0), (1, C), padding_mode=ct.PaddingMode.ZERO)
    target = ct.load(targets, (i,), (1,)).astype(ct.int32)[:, None]
    weights = ct.exp(row - ct.load(lse, (i,), (1,))[:, None])
    ones = ct.where(ct.arange(C, dtype=ct.int32)[None, :] == target, 1.0, 0.0)
    ct.store(out, (i, 0), (weights - ones) * ct.load(grad, (i,), (1,))[:, None])


@ct.op("transformer::loss", "rows classes, rows -> rows, rows", sharded="rows")
def cross_entropy(stream: Any, logits: Array, targets: Array, loss: Array, lse: Array) -> None:
    """The cross-entropy of each row, and the logarithm of the sum of its exponentials."""
    grid = (logits.shape[0],)
    ct.launch(stream, grid, loss_kernel, (logits, targets, loss, lse, padded(logits.shape[1])))


@ct.op("transformer::loss_backward", "rows classes, rows, rows, rows -> rows classes", sharded="rows")
def cross_entropy_backward(stream: Any, logits: Array, targets: Array, lse: Array, grad: Array, out: Array) -> None:
    grid = (logits.shape[0],)
    ct.launch(stream, grid, loss_gradient_kernel, (logits, targets, lse, grad, out, padded(logits.shape[1])))


@cross_entropy.gradient
def cross_entropy_gradient(logits: Array, targets: Array, lse: Array, grad_loss: Array) -> Any:
    return cross_entropy_backward(logits, targets, lse, grad_loss), None
