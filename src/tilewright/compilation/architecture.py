"""Which dtypes NVIDIA's compiler of CUDA Tile IR takes for which architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.backends.export import Export
from tilewright.ir import dtypes
from tilewright.ir.core import Function, Op
from tilewright.ir.enums import AtomicKind
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.location import Loc
from tilewright.ir.ops.memory import AtomicRmw, AtomicView
from tilewright.ir.types import TileType

# The first architecture that each is for.
_SINCE: dict[dtypes.DType, int] = {
    dtypes.float8_e4m3fn: 90,
    dtypes.float8_e5m2: 90,
    dtypes.float8_e8m0fnu: 100,
    dtypes.float4_e2m1fn: 100,
    dtypes.float8_e5m3fnu: 107,
}
_BFLOAT16_SUMS = 90


def check_architecture(exports: Sequence[Export], name: str) -> None:
    """TileUnsupportedFeatureError for kernels with what the architecture ``name``, such as ``sm_90a``, does not have;
    ValueError for a name of another form."""
    found = re.fullmatch(r"sm_(\d{2,3})[af]?", name)
    if found is None:
        raise ValueError(f"{name!r} is no architecture of NVIDIA; write for example sm_90")
    for export in exports:
        for said, since, loc in _needs(export.function):
            if since > int(found[1]):
                raise TileUnsupportedFeatureError(f"{said} is not supported on {name}; it needs sm_{since}", loc)


def _needs(function: Function) -> Iterator[tuple[str, int, Loc]]:
    for op in function.walk():
        for value in op.results:
            if isinstance(value.type, TileType) and value.type.dtype in _SINCE:
                yield str(value.type.dtype), _SINCE[value.type.dtype], op.loc
        if _adds_bfloat16(op):
            yield "an atomic add of bfloat16", _BFLOAT16_SUMS, op.loc


def _adds_bfloat16(op: Op) -> bool:
    return (
        isinstance(op, (AtomicRmw, AtomicView)) and op.kind is AtomicKind.ADD and op.value.tile.dtype == dtypes.bfloat16
    )
