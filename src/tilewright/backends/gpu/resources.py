"""What a kernel asks of the registers of a thread, and what is said where these are too few."""

from __future__ import annotations

from tilewright.analysis.gpu.target import most_registers
from tilewright.ir.core import Function, Value
from tilewright.ir.errors import TileError
from tilewright.ir.gpu_stage import MAX_WARPS, num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.memory import GlobalLoad, SharedLoad
from tilewright.ir.types import TileType

# Words of a tile in a thread. What has no register is in memory, which is slow; for more than these the assembler takes
# minutes.
_MOST_WORDS = 1024


def check_registers(function: Function) -> None:
    """TileError, naming the tile, when a tile of ``function``, in the gpu stage, is far too large for a thread."""
    warps = num_warps(function)
    for op in function.walk():
        for value in op.results:
            words = _words(value)
            if words <= _MOST_WORDS:
                continue
            t, have = value.tile, most_registers(LANES * warps)
            tile = TileType(t.dtype, t.shape)
            raise TileError(
                f"{function.name}(): the tile {tile} takes {words} registers of 32 bits in each of the "
                f"{LANES * warps} threads of a block, which have {have}; use smaller tiles"
                + (", or more threads (num_worker_warps)" if warps < MAX_WARPS else ""),
                op.loc,
            )


def _words(value: Value) -> int:
    """The registers that ``value`` takes of a thread; none for indices and addresses, which are computed again."""
    t = value.type
    if not isinstance(t, TileType) or t.layout is None or t.is_pointer:
        return 0
    if not (t.element.is_floating or isinstance(value.op, (GlobalLoad, SharedLoad))):
        return 0
    return t.layout.num_registers * max(t.element.bitwidth // 32, 1)
