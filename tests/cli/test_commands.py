"""The commands of the ``tilewright`` program, as a person types them."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright import cli
from tilewright.backends.registry import backend_names, get_backend
from tilewright.cli import demo, doctor, main, tune
from tilewright.cli.arguments import parse_argument, parse_index
from tilewright.cli.errors import FAILED, FINDINGS, MISUSE, UsageError

KERNELS = """\
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
import tilewright as ct

@dataclass(frozen=True)
class Bias:
    amount: float

BIAS = Bias(0.5)

@ct.kernel
def shift(x, out, scale, N: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (N,)) * scale + BIAS.amount)

@ct.kernel
def wrong(x):
    ct.store(x, (0,), ct.load(x, (0,), (3,)))
"""
ARGS = ["--arg", "f32[64]", "--arg", "f32[64]", "--arg", "f32", "--arg", "8"]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("128", 128),
        ("-3", -3),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("i32", np.int32(0)),
        ("bf16", ct.bfloat16.storage.type(0)),
        ("(1, (2.0,), true)", (1, (2.0,), True)),
        ("ct.bfloat16", ct.bfloat16),
    ],
)
def test_argument_specifications(text: str, expected: Any) -> None:
    found = parse_argument(text)
    assert found == expected and type(found) is type(expected)


def test_array_specifications() -> None:
    a, b = parse_argument("(f32[4,8], float8_e4m3fn[])")
    assert (a.shape, a.dtype) == ((4, 8), np.float32)
    assert (b.shape, b.dtype) == ((), ct.float8_e4m3fn.storage)


@pytest.mark.parametrize("text", ["", "f33[3]", "tf32[4]", "x", "f32[a]", "(1,x)"])
def test_bad_specifications(text: str) -> None:
    with pytest.raises(UsageError, match="is no argument; write an array such as"):
        parse_argument(text)


def test_an_unknown_dtype() -> None:
    with pytest.raises(UsageError, match="'ct.float33' is no dtype; write one such as ct.float32"):
        parse_argument("ct.float33")


def test_inspect_shows_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "kernels.py::shift", *ARGS]) == 0
    out = capsys.readouterr().out
    for title in ("Tile IR", "optimized Tile IR", "loops", "LLVM IR", "optimized LLVM IR", "assembly"):
        assert out.count(f"==== {title}\n") == 1
    assert out.count("func @shift(") == 3 and "define " in out


def test_inspect_shows_cuda_tile_ir(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "kernels.py::shift", *ARGS, "--stage", "tileir"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("==== tileir\nentry @shift(")
    assert "load_view_tko weak" in out and "func @" not in out


def test_inspect_lists_the_kernels_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("twice.cu").write_text('#include "cuda_tile.h"\n__tile_global__ void twice(float* x) {}\n')
    assert main(["inspect", "kernels.py"]) == 0 and main(["inspect", "twice.cu"]) == 0
    assert capsys.readouterr().out.split() == ["kernels.py::shift", "kernels.py::wrong", "twice.cu::twice"]


def test_inspect_shows_one_stage_of_another_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "kernels.py::shift", *ARGS, "--backend", "reference", "--stage", "Tile IR"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("==== Tile IR\nfunc @shift(") and out.count("====") == 1


MISTAKES = [
    (["nowhere.py"], "there is no file nowhere.py; write FILE::KERNEL, such as kernels.py::add, not nowhere.py"),
    (["nowhere.py::f"], "there is no program nowhere.py"),
    (["kernels.py::BIAS"], "has no kernel BIAS at its top level; it has: shift, wrong"),
    (["kernels.py::shift"], "shift() takes 4 --arg (x, out, scale, N), not 0"),
    (["kernels.py::shift", *ARGS[:-1], "f32[4]"], "argument 'N' of shift() is an array"),
    (["kernels.py::shift", *ARGS, "--stage", "PTX"], "there is no stage PTX; the stages are: Tile IR,"),
    (["kernels.py::shift", *ARGS, "--backend", "abacus"], "unknown backend 'abacus'"),
    (["kernels.py::wrong", "--arg", "f32[8]"], "kernels.py:18:40: dimension 0 of the tile shape"),
]


@pytest.mark.parametrize("arguments, words", MISTAKES, ids=[words[:24] for _, words in MISTAKES])
def test_inspect_explains_mistakes(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *arguments]) == (FAILED if "wrong" in arguments[0] else MISUSE)
    assert words in capsys.readouterr().err


def test_doctor_runs_every_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"tilewright {ct.__version__}, Python 3.")
    for name in backend_names():
        missing = get_backend(name).unavailable()
        assert f"backend {name:<12} {'works' if missing is None else f'not here: {missing}'}\n" in out


def test_doctor_says_why_an_backend_does_not_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "backend_names", lambda: ("cpu", "abacus"))
    assert main(["doctor"]) == FINDINGS
    assert "backend abacus       does not work: unknown backend 'abacus'" in capsys.readouterr().out


def test_cache_lists_and_clears(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["cache", "list"]) == 0
    assert "0 entries, 0 bytes of at most 1.0 GiB" in capsys.readouterr().out
    main(["inspect", "kernels.py::shift", *ARGS, "--stage", "Tile IR"])
    capsys.readouterr()
    assert main(["cache", "list"]) == 0
    assert "shift of kernels.py for cpu\n" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 1 entry from " in capsys.readouterr().out
    folder = Path(os.environ["TILEWRIGHT_CACHE_DIR"])
    (folder / "tmpabcdefgh").write_bytes(bytes(100))
    assert main(["cache", "list"]) == 0
    assert "100 bytes  tmpabcdefgh  unfinished\n" in (said := capsys.readouterr().out)
    assert ": 0 entries and 1 unfinished file, 100 bytes of at most" in said
    assert main(["cache", "clear"]) == 0
    assert "removed 0 entries and 1 unfinished file from " in capsys.readouterr().out
    assert not list(folder.iterdir())
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    assert main(["cache", "list"]) == 0
    assert "switched off" in capsys.readouterr().out


def test_demo_needs_the_repository(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "EXAMPLES", Path("nowhere"))
    assert main(["demo"]) == MISUSE
    assert "clone it and type ./run demo" in capsys.readouterr().err


def test_program_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "--version"], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, f"tilewright {ct.__version__}\n")
    done = subprocess.run([sys.executable, "-m", "tilewright"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "COMMAND" in done.stderr


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = set(re.findall(r"^  ([a-z+]+)  ", capsys.readouterr().out, re.MULTILINE))
    _, commands = cli._parsers(list(cli.COMMANDS))
    assert listed == set(commands.choices) == set(cli.COMMANDS)


@pytest.mark.parametrize("text, index", [("4K", (4096, 1, 1)), ("3, 2k", (3, 2048, 1)), ("1,2,3", (1, 2, 3))])
def test_grids_take_sizes(text: str, index: tuple[int, int, int]) -> None:
    assert parse_index(text, "grid", 1) == tune._grid(text)({}) == index
    assert parse_argument("4K") == 4096


def test_the_examples_of_the_help_exist(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[2] / "examples"
    found = []
    for command in ("debug", "inspect"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        found += re.findall(r"examples/(\S+\.(?:py|cu))::(\w+)", capsys.readouterr().out)
    assert len(found) >= 4
    for file, kernel in found:
        assert re.search(rf"^(def|__tile_global__ void) {kernel}\(", (folder / file).read_text(), re.MULTILINE), kernel


@pytest.mark.parametrize(
    "command", [["run"], ["check"], ["check", "--json"], ["view"], ["record", "manifest"]], ids=str
)
@pytest.mark.parametrize("program", ["missing.py", "missing.cu"])
def test_programs_that_do_not_exist(command: list[str], program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, program]) == MISUSE
    said = capsys.readouterr()
    assert program in said.err and said.out == "", "a report would look clean"


@pytest.mark.parametrize(
    "source, words",
    [
        (b"def f(:\n", "bad.py:1:7: SyntaxError"),
        (b"x = 1\0\n", "null bytes"),
        (b"x = '\xff'\n", "xff"),
    ],
    ids=["syntax", "null byte", "encoding"],
)
@pytest.mark.parametrize(
    "command",
    [["inspect", "bad.py::f"], ["debug", "bad.py::f"], ["run", "bad.py"], ["check", "bad.py"], ["view", "bad.py"]],
)
def test_programs_that_are_no_python(
    command: list[str], source: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.py").write_bytes(source)
    assert main(command) == MISUSE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "command, words",
    [
        (["inspect", "a" * 300 + "::f"], "a" * 300),
        (["debug", "a" * 300 + "::f"], "a" * 300),
        (["run", "a" * 300], "a" * 300),
        (["run", "-m", "nomodule"], "No module named nomodule"),
        (["run", "-m", "."], "Relative module names"),
        (["run", "--std", "c++20", "kernels.py"], "--std is for files of Tile C++ only"),
        (["inspect", "-D", "A", "kernels.py::shift"], "-D is for files of Tile C++ only"),
        (["inspect", "kernels.py::shift", "--arg", "f32[99999999999999]"], "f32[99999999999999]: "),
        (["inspect", "kernels.py::shift", *ARGS, "--plot", "."], "cannot write ."),
        (["inspect", "kernels.py::shift", *ARGS, "--plot", "a.svg", "--grid", "x"], "--grid x: write up to three"),
        (["inspect", "kernels.py::shift", *ARGS, "--grid", "2"], "--grid is the grid that --plot runs"),
        (["record", ".", "program.py"], ". is no regular file"),
        (["record", "/dev/full", "program.py"], "/dev/full is no regular file"),
        (["record", "missing/m.jsonl", "program.py"], "cannot write missing/m.jsonl: No such file"),
        (["check", "--sarif", ".", "program.py"], "cannot write .: Is a directory"),
        (["check", "--seed", "1", "program.py"], "--seed is for --schedule random only"),
        (["view", "-o", ".", "program.py"], "cannot write .: Is a directory"),
        (["view", "--schedule", "reverse", "--seed", "1", "program.py"], "--schedule reverse has no use for it"),
        (["run", "--replace", "program.cu"], "--replace is for programs in Python"),
        (["precompile", "/dev/null"], "is no regular file"),
        (["precompile", "latin"], "is no manifest: "),
        (["inspct", "kernels.py::shift"], "there is no command inspct; did you mean inspect?"),
        (["program.py"], "there is no command program.py; to run that program: tilewright run program.py"),
        (["frobnicate"], "there is no command frobnicate; there are demo, run, "),
        (["bench", "kernels.py::shift", *ARGS, "--grid", "1.5"], "--grid 1.5: write up to three numbers"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_misuse_is_explained(command: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("latin").write_bytes(b"\xff")
    Path("program.py").write_text("raise AssertionError('it was found out too late')\n")
    assert main(command) == MISUSE
    said = capsys.readouterr().err
    assert words in said
    assert "cuda.tile is" not in said, "it is found before a program starts"


def test_a_full_disk_is_found_before_the_program_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    Path("program.py").write_text("raise AssertionError('it was found out too late')\n")
    for command in (["record", "m.jsonl"], ["check", "--sarif", "s.json"], ["view", "-o", "v.html"]):
        assert main([*command, "program.py"]) == MISUSE
        assert "cannot write to the folder .: No space left on device" in capsys.readouterr().err
        assert sorted(f.name for f in Path().iterdir() if f.is_file()) == ["kernels.py", "program.py"]


def test_a_limit_is_a_number_of_accesses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["view", "--limit", "-5", "kernels.py"])
    assert "is no number of accesses" in capsys.readouterr().err


def test_an_unknown_option_shows_how_the_command_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--frob", "program.py"])
    said = capsys.readouterr().err
    assert ended.value.code == MISUSE and "usage: tilewright check" in said and "arguments: --frob" in said


@pytest.mark.parametrize(("arguments", "hinted"), [(["x", "--json"], True), (["--", "--json"], False), (["-D"], False)])
def test_options_after_the_program_get_a_hint(
    arguments: list[str], hinted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("program.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
    assert main(["check", "program.py", *arguments]) == 7, "its own status"
    said = capsys.readouterr()
    assert repr(arguments[-1]) in said.out
    assert ("write it before program.py where tilewright check is to have it" in said.err) == hinted


def test_a_program_that_raises_is_shown_from_its_own_lines_on(capsys: pytest.CaptureFixture[str]) -> None:
    Path("program.py").write_text("def f():\n    raise OSError('gone')\n\nf()\n")
    assert main(["run", "program.py"]) == FAILED
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("  File")] == [
        f'  File "{Path("program.py").resolve()}", line 4, in <module>',
        f'  File "{Path("program.py").resolve()}", line 2, in f',
    ]
    assert lines[-1] == "OSError: gone"


SIDE_EFFECTS = """\
import sys
sys.path.insert(0, "beside")
import neighbour
import tilewright as ct

TABLE = {}
TABLE["N"] = neighbour.N
TABLE.update(M=2)
TOTAL = TABLE["N"] + TABLE["M"]
for x in [8]:
    SIZE = x
UNUSED = open("nowhere")

def make(n):
    @ct.kernel
    def shift(x):
        ct.store(x, (0,), ct.load(x, (0,), (SIZE,)) + n + TOTAL)
    return shift

shift = make(1)

@ct.kernel
def other(x):
    pass

y = 1 / 0
ct.launch(None, (1,), other, (y,))
"""


def test_commands_leave_no_module_with_some_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules.pop("kernels", None)
    assert main(["inspect", "kernels.py::shift", *ARGS, "--stage", "Tile IR"]) == 0
    assert "kernels" not in sys.modules


def test_inspect_runs_what_the_kernel_needs_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    Path("beside").mkdir()
    Path("beside/neighbour.py").write_text("N = 3\n")
    Path("effects.py").write_text(SIDE_EFFECTS)
    assert main(["inspect", "effects.py::shift", "--arg", "i32[8]", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kernel"] == "shift" and "func @shift(" in found["stages"]["Tile IR"]
    assert main(["inspect", "effects.py::nothing", "--arg", "i32[8]"]) == MISUSE
    assert "has no kernel nothing at its top level; it has: other\n" in capsys.readouterr().err


def test_reports_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    def report(*command: str) -> Any:
        assert main([command[0], "--json", *command[1:]]) == 0
        return json.loads(capsys.readouterr().out)

    assert report("doctor")["backends"]["cpu"] == {"works": True, "says": "works"}
    report("cache", "clear")
    report("inspect", "kernels.py::shift", *ARGS)
    (entry,) = report("cache", "list")["entries"]
    assert entry["name"] == "shift of kernels.py for cpu" and entry["bytes"] > 0 and not entry["unfinished"]
    assert len(report("cache", "clear")["entries"]) == 1
    Path("program.py").write_text(
        KERNELS + "x = np.ones(8)\nct.launch(None, (1,), shift, (x, x, 2.0, 8))\nprint('said')\n"
    )
    found = report("view", "program.py")
    assert (found["page"], found["launches"], found["accesses"]) == ("program.html", 1, 2)


def test_settings_that_make_no_sense_are_misuse(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("program.py").write_text(KERNELS + "x = np.ones(8)\nct.launch(None, (1,), shift, (x, x, 2.0, 8))\n")
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "banana")
    for command in (["run", "program.py"], ["inspect", "kernels.py::shift", *ARGS]):
        assert main(command) == MISUSE
        said = capsys.readouterr().err
        assert said.startswith("tilewright: TILEWRIGHT_VERIFY='banana' is no switch; it takes 1, true, yes, on or ")
        assert said.count("\n") == 1


def test_sizes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_argument("f32[2K,3]").shape == (2048, 3)
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "1.5M")
    assert main(["cache", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["limit"] == 3 << 19
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "a lot")
    assert main(["cache", "list"]) == MISUSE
    assert "TILEWRIGHT_CACHE_SIZE: 'a lot' is no size; write a number such as" in capsys.readouterr().err
