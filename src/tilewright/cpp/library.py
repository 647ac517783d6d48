"""A shared library of kernels in Tile C++, with a C header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.backends.export import Export, Parameter
from tilewright.backends.registry import exporters
from tilewright.cpp.module import Kernel


def write_library(kernels: Sequence[tuple[str, Kernel]], path: Path) -> None:
    """Write a library for this kind of processor to ``path``, and its header beside it: each kernel is the function
    that comes with it, which takes the extents of the grid and what the kernel takes. It returns as those of
    ``export_kernel``.

    TileUnsupportedFeatureError without a C compiler; OSError when a file cannot be written.
    """
    exporters()["shared_library"]([_export(*each) for each in kernels], path, "shared_library", None)


def _export(symbol: str, kernel: Kernel) -> Export:
    function = kernel.function
    parameters = [
        Parameter(param.argument, value.tile, param.argument, position)
        for position, (param, value) in enumerate(zip(function.params, function.body.args))
    ]
    return Export(function, symbol, tuple(parameters))
