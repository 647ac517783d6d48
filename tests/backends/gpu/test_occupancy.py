"""How many CTAs of attention an SM is to hold, and what its registers are divided among."""

from __future__ import annotations

import pytest
from support.gpu_attention import attended

from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.ops.gpu.specialize import WarpSpecialize


@pytest.mark.parametrize(
    ("shape", "occupancy", "registers"),
    [
        ((64, 64, 128), 2, (40, 216)),
        ((64, 64, 128), None, (40, 216)),
        ((64, 64, 128), 1, None),
        ((64, 64, 64), 3, (24, 136)),
        ((64, 64, 256), 2, None),  # two have no room in shared memory
        ((64, 64, 64), 2, (24, 136)),  # three have
        ((128, 64, 64), 2, (40, 216)),  # one warp group has registers for 128 rows
        ((128, 128, 64), 2, (40, 232)),  # two warp groups
    ],
)
def test_ctas_of_one_warp_group_share_an_sm(
    shape: tuple[int, int, int], occupancy: int | None, registers: tuple[int, int] | None
) -> None:
    """Where two stages and the registers suffice: the threads that multiply take those of the ones that load."""
    made = compile_to_ptx(attended(*shape, **({} if occupancy is None else {"occupancy": occupancy})), "sm_90", None)
    (roles,) = (op for op in made.distributed.walk() if isinstance(op, WarpSpecialize))
    assert roles.registers == registers
    ctas = occupancy or 2
    assert (made.shared_bytes + 1024) * ctas <= 228 * 1024 or registers in (None, (40, 232))
    if registers is not None:
        load, compute = registers
        most = (4 * load + (made.threads // 32 - 4) * compute) // (made.threads // 32)
        assert f".maxnreg {most // 8 * 8}\n" in made.ptx
    assert ("ignored hints: occupancy" in made.schedule) == (registers in (None, (40, 232)) and occupancy == 2)
