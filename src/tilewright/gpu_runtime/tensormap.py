"""Tensor maps: what the TMA unit knows of an array, 128 bytes that a launch passes by value."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.backends.native.body import Body, pointer
from tilewright.gpu_runtime import driver
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES, Descriptor

# TTIR element type -> CUtensorMapDataType. Small floats travel as bytes.
_TYPES = {"i8": 0, "i16": 1, "i32": 2, "i64": 4, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
_TFLOAT32 = 11  # float32 in memory
_NO_INTERLEAVING, _PROMOTION_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 2, 0


_STEPS, _MOST_ELEMENTS = 1 << 40, 1 << 32  # along an axis: bytes from one to the next, and how many


class Unmapped(Exception):
    """There is no tensor map of an array: rows in reversed order, or farther from each other than a map can say."""


class _Tile(NamedTuple):
    """What a map says of its tiles, whatever the array: in the order of the arguments of cuTensorMapEncodeTiled."""

    element: int
    rank: int
    box: ctypes.Array[ctypes.c_uint32]
    steps: ctypes.Array[ctypes.c_uint32]
    modes: tuple[int, int, int, int]  # interleaving, swizzling, what is fetched into the L2 cache, elements outside

    @classmethod
    def of(cls, d: Descriptor, meta: Mapping[str, Any]) -> _Tile:
        rank, words = len(d.axes), ctypes.c_uint32 * len(d.axes)
        element = _TFLOAT32 if d.rounds else _TYPES.get(d.element, 0)
        modes = _NO_INTERLEAVING, meta["swizzle"], _PROMOTION_TO_128_BYTES, _ZEROS_OUTSIDE
        return cls(element, rank, words(*reversed(meta["block_size"])), words(*[1] * rank), modes)


@functools.cache
def _nothing(device: int) -> int:
    """The address of zeros on ``device``, for arrays without elements: a map needs some memory."""
    address = ctypes.c_uint64()
    with driver.device(device).current():
        driver.call("cuMemAlloc_v2", ctypes.byref(address), 4096)
        driver.call("cuMemsetD8_v2", address, 0, 4096)
    return address.value


class TensorMap:
    """Room for an encoded map, at ``address``."""

    __slots__ = ("_memory", "address")

    def __init__(self) -> None:
        self._memory = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGNMENT))()
        start = ctypes.addressof(self._memory)
        self.address = start + -start % MAP_ALIGNMENT


def encode(
    place: int,
    d: Descriptor,
    meta: Mapping[str, Any],
    base: int,
    shape: Sequence[int],
    strides: Sequence[int],
    device: int,
) -> None:
    """Write the map of an array to ``place``. Unmapped where there is none."""
    rank = len(d.axes)
    extents = [shape[a] for a in reversed(d.axes)]
    steps = [strides[a] * meta["elem_size"] for a in reversed(d.axes)]
    if 0 in extents:
        base, extents, steps = _nothing(device), [1] * rank, [meta["elem_size"]] + [16] * (rank - 1)
    outer = _outer_steps(steps, extents)
    if not all(0 <= step < _STEPS for step in outer) or max(extents) > _MOST_ELEMENTS:
        raise Unmapped
    tile = _Tile.of(d, meta)
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(place),
        tile.element,
        rank,
        ctypes.c_uint64(base),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * max(rank - 1, 1))(*outer),
        tile.box,
        tile.steps,
        *tile.modes,
    )


def _outer_steps(steps: Sequence[int], extents: Sequence[int]) -> list[int]:
    """The strides of all axes but the innermost, in bytes. An axis of one element may have any."""
    return [max(step, 16) if n == 1 else step for step, n in zip(steps[1:], extents[1:])]


def emit_encode(body: Body, d: Descriptor, meta: Mapping[str, Any]) -> str:
    """Where ``encode`` in machine code writes a map, on the stack: encoding takes less time than finding one made
    before. Required is that there is one; the array is among the numbers at ``%values``."""
    tile = _Tile.of(d, meta)
    extents, steps = body.stack(f"[{tile.rank} x i64]"), body.stack(f"[{tile.rank} x i64]")
    for i, axis in enumerate(reversed(d.axes)):
        extent = _number(body, d.shape[axis], 1)
        body.require(body.let(f"icmp ne i64 {extent}, 0"))
        body.store("i64", extent, extents, 8 * i)
        if i:
            step = _number(body, d.strides[axis], meta["elem_size"])
            one, low = body.let(f"icmp eq i64 {extent}, 1"), body.let(f"icmp slt i64 {step}, 16")
            odd = body.let(f"and i1 {one}, {low}")
            body.store("i64", body.let(f"select i1 {odd}, i64 16, i64 {step}"), steps, 8 * (i - 1))
    found = body.stack(f"[{MAP_BYTES} x i8]", MAP_ALIGNMENT)
    base, modes = body.load("ptr", "%values", 8 * d.base), ", ".join(f"i32 {mode}" for mode in tile.modes)
    arguments = (
        f"ptr {found}, i32 {tile.element}, i32 {tile.rank}, ptr {base}, ptr {extents}, ptr {steps}, "
        f"ptr {body.memory(tile.box)}, ptr {body.memory(tile.steps)}, {modes}"
    )
    code = body.let(f"call i32 {pointer(driver.address('cuTensorMapEncodeTiled'))}({arguments})")
    body.require_equal("i32", code, 0)
    return found


def _number(body: Body, of: tuple[str, int, int], times: int) -> str:
    """An extent or stride of a descriptor, ``times`` a number."""
    kind, n, factor = of
    if kind != "p":
        return str(n * factor * times)
    return body.let(f"mul i64 {body.load('i64', '%values', 8 * n)}, {factor * times}")
