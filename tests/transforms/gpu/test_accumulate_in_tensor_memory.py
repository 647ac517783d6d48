"""Sums of MMA ops of warp groups go to tensor memory, text in and text out."""

from __future__ import annotations

import pytest
from support.gpu_text import layout
from support.passes import check

from tilewright.analysis.gpu.tensor_memory import OutOfTensorMemory
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.accumulate_in_tensor_memory import AccumulateInTensorMemory

OFFSET = "[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]"
BUFFER = f"shared<f16[64,64]#layout<offset = [{OFFSET}]>>"
SUMS = "f32[64,64]" + layout(
    [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], [[16, 0], [32, 0]]
)
WORD, BARRIERS = "shared<u32[1]#layout<offset = []>>", "shared<u64[1]#layout<offset = []>,4>"
HEAD = 'func @f(%n: i32 = "x".shape.0) hints {num_warps = 4} {'
MEMORY = f"""
  %word = gpu.shared_alloc() {{type = !{WORD}}} : {WORD}
  %bars = gpu.shared_alloc() {{type = !{BARRIERS}}} : {BARRIERS}
  gpu.mbarrier_init(%bars) {{count = 1}}
  %base = gpu.tensor_alloc(%word) {{columns = 64}} : i32
  %none = constant() {{value = 0, type = !i32}} : i32"""
OPERANDS = f"""
  %x = gpu.shared_alloc() {{type = !{BUFFER}, alignment = 1024}} : {BUFFER}
  %zero = constant() {{value = 0.0, type = !{SUMS}}} : {SUMS}
  %i0 = constant() {{value = 0, type = !i32}} : i32
  %i1 = constant() {{value = 1, type = !i32}} : i32"""
MMA = """
    gpu.tcgen05_mma(%x, %x, %base, %bars, {number}) {{dtype = f32{adds}}}
    %one{k} = constant() {{value = 1, type = !i32}} : i32
    %next{k} = add({number}, %one{k}) : i32
    %late{k} = constant() {{value = {late}, type = !i32}} : i32
    %last{k} = sub(%next{k}, %late{k}) : i32
    gpu.tcgen05_wait(%bars, %last{k})"""


def test_sums_that_a_loop_only_adds_to() -> None:
    """They are stored before the loop and loaded after it; an MMA op stays in flight meanwhile."""
    before = f"""{HEAD}{OPERANDS}
  %sum = for(%i0, %n, %i1, [%zero]) : {SUMS} {{ ^(%i: i32, %acc: {SUMS})
    %made = gpu.wgmma(%x, %x, %acc) {{pending = 1}} : {SUMS}
    continue([%made])
  }}
  %done = gpu.wgmma_wait([%sum], [], []) : {SUMS}
  %twice = add(%done, %done) : {SUMS}
  return()
}}"""
    after = f"""{HEAD}{MEMORY}{OPERANDS}
  gpu.tensor_store(%base, %zero)
  %count = for(%i0, %n, %i1, [%none]) : i32 {{ ^(%i: i32, %number: i32){MMA.format(number="%number", adds="", k=0, late=2)}
    continue([%next0])
  }}
  %late = constant() {{value = 1, type = !i32}} : i32
  %last = sub(%count, %late) : i32
  gpu.tcgen05_wait(%bars, %last)
  %done = gpu.tensor_load(%base) {{type = !{SUMS}}} : {SUMS}
  %twice = add(%done, %done) : {SUMS}
  gpu.tensor_free(%base) {{columns = 64}}
  return()
}}"""
    check(AccumulateInTensorMemory(), before, after, names=False)


def test_sums_that_an_iteration_changes_are_in_registers_between() -> None:
    before = f"""{HEAD}{OPERANDS}
  %sum = for(%i0, %n, %i1, [%zero]) : {SUMS} {{ ^(%i: i32, %acc: {SUMS})
    %scaled = add(%acc, %acc) : {SUMS}
    %made = gpu.wgmma(%x, %x, %scaled) : {SUMS}
    continue([%made])
  }}
  return()
}}"""
    after = f"""{HEAD}{MEMORY}{OPERANDS}
  %sum, %count = for(%i0, %n, %i1, [%zero, %none]) : {SUMS}, i32 {{ ^(%i: i32, %acc: {SUMS}, %number: i32)
    %scaled = add(%acc, %acc) : {SUMS}
    gpu.tensor_store(%base, %scaled){MMA.format(number="%number", adds="", k=0, late=1)}
    %made = gpu.tensor_load(%base) {{type = !{SUMS}}} : {SUMS}
    continue([%made, %next0])
  }}
  gpu.tensor_free(%base) {{columns = 64}}
  return()
}}"""
    check(AccumulateInTensorMemory(), before, after, names=False)


def test_a_first_product_sets_the_sums() -> None:
    before = f"""{HEAD}{OPERANDS}
  %made = gpu.wgmma(%x, %x, %zero) : {SUMS}
  %twice = add(%made, %made) : {SUMS}
  return()
}}"""
    after = f"""{HEAD}{MEMORY}{OPERANDS}{MMA.format(number="%none", adds=", adds = false", k=0, late=1)}
  %made = gpu.tensor_load(%base) {{type = !{SUMS}}} : {SUMS}
  %twice = add(%made, %made) : {SUMS}
  gpu.tensor_free(%base) {{columns = 64}}
  return()
}}"""
    check(AccumulateInTensorMemory(), before, after, names=False)


def test_too_many_sums() -> None:
    """Those that are in flight at the same time; others use the same columns after each other."""
    numbers = range(9)
    begun = "".join(f"\n  %m{k} = gpu.wgmma(%x, %x, %zero) {{pending = 8}} : {SUMS}" for k in numbers)
    results, sums = (", ".join(f"%{name}{k}" for k in numbers) for name in "wm")
    wait = f"\n  {results} = gpu.wgmma_wait([{sums}], [], []) : {', '.join([SUMS] * 9)}"
    used = "".join(f"\n  %u{k} = add(%w{k}, %w{k}) : {SUMS}" for k in numbers)
    with pytest.raises(OutOfTensorMemory, match="64 columns"):
        AccumulateInTensorMemory().run(parse_function(f"{HEAD}{OPERANDS}{begun}{wait}{used}\n  return()\n}}"))
    apart = "".join(
        f"\n  %m{k} = gpu.wgmma(%x, %x, %zero) : {SUMS}\n  %u{k} = add(%m{k}, %m{k}) : {SUMS}" for k in numbers
    )
    AccumulateInTensorMemory().run(parse_function(f"{HEAD}{OPERANDS}{apart}\n  return()\n}}"))
