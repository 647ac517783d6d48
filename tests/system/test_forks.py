"""Processes that are forked while other threads compile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tilewright.system import forks

PROGRAM = """
import os, signal, threading, time, warnings
import numpy as np
import tilewright as ct

warnings.simplefilter("ignore")  # Python's own about fork beside threads

def make():
    @ct.kernel
    def k(x, out, by: ct.Constant[int]):
        t = ct.load(x, (0,), (8,))
        for i in ct.static_iter(range(8)):
            t = ct.exp(t * by) + i
        ct.store(out, (0,), t)
    return k

def compile_(by):
    ct.launch(None, (1,), make(), (np.zeros(8, np.float32), np.zeros(8, np.float32), by), backend="cpu")

def work():
    by = 0
    while not done:
        by += 1
        compile_(by)

done, statuses = False, []
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for i in range(6):
    time.sleep(0.013)
    child = os.fork()
    if not child:
        signal.alarm(60)
        compile_(1000 + i)
        os._exit(0)
    statuses.append(os.waitpid(child, 0)[1])
done = True
for thread in threads:
    thread.join()
assert statuses == [0] * 6, statuses
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_children_compile_whatever_other_threads_were_doing(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_lock_that_is_not_given_back_is_new_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_PATIENCE", 0.01)
    lock, taken, end = forks.fork_aware_lock(forks.CODE), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    child = os.fork()
    if not child:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not lock.acquire(blocking=False)
    end.set()
    thread.join()
    assert lock.acquire(blocking=False)
    lock.release()


def test_locks_are_taken_in_the_order_of_the_steps() -> None:
    later, first = forks.fork_aware_lock(forks.CODE), forks.fork_aware_lock(forks.MODULE)
    found = forks._locks()
    assert found.index(first) < found.index(later)
