"""What sinks are told: launches, accesses in order, violations."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as ct
from tilewright.sanitizer import Access, Launch, Violation


class Recorder:
    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.accesses: list[Access] = []
        self.violations: list[Violation] = []
        self.finished_launches = 0

    def finished(self) -> None:
        self.finished_launches += 1

    def launch(self, event: Launch) -> None:
        self.launches.append(event)

    def access(self, event: Access) -> None:
        self.accesses.append(event)

    def violation(self, violation: Violation) -> None:
        self.violations.append(violation)


@ct.kernel
def kernel(x: Any, out: Any, count: Any) -> None:
    i = ct.bid(0)
    t = ct.load(x, (0, i), (2, 4), padding_mode=ct.PaddingMode.ZERO)
    ct.scatter(out, ct.arange(4, dtype=ct.int32) * 2 + i, t.extract((1, 0), (1, 4)).reshape((4,)))
    ct.atomic_add(count, 0, 1)


def test_events() -> None:
    x = np.asfortranarray(np.arange(12, dtype=np.int32).reshape(2, 6))[:, ::-1]
    out, count = np.zeros(9, np.int32), np.zeros(1, np.int32)
    recorder = Recorder()
    with ct.sanitize(sinks=[recorder]) as report:
        ct.launch(None, (2,), kernel, (x, out, count))
    (launch,) = recorder.launches
    assert launch.kernel == "kernel" and launch.grid == (2, 1, 1)
    assert [(a.name, a.shape) for a in launch.arrays] == [("x", (2, 6)), ("out", (9,)), ("count", (1,))]
    first = kernel.function.__code__.co_firstlineno
    assert [(a.order, a.kind, a.block[0], a.array, a.loc.line - first, a.padding) for a in recorder.accesses] == [
        (0, "read", 0, 0, 3, 0),
        (1, "write", 0, 1, 4, 0),
        (2, "atomic", 0, 2, 5, 0),
        (3, "read", 1, 0, 3, 4),
        (4, "write", 1, 1, 4, 0),
        (5, "atomic", 1, 2, 5, 0),
    ]
    strides = launch.arrays[0].strides
    assert strides is not None and recorder.accesses[3].elements.tolist() == [
        row * strides[0] + column * strides[1] for row in (0, 1) for column in (4, 5)
    ]
    assert recorder.accesses[4].elements.tolist() == [1, 3, 5, 7]
    assert recorder.violations == report.violations == []


def test_violations_reach_sinks() -> None:
    recorder = Recorder()
    with ct.sanitize(sinks=[recorder]) as report:
        ct.launch(None, (4,), kernel, (np.zeros((2, 6), np.int32), np.zeros(9, np.int32), np.zeros(1, np.int32)))
    assert {v.category.name for v in recorder.violations} == {v.category.name for v in report.violations} != set()
