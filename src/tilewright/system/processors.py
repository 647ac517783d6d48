"""What this process may use of processors: how many, and the tile registers of AMX."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

_GROUPS, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_PROCESSORS = Path("/sys/devices/system/cpu")
PROCESSORS_HEADER = Path(__file__).with_suffix(".h")  # the same in C


def available_processors() -> int:
    """How many the affinity of the calling thread allows, those of one core counting as one, and the limit of its
    container, of which a part counts as a whole one."""
    affinity = hasattr(os, "sched_getaffinity")
    found = _cores(frozenset(os.sched_getaffinity(0))) if affinity else os.cpu_count() or 1
    limit = _container_limit()
    return found if limit is None else max(1, min(found, math.ceil(limit)))


@functools.cache
def _cores(processors: frozenset[int]) -> int:
    return cores(processors, _PROCESSORS)


def cores(processors: Collection[int], folder: Path) -> int:
    """How many cores these logical processors are of. Where ``folder`` does not tell, each has one of its own."""

    def siblings(number: int) -> str:
        try:
            return (folder / f"cpu{number}/topology/thread_siblings_list").read_text()
        except OSError:
            return str(number)

    return len(set(map(siblings, processors)))


@functools.cache
def _container_limit() -> float | None:
    return container_limit(_GROUPS, _MEMBERSHIP)


def container_limit(groups: Path, membership: Path) -> float | None:
    """How many processors' time the control groups of Linux (version 2 or 1) allow, or None for any.

    ``groups`` is where they are mounted, and ``membership`` tells those of the process.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    found: list[float] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found += _limits(groups, path, _quota_of_version_2)
        elif "cpu" in controllers.split(","):
            found += _limits(groups / "cpu", path, _quota_of_version_1)
    return min(found, default=None)


def _limits(root: Path, path: str, quota: Callable[[Path], float | None]) -> Iterator[float]:
    """The limits of a group and those around it. A container may see its group as the root, under another path."""
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder == root or root in folder.parents:
            try:
                found = quota(folder)
            except (OSError, ValueError):
                continue
            if found is not None:
                yield found


def _quota_of_version_2(folder: Path) -> float | None:
    quota, period = (folder / "cpu.max").read_text().split()
    return None if quota == "max" else int(quota) / int(period)


def _quota_of_version_1(folder: Path) -> float | None:
    quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return None if quota < 0 else quota / period


_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18  # <asm/unistd_64.h>, <asm/prctl.h>, XSAVE's component


@functools.cache
def request_tiles() -> bool:
    """Ask for them, for all threads of this process; False where there are none, or the kernel refuses."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)
