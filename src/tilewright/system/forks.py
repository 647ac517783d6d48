"""Locks that processes may be forked beside.

A child has only the thread that forked it: a lock that another one held would stay locked in it for ever, and what that
thread was changing, LLVM's state among it, would stay half changed. So ``fork`` waits until the locks are free.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import weakref
from typing import Any

from tilewright.system import collector

# Compilers nest: who holds the lock of one step takes only those of later steps.
MODULE, KERNEL, DRIVER, CODE, IMPORT = range(5)
_PATIENCE = 20.0  # seconds; what compiles longer may wait for the thread that forks. The child then gets new locks

_ranks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_forking = threading.local()  # ``held``: the locks that the thread took before it forks


def fork_aware_lock(rank: int) -> Any:
    """A lock that a thread may take again, of the step ``rank``."""
    lock = threading.RLock()
    _ranks[lock] = rank
    return lock


_IMPORTING = fork_aware_lock(IMPORT)


def load(name: str) -> Any:
    """The module ``name``, imported at run time: in a child, one that another thread was importing could never be."""
    found = sys.modules.get(name)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    with _IMPORTING, collector.paused():  # what is imported stays
        return importlib.import_module(name)


def _locks() -> list[Any]:
    """The locks that are there, the first steps first. Other threads may make some meanwhile."""
    found = [
        (rank, lock)
        for ref in _ranks.keyrefs()
        if (lock := ref()) is not None and (rank := _ranks.get(lock)) is not None
    ]
    return [lock for _, lock in sorted(found, key=lambda pair: pair[0])]


def _before() -> None:
    end = time.monotonic() + _PATIENCE
    _forking.held = []
    for lock in _locks():
        if lock.acquire(timeout=max(0.0, end - time.monotonic())):
            _forking.held.append(lock)


def _release() -> None:
    for lock in reversed(_forking.held):
        lock.release()
    _forking.held = []


def _renew() -> None:
    missed = [lock for lock in _locks() if lock not in _forking.held]
    _release()
    for lock in missed:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_renew)
