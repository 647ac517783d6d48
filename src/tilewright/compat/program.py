"""Running a program as ``python prog.py`` would, with ``cuda.tile`` replaced."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tilewright.compat.modules import install
from tilewright.compat.torch_cpu import cuda_tensors_on_cpu


def run_program(path: str, arguments: Sequence[str], *, device: str | None = None, replace: bool = False) -> None:
    """Run the program at ``path`` with ``sys.argv[1:] == arguments``, and say which implementation it gets.

    With ``device="cpu"``, what it allocates as torch CUDA tensors are CPU tensors. FileNotFoundError when there is
    no such program; whatever the program raises passes through.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no program {path}")
    used = install(replace=replace)
    print(f"tilewright: cuda.tile is {used.value}", file=sys.stderr)
    old_argv, old_path = sys.argv, list(sys.path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        with cuda_tensors_on_cpu() if device == "cpu" else nullcontext():
            runpy.run_path(os.path.abspath(path), run_name="__main__")  # as Python itself names the file
    finally:
        sys.argv, sys.path = old_argv, old_path
