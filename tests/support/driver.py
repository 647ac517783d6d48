"""A CUDA driver that only looks at what it is asked to launch."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from tilewright.backends.triton.artifact import Artifact
from tilewright.backends.triton.binary import GpuBinary
from tilewright.backends.triton.executable import TritonExecutable

Launch = tuple[tuple[int, int, int], int, list[bytes]]
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


class Driver:
    """A driver that looks at each launch: grid, stream and parameters. ``codes`` are what its next calls return."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.codes: list[int] = []
        self.index = 0
        self.entered = 0  # how often a context was made current
        self.cuLaunchKernelEx = _LAUNCH(self._launch)

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            x, y, z, *_, stream = struct.unpack("=7I4xQ", ctypes.string_at(config, 40))
            addresses = (ctypes.c_uint64 * 4).from_address(pointers)
            self.launches.append(((x, y, z), stream, [ctypes.string_at(a, 8) for a in addresses if a]))
        return code

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        self.entered += 1
        yield

    def cuGetErrorString(self, code: int, text: Any) -> int:
        return 0


def executable(formats: tuple[str, ...], on: Any = None) -> TritonExecutable:
    binary = GpuBinary(b"", "kernel", 4, 1, 0, 0, 1, ())
    function: Any = SimpleNamespace(params=[SimpleNamespace(role="scalar")] * len(formats), name="kernel")
    made = TritonExecutable(function, Artifact(binary, formats, (), 4 - len(formats), False, 0), dict, lambda: made)
    for device in (0, 1):
        made._loaded[device] = SimpleNamespace(handle=ctypes.c_void_p(16 + device), device=on)  # type: ignore[assignment]
    return made
