"""Work that is waited for no longer than so many seconds."""

from __future__ import annotations

import threading

import pytest

from tilewright.system.overtime import Overtime, within


def test_results_and_errors_come_back() -> None:
    assert within(60, lambda: threading.current_thread().name, "worker") == "worker"
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0, "worker")


def test_who_is_late_goes_on() -> None:
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(60)
        done.set()

    with pytest.raises(Overtime) as late:
        within(0.01, work, "worker")
    assert late.value.thread.name == "worker" and not done.is_set()
    go_on.set()
    late.value.thread.join(60)
    assert done.is_set()
