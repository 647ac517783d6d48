"""Kernels that reduce rows, and random ones."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from support.kernel_generator import GeneratedKernel

import tilewright as ct


def softmax_of(x, out, row, T):  # type: ignore[no-untyped-def]
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    values = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(out, (row, 0), (values / ct.sum(values, axis=1, keepdims=True)).astype(out.dtype))


def softmax(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    softmax_of(x, out, ct.bid(0), T)


def persistent(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        softmax_of(x, out, row, T)


def centered(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """One reduction in each iteration, whose result the next one must not overwrite too early."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.load(x, (row, 0), (1, T))
        ct.store(out, (row, 0), values - ct.sum(values, axis=1, keepdims=True) / x.shape[1])


def gathered(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    columns = ct.arange(T, dtype=ct.int32)
    values = ct.gather(x, (ct.bid(0), columns), padding_value=0)
    ct.scatter(out, (ct.bid(0), columns), values - ct.sum(values) / x.shape[1])


def marked(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """What is reduced are pairs."""
    values = ct.load(x, (ct.bid(0), 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
    first = ct.argmax(values, axis=1, keepdims=True)
    columns = ct.arange(T, dtype=ct.int32)[None, :]
    ct.store(out, (ct.bid(0), 0), ct.where(columns == first, values * 2, values))


def ordered(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """A reduction that is not commutative: it gives the last number that is not negative."""
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    last = ct.reduce(values, 1, lambda a, b: ct.where(b < 0, a, b), -1.0, keepdims=True)
    ct.store(out, (ct.bid(0), 0), values + last)


def several(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """Two rows in a tile, each with a sum of its own."""
    values = ct.load(x, (ct.bid(0), 0), (2, T))
    ct.store(out, (ct.bid(0), 0), values - ct.max(values, axis=1, keepdims=True))


def losses(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """One number of a row is stored, by one CTA."""
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    ct.store(out, (ct.bid(0), 0), ct.sum(values * values, axis=1, keepdims=True))
    ct.scatter(out, (ct.bid(0), 1), ct.max(values))


def scanned(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    ct.store(out, (ct.bid(0), 0), ct.cumsum(values, axis=1) / ct.sum(values))


def replaced(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    ct.store(x, (ct.bid(0), 0), values / ct.sum(values))


def twice(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    ct.store(out, (ct.bid(0), 0), values / ct.sum(values))
    ct.store(out, (0, 0), ct.sum(values, axis=1, keepdims=True))


def largest(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    ct.store(out, (ct.bid(0), 0), ct.maximum(values, ct.max(values, axis=1, keepdims=True)))


def online(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """A softmax in steps of ``T`` columns."""
    top, total = ct.full((1, 1), -math.inf, ct.float32), ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (ct.bid(0), j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        new = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(values - new), axis=1, keepdims=True)
        top = new
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (ct.bid(0), j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        ct.store(out, (ct.bid(0), j), ct.exp(values - top) / total)


def of_squares(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """A norm in steps of ``T`` columns."""
    total = 0.0
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (ct.bid(0), j), (1, T))
        total += ct.sum(values * values)
    for j in range(ct.cdiv(x.shape[1], T)):
        ct.store(out, (ct.bid(0), j), ct.load(x, (ct.bid(0), j), (1, T)) * ct.rsqrt(total))


DIVIDED = [softmax, persistent, centered, gathered, marked, ordered, several, losses]


def random_rows(seed: int) -> Any:
    """A kernel that computes with rows of small integers, and reduces some, for every row or those of a loop."""
    random = Random(seed)
    rows, numbers = ["a", "(a - b)", "(a + columns % 5)"], ["1", "(n % 3)"]
    lines = []
    for i in range(random.randint(3, 8)):
        row = random.choice(rows)
        if random.random() < 0.4:
            reduced = random.choice(("ct.sum({})", "ct.max({})", "ct.min({})", "ct.argmax({})", "ct.argmin({})"))
            lines.append(f"s{i} = {reduced.format(row)} % 7")
            numbers.append(f"s{i}")
        else:
            form = random.choice(("{} + {}", "{} - {}", "ct.maximum({}, {})", "ct.where({} < {}, a, b)"))
            lines.append(f"r{i} = ({form.format(row, random.choice(rows + numbers))}) % 9")
            rows.append(f"r{i}")
    lines += [f"ct.store(out, (row, 0), ({rows[-1]} + ct.sum({random.choice(rows)}) % 3)[None, :].astype(out.dtype))"]
    if random.random() < 0.5:
        lines.append(f"ct.store(total, (row,), ({numbers[-1]} + 0.0).astype(total.dtype))")
    lines = ["a = ct.load(x, (row, 0), (1, T)).reshape((T,))", "b = ct.load(w, (0,), (T,))", *lines]
    loop = random.random() < 0.5
    head = ["for row in range(ct.bid(0), x.shape[0], 2):"] if loop else ["row = ct.bid(0)"]
    body = ["n = x.shape[1]", "columns = ct.arange(T, dtype=ct.int32)", *head, *(" " * loop + t for t in lines)]
    source = "\n".join(["def kernel(x, w, out, total, T: ct.Constant[int]):", *(f"    {t}" for t in body), ""])
    print(source)
    return GeneratedKernel(seed, f"@ct.kernel\n{source}", (4,), []).kernel()
