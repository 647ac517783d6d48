"""Kernels with few and many parameters, for ``gpu_launches.py``: of either implementation, which is ``ct`` here."""
# mypy: ignore-errors
# ruff: noqa: F821


@ct.kernel
def one(x, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, (i,), ct.load(x, (i,), (N,)) + 1.0)


@ct.kernel
def three(x, y, out, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (N,)) + ct.load(y, (i,), (N,)))


@ct.kernel
def many(a, b, c, d, e, f, out, p, q, r, s, t, N: ct.Constant[int]):
    i = ct.bid(0)
    u = ct.load(a, (i,), (N,)) * p + ct.load(b, (i,), (N,)) * q + ct.load(c, (i,), (N,)) * r
    v = ct.load(d, (i,), (N,)) * s + ct.load(e, (i,), (N,)) * t + ct.load(f, (i,), (N,))
    ct.store(out, (i,), u + v)


@ct.kernel
def product(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), acc)
    ct.store(c, (i, j), ct.astype(acc, c.dtype))
