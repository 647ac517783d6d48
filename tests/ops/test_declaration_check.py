"""The sanitizer finds operators whose kernels do something else than the declaration says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operators import add, add_kernel, matmul, matmul_kernel, norm, norm_kernel, scale, scale_in_place

import tilewright as ct
from tilewright.sanitizer import Violation

Random = np.random.default_rng


def normal(*shape: int) -> Any:
    return Random(0).standard_normal(shape, dtype=np.float32)


@ct.kernel
def swapped_kernel(x: Any, out: Any, T: ct.Constant[int]) -> None:
    i, j = ct.bid(1), ct.bid(0)  # the axes of the grid the other way round
    ct.store(out, (i, j), ct.load(x, (i, j), (T, T)))


@ct.kernel
def clearing_kernel(x: Any, out: Any, T: ct.Constant[int]) -> None:
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)))
    ct.store(x, (ct.bid(0),), ct.zeros((T,), x.dtype))


@ct.kernel
def half_kernel(x: Any, out: Any, T: ct.Constant[int]) -> None:
    if ct.bid(0) % 2 == 0:
        ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)))


@ct.kernel
def centered_kernel(x: Any, out: Any, T: ct.Constant[int]) -> None:
    row = ct.load(x, (0,), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (0,), row - ct.sum(row) / x.shape[0])


@ct.kernel
def mean_kernel(x: Any, out: Any, T: ct.Constant[int]) -> None:
    row = ct.load(x, (0,), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (), ct.sum(row) / x.shape[0])


def centered(stream: Any, x: Any, out: Any) -> None:
    ct.launch(stream, (1,), centered_kernel, (x, out, 64))


def mean(stream: Any, x: Any, out: Any) -> None:
    ct.launch(stream, (1,), mean_kernel, (x, out, 64))


def untouched(stream: Any, x: Any, out: Any) -> None:
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), add_kernel, (x, x, out, 256))


def violations(op: Any, *args: Any) -> list[Violation]:
    with ct.sanitize() as report:
        op(*args)
    return [v for v in report.violations if v.category.name == "operator-declaration"]


def test_operators_that_do_what_they_declare() -> None:
    x, w = normal(12, 40), normal(40)
    a, b = normal(20, 30), normal(30, 17)
    with ct.sanitize() as report:
        add(x[0], x[1])
        scale(x[0], 3.0)
        scale(x[:, 3], 3.0)
        norm(x, w, 1e-5)
        np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-3, atol=1e-3)
        matmul(b.T[::-1], a.T)
        scale_in_place(w.copy(), 4.0)  # whose kernel takes one array twice, which is reported
    assert {v.category.name for v in report.violations} == {"overlapping-arguments"}, report.render()


DECLARED: list[tuple[Callable[[], Any], tuple[Any, ...], str, str]] = [
    (
        lambda: ct.op("wrong::swapped", "m n -> m n", kernel=swapped_kernel, grid={"m": 8, "n": 8}, constants=(8,)),
        (normal(16, 24),),
        "block 1 along axis 0 of the grid accesses index 0 of 'x' along 'm'; wrong::swapped declares that it has 8 to 15",
        "ct.load(x, (i, j), (T, T))",
    ),
    (
        lambda: ct.op("wrong::cleared", "n -> n", kernel=clearing_kernel, grid={"n": 8}, constants=(8,)),
        (normal(20),),
        "stores to 'x', which wrong::cleared does not declare in mutates",
        "ct.store(x, (ct.bid(0),), ct.zeros((T,), x.dtype))",
    ),
    (
        lambda: ct.op("wrong::half", "n -> n", kernel=half_kernel, grid={"n": 8}, constants=(8,)),
        (normal(24),),
        "wrong::half leaves 8 of 24 elements of its output 'out' uninitialized",
        "ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)))",
    ),
    (
        lambda: ct.op("wrong::tiles", "n, n -> n", kernel=add_kernel, grid={"n": 128}, constants=(256,)),
        (normal(300), normal(300)),
        "block 0 along axis 0 of the grid accesses index 128 of 'a' along 'n'; wrong::tiles declares that it has 0 to 127",
        "ct.load(a, (i,), (TILE,))",
    ),
    (
        lambda: ct.op("wrong::centered", "n -> n", sharded="n")(centered),
        (normal(40),),
        "'out' of wrong::centered is not that of the parts when 'n', which is declared as sharded, is split",
        "ct.store(out, (0,), row - ct.sum(row) / x.shape[0])",
    ),
    (
        lambda: ct.op("wrong::mean", "n -> ()", summed="n")(mean),
        (normal(40),),
        "'out' of wrong::mean is not the sum of those of the parts when 'n', which is declared as summed, is split",
        "ct.store(out, (), ct.sum(row) / x.shape[0])",
    ),
    (
        lambda: ct.op("wrong::untouched", "n -> n", mutates="x", sharded="n")(untouched),
        (normal(40),),
        "wrong::untouched declares that it changes 'x', but stores nothing there",
        'ct.op("wrong::untouched"',
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("declare", "args", "message", "line"), DECLARED, ids=[m.split(":: ")[0][:30] for _, _, m, _ in DECLARED]
)
def test_wrong_declarations(declare: Callable[[], Any], args: tuple[Any, ...], message: str, line: str) -> None:
    op = declare()
    found = violations(op, *[a.copy() for a in args])
    assert [v.message for v in found][:1] == [message], found
    assert line in found[0].render()
    op(*args)  # outside of the sanitizer nothing is checked
    with pytest.raises(ct.TileError, match="operator-declaration: "), ct.sanitize(stop=True):
        op(*[a.copy() for a in args])
    with ct.sanitize(disable=["operator-declaration"]) as report:
        op(*[a.copy() for a in args])
    assert "operator-declaration" not in {v.category.name for v in report.violations}


def test_a_dimension_that_is_not_sharded() -> None:
    """The norm of a row needs all of it."""
    columns = ct.op("wrong::columns", "rows cols, cols -> rows cols, rows", sharded="rows cols")(
        lambda stream, x, weight, out, inverse: ct.launch(
            stream, (x.shape[0],), norm_kernel, (x, weight, out, inverse, 1e-6, 64)
        )
    )
    messages = {v.message for v in violations(columns, normal(4, 40), normal(40))}
    assert messages == {
        "'out' of wrong::columns is not that of the parts when 'cols', which is declared as sharded, is split"
    }
    product = ct.op(
        "wrong::product", "m k, k n -> m n", kernel=matmul_kernel, grid={"m": 16, "k": 16}, constants=(16, 16, 16)
    )
    assert "along 'k'" in violations(product, normal(32, 32), normal(32, 32))[0].message


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    with ct.sanitize() as report:
        torch.testing.assert_close(matmul(torch.ones(20, 30), torch.ones(30, 17)), torch.full((20, 17), 30.0))
        scale(torch.ones(300, dtype=torch.bfloat16), 3.0)
    assert report.clean and report.launches == 2, report.render()
    cleared = ct.op("wrong::cleared_tensor", "n -> n", kernel=clearing_kernel, grid={"n": 8}, constants=(8,))
    (found,) = violations(cleared, torch.ones(20))
    assert found.message == "stores to 'x', which wrong::cleared_tensor does not declare in mutates"
