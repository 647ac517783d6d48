"""How files of CUDA Tile IR and their kernels are named on the command line."""

from __future__ import annotations

import contextlib
import re

from tilewright.cli.arguments import SPECIFICATIONS

_SUFFIX = r"\.(?:tilebc|tileirbc|mlir|fatbin|o)"
_TARGET = re.compile(rf"(?P<path>.*?{_SUFFIX})(?:::(?P<kernel>.+))?", re.DOTALL)
_BEGINNINGS = (b"\x7fTileIR\0", b"\x50\xed\x55\xba", b"\x7fELF")  # of bytecode, fat binaries, and what is linked

EPILOG = f"""\
Files of CUDA Tile IR (.tilebc, .tileirbc, .mlir, and the objects and fat binaries of nvcc) are named with a kernel and
run on arrays that hold 0, 1, 2, ...: what they hold in the end is printed. Where a kernel of cuTile Python takes the
pointer, the extents and the strides of an array, the array alone will do.

  tilewright run kernels.tilebc::add --grid 4 --arg f32[64] --arg f32[64] --arg f32[64]

{SPECIFICATIONS}"""


def split(target: str) -> tuple[str, str | None] | None:
    """The file of CUDA Tile IR, which its suffix or its first bytes tell, and the kernel that ``target`` names."""
    if match := _TARGET.fullmatch(target):
        return match["path"], match["kernel"]
    path, _, kernel = target.partition("::")
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        if file.read(8).startswith(_BEGINNINGS):
            return path, kernel or None
    return None


def is_tileir(target: str) -> bool:
    """Whether ``target`` names a file of CUDA Tile IR, or a kernel of one."""
    return split(target) is not None
