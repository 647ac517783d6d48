"""What is inlined before kernels are translated, as LLVM text in and out."""

from __future__ import annotations

import re

from tilewright.frontend.cpp.optimize import optimize

MODULE = """
@table = internal constant [1 x ptr] [ptr @last]
define i32 @last(i32 %x) { ret i32 %x }
define i32 @helper(i32 %x) {
  %r = mul i32 %x, 3
  ret i32 %r
}
define i32 @of_host(i32 %x) {
  %r = add i32 %x, 1
  ret i32 %r
}
define void @kernel(ptr %p) {
  %x = load i32, ptr %p
  %y = call i32 @helper(i32 %x)
  %f = load ptr, ptr @table
  %z = call i32 %f(i32 %y)
  store i32 %z, ptr %p
  ret void
}
define i32 @main() {
  %a = call i32 @of_host(i32 1)
  %b = call i32 @of_host(i32 %a)
  ret i32 %b
}
"""


def test_functions_that_kernels_lead_to_are_inlined_and_those_of_the_host_are_not() -> None:
    """In code of the host, which may be much, inlining everything takes exponential time."""
    made = optimize(MODULE, {"kernel"})
    (kernel,) = re.findall(r"define void @kernel.*?\n}", made, re.DOTALL)
    assert "call" not in kernel and "mul" in kernel
    assert made.count("call i32 @of_host") == 2
