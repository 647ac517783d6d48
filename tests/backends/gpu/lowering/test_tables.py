"""Lists whose tables are among the parameters, and those that are passed by address."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.backends import registry


@ct.kernel
def sums(xs, out, T: ct.Constant[int]):
    total = ct.zeros((T,), ct.float32)
    for i in range(len(xs)):
        total += (i + 1) * ct.load(xs[i], (ct.bid(0),), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0),), total)


@ct.kernel
def chosen(xs, ys, out, T: ct.Constant[int]):
    a = xs
    if ct.bid(0) == 1:
        a = ys
    ct.store(out, (ct.bid(0),), ct.load(a[1], (0,), (T,), padding_mode=ct.PaddingMode.ZERO))


@pytest.mark.parametrize(("capacity", "room"), [(8, 8), (0, 0), (1 << 20, 1279)])
def test_a_table_is_passed_by_value_with_room_for_as_many_arrays_as_fit(
    capacity: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = PtxBackend(2, "sm_90", capacity)
    backend.name = name = f"kept-{capacity}"
    monkeypatch.setitem(registry._loaders, name, lambda: backend)
    xs = [np.arange(n, dtype=np.float32) for n in (100, 70, 128)]
    found = [np.zeros(128, np.float32) for _ in range(2)]
    for which, out in zip((name, "reference"), found):
        ct.launch(None, (2,), sums, (xs, out, 64), backend=which)
    np.testing.assert_array_equal(*found)
    assert backend.made[-1].compiled.capacity == room
    assert [t.by_value for t in backend.made[-1].compiled.tables] == [room > 0]
    assert (".version 8.0\n" in backend.made[-1].compiled.ptx) == (
        room <= 8
    )  # in which kernels have 4352 bytes of parameters


def test_a_choice_between_tables_is_passed_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = PtxBackend(2, "sm_90", 8)
    monkeypatch.setitem(registry._loaders, "kept", lambda: backend)
    xs, ys = ([np.arange(100, dtype=np.float32) + k + i for i in range(2)] for k in (0, 50))
    found = [np.zeros(128, np.float32) for _ in range(2)]
    for name, out in zip(("kept", "reference"), found):
        ct.launch(None, (2,), chosen, (xs, ys, out, 64), backend=name)
    np.testing.assert_array_equal(*found)
    assert not any(t.by_value for t in backend.made[-1].compiled.tables)
