"""Operators for the tests: declared from a kernel, from a launching function, in place, and from Tile C++."""

from __future__ import annotations

from typing import Any

import tilewright as ct


@ct.kernel
def add_kernel(a: Any, b: Any, out: Any, TILE: ct.Constant[int]) -> None:
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,)))


@ct.kernel
def scale_kernel(x: Any, out: Any, factor: float, TILE: ct.Constant[int]) -> None:
    i = ct.bid(0)
    ct.store(out, (i,), (ct.load(x, (i,), (TILE,)) * factor).astype(out.dtype))


@ct.kernel
def norm_kernel(x: Any, weight: Any, out: Any, inverse: Any, eps: float, COLS: ct.Constant[int]) -> None:
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, COLS), padding_mode=ct.PaddingMode.ZERO)
    mean = ct.sum(values * values, axis=1, keepdims=True) / x.shape[1]
    scale = 1 / ct.sqrt(mean + eps)
    weights = ct.load(weight, (0,), (COLS,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (row, 0), values * scale * weights[None, :])
    ct.store(inverse, (row,), scale.reshape((1,)))


@ct.kernel
def matmul_kernel(a: Any, b: Any, out: Any, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TK)):
        left = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (i, j), total.astype(out.dtype))


def with_rules(gradient: Any = None, jvp: Any = None) -> Any:
    """An operator that adds, with these derivatives."""
    made = ct.op("tests::ruled", "n, n -> n", kernel=add_kernel, grid={"n": 256}, constants=(256,))
    if gradient is not None:
        made.gradient(gradient)
    if jvp is not None:
        made.jvp(jvp)
    return made


add = ct.op("tests::add", "n, n -> n", kernel=add_kernel, grid={"n": 256}, constants=(256,), autocast="float32")


@add.gradient
def add_gradient(grad_out: Any) -> Any:
    return grad_out, grad_out


@ct.op("tests::scale", "n -> n", sharded="n")
def scale(stream: Any, x: Any, out: Any, factor: float = 2.0) -> None:
    """``x`` times ``factor``."""
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), scale_kernel, (x, out, factor, 256))


@scale.gradient
def scale_gradient(grad_out: Any, factor: float) -> Any:
    return scale(grad_out, factor)


@scale.jvp
def scale_tangent(tangent_x: Any, factor: float) -> Any:
    return scale(tangent_x, factor)


@ct.op("tests::scale_", "n ->", mutates="x", sharded="n")
def scale_in_place(stream: Any, x: Any, factor: float = 2.0) -> None:
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), scale_kernel, (x, x, factor, 256))


@ct.op("tests::norm", "rows cols, cols -> rows cols, rows", sharded="rows")
def norm(stream: Any, x: Any, weight: Any, out: Any, inverse: Any, eps: float = 1e-6) -> None:
    """Root-mean-square norm of the rows, and the factor of each row. Up to 64 columns."""
    ct.launch(stream, (x.shape[0],), norm_kernel, (x, weight, out, inverse, eps, 64))


matmul = ct.op(
    "tests::matmul",
    "m k, k n -> m n",
    kernel=matmul_kernel,
    grid={"m": 16, "n": 16},
    constants=(16, 16, 16),
    summed="k",
    autocast="lower",
)


@matmul.gradient
def matmul_gradient(grad_out: Any, a: Any, b: Any) -> Any:
    return matmul(grad_out, b.T), matmul(a.T, grad_out)


@matmul.jvp
def matmul_tangent(a: Any, b: Any, tangent_a: Any, tangent_b: Any) -> Any:
    return matmul(tangent_a, b) + matmul(a, tangent_b)
