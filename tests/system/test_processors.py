"""The limits of containers, from files as Linux has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.backends.cpu.threads import thread_count
from tilewright.system.processors import available_processors, container_limit

CASES = {
    "none": ("0::/\n", {"cpu.max": "max 100000\n"}, None),
    "version 2": ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
    "the least": ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n"}, 2.0),
    "another root": ("0::/docker/x\n", {"cpu.max": "50000 100000\n"}, 0.5),
    "version 1": (
        "5:cpu,cpuacct:/x\n0::/\n",
        {"cpu/x/cpu.cfs_quota_us": "300000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
        3.0,
    ),
    "no quota": ("5:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, None),
}


@pytest.mark.parametrize("membership, files, expected", CASES.values(), ids=CASES)
def test_limits(membership: str, files: dict[str, str], expected: float | None, tmp_path: Path) -> None:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert container_limit(tmp_path / "groups", tmp_path / "membership") == expected
    assert container_limit(tmp_path / "groups", tmp_path / "nothing") is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_NUM_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert available_processors() == thread_count() == 1
    finally:
        os.sched_setaffinity(0, before)
