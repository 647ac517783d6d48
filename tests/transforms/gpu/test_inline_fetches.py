"""The warps that multiply fetch for themselves: the first iterations' tiles before a loop, and in each iteration, when its
MMA ops have ended, those of the next one; text in and text out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments
from support.passes import check
from support.ptx.backend import ptx_backend
from transforms.gpu.test_specialize_warps import BARRIER, MAP, SUM, TILE, constants, copy, ring
from transforms.gpu.test_specialize_warps import BEFORE as PRODUCT
from transforms.gpu.test_specialize_warps import HEAD as ONE_CTA

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.gpu_stage import DEEPER
from tilewright.ir.ops.gpu.barriers import MbarrierWait
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedLoad
from tilewright.ir.ops.gpu.tma import TmaLoad
from tilewright.ir.parser import parse_function
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.inline_fetches import InlineFetches

HEAD = ONE_CTA.replace("num_warps = 4", "num_warps = 4, ctas_of_sm = 2")
BEFORE = PRODUCT.replace(ONE_CTA, HEAD).replace(
    f"%u = gpu.wgmma(%x, %y, %t) : f32[64,64]{SUM}",
    f"%v = gpu.wgmma(%x, %y, %z) : f32[64,64]{SUM}\n    %u = add(%v, %t) : f32[64,64]{SUM}",
)


def fetched(index: str, k: str) -> str:
    """What the iteration ``index`` multiplies, unless the loop ends before."""
    return f"""
  %l{k} = cmp(%{index}, %n) {{predicate = CmpPredicate.LT}} : i1{copy("b" + k, "full", "first", BARRIER)}
  gpu.mbarrier_expect(%b{k}, %l{k}) {{bytes = 16384}}{copy("x" + k, "xs", "first", TILE)}
  gpu.tma_load(%x{k}, %b{k}, %map, [%o, %{index}], _, %l{k}){copy("y" + k, "ys", "first", TILE)}
  gpu.tma_load(%y{k}, %b{k}, %map, [%{index}, %o], _, %l{k})"""


def flipped(parity: str, k: str) -> str:
    return f"""
  %i{k} = constant() {{value = 1, type = !i32}} : i32
  %parity{k} = xor(%{parity}, %i{k}) : i32"""


ALIGNED = ", alignment = 1024"
BUFFERS = "".join(
    ring(name, of, more).replace(",2>", ">")
    for name, of, more in (("xs", TILE, ALIGNED), ("ys", TILE, ALIGNED), ("full", BARRIER, ""))
)
AFTER = f"""{HEAD.replace("ctas_of_sm = 2", "ctas_of_sm = 2, occupancy = 2, deeper_stages = (2)")}{MAP}{BUFFERS}
  gpu.mbarrier_init(%full) {{count = 1}}
  gpu.barrier()
  %first = constant() {{value = 0, type = !i32}} : i32{constants("")}{fetched("o", "1")}
  %n1 = add(%o, %one) : i32{flipped("first", "1")}
  %w, %last = for(%o, %n, %one, [%z, %first]) : f32[64,64]{SUM}, i32 {{
    ^(%k: i32, %t: f32[64,64]{SUM}, %parity: i32){copy("b", "full", "first", BARRIER)}
    gpu.mbarrier_wait(%b, %parity){copy("x", "xs", "first", TILE)}{copy("y", "ys", "first", TILE)}
    %v = gpu.wgmma(%x, %y, %z) {{pending = none}} : f32[64,64]{SUM}{flipped("parity", "3")}
    %sum = gpu.wgmma_wait([%v], [], []) : f32[64,64]{SUM}
    %k1 = add(%k, %one) : i32{fetched("k1", "4")}
    %u = add(%sum, %t) : f32[64,64]{SUM}
    continue([%u, %parity3])
  }}
  print([%w]) {{parts = (none), formats = ("")}}
  return()
}}"""


def test_a_buffer_is_fetched_to_when_what_reads_it_has_ended() -> None:
    check(InlineFetches(), BEFORE, AFTER, settles=False, names=False)  # the hint stays


def test_one_cta_on_an_sm_fetches_further_ahead() -> None:
    """As no other one multiplies meanwhile."""
    alone = InlineFetches(blocks=1).run(parse_function(BEFORE))
    assert alone.hints["occupancy"] == 1 and DEEPER not in alone.hints
    rings = [op.type.copies for op in alone.ops_of(SharedAlloc)]
    assert rings == [2, 2, 2], "operands, and a barrier for both"


def test_threads_wait_for_what_they_load_of_what_was_fetched_once() -> None:
    """In random kernel 902028, whose second product has a right operand that threads compute."""
    kernel = KernelGenerator(902028).make()
    function = specialization(kernel.kernel(), arguments(kernel)[0], "reference").function
    ops = compile_to_ptx(function, "sm_90a", None, None, Constraints(realign=True)).distributed.body.ops
    *_, loaded = (op for op in ops if isinstance(op, TmaLoad))
    reads = [op for op in ops[ops.index(loaded) :] if isinstance(op, (MbarrierWait, SharedLoad))]
    assert isinstance(reads[0], MbarrierWait) and isinstance(reads[1], SharedLoad)


@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
def test_nested_loops_fetch_to_buffers_of_their_own(make: Any) -> None:
    """As what the outer one needs next is under way when the inner one begins."""

    @ct.kernel
    def products(x: ct.Array, y: ct.Array, z: ct.Array, out: ct.Array) -> None:
        total = ct.zeros((64, 32), ct.float32)
        for k in range(2):
            weights = ct.mma(ct.load(x, (0, k), (64, 64)), ct.load(y, (k, 0), (64, 32)), ct.zeros((64, 32), ct.float32))
            total = ct.mma(weights.astype(x.dtype), ct.load(z, (k, 0), (32, 32)), total)
            for again in range(2):
                other, column = ct.load(x, (0, again), (64, 64)), ct.load(y, (k, 0), (64, 32))
                weights = ct.mma(other, column, ct.zeros((64, 32), ct.float32))
                total = ct.mma(weights.astype(x.dtype), ct.load(z, (again, 0), (32, 32)), total)
        ct.store(out, (0, 0), total)

    rng, out = np.random.default_rng(5), np.zeros((64, 32), np.float32)
    x, y, z = operands = [aligned(shape, np.float16) for shape in ((64, 128), (128, 32), (64, 32))]
    for operand in operands:
        operand[...] = rng.integers(-1, 2, operand.shape)
    with make(None, target="sm_90") as backend:
        ct.launch(None, (1,), products, (x, y, z, out), backend=backend)
    pairs = [(k, at) for k in range(2) for at in (k, 0, 1)]  # of columns, rows
    lefts, rights = np.split(x.astype(np.float32), 2, 1), np.split(y.astype(np.float32), 2)
    last = np.split(z.astype(np.float32), 2)
    np.testing.assert_array_equal(out, sum(lefts[at] @ rights[k] @ last[at] for k, at in pairs))
