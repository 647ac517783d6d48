"""Programs in which something goes wrong on the GPU: they are told what, and go on where they can."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

Outcome = Callable[[str], "tuple[int, list[str], str]"]

PREAMBLE = """
import numpy as np
import tilewright as ct
from support.cuda import DeviceArray, stream

@ct.kernel
def increased(x, y):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (64,)) + 1)

@ct.kernel
def checked(x, y):
    t = ct.load(x, (ct.bid(0),), (64,))
    ct.assert_(t < 1000, "too large")
    ct.store(y, (ct.bid(0),), t + 1)

x, y = DeviceArray.of(np.arange(256, dtype=np.int32)), DeviceArray((256,), np.int32)

def works():
    for kernel in (increased, checked):
        ct.launch(None, (4,), kernel, (x, y))
        assert (y.numpy() == np.arange(256) + 1).all()
"""


@pytest.fixture
def outcome(tmp_path: Path) -> Outcome:
    """Runs a program: its exit status, the lines of its output, and what went to the standard error."""

    def run(program: str) -> tuple[int, list[str], str]:
        file = tmp_path / "program.py"
        file.write_text(PREAMBLE + program)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300, env=env, check=False)
        return ran.returncode, ran.stdout.splitlines(), ran.stderr

    return run


def test_a_failed_assert_is_an_error_and_no_more(outcome: Outcome) -> None:
    status, lines, _ = outcome("""
bad = np.arange(256, dtype=np.int32); bad[200] = 5000
bad = DeviceArray.of(bad)
for launch in (lambda: ct.launch(None, (4,), checked, (bad, y)), checked.bind((4,), (bad, y))):
    for _ in range(3):
        works()
        try:
            launch()
        except ct.TileError as e:
            print(e.message)
works()
""")
    assert status == 0 and lines == ["assertion failed: too large, in block (3, 0, 0)"] * 6


def test_every_block_prints(outcome: Outcome) -> None:
    status, lines, _ = outcome("""
@ct.kernel
def talking():
    ct.printf("%d of %d: %f\\n", ct.bid(0), ct.num_blocks(0), ct.bid(0) * 0.5)

ct.launch(None, (3000,), talking, ())
x.numpy()
ct.launch(None, (2,), talking, ())
works()
""")
    wanted = Counter(f"{i} of 3000: {i * 0.5:f}" for i in range(3000))
    wanted.update(f"{i} of 2: {i * 0.5:f}" for i in range(2))
    assert status == 0 and Counter(lines) == wanted


def test_an_exception_between_launches(outcome: Outcome) -> None:
    status, lines, errors = outcome("""
try:
    ct.launch(None, (4,), increased, (x, y))
    ct.launch(None, (4,), increased, (x, "y"))
except TypeError as e:
    print(type(e).__name__)
works()
with stream() as queue:
    ct.launch(queue, (4,), increased, (x, y))
    raise KeyError("in the middle")
""")
    assert status == 1 and lines == ["TypeError"] and errors.endswith("KeyError: 'in the middle'\n")


def test_a_lost_device(outcome: Outcome) -> None:
    """An index that was promised to be inside, and is not."""
    status, lines, errors = outcome("""
@ct.kernel
def wild(x, i):
    ct.scatter(x, i, 1, check_bounds=False)

z = DeviceArray.of(np.arange(256, dtype=np.int32))
ct.launch(None, (1,), wild, (z, 0))
works()
ct.launch(None, (1,), wild, (z, -(1 << 30)))
for attempt in (lambda: x.numpy(), works, lambda: ct.launch(None, (1,), wild, (z, 0)), increased.bind((4,), (x, y))):
    try:
        attempt()
    except ct.TileError as e:
        print(str(e))
""")
    assert status == 0, errors
    assert len(lines) == 4 and all("CUDA error 7" in line for line in lines)
    assert all("A kernel that this process launched before has failed" in line for line in lines[1:])


def test_a_tile_that_is_too_large(outcome: Outcome) -> None:
    status, lines, errors = outcome("""
@ct.kernel
def large(a, b, c):
    acc = ct.mma(ct.load(a, (0, 0), (256, 256)), ct.load(b, (0, 0), (256, 256)), ct.zeros((256, 256), ct.float32))
    ct.store(c, (0, 0), acc)

a = DeviceArray((256, 256), np.float32)
try:
    ct.launch(None, (1,), large, (a, a, DeviceArray((256, 256), np.float32)))
except ct.TileError as e:
    print(e.message)
works()
""")
    assert status == 0 and len(lines) == 1, errors
    assert "f32[256,256] needs 262144 bytes of shared memory" in lines[0]
