"""How many CTAs of attention an SM is to hold, and what its registers are divided among."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attended
from support.gpu_products import aligned, matmul

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import Barrier, SharedAlloc
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import TmaLoad
from tilewright.ir.ops.gpu.wgmma import WgmmaWait
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu import split_mma
from tilewright.transforms.gpu.occupancy import resident


@pytest.mark.parametrize(
    ("shape", "occupancy", "ctas", "fetching"),
    [
        ((64, 64, 128), 2, 4, 0),
        ((64, 64, 128), None, 4, 0),
        ((64, 64, 128), 1, 1, 4),
        ((64, 64, 64), 3, 5, 0),
        ((64, 64, 256), 2, 2, 0),
        ((128, 64, 64), 2, 5, 0),  # as 64 rows in two CTAs
        ((64, 128, 128), 2, 2, 0),
        ((128, 256, 64), 2, 1, 4),  # two warp groups, which leave no registers to others
        ((128, 128, 128), 2, 1, 4),
    ],
)
def test_ctas_share_an_sm(shape: tuple[int, int, int], occupancy: int | None, ctas: int, fetching: int) -> None:
    """As many as shared memory and the registers suffice for: then a single warp loads, or those that multiply."""
    made = compile_to_ptx(attended(*shape, **({} if occupancy is None else {"occupancy": occupancy})), "sm_90", None)
    assert sum(op.producer_warps for op in made.distributed.walk() if isinstance(op, WarpSpecialize)) == fetching
    assert f".minnctapersm {ctas}\n" in made.ptx
    assert (made.shared_bytes + 1024) * ctas <= 228 * 1024
    assert ("ignored hints: occupancy" in made.schedule) == (ctas < (occupancy or 1))


@pytest.mark.parametrize(("rows", "waits"), [(64, False), (128, True)])
def test_two_warp_groups_wait_before_a_thread_of_one_loads(
    rows: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What both have multiplied is overwritten then."""
    monkeypatch.setattr(split_mma, "_pay_apart", lambda function: False)
    made = compile_to_ptx(attended(rows, 128, 64), "sm_90", None)
    loop = next(op for op in made.distributed.walk() if isinstance(op, For))
    copies = [i for i, op in enumerate(loop.body.ops) if any(isinstance(o, TmaLoad) for o in op.walk())]
    assert len(copies) == 2
    for start, end in itertools.pairwise([0, *copies]):
        order = [type(op) for op in loop.body.ops[start:end] if isinstance(op, (WgmmaWait, Barrier))]
        assert order[-1] is (Barrier if waits else WgmmaWait)


@pytest.mark.parametrize(
    ("dtype", "occupancy", "registers"),
    [(ml_dtypes.float8_e4m3fn, 2, (40, 216)), (ml_dtypes.float8_e4m3fn, 1, None), (np.float16, 1, None)],
)
def test_what_loads_gives_registers_to_what_multiplies(
    dtype: type, occupancy: int, registers: tuple[int, int] | None
) -> None:
    made = compile_to_ptx(attended(64, 64, 128, dtype, occupancy=occupancy), "sm_90", None)
    (roles,) = (op for op in made.distributed.walk() if isinstance(op, WarpSpecialize))
    assert roles.registers == registers
    if registers is not None:
        load, compute = registers
        most = (4 * load + (made.threads // 32 - 4) * compute) // (made.threads // 32)
        assert f".maxnreg {most // 8 * 8}\n" in made.ptx


@pytest.mark.parametrize(
    ("step", "tiles", "blocks", "ctas"),
    [
        (36864, 2, 0, 2),
        (36864, 2, 1, 1),  # which has all the memory for itself
        (36864, 2, 4, 2),
        (16384, 2, 0, 1),  # small steps
        (16384, 2, 2, 2),
        (16384, 4, 3, 3),
        (16384, 4, 0, 4),
    ],
)
def test_ctas_that_are_there_to_the_end(step: int, tiles: int, blocks: int, ctas: int) -> None:
    assert resident(step, tiles, blocks) == ctas


@ct.kernel
def biased(q: ct.Array, k: ct.Array, v: ct.Array, bias: ct.Array, o: ct.Array) -> None:
    x, total = ct.load(q, (0, 0), (64, 64)), ct.zeros((64, 64), ct.float32)
    for j in range(ct.cdiv(k.shape[0], 64)):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (64, 64))), ct.zeros((64, 64), ct.float32))
        weights = ct.exp(scores + ct.load(bias, (0, j), (64, 64)).astype(ct.float32))
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (64, 64)), total)
    ct.store(o, (0, 0), total.astype(o.dtype))


@pytest.mark.parametrize(("dtype", "ctas"), [(np.int8, 4), (np.float16, 4), (np.float32, 3)])
def test_what_threads_load_beside_scores_takes_registers(dtype: type, ctas: int) -> None:
    """Fewer CTAs share an SM than the five that do without."""
    q, k, v, o = (aligned((256, 64), np.float16) for _ in range(4))
    function = specialization(biased, (q, k, v, aligned((256, 256), dtype), o), "reference").function
    assert f".minnctapersm {ctas}\n" in compile_to_ptx(function, "sm_90", None).ptx


@ct.kernel
def gated(x: ct.Array, y: ct.Array, z: ct.Array, o: ct.Array, M: ct.Constant[int], N: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    first, second = ct.zeros((M, N), ct.float32), ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], 64)):
        rows = ct.load(x, (i, k), (M, 64))
        first = ct.mma(rows, ct.load(y, (k, j), (64, N)), first)
        second = ct.mma(rows, ct.load(z, (k, j), (64, N)), second)
    ct.store(o, (i, j), (first * second).astype(o.dtype))


@ct.kernel
def residual(x: ct.Array, y: ct.Array, z: ct.Array, o: ct.Array, M: ct.Constant[int], N: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], 64)):
        total = ct.mma(ct.load(x, (i, k), (M, 64)), ct.load(y, (k, j), (64, N)), total)
    ct.store(o, (i, j), (total + ct.load(z, (i, j), (M, N)).astype(ct.float32)).astype(o.dtype))


@pytest.mark.parametrize(
    ("kernel", "tile", "ctas"),
    [
        (gated, (64, 64), 3),  # each of the two sums is carried beside the other one, but neither is scaled
        (residual, (64, 128), 3),  # what is loaded after the loop is converted where the loop has had its tiles
        (residual, (128, 128), 2),  # it is copied to shared memory, and takes no registers beside the sums
    ],
)
def test_sums_and_what_is_combined_with_them_share_registers(
    kernel: ct.Kernel, tile: tuple[int, int], ctas: int
) -> None:
    arrays = [aligned((256, 256), np.float16) for _ in range(4)]
    function = specialization(kernel, (*arrays, *tile), "reference").function
    assert f".minnctapersm {ctas}\n" in compile_to_ptx(function, "sm_90", None).ptx


@pytest.mark.parametrize(("width", "ctas"), [(64, 4), (128, 3)])
def test_warps_that_multiply_for_themselves_share_an_sm(width: int, ctas: int) -> None:
    """As many CTAs as their registers and shared memory suffice for."""
    made = compile_to_ptx(attended(32, 32, width), "sm_90", None)
    assert f".minnctapersm {ctas}\n" in made.ptx
    assert (made.shared_bytes + 1024) * ctas <= 228 * 1024


def test_few_ctas_load_ahead() -> None:
    """Four CTAs share an SM, each with a warp that fetches three steps ahead."""
    arrays = [aligned((256, 256), np.float16) for _ in range(3)]
    given = *arrays, 64, 64, 64, False, False, ct.float32, False
    made = compile_to_ptx(specialization(ct.kernel(matmul), given, "reference").function, "sm_90", None).distributed
    assert made.hints["occupancy"] == 4
    assert max(op.type.copies for op in made.walk() if isinstance(op, SharedAlloc)) == 3
    assert [op.producer_warps for op in made.walk() if isinstance(op, WarpSpecialize)] == [1]


@ct.kernel
def quotients(x: ct.Array, y: ct.Array, T: ct.Constant[int], N: ct.Constant[int]) -> None:
    total = ct.load(x, (ct.bid(0), 0), ())
    for i in ct.static_iter(range(N)):
        ct.store(y, (ct.bid(0), i), ct.load(x, (ct.bid(0), i), (1, T)) / total)


@pytest.mark.parametrize(("count", "limited"), [(1, True), (2, False)])
def test_registers_beside_quotients_are_limited_where_these_leave_enough(count: int, limited: bool) -> None:
    """Those of two tiles would be spilled."""
    x = aligned((4, 8192), np.float32)
    function = specialization(quotients, (x, x.copy(), 4096, count), "reference").function
    assert (".minnctapersm" in compile_to_ptx(function, "sm_90", 4).ptx) == limited
