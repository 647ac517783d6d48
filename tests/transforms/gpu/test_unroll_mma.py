"""Loops of few MMA ops that load nothing are written out: text in and text out.

That kernels compute the same is tested in ``backends/gpu/test_staged_operands.py``.
"""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.transforms.gpu.unroll_mma import UnrollMma

T, H = "f32[64,64]", "f16[64,64]"


def kernel(body: str, count: int = 2, name: str = "count") -> str:
    return f"""
func @f(%p: ptr<{T[:3]}> = "x".base, %n: i32 = "n".scalar) {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %{name} = constant() {{value = {count}, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !{T}}} : {T}
  %some = constant() {{value = 0.5, type = !{T}}} : {T}{body}
  print([%r]) {{parts = (none), formats = ("")}}
  return()
}}"""


def step(power: str, new: str) -> str:
    return f"""
    %h{new} = cast(%{power}) {{dtype = f16}} : {H}
    %{new} = mma(%h{new}, %h{new}, %none) : {T}"""


LOOP = f"""
  %r = for(%zero, %count, %one, [%some]) : {T} {{ ^(%i: i32, %power: {T}){step("power", "next")}
    continue([%next])
  }}"""


def test_steps_take_the_place_of_the_loop() -> None:
    numbers = "\n  %a = add(%zero, %one) : i32", "\n  %b = add(%a, %one) : i32"
    after = step("some", "first") + numbers[0] + step("first", "r") + numbers[1]
    check(UnrollMma(), kernel(LOOP), kernel(after), names=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%count, %one", "%n, %one"),  # as many steps as an argument says
        ("mma(%hnext, %hnext, %none)", "mma(%half, %half, %power)"),  # which adds the same again and again
        ("\n    continue", '\n    print([%i]) {parts = (none), formats = ("")}\n    continue'),  # which others see
    ],
)
def test_others_stay(old: str, new: str) -> None:
    assert LOOP.count(old) == 1
    half = f"\n  %half = constant() {{value = 0.5, type = !{H}}} : {H}"
    before = kernel(half + LOOP.replace(old, new))
    check(UnrollMma(), before, before)


def test_loops_of_many_steps_stay() -> None:
    check(UnrollMma(), kernel(LOOP, 9), kernel(LOOP, 9))
