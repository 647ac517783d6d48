"""The limits of containers, from files as Linux has them, by the rules in Python and by those in C."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.backends.cpu.threads import thread_count
from tilewright.system.processors import PROCESSORS_HEADER, available_processors, container_limit, cores

ZIG = [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None
COMPILER = shlex.split(os.environ.get("CC", "")) or (["cc"] if shutil.which("cc") else ZIG)
IN_C = f"""#include "{PROCESSORS_HEADER}"
double limit(const char *groups, const char *membership) {{ return tw_container_limit(groups, membership); }}
int count(void) {{ return tw_processors(); }}
"""

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
    "several of version 1": (
        "7:cpuset:/y\n6:cpuacct,cpu:/x/y\n1:name=cpu:/z\n",
        {"cpu/x/y/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"},
        2.5,
    ),
    "no quota": ("5:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, None),
}


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if sys.platform != "linux" or COMPILER is None:
        pytest.skip("needs Linux and a C compiler: CC, cc on PATH, or the package ziglang")
    folder = tmp_path_factory.mktemp("processors")
    (folder / "processors.c").write_text(IN_C)
    command = [*COMPILER, "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "processors.c", "-o", "processors.so"]
    environment = {"ZIG_LOCAL_CACHE_DIR": str(folder), **os.environ}
    subprocess.run(command, cwd=folder, check=True, timeout=300, env=environment)
    library = ctypes.CDLL(str(folder / "processors.so"))
    library.limit.restype, library.limit.argtypes = ctypes.c_double, [ctypes.c_char_p] * 2
    return library


def _write(folder: Path, membership: str, files: dict[str, str]) -> None:
    (folder / "membership").write_text(membership)
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("membership, files, expected", CASES.values(), ids=CASES)
def test_limits_in_c(
    membership: str, files: dict[str, str], expected: float | None, tmp_path: Path, in_c: ctypes.CDLL
) -> None:
    _write(tmp_path, membership, files)
    paths = [str(tmp_path / name).encode() for name in ("groups", "membership", "nothing")]
    assert in_c.limit(*paths[:2]) == (expected or 0)
    assert in_c.limit(paths[0], paths[2]) == 0


@pytest.mark.parametrize("membership, files, expected", CASES.values(), ids=CASES)
def test_limits(membership: str, files: dict[str, str], expected: float | None, tmp_path: Path) -> None:
    _write(tmp_path, membership, files)
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


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_affinity_in_c(in_c: ctypes.CDLL) -> None:
    """Also where it changes: what is counted for one set of processors is not that of another."""
    before = os.sched_getaffinity(0)
    try:
        for allowed in (before, {min(before)}, before):
            os.sched_setaffinity(0, allowed)
            assert in_c.count() == available_processors()
    finally:
        os.sched_setaffinity(0, before)
