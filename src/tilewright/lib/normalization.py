"""Softmax and norms along an axis of a tile."""

from __future__ import annotations

from typing import Any

from tilewright import language as ct
from tilewright.lib.elementwise import _narrow, _wide


def softmax(x: Any, axis: int = -1) -> Any:
    """``exp(x)`` over its sum along ``axis``; -inf, as padding, has the weight 0.

    >>> lib.softmax(ct.zeros((4,), ct.float32))
    Tile([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    y = _wide(x)
    e = ct.exp(y - ct.max(y, axis, keepdims=True))
    return _narrow(e / ct.sum(e, axis, keepdims=True), x)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of ``softmax(x, axis)``.

    >>> lib.log_softmax(ct.zeros((1, 1), ct.float32))
    Tile([[0.]], dtype=float32)
    """
    y = _wide(x)
    y = y - ct.max(y, axis, keepdims=True)
    return _narrow(y - ct.log(ct.sum(ct.exp(y), axis, keepdims=True)), x)


def online_softmax(scores: Any, maximum: Any, total: Any, axis: int = -1) -> tuple[Any, Any, Any, Any]:
    """One step of a softmax over parts of a row: (weights, rescale, maximum, total).

    ``maximum`` (at first -inf) and ``total`` (at first 0) come from the step before, with extent 1 along ``axis``.
    ``weights`` is ``exp(scores - maximum)`` for the new maximum, and sums of earlier steps are multiplied by
    ``rescale``; at the end they are divided by ``total``. While all scores are -inf, the weights are 0.

    >>> lib.online_softmax(ct.zeros((2,), ct.float32), ct.full((1,), -np.inf, ct.float32), ct.ones((1,), ct.float32))[3]
    Tile([2.], dtype=float32)
    """
    highest = ct.maximum(maximum, ct.max(scores, axis, keepdims=True))
    shift = ct.where(highest == -float("inf"), 0, highest)
    weights = ct.exp(scores - shift)
    rescale = ct.exp(maximum - shift)
    return weights, rescale, highest, total * rescale + ct.sum(weights, axis, keepdims=True)


def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-6, count: Any = None, axis: int = -1) -> Any:
    """``x / sqrt(mean(x * x) + eps)``, times ``weight``.

    ``count`` is how many elements along ``axis`` there are, where others are padding with zeros.

    >>> lib.rms_norm(ct.full((4,), 2.0, ct.float32), eps=0.0)
    Tile([1., 1., 1., 1.], dtype=float32)
    """
    y = _wide(x)
    total = ct.sum(y * y, axis, keepdims=True)
    n = x.shape[axis] if count is None else count
    y = y * ct.rsqrt(total / n + eps)
    return _narrow(y if weight is None else y * weight, x)


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5, count: Any = None, axis: int = -1
) -> Any:
    """``(x - mean(x)) / sqrt(var(x) + eps)``, times ``weight``, plus ``bias``.

    ``count`` is how many elements along ``axis`` there are; what follows them is padding and counts for nothing.

    >>> lib.layer_norm(ct.full((4,), 2.0, ct.float32))
    Tile([0., 0., 0., 0.], dtype=float32)
    """
    ct.static_assert(-x.ndim <= axis < x.ndim, "the tile has no such axis")
    y = _wide(x)
    extent = x.shape[axis]
    n = extent if count is None else count
    if count is not None:
        last = axis if axis >= 0 else x.ndim + axis
        along = ct.static_eval(tuple(extent if i == last else 1 for i in range(x.ndim)))
        inside = ct.reshape(ct.arange(extent, dtype=ct.int32), along) < count
        y = ct.where(inside, y, 0)
    centred = y - ct.sum(y, axis, keepdims=True) / n
    if count is not None:
        centred = ct.where(inside, centred, 0)
    y = centred * ct.rsqrt(ct.sum(centred * centred, axis, keepdims=True) / n + eps)
    if weight is not None:
        y = y * weight
    return _narrow(y if bias is None else y + bias, x)
