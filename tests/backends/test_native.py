"""Functions of Python made of machine code."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import gc
from tilewright.backends.native.code import _Code
for _ in range(20):
    cycle = [_Code("f", "define ptr @call(ptr %self, ptr %nothing) {\\nret ptr null\\n}\\n", 4).function()]
    cycle.append(cycle)
    del cycle
    gc.collect()
"""


def test_machine_code_in_reference_cycles_is_collected() -> None:
    """In a process of its own, which a wrong order of disposal would end."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
