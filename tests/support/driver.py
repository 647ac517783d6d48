"""A CUDA driver that only looks at what it is asked to launch."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from tilewright.backends.triton.artifact import Artifact
from tilewright.backends.triton.binary import GpuBinary
from tilewright.backends.triton.executable import TritonExecutable
from tilewright.backends.triton.ttir.state import Descriptor

Launch = tuple[tuple[int, int, int], int, list[bytes]]
_POINTER, _WORD, _INT = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int
_ENCODE = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _INT, _WORD, *[_POINTER] * 4, *[_INT] * 4)
_REPLACE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER)
_AXES = 5  # of the largest tensor map
_MAP = struct.Struct(f"={1 + 2 * _AXES}Q")
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


class Driver:
    """A driver that looks at each launch: grid, stream and parameters, and the number of attributes. ``codes`` are
    what its next calls return."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.attributes: list[int] = []
        self.codes: list[int] = []
        self.index = 0
        self.entered = 0  # how often a context was made current
        self.maps: list[tuple[Any, ...]] = []  # what was encoded
        self.cuLaunchKernelEx = _LAUNCH(self._launch)
        self.cuTensorMapEncodeTiled = _ENCODE(self._encode)
        self.cuTensorMapReplaceAddress = _REPLACE(self._replace)

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            x, y, z, *_, stream, _place, count = struct.unpack("=7I4xQQI", ctypes.string_at(config, 52))
            addresses = (ctypes.c_uint64 * 4).from_address(pointers)
            self.attributes.append(count)
            self.launches.append(((x, y, z), stream, [ctypes.string_at(a, 8) for a in addresses if a]))
        return code

    def _encode(
        self, place: int, kind: int, rank: int, base: int, extents: int, steps: int, box: int, ones: int, *how: int
    ) -> int:
        def numbers(of: Any, address: int, count: int) -> list[int]:
            return list((of * count).from_address(address))

        assert place % 64 == 0
        sizes = numbers(ctypes.c_uint64, extents, rank), numbers(ctypes.c_uint64, steps, rank - 1)
        boxes = numbers(ctypes.c_uint32, box, rank), numbers(ctypes.c_uint32, ones, rank)
        self.maps.append((kind, rank, base, *sizes, *boxes, how))
        ctypes.memmove(place, encoded(base, *sizes), _MAP.size)
        return self.codes.pop(0) if self.codes else 0

    def _replace(self, place: int, base: int) -> int:
        ctypes.c_uint64.from_address(place).value = base
        return 0

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        self.entered += 1
        yield

    def cuGetErrorString(self, code: int, text: Any) -> int:
        return 0


def encoded(base: int, extents: Sequence[int], steps: Sequence[int]) -> bytes:
    """What this driver writes for a tensor map."""
    return _MAP.pack(base, *(*extents, *[0] * _AXES)[:_AXES], *(*steps, *[0] * _AXES)[:_AXES])


def executable(
    formats: tuple[str, ...], on: Any = None, maps: Sequence[tuple[Descriptor, dict[str, Any]]] = ()
) -> TritonExecutable:
    """A kernel with numbers of these formats and maps, and as many parameters added by the compiler as make four."""
    binary = GpuBinary(b"", "kernel", 4, 1, 0, 0, 1, tuple(meta for _, meta in maps))
    function: Any = SimpleNamespace(params=[SimpleNamespace(role="scalar")] * len(formats), name="kernel")
    artifact = Artifact(binary, formats, tuple(d for d, _ in maps), 4 - len(formats), False, 0)
    made = TritonExecutable(function, artifact, dict, lambda _: made)
    for device in (0, 1):
        made._loaded[device] = SimpleNamespace(handle=ctypes.c_void_p(16 + device), device=on)  # type: ignore[assignment]
    return made
