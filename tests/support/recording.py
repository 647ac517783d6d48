"""Records the launches of tests on the CPU backend, to be replayed on a GPU where what they need, such as a C++ compiler,
is missing: ``RECORD_LAUNCHES=FILE python -m pytest -p support.recording tests/cpp tests/frontend/cpp``.

``tests/gpu/test_recorded_launches.py`` replays the file that TILEWRIGHT_RECORDED_LAUNCHES names.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.ir.core import Function
from tilewright.ir.dtypes import dtype_from_short
from tilewright.ir.errors import TileError
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function

_MOST_BYTES = 1 << 20  # of the arrays of a launch that is recorded
_ALIGNMENT = 256
# Ops whose results depend on the order in which a backend combines elements, or on its math library.
_ROUNDED = {"mma", "mma_scaled", "reduce", "scan", "exp", "exp2", "log", "log2", "pow", "sin", "cos", "tan", "sinh", "cosh",
            "tanh", "atan2", "rsqrt", "atomic_rmw", "atomic_view"}  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """An argument in memory: what it held before the launch and after it."""

    name: str
    address: int
    low: int
    dtype: str
    writable: bool
    before: str
    after: str


@dataclass(frozen=True)
class Recorded:
    """A launch: the kernel as IR, its arguments, and the error that it gave."""

    ir: str
    grid: tuple[int, int, int]
    values: list[Any]
    memories: list[Memory]
    error: str | None


# -- recording

_found: dict[str, Recorded] = {}


def pytest_configure() -> None:
    """Every launch goes through ``launch``, which is told the buffers."""
    run = CpuExecutable.run

    def launch(self: Any, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        buffers, error = list(arguments.buffers), None
        before = [_content(b) for b in buffers]
        try:
            run(self, grid, arguments.values)
        except TileError as e:
            error = e.message
            raise
        finally:
            if sum(map(len, before)) <= _MOST_BYTES:
                _add(self._function, grid, arguments, buffers, before, error)

    def bind(self: Any, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        return functools.partial(launch, self, grid, arguments)

    CpuExecutable.launch, CpuExecutable.bind = launch, bind  # type: ignore[method-assign]
    del CpuExecutable.run, CpuExecutable.entry


def _content(buffer: Buffer) -> bytes:
    return ctypes.string_at(buffer.low, buffer.high - buffer.low)


def _add(
    function: Function,
    grid: tuple[int, int, int],
    arguments: LaunchArguments,
    buffers: list[Buffer],
    before: list[bytes],
    error: str | None,
) -> None:
    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    memories = [
        Memory(b.name, b.address, b.low, b.dtype.short, b.writable, text(data), text(_content(b)))
        for b, data in zip(buffers, before)
    ]
    ir = print_function(function)
    values = [v.item() if isinstance(v, np.generic) else v for v in arguments.values]
    key = repr((ir, grid, [(m.name, m.before) for m in memories], [v for v in values if not _is_address(v, memories)]))
    _found.setdefault(key, Recorded(ir, grid, values, memories, error))


def _is_address(value: Any, memories: list[Memory]) -> bool:
    return any(type(value) is int and value == m.address for m in memories)


def pytest_unconfigure() -> None:
    with gzip.open(os.environ["RECORD_LAUNCHES"], "wt") as file:
        json.dump([asdict(r) for r in _found.values()], file)
    print(f"{len(_found)} launches recorded")


# -- replaying


def load(path: Path) -> list[Recorded]:
    with gzip.open(path, "rt") as file:
        found = json.load(file)
    return [
        Recorded(**{**r, "grid": tuple(r["grid"]), "memories": [Memory(**m) for m in r["memories"]]}) for r in found
    ]


def replay(recorded: Recorded, backend: Any) -> None:
    """Launch it on ``backend``, which takes arrays in host memory. AssertionError when arrays differ from those recorded."""
    function = parse_function(recorded.ir)
    held = [_placed(m) for m in recorded.memories]
    moved = {m.address: b.address for m, (_, b) in zip(recorded.memories, held)}
    pointers = [arg.tile.is_pointer for arg in function.body.args]
    values = [moved.get(v, v) if pointer else v for v, pointer in zip(recorded.values, pointers)]
    try:
        backend.compile(function, {}).launch(recorded.grid, LaunchArguments(values, [b for _, b in held]))
        error = None
    except TileError as e:
        error = e.message
    assert (error is None) == (recorded.error is None), error or recorded.error
    if error is not None and recorded.error is not None:  # any block may be the one that is reported
        assert error.split(", ")[0] == recorded.error.split(", ")[0]
        return
    exact = not {op.name for op in function.walk()} & _ROUNDED
    for memory, (_, buffer) in zip(recorded.memories, held):
        wanted = base64.b64decode(memory.after)
        _compare(memory, np.frombuffer(_content(buffer), np.uint8), np.frombuffer(wanted, np.uint8), exact=exact)


def _placed(memory: Memory) -> tuple[Any, Buffer]:
    """The memory before the launch, aligned as it was, and what describes it."""
    data = base64.b64decode(memory.before)
    held = ctypes.create_string_buffer(len(data) + _ALIGNMENT)
    low = ctypes.addressof(held)
    low += (memory.low - low) % _ALIGNMENT
    ctypes.memmove(low, data, len(data))
    address = memory.address - memory.low + low
    dtype = dtype_from_short(memory.dtype)
    return held, Buffer(memory.name, address, low, low + len(data), dtype, memory.writable)


def _compare(memory: Memory, got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], *, exact: bool) -> None:
    dtype = dtype_from_short(memory.dtype)
    if not dtype.is_floating:
        np.testing.assert_array_equal(got.view(dtype.storage), wanted.view(dtype.storage), err_msg=memory.name)
        return
    x, y = (a.view(dtype.storage).astype(np.float64) for a in (got, wanted))
    tolerance = 0.0 if exact else 16 * 2.0 ** -min(dtype.mantissa_bits, 10)
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=memory.name)
