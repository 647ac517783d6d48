"""Recording what a program compiles, and compiling it ahead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as ct
from tilewright.cli import main
from tilewright.cli.errors import FINDINGS, MISUSE
from tilewright.runtime.manifest import RECORD

PROGRAM = """\
import sys
import numpy as np
import tilewright as ct

def make(bias):
    @ct.kernel
    def shift(x, out, N: ct.Constant[int]):
        tile = ct.load(x, (0,), (N,)) + bias
        ct.assert_(tile > 0, "positive")
        ct.print("shifted", bias)
        ct.store(out, (0,), tile)
    return shift

for n in map(int, sys.argv[1:]):
    for bias in (1.0, 2.5):
        kernel, x = make(bias), np.ones(64, np.float32)
        out = np.zeros_like(x)
        ct.launch(None, (1,), kernel, (x, out, n))
        assert (out[:n] == 1 + bias).all()
        print(*(s.compilation.origin for s in kernel.inspect().specializations))
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(RECORD, "")  # the command sets it, in this process
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "shifted" not in line]


def test_a_later_process_starts_warm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    off = {"TILEWRIGHT_CACHE_DIR": "off"}
    assert run("-m", "tilewright", "record", "m.jsonl", "program.py", "8", "16", **off) == ["compiled"] * 4
    assert run("program.py", "16", "32", TILEWRIGHT_RECORD="m.jsonl", **off) == ["compiled"] * 4
    lines = Path("m.jsonl").read_text().splitlines()
    assert len(lines) == 8 and len(set(lines)) == 6
    assert main(["precompile", "m.jsonl"]) == 0
    out = capsys.readouterr().out
    assert out.count("shift for cpu: compiled in ") == 6 and out.endswith(": 6 of 6 compiled\n")
    assert run("program.py", "8", "16", "32") == ["disk cache"] * 6
    assert main(["precompile", "m.jsonl"]) == 0
    assert capsys.readouterr().out.endswith(": 0 of 6 compiled\n")


def manifest_line(**changes: object) -> str:
    ir = 'func @f(%x: ptr<f32> = "x".base) {\n  return()\n}\n'
    return json.dumps(
        {"tilewright": ct.__version__, "kernel": "f", "backend": "cpu", "options": {}, "ir": ir, **changes}
    )


MISTAKES = {
    "damaged": ("{", "m.jsonl:2: this is no line of a manifest"),
    "a list": ("[]", "m.jsonl:2: this is no line of a manifest"),
    "another version": (manifest_line(tilewright="0.0.1"), "m.jsonl:2: recorded by tilewright 0.0.1, but this is"),
    "no terminator": (manifest_line(ir="func @f() {\n}"), "of this entry is damaged: 2:1: a block has no terminator"),
    "bad IR": (manifest_line(ir="func @f( {"), "m.jsonl:2: the Tile IR of this entry is damaged: 1:"),
}


@pytest.mark.parametrize("line, words", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.jsonl").write_text(f"{manifest_line()}\n{line}\n")
    assert main(["precompile", "m.jsonl"]) == MISUSE
    assert words in capsys.readouterr().err


def test_backends_that_store_nothing_are_not_listed() -> None:
    for backend in ("reference", "python"):
        off = {"TILEWRIGHT_CACHE_DIR": "off", "TILEWRIGHT_BACKEND": backend, "TILEWRIGHT_RECORD": "m.jsonl"}
        assert run("program.py", "8", **off) == ["compiled"] * 2
    assert not Path("m.jsonl").exists()


def test_what_cannot_be_compiled_does_not_stop_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [manifest_line(backend="abacus"), manifest_line(options={"warps": 4}), manifest_line()]
    Path("m.jsonl").write_text("\n".join(lines))
    assert main(["precompile", "m.jsonl"]) == FINDINGS
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("f for abacus: not compiled: unknown backend 'abacus'")
    assert out[1].startswith("f for cpu: not compiled: the cpu backend has no option 'warps'")
    assert out[2].startswith("f for cpu: compiled in ")
    assert out[3].endswith(": 1 of 3 compiled, 2 failed")


def test_no_manifest_no_cache_no_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["precompile", "nowhere"]) == MISUSE
    assert "nowhere" in capsys.readouterr().err
    assert main(["record", "m.jsonl", "nowhere.py"]) == MISUSE
    assert "there is no program nowhere.py" in capsys.readouterr().err
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    assert main(["precompile", "m.jsonl"]) == MISUSE
    assert "the disk cache is switched off" in capsys.readouterr().err
