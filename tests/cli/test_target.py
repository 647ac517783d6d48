"""``tilewright inspect --target``: kernels for GPUs that are not in this machine."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.triton import BACKEND as TRITON
from tilewright.backends.triton import requirements
from tilewright.cli import main
from tilewright.cli.errors import FAILED, MISUSE
from tilewright.gpu_runtime import driver
from tilewright.transforms.pipelines import OPTIMIZE

KERNELS = """\
import tilewright as ct

@ct.kernel(occupancy=2, opt_level=ct.ByTarget(sm_90=2, default=3))
def shift(x, out, N: ct.Constant[int]):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (N, N), latency=2) + 1)
"""
ARGS = [word for array in range(2) for word in ("--arg", "f32[64,64]")] + ["--arg", "64"]
# target -> a word of its machine code, by stage
INSTRUCTIONS = {
    "sm_80": ("PTX", "ld.global"),
    "sm_90": ("PTX", "ld.global"),
    "gfx942": ("assembly", "_load_dwordx4"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    Path("kernels.py").write_text(KERNELS)


def inspect(*options: str) -> int:
    return main(["inspect", "kernels.py::shift", *ARGS, *options])


@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_every_stage_for_a_gpu_elsewhere(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    stage, instruction = INSTRUCTIONS[target]
    assert inspect("--backend", "triton", "--target", target) == 0
    first, *parts = re.split(r"^==== (.*)\n", capsys.readouterr().out, flags=re.MULTILINE)
    stages = dict(zip(parts[::2], parts[1::2]))
    assert not first
    assert list(stages) == [
        "Tile IR",
        "optimized Tile IR",
        "TTIR",
        "TTGIR",
        "LLVM IR",
        stage,
        "compile decisions",
        "resources",
    ]
    assert instruction in stages[stage]
    assert f"target: {target}\n" in stages["compile decisions"]
    assert "ignored hints: opt_level, occupancy, latency\n" in stages["compile decisions"]
    assert re.search(r"^registers per thread: [1-9]", stages["resources"], re.MULTILINE)
    assert "bytes of stack and spilled registers per thread: 0\n" in stages["resources"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--backend", "triton", "--target", "sm_75"], "sm_75 is not supported: kernels compile for sm_80, sm_86, "),
        (["--backend", "triton", "--target", "gfx900"], "gfx900 is not supported: kernels compile for gfx908, "),
        (
            ["--backend", "triton", "--target", "hopper"],
            "'hopper' is no GPU architecture; write for example sm_90 or gfx942",
        ),
        (["--target", "sm_90", "--backend", "cpu"], "--target is for the backend of GPUs, not for 'cpu'"),
        (["--target", "sm_90", "--plot", "x.svg"], "--plot runs the kernel on arrays in host memory"),
        (
            ["--backend", "triton"],
            "there is no driver. To compile for a GPU that is not here, say which: --target sm_90",
        ),
    ],
)
def test_mistakes(
    options: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "why_not", lambda: "there is no driver")
    monkeypatch.setattr(requirements, "version_text", lambda: "3.6.0")
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda _: True)
    assert inspect(*options) == MISUSE
    assert words in capsys.readouterr().err


def test_the_compiler_is_missing_or_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda _: None)
    assert inspect("--backend", "triton", "--target", "sm_90") == MISUSE
    assert "which is not installed; pip install 'tilewright[gpu]'" in capsys.readouterr().err
    assert not TRITON.capabilities.exports
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(requirements, "version_text", lambda: "3.2.0+git1")
    assert inspect("--backend", "triton", "--target", "sm_90") == MISUSE
    assert "it needs triton 3.6 or later, and 3.2.0+git1 is installed" in capsys.readouterr().err


def test_from_python() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")

    @ct.kernel
    def double(x, out):  # type: ignore[no-untyped-def]
        ct.store(out, 0, ct.load(x, 0, 64) * 2)

    x = np.ones(64, np.float32)
    found = double.compile_for("sm_100", (x, x.copy()))
    assert ".target sm_100a" in found.stage("PTX")
    assert found.written == {"out"}
    assert not double.inspect().specializations  # nothing that a launch would take
    with pytest.raises(ValueError, match="90 is no GPU architecture; write for example sm_90"):
        double.compile_for(90, (x, x))  # type: ignore[arg-type]


def test_the_passes_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    assert inspect("--backend", "triton", "--target", "sm_90", "--stages", "--stage", "compile decisions") == 0
    text = capsys.readouterr().out
    lowerings = "lower-mma-scaled", "lower-packing", "expand-views"
    passes = [*(p.name for p in OPTIMIZE), "lower-reports", *lowerings, "contract-fma", "lower-views"]
    assert re.findall(r"^==== (?:after )?(.*)\nfunc @shift", text, re.MULTILINE) == passes
    assert text.count("====") == len(passes) + 1


PUBLISHED = """
from __future__ import annotations
import no_such_library as library
from no_such_package.plots import draw
import cuda.tile as ct

DEVICE = library.device("cuda")

@ct.kernel
def twice(x, y, T: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), 2 * ct.load(x, (ct.bid(0),), (T,)))

@ct.kernel
def shifted(x, y, T: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), library.SHIFT + ct.load(x, (ct.bid(0),), (T,)))

draw(twice)
"""


@pytest.mark.parametrize("command", [["inspect", "--target", "sm_90", "--stage", "PTX"], ["bench"]])
@pytest.mark.usefixtures("clean_imports")
def test_a_kernel_of_a_program_for_a_gpu(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It imports the original, and modules that the kernel has no use for and that are not here."""
    program = tmp_path / "published.py"
    program.write_text(PUBLISHED)
    name, *options = command
    arguments = [word for spec in ("f32[64]", "f32[64]", "16") for word in ("--arg", spec)]
    assert main([name, f"{program}::twice", *options, *arguments]) == 0
    assert ("Generated by LLVM NVPTX" if options else "twice: median") in capsys.readouterr().out
    assert main([name, f"{program}::shifted", *options, *arguments]) == FAILED
    assert "No module named 'no_such_library'" in capsys.readouterr().err


PACKAGED = """
import cuda.tile as ct
from ..backend import dispatch
from .sizes import FACTOR
from published_kernels.ops.sizes import SHIFT

@ct.kernel
def scaled(x, T: ct.Constant[int]):
    ct.store(x, (0,), ct.full((T,), FACTOR + SHIFT, ct.float32))

@dispatch("scale")
def scale(x):
    ct.launch(None, (1,), scaled, (x, 16))
"""


@pytest.mark.usefixtures("clean_imports")
def test_a_kernel_of_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the packages import first is not imported: it may need what is not here, or the kernel's own file."""
    folder = tmp_path / "published_kernels" / "ops"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("import no_such_library\n")
    (folder / "__init__.py").write_text("from .scaled import scaled\n")
    (folder / "sizes.py").write_text("FACTOR, SHIFT = 3, 1\n")
    (folder / "scaled.py").write_text(PACKAGED)
    target = f"{folder / 'scaled.py'}::scaled"
    assert main(["inspect", target, "--arg", "f32[64]", "--arg", "16", "--target", "sm_80", "--stage", "Tile IR"]) == 0
    assert re.search(r"= constant.*\b4\.0\b", capsys.readouterr().out)
    assert [name for name in sys.modules if name.startswith("published_kernels")] == ["published_kernels.ops.sizes"]
