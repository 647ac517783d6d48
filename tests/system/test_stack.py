"""Threads whose stack is too small to compile in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tilewright.system.stack import require_stack, stack_bytes

# In a process of its own: threads get the stacks of those that have ended, which may be larger.
PROGRAM = """
import threading
from tilewright.system.stack import require_stack

def work():
    try:
        require_stack()
    except RuntimeError as e:
        print(e)

threading.stack_size(32 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(stack_bytes() is None, reason="the system does not tell the size of a stack")
def test_a_small_stack_is_an_error() -> None:
    require_stack()
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert "has a stack of 32 KiB, and compiling a kernel needs at least 64" in done.stdout
