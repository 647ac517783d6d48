"""``system.collector``: what is made while no garbage is collected is not looked through right afterwards, nor kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tilewright.system import collector


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def a_fresh_count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "_left", 0)
    monkeypatch.setattr(collector, "_frozen", False)
    gc.unfreeze()
    gc.collect()
    yield
    gc.freeze()  # as at the start of the tests
    gc.enable()


def test_what_was_made_belongs_to_the_oldest_generation() -> None:
    with collector.paused():
        made = [Cycle() for _ in range(1000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert sum(isinstance(o, Cycle) for o in gc.get_objects(generation=2)) == len(made)
    assert gc.get_freeze_count() == 0


def test_garbage_is_collected_when_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MOST_LEFT", 2500)
    gone = []
    for _ in range(4):
        with collector.paused():
            made = [Cycle() for _ in range(1000)]
            gone.append(weakref.ref(made[0]))
            del made
    assert [found() is None for found in gone] == [True, True, True, False]


def test_what_leaves_no_garbage_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MOST_LEFT", 500)
    with collector.paused(leaves=False):
        made = [Cycle() for _ in range(1000)]
        gone = weakref.ref(made[0])
        del made
    assert gone() is not None


def test_garbage_from_before_is_collected_where_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MOST_LEFT", 1000)
    gone = []
    for _ in range(20):
        made = [Cycle() for _ in range(100)]
        gone.append(weakref.ref(made[0]))
        del made
        with collector.paused(leaves=False):
            pass
    assert gone[0]() is None


def test_what_a_program_has_frozen_stays_so() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collector.paused():
        [Cycle() for _ in range(1000)]
    assert gc.get_freeze_count() >= frozen // 2 > 0


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collector.paused():
        pass
    assert not gc.isenabled()
