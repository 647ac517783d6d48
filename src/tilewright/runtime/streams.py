"""Streams of other libraries: the queues of a GPU."""

from __future__ import annotations

from typing import Any


def stream_handle(stream: Any) -> int:
    """The handle of ``stream``: None is the default stream, 0; an integer is a handle; else a stream of torch, CuPy,
    cuda.bindings, numba-cuda, or anything with the ``__cuda_stream__`` protocol. TypeError for everything else."""
    if stream is None:
        return 0
    if isinstance(stream, int) and type(stream) is not bool:
        return int(stream)
    handle = getattr(stream, "cuda_stream", None)  # torch
    if type(handle) is int:
        return handle
    handle = getattr(stream, "ptr", None)  # CuPy
    if type(handle) is int:
        return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _version, handle = protocol() if callable(protocol) else protocol
        return int(handle)
    if type(stream).__module__.startswith(("cuda.", "numba")):  # CUstream of cuda.bindings, streams of numba-cuda
        return int(stream)
    raise TypeError(
        f"the stream is {stream!r}; pass a stream of torch, CuPy or cuda.core, its handle as an integer, or None"
    )
