"""The map for ``perf``: symbols of kernels that lie where the machine code does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import perf_map
from tilewright.backends.cpu.compiled import SYMBOLS, WATCH_SYMBOL
from tilewright.backends.native.image import can_load

pytestmark = pytest.mark.skipif(not can_load(), reason="machine code is loaded by LLVM here")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    monkeypatch.setenv("TILEWRIGHT_PERF_MAP", "1")
    return tmp_path


def launched() -> ct.kernel:
    @ct.kernel
    def halve(x):
        ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) / 2)

    x = np.ones(8)
    ct.launch(None, (2,), halve, (x,), backend="cpu")
    assert (x == 0.5).all()
    return halve


def test_kernels_are_named_where_they_lie(folder: Path) -> None:
    kernel = launched()  # its code is unmapped when it goes
    lines = perf_map.map_path().read_text().splitlines()
    assert all("halve (test_perf_map.py:" in line for line in lines)
    assert {line.split()[-1] for line in lines} == {*SYMBOLS} - {WATCH_SYMBOL}  # no block of it waits
    mapped = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    executable = [[int(n, 16) for n in where.split("-")] for where, mode in mapped if "x" in mode]
    for line in lines:
        start, size = (int(n, 16) for n in line.split()[:2])
        assert any(low <= start and start + size <= high for low, high in executable)
    assert kernel


def test_a_link_is_not_followed(folder: Path) -> None:
    (folder / "other").write_text("kept")
    perf_map.map_path().symlink_to(folder / "other")
    with pytest.raises(OSError):
        launched()
    assert (folder / "other").read_text() == "kept"


def test_nothing_is_written_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_PERF_MAP")
    launched()
    assert not perf_map.map_path().exists()
