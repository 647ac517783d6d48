"""Products by machine code are those of NumPy, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backends.reference import linear, ordered_products


@pytest.mark.parametrize("m, n, k, batch", [(64, 64, 32, ()), (1, 4096, 16, ()), (33, 31, 64, ()), (16, 3, 1024, (2,))])
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_the_machine_code_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, batch: tuple[int, ...], scale: float
) -> None:
    rng = np.random.default_rng(m + n)
    x, y, acc = (rng.normal(size=(*batch, *shape)).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    x *= np.float32(scale)
    x[..., 0, 0], x[..., -1, 1], y[..., 0, 0] = np.inf, np.nan, -0.0
    y *= np.float32(scale / 1e22 if scale > 1 else 1)
    with np.errstate(all="ignore"):
        fast = linear._add_products(acc, x, y, np.float64)
        monkeypatch.setattr(ordered_products, "add_products", lambda *_: False)
        slow = linear._add_products(acc, x, y, np.float64)
    assert fast.dtype == slow.dtype == np.float32
    np.testing.assert_array_equal(fast, slow)


def test_the_machine_code_is_used() -> None:
    total = np.zeros((64, 64), np.float32)
    assert ordered_products.add_products(total, np.ones((64, 32), np.float32), np.ones((32, 64), np.float32))
    assert (total == 32).all()
    assert not ordered_products.add_products(total[:4, :4], np.ones((4, 2), np.float32), np.ones((2, 4), np.float32))
