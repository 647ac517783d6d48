"""Python processes that a program under ``tilewright run`` starts get ``cuda.tile`` as the program does.

They find ``site/sitecustomize.py`` on their path, and what to do in an environment variable.
"""

from __future__ import annotations

import atexit
import os
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from tilewright.compat.cuda_core import cuda_python_on_cpu
from tilewright.compat.cupy_cpu import cupy_arrays_on_cpu
from tilewright.compat.modules import install
from tilewright.compat.torch_cpu import cuda_tensors_on_cpu
from tilewright.system.environment import changed
from tilewright.system.imports import once_imported

_OPTIONS = "TILEWRIGHT_RUN"  # words: "replace", "cpu"; set for every child, if need be to no word
_SITE = str(Path(__file__).parent / "site")


def passed_on(*, device: str | None, replace: bool) -> AbstractContextManager[None]:
    """A context in which new Python processes start as this one has."""
    options = " ".join(["run", *["replace"] * replace, *filter(None, [device])])
    path = os.pathsep.join([_SITE, *filter(None, [os.environ.get("PYTHONPATH")])])
    return changed({_OPTIONS: options, "PYTHONPATH": path})


def join() -> None:
    """What such a process does at its start. Torch is patched when the program imports it: many children do not."""
    options = os.environ.get(_OPTIONS, "").split()
    if not options:
        return
    install(replace="replace" in options)
    if "cpu" in options:
        stack = ExitStack()
        atexit.register(stack.close)
        stack.enter_context(cupy_arrays_on_cpu())
        stack.enter_context(cuda_python_on_cpu())
        stack.enter_context(once_imported("torch", lambda torch: stack.enter_context(cuda_tensors_on_cpu())))
