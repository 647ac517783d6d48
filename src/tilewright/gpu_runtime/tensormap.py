"""Tensor maps: what the TMA unit knows of an array, 128 bytes that a launch passes by value."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends.native.body import Body
from tilewright.gpu_runtime import driver
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES, WRAP, Descriptor

# TTIR element type -> CUtensorMapDataType. Small floats travel as bytes.
_TYPES = {"i8": 0, "i16": 1, "i32": 2, "i64": 4, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
_TFLOAT32 = 11  # float32 in memory
_NO_INTERLEAVING, _PROMOTION_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 2, 0


# Along an axis: bytes from one to the next, and how many. CUDA Driver API, cuTensorMapEncodeTiled, globalStrides and
# globalDim.
_STEPS, _MOST_ELEMENTS = 1 << 40, 1 << 32


class Unmapped(Exception):
    """There is no tensor map of an array: rows in reversed order, or farther from each other than a map can say."""


@functools.cache
def memory_for_nothing(device: int) -> int:
    """The address of zeros on ``device``, for arrays without elements: a map needs some memory."""
    address = ctypes.c_uint64()
    with driver.device(device).current():
        driver.call("cuMemAlloc_v2", ctypes.byref(address), 4096)
        driver.call("cuMemsetD8_v2", address, 0, 4096)
    return address.value


class MapEncoder:
    """Writes the tensor maps of arrays that ``d`` describes, from Python or in machine code.

    ``box`` tells what one copy moves: its extents, the swizzle of shared memory, and the bytes of an element.
    """

    def __init__(self, d: Descriptor, box: Mapping[str, Any]) -> None:
        self._d, self._item = d, box["elem_size"]
        self._rank, words = len(d.axes), ctypes.c_uint32 * len(d.axes)
        self._axes = d.axes[::-1]  # the innermost first, as the driver has them
        self._element = _TFLOAT32 if d.rounds else _TYPES.get(d.element, 0)
        self._box, self._steps = words(*reversed(box["block_size"])), words(*[1] * self._rank)
        # interleaving, swizzling, what is fetched into the L2 cache, elements outside
        self._modes = _NO_INTERLEAVING, box["swizzle"], _PROMOTION_TO_128_BYTES, _ZEROS_OUTSIDE

    def encode(self, address: int, base: int, shape: Sequence[int], strides: Sequence[int], device: int) -> None:
        """Write the map of an array to ``address``. Unmapped where there is none."""
        rank, item = self._rank, self._item
        extents, steps = [shape[a] for a in self._axes], [strides[a] * item for a in self._axes]
        if 0 in extents:
            base, extents, steps = memory_for_nothing(device), [1] * rank, [item] + [16] * (rank - 1)
        outer = [max(step, 16) if n == 1 else step for step, n in zip(steps[1:], extents[1:])]  # of one row: any
        if not all(0 <= step < _STEPS for step in outer) or max(extents) > _MOST_ELEMENTS:
            raise Unmapped
        driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(address),
            self._element,
            rank,
            ctypes.c_uint64(base),
            (ctypes.c_uint64 * rank)(*extents),
            (ctypes.c_uint64 * max(rank - 1, 1))(*outer),
            self._box,
            self._steps,
            *self._modes,
        )

    def emit(self, body: Body, nothing: str, error: str) -> str:
        """Where machine code has a map on the stack, which it writes there as ``encode`` does, in less time than
        finding one made before takes. The array is among the numbers at ``%values``; ``nothing`` is the address of
        memory for one without elements, or 0.

        It goes to the label ``unmapped`` where there is no map, ``empty`` where that memory is needed, and
        ``unencoded`` where the driver refuses, for the reason that is stored at ``error``.
        """
        d, rank = self._d, self._rank
        extents, steps = body.stack(f"[{rank} x i64]"), body.stack(f"[{rank} x i64]")
        sizes = [_number(body, d.shape[axis], 1) for axis in self._axes]
        lacking = [body.let(f"icmp eq i64 {size}, 0") for size in sizes]
        no_elements = functools.reduce(lambda some, one: body.let(f"or i1 {some}, {one}"), lacking)
        missing = body.let(f"icmp eq i64 {nothing}, 0")
        body.unless(body.let(f"and i1 {no_elements}, {missing}"), "empty")
        for i, (axis, size) in enumerate(zip(self._axes, sizes)):
            extent = body.let(f"select i1 {no_elements}, i64 1, i64 {size}")
            body.unless(body.let(f"icmp ugt i64 {extent}, {_MOST_ELEMENTS}"), "unmapped")
            body.store("i64", extent, extents, 8 * i)
            if i:
                step = _number(body, d.strides[axis], self._item)
                one, low = body.let(f"icmp eq i64 {extent}, 1"), body.let(f"icmp slt i64 {step}, 16")
                any_step = body.let(f"or i1 {no_elements}, {body.let(f'and i1 {one}, {low}')}")
                step = body.let(f"select i1 {any_step}, i64 16, i64 {step}")
                body.unless(body.let(f"icmp uge i64 {step}, {_STEPS}"), "unmapped")
                body.store("i64", step, steps, 8 * (i - 1))
        found = body.stack(f"[{MAP_BYTES} x i8]", MAP_ALIGNMENT)
        how = body.memory((ctypes.c_uint32 * 5)(self._element, *self._modes))
        element, *modes = (f"i32 {body.load('i32', how, 4 * i)}" for i in range(5))
        base = body.load("i64", "%values", 8 * d.base)
        base = body.let(f"select i1 {no_elements}, i64 {nothing}, i64 {base}")
        arguments = (
            f"ptr {found}, {element}, i32 {rank}, i64 {base}, ptr {extents}, ptr {steps}, "
            f"ptr {body.memory(self._box)}, ptr {body.memory(self._steps)}, {', '.join(modes)}"
        )
        code = body.let(f"call i32 {body.external(driver.address('cuTensorMapEncodeTiled'))}({arguments})")
        body.store("i32", code, error)
        body.unless(body.let(f"icmp ne i32 {code}, 0"), "unencoded")
        return found


def _number(body: Body, of: tuple[str, int, int], times: int) -> str:
    """An extent or stride of a descriptor, ``times`` a number."""
    kind, n, factor = of
    if kind not in ("p", "w"):
        return body.number(n * factor * times)
    found = body.let(f"mul i64 {body.load('i64', '%values', 8 * n)}, {body.number(factor * times)}")
    return body.let(f"add i64 {found}, {body.number(WRAP * times)}") if kind == "w" else found
