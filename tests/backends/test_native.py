"""Functions of Python made of machine code."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.backends import native
from tilewright.backends.native import code
from tilewright.backends.native.body import Body
from tilewright.backends.native.image import can_load

CODE = """
import gc
from tilewright.backends.native import compiler
for _ in range(20):
    cycle = [compiler().MachineCode("define void @call() {\\nret void\\n}\\n")]
    cycle.append(cycle)
    del cycle
    gc.collect()
"""


def test_machine_code_in_reference_cycles_is_collected() -> None:
    """In a process of its own, which a wrong order of disposal would end."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


PROGRAM = """
import sys
import numpy as np
import tilewright as ct

@ct.kernel
def count(x):
    ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) + 1)

x = np.zeros(8, np.int32)
for _ in range(200):
    ct.launch(None, (2,), count, (x,))
run = count.bind((2,), (x,))
run()
assert (x == 201).all()
print("llvmlite.binding" in sys.modules, count.cached_launch is not None, type(run.func).__name__)
"""


@pytest.mark.skipif(not (native.available() and can_load()), reason="LLVM loads machine code here")
def test_machine_code_of_launches_is_kept_for_other_processes(tmp_path: Path) -> None:
    """The second process needs no LLVM."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}

    def said() -> list[str]:
        command = [sys.executable, str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert said() == ["True", "True", "builtin_function_or_method"]
    assert said() == ["False", "True", "builtin_function_or_method"]


def stored_by_stub(number: int) -> int:
    body = Body()
    body.store("i64", body.number(number), "%values")
    made = code.stub_code(body, "7")
    word = ctypes.c_int64()
    enter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(made.address("enter"))
    assert enter(None, ctypes.addressof(word)) == 7
    return word.value


@pytest.mark.skipif(not (native.available() and can_load()), reason="LLVM loads machine code here")
def test_code_with_other_addresses_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_keepers", [])
    native.compiler()
    misses = code._image.cache_info().misses
    assert [stored_by_stub(n) for n in (5, -6, 0)] == [5, -6, 0]
    assert code._image.cache_info().misses == misses + 1


@pytest.mark.skipif(not native.available(), reason="there is no LLVM")
def test_code_that_llvm_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "can_load", lambda: False)
    native.compiler()
    assert [stored_by_stub(n) for n in (5, -6, 0)] == [5, -6, 0]


@pytest.mark.skipif(not native.available(), reason="there is no LLVM")
def test_loops_and_conditions_of_a_body() -> None:
    """A sum of the odd numbers below one, each twice."""
    body = Body()
    total = body.stack("i64")
    body.store("i64", 0, total)
    with body.each(body.load("i64", "%values")) as i:
        odd = body.op("icmp eq i64", body.op("and i64", i, 1), 1)
        with body.when(odd), body.each("2"):
            body.store("i64", body.op("add i64", body.load("i64", total), i), total)
    native.compiler()
    made = code.stub_code(body, body.op("trunc i64", f"{body.load('i64', total)} to i32"))
    enter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(made.address("enter"))
    for n in (0, 1, 2, 9):
        assert enter(None, ctypes.addressof(ctypes.c_int64(n))) == 2 * sum(range(1, n, 2))


def test_without_llvm_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "loaded", lambda: False)
    monkeypatch.setattr(native, "_keepers", [])
    body = Body()
    body.store("i64", body.number(1), "%values", 88)
    with pytest.raises(native.NotCompiled):
        code.stub_code(body, "1")
