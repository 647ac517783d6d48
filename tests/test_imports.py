"""Which package may import which, and what importing tilewright costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.sources import ROOT, trees

from tilewright.runtime.cache import BEFORE_IR, OF_GPUS

# Part -> the other parts that it may import. A module belongs to the longest part that its name starts with.
ALLOWED: dict[str, set[str]] = {
    "version": set(),
    "records": set(),  # which every part may import, as the standard library
    "ir": set(),
    "system": set(),
    "language": {"ir"},
    "lib": {"language"},
    "frontend": {"ir"},
    "frontend.python": {"ir", "system", "language", "frontend"},
    "frontend.cpp": {"ir", "system"},
    "tileir": {"ir", "system", "analysis", "transforms", "tileir.kernels"},  # of the last one what users call
    "tileir.kernels": {"ir", "tileir", "frontend", "backends", "runtime"},
    "analysis": {"ir"},
    "transforms": {"ir", "system", "analysis"},
    "backends": {"ir", "system"},
    "gpu_runtime": {"ir", "system", "backends"},  # of backends what they all share: nothing of compilers
    "backends.reference": {"ir", "backends"},
    "backends.cpu": {"ir", "system", "analysis", "transforms", "backends"},
    "backends.triton": {"ir", "system", "analysis", "transforms", "backends", "gpu_runtime"},
    "backends.gpu": {"ir", "system", "analysis", "transforms", "backends", "gpu_runtime"},
    "backends.tileir": {"ir", "system", "tileir", "backends", "gpu_runtime"},
    "runtime": {
        "version",
        "ir",
        "system",
        "language",
        "frontend",
        "frontend.python",
        "analysis",
        "transforms",
        "backends",
    },
    "eager": {"ir", "language", "frontend", "frontend.python", "backends", "backends.reference", "runtime"},
    "viewer": {"ir", "backends", "sanitizer", "system"},
    "sanitizer": {"version", "ir", "system", "analysis", "backends", "backends.reference", "runtime"},
    "ops": {"ir", "system", "language", "analysis", "backends", "runtime", "sanitizer"},
    "tune": {"runtime", "ir", "language", "system", "analysis", "sanitizer"},
    "compilation": {"ir", "tileir", "language", "frontend", "backends", "runtime"},
    "cpp": {"version", "ir", "system", "frontend", "frontend.cpp", "backends", "backends.cpu", "runtime"},
    "cpp.gpu": {
        "ir",
        "system",
        "cpp",
        "frontend.cpp",
        "backends",
        "backends.gpu",
        "gpu_runtime",
    },  # loaded for programs on GPUs only
    "composition": {"system", "language", "backends"},  # the composition root: it names the modules of backends
    # the package itself
    "": {
        *("version", "system", "ir", "language", "runtime", "compilation", "composition", "cpp"),
        *("lib", "ops", "tileir", "tune", "sanitizer", "viewer"),
    },
}
COMPILING = {"ir", "analysis", "transforms", "backends", "gpu_runtime", "system"}
UNRESTRICTED = {"cli", "compat", "__main__", "pytest_plugin"}  # nothing imports them: see test_nothing_imports_the_top
ON_DEMAND = {  # they import by name, at run time
    "composition.py",  # backends, which load on first use
    "system/forks.py",  # for those that call its ``load``
    "backends/native/__init__.py",  # LLVM, which takes a while to load
    "backends/triton/fallbacks.py",  # Triton, which is optional and takes a while to load
    "backends/cpu/on_demand.py",  # a kernel from the disk cache needs no code generator
    "cpp/translation.py",  # the C++ front end, which takes a while to load
    "cpp/host/build.py",  # what the disk cache has needs no compiler
    "cpp/gpu/program.py",
    "cpp/host/program.py",  # the GPU part, for programs that run on one
    "cpp/host/units.py",  # NVIDIA's compilers, for those
    "runtime/compile_server.py",  # the compiler that requests will ask for
    "__init__.py",  # what programs in C++ do without, for which every start counts
    "tune/devices.py",  # PyTorch and CuPy, in a worker that gets their arrays
    "ops/operator.py",  # PyTorch and JAX, which are optional and take seconds to load
    "ops/torch_operator.py",  # DTensor
    "ops/traced_launch.py",
    "cli/__init__.py",  # the command that runs
    "cli/run.py",  # what reads CUDA Tile IR
    "cli/roofline.py",  # LLVM, which takes a while to load
    "compat/cuda_core.py",  # the package that NVIDIA's wheels may have
    "compat/modules.py",
    "compat/private.py",  # what reads CUDA Tile IR, for test suites
    "compat/cuda_graphs.py",  # PyTorch
    "compat/torch_cpu.py",
}


def part_of(module: str) -> str:
    """The part that a dotted name below ``tilewright`` belongs to."""
    parts = [p for p in (*ALLOWED, *UNRESTRICTED) if p and (module == p or module.startswith(p + "."))]
    return max(parts, key=len, default="")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__").removesuffix("__init__")


def own_imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Import statements of our modules, with the dotted name below ``tilewright`` that each refers to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tilewright":
            names = [f"tilewright.{a.name}" for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}"
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name == "tilewright" or name.startswith("tilewright."):
                yield node, name.removeprefix("tilewright").removeprefix(".")


def _misdirected(path: Path, tree: ast.AST) -> Iterator[str]:
    """Imports of a package that the importing one may not know."""
    mine = part_of(name_of(path))
    for node, name in own_imports(tree):
        other = part_of(name)
        if mine not in UNRESTRICTED and other not in (mine, "records", *ALLOWED[mine]):
            yield f"{path}:{node.lineno}: {mine or 'tilewright'} must not import {other or 'tilewright'}"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _late(path: Path, tree: ast.AST) -> Iterator[str]:
    """Imports of our modules inside functions."""
    by_name = {"importlib.import_module", "forks.load"}
    if any(name == "system.forks" and node.names[0].name == "load" for node, name in own_imports(tree)):
        by_name.add("load")
    last = {name.split(".")[-1] for name in by_name}
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        for node, name in own_imports(function):
            yield f"{path}:{node.lineno}: {name} is imported inside a function"
        if str(path.relative_to(ROOT)) not in ON_DEMAND:
            for n in ast.walk(function):
                if isinstance(n, ast.Call) and _last_name(n.func) in last and ast.unparse(n.func) in by_name:
                    yield f"{path}:{n.lineno}: a module is imported by name"


@pytest.mark.parametrize("rule", [_misdirected, _late], ids=["dependencies point one way", "imports are at the top"])
def test_imports(rule: Callable[[Path, ast.AST], Iterator[str]]) -> None:
    found = [fault for path, tree in trees().items() for fault in rule(path, tree)]
    assert not found, "\n".join(found)


def test_the_check_sees_what_it_should() -> None:
    found = [
        name
        for _, name in own_imports(ast.parse("import tilewright.ir.core\nfrom tilewright import runtime\nimport os"))
    ]
    assert found == ["ir.core", "runtime"]
    assert [part_of(n) for n in ("ir.core", "backends.cpu.jit", "backends.base", "cli", "irrelevant")] == [
        "ir",
        "backends.cpu",
        "backends",
        "cli",
        "",
    ]


def run_python(program: str) -> str:
    """What ``program`` prints in a new process."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def test_what_compiles_ir_knows_nothing_of_what_makes_it() -> None:
    """So that a change there changes nothing of the code of kernels but through their IR: see the disk cache."""
    compiling = {part for part in ALLOWED if part.split(".")[0] in COMPILING}
    known = set().union(*(ALLOWED[part] for part in compiling))
    assert BEFORE_IR.isdisjoint(part.split(".")[0] for part in known)
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - BEFORE_IR == COMPILING | {"runtime", "tileir"}


def test_what_compiles_for_cpus_knows_nothing_of_gpus() -> None:
    """So that a launch on a CPU need not look at their sources: see the disk cache."""
    assert all((ROOT / folder).is_dir() for folder in OF_GPUS)
    gpus = tuple(f"{folder.replace('/', '.')}." for folder in OF_GPUS)
    others = [p for p in trees() if name_of(p).split(".")[0] in COMPILING | {"runtime"}]
    others = [p for p in others if not f"{name_of(p)}.".startswith(gpus)]
    found = [f"{p}: {name}" for p in others for _, name in own_imports(trees()[p]) if f"{name}.".startswith(gpus)]
    assert others and not found, "\n".join(found)


def test_backends_and_optional_libraries_load_on_use() -> None:
    loaded = run_python("import sys, tilewright; print(*sys.modules)").split()
    optional = ["llvmlite", "torch", "jax", "triton"]
    ours = [f"tilewright.{name}" for name in ("backends.cpu", "backends.reference", "sanitizer", "viewer")]
    assert set(loaded).isdisjoint([*optional, *ours])


_FIRST_LAUNCH = """
import sys
import numpy as np
import tilewright as ct

@ct.kernel
def double(x):
    ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) * 2)

x = np.ones(8)
ct.launch(None, (2,), double, (x,), backend="cpu")
assert (x == 2).all()
print(*sys.modules)
"""


def test_a_first_launch_loads_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch of a program waits for it."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    program = tmp_path / "program.py"
    program.write_text(_FIRST_LAUNCH)
    loaded = run_python(f"import runpy; runpy.run_path({str(program)!r})").split()
    assert "tilewright.backends.cpu.codegen.kernel" in loaded
    cpu = "codegen.mma inspection launch_stub library own_team printing team team_stub"
    others = ["sanitizer", "viewer", "system.dwarf", *(f"backends.cpu.{name}" for name in cpu.split())]
    assert set(loaded).isdisjoint(f"tilewright.{name}" for name in others)
