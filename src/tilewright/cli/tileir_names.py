"""How files of CUDA Tile IR and their kernels are named on the command line."""

from __future__ import annotations

import re

from tilewright.cli.arguments import SPECIFICATIONS

_SUFFIX = r"\.(?:tilebc|tileirbc|mlir|fatbin|o)"
TARGET = re.compile(rf"(?P<path>.*?{_SUFFIX})(?:::(?P<kernel>.+))?", re.DOTALL)

EPILOG = f"""\
Files of CUDA Tile IR (.tilebc, .tileirbc, .mlir, and the objects and fat binaries of nvcc) are named with a kernel and
run on arrays that hold 0, 1, 2, ...: what they hold in the end is printed. Where a kernel of cuTile Python takes the
pointer, the extents and the strides of an array, the array alone will do.

  tilewright run kernels.tilebc::add --grid 4 --arg f32[64] --arg f32[64] --arg f32[64]

{SPECIFICATIONS}"""


def is_tileir(target: str) -> bool:
    """Whether ``target`` names a file of CUDA Tile IR, or a kernel of one, by its suffix."""
    return TARGET.fullmatch(target) is not None
