"""Which views go through the TMA unit: those of C++ count in 64 bits, with lengths that were numbers without sign."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.gpu.tma_descriptors import plan_lowering
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Op
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.parser import parse_function
from tilewright.runtime.launch import specialization
from tilewright.transforms.pipelines import optimize

PRODUCT = """
func @f(%a: ptr<bf16> = "a".base noalias, %b: ptr<bf16> = "b".base noalias, %c: ptr<f32> = "c".base noalias, %n: LENGTH = "n".scalar) may_alias {
  %a16 = assume_divisible(%a) {divisor = 16} : ptr<bf16>
  %b16 = assume_divisible(%b) {divisor = 16} : ptr<bf16>
  %n16 = assume_divisible(%n) {divisor = 16} : LENGTH
  %bits = bitcast(%n16) {dtype = UNSIGNED} : UNSIGNED
  %length = cast(%bits) {dtype = i64} : i64
  %eight = constant() {value = 8, type = !i64} : i64
  %pitch = mul(%length, %eight) : i64
  %x = make_tensor_view(%a16, [%length], [%pitch]) {type = !view<bf16,[64,?],[?,1],i64>} : view<bf16,[64,?],[?,1],i64>
  %y = make_tensor_view(%b16, [%length], [%pitch]) {type = !view<bf16,[?,64],[?,1],i64>} : view<bf16,[?,64],[?,1],i64>
  %xs = make_partition_view(%x) {type = !partition<view<bf16,[64,?],[?,1],i64>,[64,64],[0,1],zero,[64,64]>} : partition<view<bf16,[64,?],[?,1],i64>,[64,64],[0,1],zero,[64,64]>
  %ys = make_partition_view(%y) {type = !partition<view<bf16,[?,64],[?,1],i64>,[64,64],[0,1],zero,[64,64]>} : partition<view<bf16,[?,64],[?,1],i64>,[64,64],[0,1],zero,[64,64]>
  %i = bid() {axis = 0} : i32
  %zero = constant() {value = 0.0, type = !f32[64,64]} : f32[64,64]
  %p = load_view(%xs, [%i, %i]) {in_bounds = (false, false)} : bf16[64,64]
  %q = load_view(%ys, [%i, %i]) {in_bounds = (false, false)} : bf16[64,64]
  %r = mma(%p, %q, %zero) : f32[64,64]
  %at = iota() {type = !i32[64,64]} : i32[64,64]
  %single = reshape(%c) {shape = (1, 1)} : ptr<f32>[1,1]
  %every = broadcast(%single) {shape = (64, 64)} : ptr<f32>[64,64]
  %places = ptr_offset(%every, %at) : ptr<f32>[64,64]
  store(%places, %r, _)
  return()
}
"""


def planned(function: Function) -> dict[Op, Descriptor]:
    return AnalysisManager(optimize(function)).get(plan_lowering, parse_target("sm_90"), False).descriptors


def descriptors(text: str, length: str = "i32") -> list[tuple[tuple[tuple[str, int, int], ...], ...]]:
    text = text.replace("LENGTH", length).replace("UNSIGNED", length.replace("i", "u"))
    return [(d.shape, d.strides) for d in planned(parse_function(text)).values()]


def test_extents_and_strides_are_multiples_of_parameters() -> None:
    pitch = (("p", 3, 8), ("c", 1, 1))
    assert descriptors(PRODUCT) == [
        ((("c", 64, 1), ("p", 3, 1)), pitch),
        ((("p", 3, 1), ("c", 64, 1)), pitch),
    ]


def test_lengths_that_coordinates_may_not_reach() -> None:
    assert descriptors(PRODUCT, "i64") == []


@pytest.mark.parametrize("written", ['"c".base noalias', '"a".base noalias'])
def test_arrays_that_may_be_the_one_that_is_written(written: str) -> None:
    assert len(descriptors(PRODUCT.replace(written, written.removesuffix(" noalias")))) == 2
    assert descriptors(PRODUCT.replace(" noalias", "")) == []


def test_rows_that_end_inside_a_unit_of_16_bytes_are_not_stored_by_the_copy_engine() -> None:
    """It fills the unit, which is memory of others. Loads need no whole units."""

    @ct.kernel
    def kernel(x, y):
        ct.store(y, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True), allow_tma=True)

    for columns, dtype, count in ((128, np.float32, 2), (124, np.float32, 2), (123, np.float32, 1), (122, np.int16, 1)):
        x = np.zeros((64, 128), dtype)[:, :columns]
        assert len(planned(specialization(kernel, (x, x), "reference").function)) == count


@pytest.mark.parametrize("scattered", [False, True])
def test_arrays_to_which_threads_store_are_not_stored_to_by_the_copy_engine(scattered: bool) -> None:
    """It may overtake them."""

    @ct.kernel
    def kernel(x, y):
        tile = ct.load(x, (0, 0), (64, 64), allow_tma=True)
        if scattered:
            ct.scatter(y, (ct.arange(64, dtype=ct.int32), 0), 1)
        ct.store(y, (0, 0), tile, allow_tma=True)
        ct.store(y, (1, 0), tile, allow_tma=True)

    x = np.zeros((64, 128), np.float32)
    found = planned(specialization(kernel, (x, x), "reference").function)
    assert [type(op) for op in found] == [LoadView] + [StoreView, StoreView] * (not scattered)


def stored(*steps: str, tma: bool | None = None, order: str = "C") -> bool:
    """Whether the TMA unit stores a tile that went through these steps after threads had read it."""

    def kernel(x, out):
        tile = ct.load(x, (0, ct.bid(0)), (64, 128), order=order, allow_tma=tma)
        for step in ct.static_iter(steps):
            if step == "transpose":
                tile = ct.transpose(tile)
            if step == "cast":
                tile = tile.astype(ct.float16)
        ct.store(out, (ct.bid(0), 0), tile)

    x = np.zeros((256, 256), np.float32)
    function = specialization(ct.kernel(kernel), (x, x.astype(np.float16)), "reference").function
    return any(isinstance(op, StoreView) for op in planned(function))


def test_threads_store_what_they_have_read_along_another_axis() -> None:
    for before, after in (((), ("cast",)), (("cast",), ())):
        assert stored(*before, *after)
        assert not stored(*before, "transpose", *after)
        assert stored(*before, "transpose", "transpose", *after)
        assert not stored(*before, *after, order="F")
        assert stored(*before, "transpose", *after, order="F")
        assert stored(*before, "transpose", *after, tma=True)
