"""Programs written for ``cuda.tile``, unmodified: each checks its own results.

Most allocate torch CUDA tensors, as published programs do, and are skipped where torch is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.compat import Implementation, cuda_tensors_on_cpu, install, run_program
from tilewright.language.static import static_def
from tilewright.runtime import timeout
from tilewright.tileir.bytecode import write
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.text import parse_module

pytestmark = pytest.mark.usefixtures("clean_imports")
FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "suite_of_tests")
NUMPY_ONLY = ("monte_carlo", "numpy_only")
WITHOUT_TORCH = (*NUMPY_ONLY, "cuda_python", "cupy_arrays")
ARGUMENTS = {"vector_add": ["--correctness-check"]}
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


@pytest.mark.parametrize("name", [pytest.param(p, marks=[] if p in WITHOUT_TORCH else needs_torch) for p in PROGRAMS])
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = None if name in NUMPY_ONLY else "cpu"
    run_program(str(FOLDER / f"{name}.py"), ARGUMENTS.get(name, []), device=device)
    captured = capsys.readouterr()
    assert "ok" in captured.out or "passed" in captured.out
    assert "cuda.tile is tilewright" in captured.err


@pytest.mark.parametrize("name", NUMPY_ONLY)
def test_reference_backend(name: str) -> None:
    with tilewright.use_backend("reference"):
        run_program(str(FOLDER / f"{name}.py"), [])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_a_missing_gpu_names_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a library of arrays raises and there is no GPU; errors of the program itself are left alone."""
    (tmp_path / "cupy.py").write_text("def zeros(n):\n    raise RuntimeError('no driver')\n")
    refusal = "raise RuntimeError('needs a GPU')"
    cases = [("cupy.zeros(4)", 0), (refusal, 0), ("cupy.zeros(4)", 1), (refusal, 1), ("raise RuntimeError", 0)]
    for number, (code, gpus) in enumerate(cases):
        program = tmp_path / f"program{number}.py"
        program.write_text(f"import cupy\n{code}\n")
        monkeypatch.setattr("tilewright.compat.program.device_count", lambda gpus=gpus: gpus)
        monkeypatch.delitem(sys.modules, "cupy", raising=False)
        with pytest.raises(RuntimeError) as error:
            run_program(str(program), [])
        assert ("--device cpu" in "".join(getattr(error.value, "__notes__", ()))) == (number < 2)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


@needs_torch
def test_suite_of_pytest() -> None:
    suite = str(FOLDER / "suite_of_tests.py")
    done = run("-m", "tilewright", "run", "--device", "cpu", "-m", "pytest", "-q", "-p", "no:cacheprovider", suite)
    assert done.returncode == 0 and " passed" in done.stdout and "failed" not in done.stdout, done.stdout


@pytest.mark.parametrize("command", [["tilewright", "run"], ["tilewright.compat"]])
def test_commands(command: list[str], tmp_path: Path) -> None:
    """Both commands pass arguments and the exit status on, and find modules beside the program."""
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport beside\nimport cuda.tile as ct\nimport cuda.tile.tune\n"
        "from cuda.tile import RoundingMode, tune\nfrom cuda.tile.compilation import export_kernel\n"
        "assert __name__ == '__main__' and sys.argv[0].endswith('program.py')\n"
        "print(ct.__name__, ct.tune is tune is cuda.tile.tune, sys.argv[1:], ct.cdiv(beside.VALUE, 2))\nsys.exit(3)\n"
    )
    done = run("-m", *command, str(program), "-x", "--size=7")
    assert done.stdout == "tilewright True ['-x', '--size=7'] 4\n", done
    assert done.returncode == 3 and done.stderr == "tilewright: cuda.tile is tilewright\n"


CHILD = """
import multiprocessing, subprocess, sys
import cuda.tile as ct, cupy

def work(queue):
    queue.put((ct.__name__, cupy.cuda.is_available()))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    context.Process(target=work, args=(queue,)).start()
    print(queue.get())
    code = "import cuda.tile as ct, sitecustomize; print(ct.__name__, sitecustomize.MINE)"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
"""


def test_processes_that_a_program_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("MINE = 7\n")
    (tmp_path / "program.py").write_text(CHILD)
    source = str(Path(tilewright.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(tmp_path)])}
    command = [sys.executable, "-m", "tilewright", "run", "--device", "cpu", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert "('tilewright', True)\n" in done.stdout and "stdout='tilewright 7\\n', stderr=''" in done.stdout, done
    before = dict(os.environ)
    run_program(str(FOLDER / "numpy_only.py"), [])
    assert dict(os.environ) == before


def test_a_process_without_a_sitecustomize_of_its_own(tmp_path: Path) -> None:
    code = "import cuda.tile; print(cuda.tile.__name__)"
    (tmp_path / "program.py").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])\n")
    done = run("-m", "tilewright", "run", str(tmp_path / "program.py"))
    assert (done.stdout, done.stderr) == ("tilewright\n", ""), done


@needs_torch
def test_torch_in_a_process_that_a_program_starts(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text("import torch\nprint(torch.ones(2, device='cuda').is_cuda)\n")
    (tmp_path / "program.py").write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, {str(tmp_path / 'child.py')!r}])\n"
    )
    done = run("-m", "tilewright", "run", "--device", "cpu", str(tmp_path / "program.py"))
    assert done.stdout == "True\n", done


def test_modules_run_as_programs(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys, cuda.tile as ct\nprint(ct.__name__, sys.argv[1:])\n")
    done = run("-m", "tilewright", "run", "-m", "package", "a", "-b", folder=tmp_path)
    assert done.stdout == "tilewright ['a', '-b']\n", done


def test_a_missing_program_is_said() -> None:
    done = run("-m", "tilewright", "run", "nowhere.py")
    assert done.returncode == 2 and "there is no program nowhere.py" in done.stderr


FAKE = "NAME = 'the original'\n"


@pytest.mark.parametrize(("options", "used"), [([], "the installed cuda.tile"), (["--replace"], "tilewright")])
def test_an_installed_original_is_left_alone_unless_asked(options: list[str], used: str, tmp_path: Path) -> None:
    package = tmp_path / "cuda" / "tile"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FAKE)
    program = tmp_path / "program.py"
    program.write_text("import cuda.tile as ct\nprint(getattr(ct, 'NAME', ct.__name__))\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])}
    command = [sys.executable, "-m", "tilewright", "run", *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.stderr == f"tilewright: cuda.tile is {used}\n"
    assert done.stdout == ("tilewright\n" if options else "the original\n")


def test_install_inside_a_process() -> None:
    assert install() is Implementation.TILEWRIGHT
    assert install() is Implementation.TILEWRIGHT
    module = __import__("cuda.tile", fromlist=["tile"])
    assert module is tilewright
    exceptions = importlib.import_module("cuda.tile._exception")
    assert exceptions.TileTypeError is tilewright.TileTypeError and exceptions.__name__ == "cuda.tile._exception"
    assert exceptions.TypeCheckingError is tilewright.TileTypeError
    taken: dict[str, Any] = {}
    exec("from cuda.tile import _cext, _datatype", taken)
    assert taken["_cext"] is importlib.import_module("cuda.tile._cext")
    context = taken["_cext"].default_tile_context
    assert context.config.compiler_timeout_sec is None
    context.config.compiler_timeout_sec = 5
    assert timeout.limit() == 5
    context.config.compiler_timeout_sec = None
    assert not taken["_cext"].cconv_v3_enabled()
    assert importlib.import_module("cuda.tile._execution").static_def is static_def
    exec("from cuda.tile._bytecode.version import BytecodeVersion; from cuda.tile import _compile, _ir", taken)
    versions, compiler = taken["BytecodeVersion"], taken["_compile"]
    assert versions is importlib.import_module("cuda.tile._bytecode").BytecodeVersion and versions.V_13_4.minor() == 4
    assert compiler._get_max_supported_bytecode_version("folder", allow_dev=True) is versions.V_13_5
    assert [version.minor() for version in versions] == [*range(1, NEWEST + 1)], "those that the reader knows"
    text = "entry @k(%0: tile<i32>) {\n  return\n}\n"
    assert compiler._bytecode_to_mlir_text(bytearray(write(parse_module(text)))).strip() == text.strip()
    exec("from cuda.tile._bytecode import SimpleType; from cuda.tile._bytecode.float import float_from_bits", taken)
    to_bits, scale = importlib.import_module("cuda.tile._bytecode").float_to_bits, taken["SimpleType"].F8E5M3FNU
    assert taken["float_from_bits"](0x7B, scale) == 1.375 and to_bits(1.375, scale) == 0x7B
    assert compiler.get_sm_arch() == "sm_{}{}".format(*taken["_cext"].get_compute_capability())
    to_dtype = importlib.import_module("cuda.tile._ir.typing_support").to_dtype
    assert taken["_datatype"].can_autocast_dtypes(to_dtype(np.int8), module.int32)
    assert not taken["_datatype"].can_autocast_dtypes(module.float32, module.int32)
    first = module.kernel(lambda x: None)
    assert module.kernel(first._pyfunc, occupancy=2).function is first.function
    ir = compiler._get_final_ir(module.kernel(_fill)._pyfunc, (np.zeros(4, np.float32), 4), context)
    assert ir.name == "_fill" and "store_view" in str(ir)
    with pytest.raises(ModuleNotFoundError):
        __import__("cuda.tile.nowhere")


def _fill(x, T: tilewright.Constant[int]):
    tilewright.store(x, 0, tilewright.zeros((T,), tilewright.float32))


def test_the_experimental_tuner() -> None:
    install()
    experimental = importlib.import_module("cuda.tile_experimental")

    @tilewright.kernel
    def add(x, out, T: tilewright.Constant[int]):
        i = tilewright.bid(0)
        tilewright.store(out, i, tilewright.load(x, i, T) + 1)

    x, out, scratch = np.arange(64.0), np.zeros(64), np.zeros(64)

    def tuned(**options: Any) -> Any:
        return experimental.autotune_launch(
            None,
            lambda c: (64 // c,),
            add,
            lambda c: (x, scratch, c),
            lambda c: (x, out, c),
            hints_fn=lambda c: {"occupancy": 2},
            search_space=lambda: iter([32, 3, 64]),
            **options,
        )

    first = tuned()
    assert (out == x + 1).all() and first.tuned_config in (32, 64) and not first.cache_hit
    assert len(first.tuning_record) == 2 and all(ms > 0 for _, ms in first.tuning_record)
    again = tuned()
    assert again.cache_hit and again.kernel is first.kernel and again.grid == (64 // first.tuned_config,)
    assert not tuned(key=1).cache_hit and tuned(key=1).cache_hit and not tuned(force_retune=True).cache_hit
    experimental.clear_autotune_cache(kernel=add, key=1)
    assert not tuned(key=1).cache_hit and tuned().cache_hit
    experimental.clear_autotune_cache()
    with pytest.raises(ValueError, match="No valid config"):
        experimental.autotune_launch(None, lambda c: (1,), add, lambda c: (x, out, c), search_space=[])


def test_environment_variables_of_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, cuda.tile as ct\n\n@ct.kernel\ndef double(x):\n    ct.store(x, 0, ct.load(x, 0, 4) * 2)\n\n"
        "x = np.ones(4, np.float32)\nct.launch(0, (1,), double, (x,))\nprint(x)\n"
    )
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR", raising=False)
    monkeypatch.setenv("CUDA_TILE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_TILE_COMPILER_TIMEOUT_SEC", "60")
    monkeypatch.setenv("CUDA_TILE_LOGS", "CUTILEIR")
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[2. 2. 2. 2.]\n", done.stderr
    assert list((tmp_path / "cache").iterdir()) and "@double" in done.stderr
    monkeypatch.setenv("CUDA_TILE_LOGS", "PTX")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "there is no log 'PTX'" in done.stderr


@needs_torch
def test_what_stands_in_for_a_class_is_a_class() -> None:
    import torch  # noqa: PLC0415 - optional

    classes = {n for n, v in vars(torch.cuda).items() if isinstance(v, type)}
    with cuda_tensors_on_cpu():
        assert classes == {n for n, v in vars(torch.cuda).items() if isinstance(v, type) and n in classes}
        assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)


@needs_torch
def test_torch_is_itself_again_afterwards() -> None:
    import torch  # noqa: PLC0415 - optional

    generator, compiler, empty = torch.Generator, torch.compile, torch.empty
    with cuda_tensors_on_cpu():
        x = torch.ones(3, device="cuda")
        assert x.is_cuda and torch.cuda.is_available() and isinstance(torch.Generator(device="cuda"), generator)
        assert isinstance(torch.Generator("cuda"), torch.Generator) and x.to(0).get_device() == 0
        assert torch.version.cuda is not None and int(torch.version.cuda.split(".")[0]) >= 13
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
            assert torch.ones(1, device="cuda").is_cuda
        assert torch.cuda.get_device_properties(0).shared_memory_per_block_optin and torch.cuda.get_rng_state().numel()
        with torch.cuda.nvtx.range("work"), pytest.raises(IndexError):
            torch.cuda.CUDAGraph().capture_end()
        assert torch.compile(torch.sin) is torch.sin and torch.compile(fullgraph=True)(torch.sin) is torch.sin
        assert torch.zeros(2, pin_memory=True, device="cuda").tolist() == [0, 0]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.ones, 1, device="cuda").result().is_cuda
        with torch.device("cuda"):
            assert torch.empty(2).device.type == "cpu"
        assert x.new_zeros(2, device="cuda:0").is_cuda and x.to("cuda", torch.float16).dtype == torch.float16
        assert torch.nn.Linear(2, 3, device="cuda").to("cuda").cuda().weight.device.type == "cpu"
        assert (torch.cuda.CUDAGraph | None) and not torch.overrides._get_current_function_mode_stack()
    assert (
        torch.empty is empty
        and torch.compile is compiler
        and not x.is_cuda
        and x.device.type == "cpu"
        and torch.Generator is generator
    )
    if torch.cuda.is_available():
        assert torch.ones(3, device="cuda").device.type == "cuda"
    else:
        with pytest.raises((RuntimeError, AssertionError)):
            torch.ones(3, device="cuda")


def test_the_module_for_jax() -> None:
    pytest.importorskip("jax")
    install()
    assert importlib.import_module("cuda.tile.jax").cutile_call.__module__ == "tilewright.jax"
