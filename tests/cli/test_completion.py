"""Completion, by the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import main

BASH = """
{script}
COMP_WORDS=({words} "{last}")
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
COMP_LINE="{words} {last}"
COMP_POINT=${{#COMP_LINE}}
_tilewright
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# _arguments works within the line editor only; so the tables that it gets are printed.
ZSH = """
compdef() {{ }}
_describe() {{ printf '%s\\n' "$commands[@]" }}
_arguments() {{ printf '%s\\n' "$options[@]" }}
compset() {{ }}
compadd() {{ shift; printf '%s\\n' "$@" }}
{script}
words=({words} "{last}")
CURRENT=$#words
_tilewright
"""
FISH = "source {file}\ncomplete -C '{words} {last}'\n"


def offered(shell: str, words: str, last: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that ``shell`` offers for the word ``last`` after ``words``."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    file = folder / "script"
    file.write_text(script)
    program = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell].format(script=script, file=file, words=words, last=last)
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_values(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernels.py").touch()

    def find(words: str, last: str) -> str:
        return "\n".join(offered(shell, words, last, tmp_path, capsys))

    assert "check" in find("tilewright", "ch")
    options = find("tilewright check", "--s")
    assert "--schedule" in options and "--sarif" in options
    assert "clear" in find("tilewright cache", "cl")
    assert "-shared" in find("tilewright c++", "-s")
    (tmp_path / "clay.py").touch()
    assert "clay" not in find("tilewright cache", "cl")
    if shell != "zsh":
        assert "data-race" in find("tilewright check --disable", "data")
        assert "reference" in find("tilewright bench kernels.py::add --backend", "ref")
        assert "interleave" in find("tilewright check --schedule", "int")
        assert "kernels.py" in find("tilewright run", "kern")
    else:
        assert "interleave" in options and "data-race" in options


KERNELS = """\
import tilewright as ct
raise SystemExit("this file is not run")
@ct.kernel
def add(x): ...
@ct.kernel(opt_level=2)
def scale(x): ...
def helper(x): ...
"""
KERNELS_IN_CPP = "#include <cuda_tile.h>\n__tile_global__ void add(float* p) {}\n__global__ void scale(float* p) {}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_kernels_of_files(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "kernels.cu").write_text(KERNELS_IN_CPP)
    (tmp_path / "half.py").write_text("def half(")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tilewright").write_text(f'#!/bin/sh\nexec {sys.executable} -m tilewright "$@"\n')
    (tmp_path / "bin" / "tilewright").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def names(last: str) -> list[str]:
        found = offered(shell, "tilewright inspect", last, tmp_path, capsys)
        return [line.rpartition("::")[2] for line in found if line]

    assert names("kernels.py::") == ["add", "scale"]
    assert names("kernels.cu::") == ["add"]
    if shell == "bash":  # what is ours to say, whatever the shell
        assert names("half.py::") == names("missing.py::") == []
    if shell != "zsh":  # compadd itself leaves out what does not begin so
        assert names("kernels.py::sc") == ["scale"]
