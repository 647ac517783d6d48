"""CUDA graphs of torch, where CUDA tensors are on the CPU: what is called while one is captured is called again."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from tilewright.runtime.backend_choice import force_backend, requested
from tilewright.runtime.launch import TRACERS, Tracer, launch


class CUDAGraph:
    """``torch.cuda.CUDAGraph``: the operators of torch and the launches between its begin and its end."""

    capturing = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._calls: list[Callable[[], None]] = []
        self._capture: list[AbstractContextManager[None]] = []

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        self._capture.append(_capture(self))
        self._capture[-1].__enter__()

    def capture_end(self) -> None:
        self._capture.pop().__exit__(None, None, None)

    def replay(self) -> None:
        with importlib.import_module("torch").no_grad():
            for call in self._calls:
                call()

    def reset(self) -> None:
        self._calls.clear()

    def pool(self) -> tuple[int, int]:
        return (0, 0)


class Capturing(ExitStack):
    """``torch.cuda.graph``."""

    def __init__(self, cuda_graph: CUDAGraph, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._graph = cuda_graph

    def __enter__(self) -> Any:
        return self.enter_context(_capture(self._graph))


@contextmanager
def _capture(graph: CUDAGraph) -> Iterator[None]:
    """What is called runs, for its results to exist, and what it writes is as before in the end."""
    modes = importlib.import_module("torch.utils._python_dispatch")
    before: dict[int, tuple[Any, Any]] = {}
    inside = False

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        nonlocal inside
        if inside:  # what an operator calls is called again by itself
            return function(*args, **kwargs)
        inside = True
        try:
            if not hasattr(function, "_schema") or function._schema.is_mutable:
                for storage in [t.untyped_storage() for t in _tensors((args, kwargs))]:
                    before.setdefault(storage.data_ptr(), (storage, storage.clone()))
            result = function(*args, **kwargs)
        finally:
            inside = False
        graph._calls.append(functools.partial(_again, function, args, kwargs, result))
        return result

    class Operators(modes.TorchDispatchMode):  # type: ignore[name-defined,misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return noted(function, args, kwargs or {})

    def launched(stream: Any, grid: Any, kernel: Any, args: Any, backend: str | None) -> bool:
        if not inside:
            noted(launch, (None, grid, kernel, args), {"backend": backend})
            return True
        return False

    with traced(launched):
        CUDAGraph.capturing = True
        try:
            with Operators():
                yield
        finally:
            CUDAGraph.capturing = False
            for storage, contents in before.values():
                storage.copy_(contents)


@contextmanager
def traced(tracer: Tracer) -> Iterator[None]:
    """``tracer`` is told of every launch, also of those that repeat an earlier one."""
    TRACERS.append(tracer)
    try:
        with force_backend(requested() or "cpu"):
            yield
    finally:
        TRACERS.remove(tracer)


def _again(function: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
    """Call ``function`` again, and put what it gives where it was the first time."""
    for old, new in zip(_tensors(result), _tensors(function(*args, **kwargs))):
        if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
            old.copy_(new)


def _tensors(values: Any) -> list[Any]:
    torch, pytree = importlib.import_module("torch"), importlib.import_module("torch.utils._pytree")
    return [v for v in pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]
