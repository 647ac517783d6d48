"""What a launch hands to the driver, seen by a driver that only looks."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.backends.base import LaunchArguments
from tilewright.backends.triton import driver
from tilewright.backends.triton.artifact import Artifact
from tilewright.backends.triton.binary import GpuBinary
from tilewright.backends.triton.executable import TritonExecutable

FORMATS = {"u64": "Q", "i32": "i4x", "f32": "f4x", "bf16": "H6x"}
Launch = tuple[tuple[int, int, int], int, list[bytes]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The grid, the stream and the parameters of each launch."""
    found: list[Launch] = []

    def launch(config: Any, handle: Any, pointers: Any, _: None) -> int:
        x, y, z, *_, stream = struct.unpack("=7I4xQ", ctypes.string_at(config, 40))
        addresses = (ctypes.c_uint64 * 4).from_address(pointers.value)
        found.append(((x, y, z), stream, [ctypes.string_at(a, 8) for a in addresses if a]))
        return 0

    monkeypatch.setattr(driver, "load", lambda: SimpleNamespace(cuLaunchKernelEx=launch))
    return found


def executable(formats: tuple[str, ...]) -> TritonExecutable:
    binary = GpuBinary(b"", "kernel", 4, 1, 0, 0, 1, ())
    function: Any = SimpleNamespace(params=[SimpleNamespace(role="scalar")] * len(formats), name="kernel")
    made = TritonExecutable(function, Artifact(binary, formats, (), 4 - len(formats), False, 0), dict, lambda: made)
    for device in (0, 1):
        made._loaded[device] = SimpleNamespace(handle=device)  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("formats", "choices"),
    [
        (("u64", "i32"), [(1 << 47, -3), (1 << 47, 5), (16, 5)]),
        (("u64", "f32"), [(16, 0.0), (16, -0.0), (16, 1.5)]),
        (("bf16", "i32"), [(0.0, 1), (-0.0, 1), (1.5, 2)]),
    ],
)
def test_every_launch_has_its_own_numbers(
    seen: list[Launch], formats: tuple[str, ...], choices: list[tuple[Any, ...]]
) -> None:
    run = executable(formats)
    grids, streams = [(1, 1, 1), (2, 3, 1)], [0, 7]
    cases = list(itertools.product(grids, streams, choices))
    for (grid, stream, values), _ in itertools.product(cases + cases[::-1] + cases[::3], range(2)):
        run.run(grid, values, stream, 0)
        run.launch(grid, LaunchArguments(values, (), stream, 1))
        run.bind(grid, LaunchArguments(values, (), stream, 0))()
        wanted = [struct.pack("=" + FORMATS[f], _bits(f, v)) for f, v in zip(formats, values)]
        for found in seen[-3:]:
            assert (found[0], found[1], found[2][: len(formats)]) == (grid, stream, wanted)
            assert found[2][len(formats) :] == [bytes(8)] * (4 - len(formats))  # what the compiler added is null


def test_numbers_beyond_the_range_of_their_type(seen: list[Launch]) -> None:
    executable(("f16", "f32", "f64")).run((1, 1, 1), (-1e5, 1e300, 1e300), 0, 0)
    half, single, double, _ = seen[0][2]
    assert struct.unpack("e6x", half) + struct.unpack("f4x", single) + struct.unpack("d", double) == (
        -math.inf,
        math.inf,
        1e300,
    )


def _bits(f: str, value: Any) -> Any:
    return int(np.float32(value).view(np.uint32)) >> 16 if f == "bf16" else value
