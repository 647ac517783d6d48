"""The passes for GPUs, text in and text out. That results stay the same is tested with kernels, in ``backends/triton``."""

from __future__ import annotations

from support.passes import check

from tilewright.analysis.gpu.target import parse_target
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.gpu.fma_contraction import ContractFma
from tilewright.transforms.gpu.sink_loads import SinkLoads
from tilewright.transforms.gpu.tile_splitting import divide

HOPPER, AMPERE = parse_target("sm_90"), parse_target("sm_80")

LOADS = """
func @f(%p: ptr<f16> = "x".base noalias, %i: i32 = "i".scalar) {
  %v = make_tensor_view(%p, [], []) {type = !view<f16,[256],[1],i32>} : view<f16,[256],[1],i32>
  %w = make_partition_view(%v) {type = !partition<view<f16,[256],[1],i32>,[64],[0],zero,[64]>} : partition<view<f16,[256],[1],i32>,[64],[0],zero,[64]>
FIRST
  %j = add(%i, %i) : i32
  %c = load_view(%w, [%j]) {in_bounds = (true)} : f16[64]
  %d = cast(%c) {dtype = f32} : f32[64]
  %e = exp2(%d) : f32[64]
LAST
  %g = add(%b, %e) : f32[64]
  print([%g]) {parts = (none), formats = ("")}
  return()
}
"""
LOAD = """  %a = load_view(%w, [%i]) {in_bounds = (true)} : f16[64]
  %b = cast(%a) {dtype = f32} : f32[64]"""


def test_loads_sink_to_their_first_use_with_their_conversions() -> None:
    check(
        SinkLoads(),
        LOADS.replace("FIRST", LOAD).replace("LAST\n", ""),
        LOADS.replace("FIRST\n", "").replace("LAST", LOAD),
    )


POWERS = """
func @f(%s: f32 = "s".scalar) {
  %a = constant() {value = 1.0, type = !f16[64,64]} : f16[64,64]
  %z = constant() {value = 0.0, type = !f32[64,64]} : f32[64,64]
  %m = mma(%a, %a, %z) : f32[64,64]
  %k = reshape(%s) {shape = (1, 1)} : f32[1,1]
  %l = broadcast(%k) {shape = (64, 64)} : f32[64,64]
  %n = mul(%m, %l) : f32[64,64]
  %o = sub(%n, %m) : f32[64,64]
FAST
  %g = exp2(%o) : f32[64,64]
  print([%e, %g]) {parts = (none, none), formats = ("", "")}
  return()
}
"""
TWO_ROUNDINGS = "  %e = exp2(%o) {flush_to_zero = true} : f32[64,64]"
ONE_ROUNDING = """  %t = neg(%m) : f32[64,64]
  %u = fma(%m, %l, %t) : f32[64,64]
  %e = exp2(%u) {flush_to_zero = true} : f32[64,64]"""


def test_arguments_of_approximate_powers_are_contracted() -> None:
    before, after = POWERS.replace("FAST", TWO_ROUNDINGS), POWERS.replace("FAST", ONE_ROUNDING)
    source = parse_function(before)
    found = print_function(ContractFma(HOPPER).run(source)).split("\n")
    wanted = print_function(parse_function(after)).split("\n")
    assert [line.split(" = ")[-1].split("(")[0] for line in found] == [
        line.split(" = ")[-1].split("(")[0] for line in wanted
    ]
    amd = ContractFma(parse_target("gfx942"))
    assert amd.run(source) is source


SPLIT = """
func @f(%p: ptr<f32> = "x".base noalias, %q: ptr<f32> = "y".base noalias) hints {num_ctas = 2} {
  %b = bid() {axis = 0} : i32
  %v = make_tensor_view(%p, [], []) {type = !VIEW} : VIEW
  %w = make_partition_view(%v) {type = !partition<VIEW,[64],[0],zero,[64]>} : partition<VIEW,[64],[0],zero,[64]>
  %x = make_tensor_view(%q, [], []) {type = !VIEW} : VIEW
  %y = make_partition_view(%x) {type = !partition<VIEW,[64],[0],zero,[64]>} : partition<VIEW,[64],[0],zero,[64]>
  %t = load_view(%w, [%b]) {in_bounds = (true)} : f32[64]
  %u = add(%t, %t) : f32[64]
  store_view(%y, %u, [%b]) {in_bounds = (true)}
  return()
}
""".replace("VIEW", "view<f32,[256],[1],i32>")
HALVED = """
func @f(%p: ptr<f32> = "x".base noalias, %q: ptr<f32> = "y".base noalias) hints {num_ctas = 2} {
  %0 = bid() {axis = 0} : i32
  %1 = constant() {value = 1, type = !i32} : i32
  %2 = and(%0, %1) : i32
  %3 = shr(%0, %1) : i32
  %4 = make_tensor_view(%p, [], []) {type = !VIEW} : VIEW
  %5 = make_tensor_view(%q, [], []) {type = !VIEW} : VIEW
  %6 = make_partition_view(%4) {type = !partition<VIEW,[32],[0],zero,[32]>} : partition<VIEW,[32],[0],zero,[32]>
  %7 = constant() {value = 2, type = !i32} : i32
  %8 = mul(%3, %7) : i32
  %9 = add(%8, %2) : i32
  %10 = load_view(%6, [%9]) {in_bounds = (true)} : f32[32]
  %11 = add(%10, %10) : f32[32]
  %12 = make_partition_view(%5) {type = !partition<VIEW,[32],[0],zero,[32]>} : partition<VIEW,[32],[0],zero,[32]>
  store_view(%12, %11, [%9]) {in_bounds = (true)}
  return()
}
""".replace("VIEW", "view<f32,[256],[1],i32>")


def test_tiles_are_divided() -> None:
    half = divide(parse_function(SPLIT), 2)
    assert half.blocks == 2 and print_function(half.function) == print_function(parse_function(HALVED))
