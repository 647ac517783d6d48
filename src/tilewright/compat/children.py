"""Python processes that a program under ``tilewright run`` starts get ``cuda.tile`` as the program does.

They find ``site/sitecustomize.py`` on their path, and what to do in an environment variable.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tilewright.compat.cupy_cpu import cupy_arrays_on_cpu
from tilewright.compat.modules import install
from tilewright.compat.torch_cpu import cuda_tensors_on_cpu
from tilewright.system.imports import once_imported

_OPTIONS = "TILEWRIGHT_RUN"  # words: "replace", "cpu"; set for every child, if need be to no word
_SITE = str(Path(__file__).parent / "site")


@contextmanager
def passed_on(*, device: str | None, replace: bool) -> Iterator[None]:
    """A context in which new Python processes start as this one has."""
    before = {name: os.environ.get(name) for name in (_OPTIONS, "PYTHONPATH")}
    os.environ[_OPTIONS] = " ".join(["run", *["replace"] * replace, *filter(None, [device])])
    os.environ["PYTHONPATH"] = os.pathsep.join([_SITE, *filter(None, [before["PYTHONPATH"]])])
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
        stack.enter_context(once_imported("torch", lambda torch: stack.enter_context(cuda_tensors_on_cpu())))
