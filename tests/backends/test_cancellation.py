"""What a compilation changes in the process is undone once: when it ends, or when it is cancelled before that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tilewright.backends.cancellation import Cancelled, Compilation


@contextlib.contextmanager
def change(log: list[str], name: str) -> Iterator[None]:
    log.append(name)
    try:
        yield
    finally:
        log.append(f"not {name}")


def test_changes_are_undone_at_the_end() -> None:
    log: list[str] = []
    with Compilation().change(change(log, "a"), change(log, "b")):
        log.append("within")
    assert log == ["a", "b", "within", "not b", "not a"]


def test_changes_are_undone_once_where_nobody_waits() -> None:
    compilation, log = Compilation(), list[str]()
    with compilation.change(change(log, "a")), compilation.change(change(log, "b")):
        compilation.cancel()
        assert log == ["a", "b", "not b", "not a"]
    assert log == ["a", "b", "not b", "not a"]


def test_what_is_cancelled_changes_nothing() -> None:
    compilation, log = Compilation(), list[str]()
    compilation.cancel()
    with pytest.raises(Cancelled), compilation.change(change(log, "a")):
        log.append("within")
    assert not log


def test_a_change_that_fails_undoes_those_before_it() -> None:
    @contextlib.contextmanager
    def failing() -> Iterator[None]:
        raise ValueError
        yield

    log: list[str] = []
    with pytest.raises(ValueError), Compilation().change(change(log, "a"), failing()):
        log.append("within")
    assert log == ["a", "not a"]
