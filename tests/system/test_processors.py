"""The limits of containers, from files as Linux has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.backends.cpu.threads import thread_count
from tilewright.system.processors import available_processors, container_limit, cores

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


def test_processors_of_one_core_count_once(tmp_path: Path) -> None:
    for number, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert cores({0, 1, 2, 3}, tmp_path) == cores({0, 1}, tmp_path) == cores({2, 3}, tmp_path) == 2
    assert cores({0, 2}, tmp_path) == 1
    assert cores({0, 1, 7, 8}, tmp_path) == 4  # of two, nothing is told


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_NUM_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert available_processors() == thread_count() == 1
    finally:
        os.sched_setaffinity(0, before)
