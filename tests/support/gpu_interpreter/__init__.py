"""Runs functions of the gpu stage for all threads of a CTA with NumPy, and reports what is wrong with them.

Races, reads of shared memory before it is written or before a copy has arrived, barriers that cannot complete, accesses
out of range, and replicated elements that disagree: each is a ``Fault`` at the op that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.gpu_interpreter.backend import InterpreterBackend, InterpreterExecutable
from support.gpu_interpreter.faults import Fault

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends import registry

__all__ = ["Fault", "InterpreterBackend", "InterpreterExecutable", "interpreter_backend"]


@contextmanager
def interpreter_backend(num_warps: int | None, num_stages: int = 3, target: str | None = None) -> Iterator[str]:
    """The name of a backend that interprets kernels with CTAs of ``num_warps`` warps, registered meanwhile."""
    backend = InterpreterBackend(num_warps, num_stages, None if target is None else parse_target(target))
    name = f"{backend.name}-{num_warps}-{num_stages}-{target}"
    registry.register_backend(name, lambda: backend)
    try:
        yield name
    finally:
        del registry._loaders[name]
