"""Undefined elements are followed to where a program depends on them, and no further."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.cli.files import load_module

SIZE = 6  # of arrays that are loaded in tiles of 4: the last two elements of the second tile are undetermined


def violations(kernel: Any, *args: Any, blocks: int = 1) -> list[Any]:
    with ct.sanitize() as report:
        ct.launch(None, (blocks,), kernel, args)
    return report.violations


@ct.kernel
def harmless(x: Any, out: Any, n: Any) -> None:
    """Undefined elements are computed with, masked, selected away, multiplied by zero and dropped at the edge."""
    i = ct.bid(0)
    t = ct.load(x, (i,), (4,))
    place = i * 4 + ct.arange(4, dtype=ct.int32)
    inside = place < n
    ct.store(out, (i,), t // (t - 1000) + t * 2)
    ct.store(out, (i,), ct.where(inside, t, 0))
    ct.scatter(out, place, t * 3, mask=inside & (t > -(10**6)))
    ct.scatter(out, (place,), ct.gather(x, t * inside.astype(ct.int32)), mask=inside)
    kept = ct.sum(ct.where(inside, t, 0)) + ct.max(t * inside.astype(ct.int32))
    both = ct.cat((t.extract((0,), (2,)), t.extract((0,), (2,))), 0)
    whole = t.reshape((2, 2)).transpose().reshape((4,)).extract((0,), (1,)).item()
    if kept + ct.sum(both) > whole:
        ct.store(out, (i,), t)


def test_what_does_not_depend_on_undefined_elements_is_clean() -> None:
    assert violations(harmless, np.arange(SIZE, dtype=np.int32), np.zeros(SIZE, np.int32), SIZE, blocks=2) == []


@ct.kernel
def divided_pairs(x: Any, out: Any) -> None:
    t = ct.load(x, 0, 4)
    quotient, _ = ct.reduce((t, t), 0, lambda a, i, b, j: (a // j, i), (0, 0))
    ct.store(out, 0, quotient)


def test_faults_in_a_combiner_of_pairs() -> None:
    (found,) = violations(divided_pairs, np.array([1, 2, 0, 3], np.int32), np.zeros(1, np.int32))
    assert found.category.name == "division-by-zero"
    assert found.loc.line == divided_pairs.function.__code__.co_firstlineno + 3


EXPRESSIONS = [
    ("t", (2,)),
    ("t + 1", (2,)),
    ("ct.where(t > 3, 1, 2)", (2,)),
    ("ct.full((4,), ct.sum(t), ct.int32)", (0,)),
    ("ct.cumsum(t)", (2,)),
    ("ct.cumsum(t, reverse=True)", (0,)),
    ("t.reshape((2, 2)).transpose().reshape((4,))", (1,)),
    ("ct.cat((t.extract((1,), (2,)), t.extract((0,), (2,))), 0)", (0,)),
    (
        "ct.mma(t.astype(ct.int8).reshape((1, 4)), ct.ones((4, 4), ct.int8), ct.zeros((1, 4), ct.int32)).reshape((4,))",
        (0,),
    ),
    ("ct.bitcast(ct.bitcast(t, ct.float32), ct.int32)", (2,)),
    ("ct.unpack_from_bytes(ct.pack_to_bytes(t), ct.int32)", (2,)),
    ("t & t", (2,)),
    ("ct.zeros((4,), ct.int32).insert((1,), t.extract((1,), (2,)))", (2,)),
]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    text = "import tilewright as ct\n"
    for i, (expression, _) in enumerate(EXPRESSIONS):
        text += (
            f"@ct.kernel\ndef k{i}(x, out):\n    t = ct.load(x, (1,), (4,))\n    ct.store(out, (0,), {expression})\n"
        )
    path = tmp_path_factory.mktemp("kernels") / "expressions.py"
    path.write_text(text)
    return load_module(path)


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=[e for e, _ in EXPRESSIONS])
def test_undefined_elements_reach_a_store(kernels: Any, number: int) -> None:
    (found,) = violations(getattr(kernels, f"k{number}"), np.arange(SIZE, dtype=np.int32), np.zeros(4, np.int32))
    assert found.category.name == "undefined-value" and found.element == EXPRESSIONS[number][1]
    (origin,) = found.related
    assert "padding" in origin.message and "'x'" in origin.message and origin.loc.line == found.line - 1


@ct.kernel
def accumulate(x: Any, out: Any) -> None:
    """Carried around a loop, and swapped there."""
    a, b = ct.load(x, (1,), (4,)), ct.zeros((4,), ct.int32)
    for _ in range(3):
        a, b = b, a
    ct.store(out, (0,), a)
    ct.store(out, (1,), b)


def test_loops_carry_what_is_undefined() -> None:
    (found,) = violations(accumulate, np.arange(SIZE, dtype=np.int32), np.zeros(8, np.int32))
    assert found.line == accumulate.function.__code__.co_firstlineno + 7


@ct.kernel
def total(x: Any, out: Any) -> None:
    ct.store(out, (ct.bid(0),), ct.sum(ct.load(x, (ct.bid(0),), (4,)), keepdims=True))


def test_memory_that_nobody_wrote() -> None:
    original = np.empty
    with ct.sanitize() as report:
        x, out = np.empty(12, np.int32), np.empty(3, np.int32)
        x[:8] = 1
        ct.launch(None, (3,), total, (x, out))
    (found,) = report.violations
    assert found.category.name == "undefined-value" and found.block == (2, 0, 0)
    assert found.related[0].message == "this element of 'x' was never written"
    with ct.sanitize() as report:
        y = np.empty_like(x)
        ct.launch(None, (2,), total, (x, y))
        np.copyto(y[2:4], 3)
        ct.launch(None, (1,), total, (y[:4], out))  # written by the kernel and by the host
    assert report.clean
    assert np.empty is original
