"""The tensor maps that a kernel finds in tables of lists, as the TTGIR says that it uses them.

Of maps that are parameters Triton tells this itself.
"""

from __future__ import annotations

import re
from typing import Any

from tilewright.backends.triton.ptx import UnexpectedPtx

_OP = "ttng.reinterpret_tensor_descriptor "
_FOUND = re.compile(re.escape(_OP) + r".* to !tt\.tensordesc<(?:tensor<)?((?:\d+x)+\w+), (#\w+)>")
_LAYOUT = re.compile(
    r"^(#\w+) = #ttg\.nvmma_shared<\{swizzlingByteWidth = (\d+), transposed = false, elementBitWidth = (\d+)",
    re.MULTILINE,
)
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
_LARGEST_BOX = 256  # elements along an axis: CUDA Driver API, cuTensorMapEncodeTiled, boxDim


def boxes(text: str) -> dict[str, dict[str, Any]]:
    """For each tile, such as ``128x64xf16``, that the TTGIR module ``text`` moves with maps from tables: the swizzle,
    the bytes of an element, and the box that one copy moves. UnexpectedPtx where tiles of one kind need maps of two."""
    layouts = {name: (int(swizzle), int(bits) // 8) for name, swizzle, bits in _LAYOUT.findall(text)}
    found: dict[str, dict[str, Any]] = {}
    used = _FOUND.findall(text)
    if len(used) != text.count(_OP) or not layouts.keys() >= {layout for _, layout in used}:
        raise UnexpectedPtx("a tensor map of a table with an unknown layout")
    for tile, layout in used:
        swizzle, item = layouts[layout]
        box = [min(int(n), _LARGEST_BOX) for n in tile.split("x")[:-1]]
        box[-1] = min(box[-1], swizzle // item if swizzle else _LARGEST_BOX)
        made = {"swizzle": _SWIZZLES[swizzle], "elem_size": item, "block_size": box}
        if found.setdefault(tile, made) != made:
            raise UnexpectedPtx(f"two layouts of tiles {tile}")
    return found
