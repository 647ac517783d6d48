"""A process that compiles kernels and drops them keeps nothing of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STATM = Path("/proc/self/statm")
PROGRAM = """
import gc, linecache, pathlib
import numpy as np, tilewright as ct

def resident():
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

def compile_and_drop(i):
    source = f"def kernel(x, out):\\n    v = ct.load(x, (0,), (16,))\\n    ct.store(out, (0,), ct.exp(v) * {i}.5 + ct.sum(v))\\n"
    name = f"<kernel {i}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"ct": ct}
    exec(compile(source, name, "exec"), namespace)
    x = np.ones(16, np.float32)
    ct.launch(None, (1,), ct.kernel(namespace["kernel"]), (x, np.empty_like(x)))
    del linecache.cache[name]

for i in range(30):
    compile_and_drop(i)
growth = []
for start in range(30, 105, 25):
    before = resident()
    for i in range(start, start + 25):
        compile_and_drop(i)
    growth.append((resident() - before) // 25)
print(min(growth))  # the allocator takes pages now and then; what leaks does each time
"""


@pytest.mark.skipif(not STATM.exists(), reason="reads the size of a process from /proc")
def test_kernels_that_are_dropped_leave_no_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert int(done.stdout) < 2000  # bytes for each kernel: what 10,000 leave is below 20 MB
