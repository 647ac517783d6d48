"""Commands on files of CUDA Tile IR: run, check, view, inspect and debug take a kernel of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import main
from tilewright.cli.errors import FAILED, MISUSE
from tilewright.tileir.bytecode import write
from tilewright.tileir.text import parse_module, print_module

TEXT = """\
entry @double(%a: tile<ptr<i32>>, %n: tile<i32>, %stride: tile<i32>) {
  %v = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
  %p = make_partition_view %v : partition_view<tile=(4), tensor_view<?xi32, strides=[1]>>
  %b, %y, %z = get_tile_block_id : tile<i32>
  %x, %t = load_view_tko weak %p[%b] : partition_view<tile=(4), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<4xi32>, token
  %d = addi %x, %x overflow<no_signed_wrap> : tile<4xi32>
  %s = store_view_tko weak %d, %p[%b] token = %t : tile<4xi32>, partition_view<tile=(4), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
  return
}
"""


@pytest.fixture(params=("mlir", "tilebc"))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"double.{request.param}"
    module = parse_module(TEXT, str(path))
    path.write_bytes(TEXT.encode() if request.param == "mlir" else write(module))
    return path


def test_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{file}::double", "--grid", "2", "--arg", "i32[8]"]) == 0
    assert capsys.readouterr().out == "i32[8]: [ 0,  2,  4,  6,  8, 10, 12, 14]\n"
    assert main(["run", str(file), "--arg", "i32[8]", "--arg", "8", "--arg", "1"]) == 0
    assert capsys.readouterr().out == "i32[8]: [0, 2, 4, 6, 4, 5, 6, 7]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("::triple",), "has no kernel triple; it has: double; write FILE::KERNEL"),
        (("::double", "--arg", "f32[8]"), "is a float32 array, but its parameter is a pointer to int32"),
        (("::double", "--arg", "i32[8]", "--size", "3"), "unknown argument '--size' for a kernel of CUDA Tile IR"),
        (("::double",), "has 3 parameters, for which there are 0 arguments: pass one for each"),
    ],
)
def test_mistakes(file: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{file}{arguments[0]}", *arguments[1:]]) == MISUSE
    assert message in capsys.readouterr().err


TWO = """\
global @numbers <i32: [7, 8]> : tile<2xi32>
entry @first(%p: tile<ptr<i32>>) {
  %g = get_global @numbers : tile<ptr<i32>>
  %x, %t = load_ptr_tko weak %g : tile<ptr<i32>> -> tile<i32>, token
  %u = store_ptr_tko weak %p, %x token = %t : tile<ptr<i32>>, tile<i32> -> token
  return
}
entry @second() {
  return
}
"""


def test_files_without_a_suffix_are_known_by_their_first_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made"
    path.write_bytes(write(parse_module(TWO)))
    assert main(["run", f"{path}::first", "--arg", "i32[2]"]) == 0
    assert capsys.readouterr().out == "i32[2]: [7, 1]\n"
    assert main(["inspect", f"{path}::second"]) == 0
    said = capsys.readouterr().out
    assert "entry @second" in said and "entry @first" not in said
    path.write_bytes(b"\x7fELF" + bytes(60))
    assert main(["inspect", str(path)]) == FAILED
    assert "at byte 4: expected an object that is whole" in capsys.readouterr().err


def test_mistakes_of_inspect_and_debug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(TWO)
    assert main(["inspect", f"{path}::third"]) == MISUSE
    assert "has no kernel third; it has: first, second" in capsys.readouterr().err
    assert main(["debug", f"{path}::first", "--arg", "i32[2]", "--arg", "i32[2]"]) == MISUSE
    assert "has 1 parameters, for which there are 2 arguments" in capsys.readouterr().err


def test_check_and_view(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{file}::double", "--grid", "2", "--arg", "i32[8]"]) == 0
    assert "1 launch checked: no violation" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main(["view", "--output", str(page), f"{file}::double", "--grid", "2", "--arg", "i32[8]"]) == 0
    assert page.stat().st_size > 1000


def test_inspect(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file)]) == 0
    assert capsys.readouterr().out == print_module(parse_module(TEXT))
    assert main(["inspect", str(file), "--arg", "i32[8]", "--backend", "reference"]) == 0
    assert "load_view(" in capsys.readouterr().out


def test_debug(file: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tilewright",
        "debug",
        f"{file}::double",
        "--grid",
        "2",
        "--block",
        "1",
        "--arg",
        "i32[8]",
    ]
    said = "next\nnext\nnext\nnext\nnext\np\nlist\nwhere\nnonsense\np %none\nvalues\nstep\ncontinue\n"
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "block (1, 0, 0)" in done.stdout and "block (0, 0, 0)" not in done.stdout
    assert "unknown command 'nonsense'" in done.stdout and "no op has used %none yet" in done.stdout
    if file.suffix == ".mlir":
        assert f"> {file}(6) block (1, 0, 0)\n-> %d = addi %x, %x overflow<no_signed_wrap>" in done.stdout
        assert "   6-> " in done.stdout
        assert " = [4 5 6 7]\n" in done.stdout


def test_a_file_that_is_damaged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(file.read_bytes()[:100])
    assert main(["run", str(file)]) == FAILED
    assert f"{file}" in capsys.readouterr().err
