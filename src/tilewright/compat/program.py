"""Running a program as ``python prog.py`` would, with ``cuda.tile`` replaced."""

from __future__ import annotations

import argparse
import importlib.abc
import linecache
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tilewright.compat.children import passed_on
from tilewright.compat.cuda_core import cuda_python_on_cpu
from tilewright.compat.cupy_cpu import cupy_arrays_on_cpu
from tilewright.compat.modules import THEIRS, Implementation, install
from tilewright.compat.torch_cpu import cuda_tensors_on_cpu
from tilewright.gpu_runtime.driver import device_count


def add_program(parser: argparse.ArgumentParser) -> None:
    """The options that say which program to run, and how."""
    parser.add_argument("--device", choices=["cpu"], help="keep what is allocated on a GPU in memory of the CPU")
    parser.add_argument("--replace", action="store_true", help="use tilewright even where cuda.tile is installed")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM names a module, such as pytest")
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program").required = False


def run_program(
    program: str, arguments: Sequence[str], *, device: str | None = None, replace: bool = False, module: bool = False
) -> None:
    """Run the file ``program``, or the module of that name, with ``sys.argv[1:] == arguments``.

    Says which implementation of ``cuda.tile`` it gets, once it imports that. With ``device="cpu"``, what it allocates
    as torch CUDA tensors are CPU tensors, and CuPy arrays are NumPy arrays. The same holds in Python processes that the
    program starts.
    FileNotFoundError when there is no such program; whatever the program raises passes through, with a note on
    ``--device`` where PyTorch or CuPy miss a GPU.
    """
    if not module and not Path(program).is_file():
        raise FileNotFoundError(f"there is no program {program}")
    announcer = _Announcer(install(replace=replace))
    sys.meta_path.insert(0, announcer)
    old_argv, old_path = sys.argv, list(sys.path)
    sys.argv = [program, *arguments]
    sys.path.insert(0, os.getcwd() if module else str(Path(program).resolve().parent))
    try:
        with ExitStack() as stack:
            stack.enter_context(passed_on(device=device, replace=replace))
            if device == "cpu":
                stack.enter_context(cuda_tensors_on_cpu())
                stack.enter_context(cupy_arrays_on_cpu())
                stack.enter_context(cuda_python_on_cpu())
            if module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(os.path.abspath(program), run_name="__main__")  # as Python itself names the file
    except Exception as error:
        if device is None and _misses_a_gpu(error):
            # what add_note does from Python 3.11 on; tracebacks of 3.10 show none
            vars(error).setdefault("__notes__", []).append(
                "tilewright: there is no NVIDIA GPU here; with --device cpu, CUDA arrays are kept on the CPU"
            )
        raise
    finally:
        sys.argv, sys.path = old_argv, old_path
        sys.meta_path.remove(announcer)


def _misses_a_gpu(error: Exception) -> bool:
    """Whether a library of arrays raised ``error``, or a line about GPUs did, on a machine without one."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    library = frame.f_globals.get("__name__", "").partition(".")[0]
    words = f"{error} {linecache.getline(frame.f_code.co_filename, line)}".lower()
    concerns = library in ("torch", "cupy", "cupy_backends") or "torch.cuda" in words or "gpu" in words
    return concerns and device_count() == 0


class _Announcer(importlib.abc.MetaPathFinder):
    """Says which implementation of ``cuda.tile`` the program gets when it first imports that; finds nothing."""

    def __init__(self, used: Implementation) -> None:
        self._used = used
        self._said = False

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        if fullname == THEIRS and not self._said:
            self._said = True
            print(f"tilewright: cuda.tile is {self._used.value}", file=sys.stderr)
