"""Runs generated kernels through the passes of the gpu backend, in the interpreter of the gpu stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.gpu_stage import InterpreterBackend

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends import registry


@contextmanager
def interpreter_backend(
    num_warps: int | None, num_stages: int | None = 3, target: str | None = None, blocks: int = 0
) -> Iterator[str]:
    """The name of a backend that interprets kernels with CTAs of ``num_warps`` warps, registered meanwhile."""
    backend = InterpreterBackend(num_warps, num_stages, None if target is None else parse_target(target), blocks)
    name = f"{backend.name}-{num_warps}-{num_stages}-{target}-{blocks}"
    registry.register_backend(name, lambda: backend)
    try:
        yield name
    finally:
        del registry._loaders[name]
