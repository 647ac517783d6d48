"""Kernels with replaced hints are made once, until something that their source names changes."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.runtime.captures import Captures

ADDED = 1
TABLE = {"added": [1, 2]}
OTHER = types.ModuleType("other")
OTHER.inner = types.ModuleType("inner")
OTHER.inner.ADDED = 1
ANOTHER = types.ModuleType("another")
ANOTHER.ADDED = 5


class Settings:
    added = 1


@dataclasses.dataclass
class Record:
    added: int


RECORD = Record(1)


@ct.function
def marked(x):
    return x + ADDED


def by_global(x):
    return x + ADDED


def by_twice(x):
    return x + x


def by_function(x):
    return marked(by_global(x))


def by_module(x):
    return x + OTHER.inner.ADDED


def by_class(x):
    return x + Settings.added


def by_instance(x):
    return x + ct.static_eval(RECORD.added)


def by_table(x):
    return x + ct.static_eval(TABLE["added"][0])


def test_equal_hints_give_one_kernel() -> None:
    @ct.kernel
    def count(out):
        ct.store(out, (0,), ct.ones((4,), ct.int32))

    found = [count.replace_hints(occupancy=n) for n in (2, 4, 2, 4, 2)]
    assert found[0] is found[2] is found[4] and found[1] is found[3]
    assert found[0] is not found[1] and count not in found
    assert found[0] is count.replace_hints(occupancy=2, num_ctas=None)
    assert count.replace_hints() not in [*found, count]
    assert found[0].replace_options("cpu", threads=1).replace_hints(occupancy=4) is not found[0].replace_hints(
        occupancy=4
    )


def test_launches_with_replaced_hints_trace_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @ct.kernel
    def ones(out):
        ct.store(out, (0,), ct.ones((4,), ct.int32))

    traced: list[Any] = []
    trace = ct.kernel.trace
    monkeypatch.setattr(ct.kernel, "trace", lambda self, s: (traced.append(self), trace(self, s))[1])
    for n in (1, 2, 4) * 5:
        out = np.zeros(4, np.int32)
        ct.launch(None, (1,), ones.replace_hints(occupancy=n), (out,), backend="reference")
        assert (out == 1).all()
    assert len(traced) == 3


def test_only_so_many_are_remembered() -> None:
    @ct.kernel
    def nothing(out):
        pass

    made = [nothing.replace_hints(occupancy=n, opt_level=level) for level in (1, 2, 3) for n in range(1, 33)]
    assert len(set(map(id, made))) == len(made)
    assert len(nothing.variants) < len(made)
    assert nothing.replace_hints(occupancy=32) is made[-1]
    assert nothing.replace_hints(occupancy=1, opt_level=1) is not made[0]


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[pytest.MonkeyPatch], None]]] = {
    "global": (by_global, lambda m: m.setitem(globals(), "ADDED", 5)),
    "functions": (by_function, lambda m: m.setitem(globals(), "ADDED", 5)),
    "function itself": (by_function, lambda m: m.setitem(globals(), "marked", by_twice)),
    "module in a module": (by_module, lambda m: m.setattr(OTHER.inner, "ADDED", 5)),
    "module": (by_module, lambda m: m.setattr(OTHER, "inner", ANOTHER)),
    "class": (by_class, lambda m: m.setattr(Settings, "added", 5)),
    "instance": (by_instance, lambda m: m.setattr(RECORD, "added", 5)),
    "list in a dictionary": (by_table, lambda m: TABLE["added"].insert(0, TABLE["added"][0] + 1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_the_source_names_makes_a_new_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, change = CHANGES[name]

    @ct.kernel
    def kernel(x, out):
        ct.store(out, (0,), function(ct.load(x, (0,), (4,))))

    def run() -> tuple[ct.kernel, Any]:
        made, x, out = kernel.replace_hints(occupancy=2), np.arange(4), np.zeros(4, np.int64)
        ct.launch(None, (1,), made, (x, out), backend="reference")
        return made, list(out)

    first, before = run()
    assert run() == (first, before)
    change(monkeypatch)
    second, after = run()
    assert second is not first and after != before
    assert run() == (second, after)


def test_cells_partials_methods_and_defaults_are_looked_into() -> None:
    held = [1]

    class Thing:
        @staticmethod
        def static():
            return held

        @property
        def value(self):
            return held

    thing, part = Thing(), functools.partial(lambda a: held, 1)

    def f(x, y=Thing.static):
        return thing, part, x, y

    for of in (f, Thing.static, part.func, thing.__class__.value.fget):
        assert isinstance(of, types.FunctionType)
        found = Captures(of)
        assert found.unchanged()
        held.append(2)
        assert not found.unchanged()
    found = Captures(f)
    assert found.unchanged()
    thing = Thing()
    assert not found.unchanged()


def test_a_function_that_names_too_much_is_never_the_same() -> None:
    many: list[Any] = [[n] for n in range(5000)]

    def f():
        return many

    assert not Captures(f).unchanged()
