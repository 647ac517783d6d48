"""Products of the arrays of lists: warp groups multiply what the TMA unit copies by maps in the tables of the lists."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import Compiled, compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tma import ListedMap, TmaLoad, TmaStore
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Shape = tuple[int, int, int]


def products(
    a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int], left: ct.Constant[bool],
    right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
):  # fmt: skip
    """Of all arrays of lists, spread over the blocks."""
    for g in range(len(a)):
        columns = ct.num_tiles(c[g], 1, (M, N))
        for tile in range(ct.bid(0), ct.num_tiles(c[g], 0, (M, N)) * columns, ct.num_blocks(0)):
            i, j = tile // columns, tile % columns
            total = ct.zeros((M, N), sums)
            for k in range(ct.cdiv(a[g].shape[0 if left else 1], K)):
                if left:
                    x = ct.transpose(ct.load(a[g], (k, i), (K, M), padding_mode=ct.PaddingMode.ZERO))
                else:
                    x = ct.load(a[g], (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
                if right:
                    y = ct.transpose(ct.load(b[g], (j, k), (N, K), padding_mode=ct.PaddingMode.ZERO))
                else:
                    y = ct.load(b[g], (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
                if rounded:
                    x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
                total = ct.mma(x, y, total)
            ct.store(c[g], (i, j), total.astype(c[g].dtype))


def second_of_two(a, b, c, flag):
    """The kernel chooses between lists."""
    chosen = a
    if flag > 0:
        chosen = b
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(chosen[1], 1, (64, 64))):
        total = ct.mma(ct.load(chosen[1], (0, k), (64, 64)), ct.load(b[0], (k, 0), (64, 64)), total)
    ct.store(c[0], (0, 0), total.astype(ct.float16))


def sum_of_products(a, b, c):
    """Another array in each step, as of experts that add up."""
    total = ct.zeros((64, 64), ct.float32)
    for g in range(len(a)):
        x = ct.load(a[g], (0, 0), (64, 64), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b[len(b) - 1 - g], (0, 0), (64, 64), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c[0], (0, 0), total.astype(c[0].dtype))


def integers(shape: tuple[int, int], dtype: Any) -> Any:
    found = aligned(shape, dtype)
    found[...] = np.random.default_rng(sum(shape)).integers(-3, 4, shape)
    return found


class Lists:
    """Arrays whose products are exact, in forms that warp groups multiply."""

    def __init__(
        self, shapes: Sequence[Shape], tile: Shape = (64, 64, 64), dtype: Any = np.float16, out: Any = np.float16,
        *, left: bool = False, right: bool = False, rounded: bool = False,
    ) -> None:  # fmt: skip
        self.a = [integers((k, m) if left else (m, k), dtype) for m, _, k in shapes]
        self.b = [integers((n, k) if right else (k, n), dtype) for _, n, k in shapes]
        self.c = [aligned((m, n), out) for m, n, _ in shapes]
        self.left, self.right, sums = left, right, ct.int32 if dtype is np.int8 else ct.float32
        self.arguments = (self.a, self.b, self.c, *tile, left, right, sums, rounded)

    def run(self, backend: str) -> None:
        ct.launch(None, (2,), ct.kernel(products), self.arguments, backend=backend)
        for a, b, c in zip(self.a, self.b, self.c):
            x, y = (v.astype(np.float64) for v in (a.T if self.left else a, b.T if self.right else b))
            np.testing.assert_array_equal(c, (x @ y).astype(c.dtype))

    @property
    def function(self) -> Function:
        return specialization(ct.kernel(products), self.arguments, "reference").function

    def compile(self, capacity: int = 0) -> Compiled:
        return compile_to_ptx(self.function, "sm_90", None, how=Constraints(capacity=capacity))


SHAPES = ((128, 64, 128), (72, 136, 40), (64, 200, 8), (16, 8, 72))
BYTES = ((128, 64, 128), (80, 144, 48), (16, 16, 80))
FORMS: dict[str, dict[str, Any]] = {
    "f16": {},
    "two warp groups": {"tile": (128, 64, 64)},
    "bf16, turned": {"dtype": BF16, "out": np.float32, "left": True, "right": True},
    "f8": {"shapes": BYTES, "dtype": E4M3, "out": np.float32, "right": True},
    "f8 that threads transpose": {"shapes": BYTES, "dtype": E4M3, "out": np.float32},
    "i8": {"shapes": BYTES, "dtype": np.int8, "out": np.int32, "right": True},
    "tf32": {"dtype": np.float32, "out": np.float32, "tile": (64, 64, 32), "rounded": True},
    "tf32, turned": {"dtype": np.float32, "out": np.float32, "tile": (64, 64, 32), "rounded": True, "right": True},
}


def lists(form: str) -> Lists:
    return Lists(**{"shapes": SHAPES, **FORMS[form]})


def interpreters() -> dict[str, AbstractContextManager[str]]:
    return {
        "dialect": interpreter_backend(None, target="sm_90"),
        "ptx by address": ptx_backend(None, "sm_90"),
        "ptx by value": ptx_backend(None, "sm_90", capacity=5),
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", interpreters())
def test_products_of_lists(form: str, where: str) -> None:
    with interpreters()[where] as backend:
        lists(form).run(backend)


@pytest.mark.parametrize("form", FORMS)
def test_warp_groups_multiply_and_the_copy_engine_moves_every_tile(form: str) -> None:
    """What threads convert is copied for them, too."""
    made = lists(form).compile().distributed
    kinds = [type(op) for op in made.walk()]
    assert Wgmma in kinds and GpuMma not in kinds
    maps = {op.map.op for op in made.walk() if isinstance(op, (TmaLoad, TmaStore))}
    assert {op.base for op in maps if isinstance(op, ListedMap)} == {0, 2, 4}
    assert len([op for op in made.walk() if isinstance(op, ListedMap)]) == 3  # found once for an array


@pytest.mark.parametrize(("capacity", "room"), [(0, 0), (32, 32), (4096, 60)])
def test_maps_are_by_value_or_where_they_were_copied(capacity: int, room: int) -> None:
    """Those that were copied may be others than those that the TMA unit knows of there."""
    made = lists("f16").compile(capacity)
    assert made.capacity == room and [len(t.descriptors) for t in made.tables] == [1, 1, 1]
    assert [t.by_value for t in made.tables] == [room > 0] * 3
    assert ("fence.proxy.tensormap" in made.ptx) == (not room)
    assert made.ptx.count("cp.async.bulk.tensor") == 3


def test_arrays_that_the_copy_engine_cannot_take() -> None:
    found = Lists(((64, 64, 64), (63, 61, 59)))
    made = found.compile(32)
    assert [t.descriptors for t in made.tables] == [()] * 3 and all(t.by_value for t in made.tables)
    with ptx_backend(None, "sm_90", capacity=5) as backend:
        found.run(backend)


def half(count: int) -> list[Any]:
    return [integers((64, 64 + 64 * (i % 2)), np.float16) for i in range(count)]


@pytest.mark.parametrize("flag", [0, 1])
def test_lists_that_the_kernel_chooses_between(flag: int) -> None:
    a, b, c = [half(1)[0]] * 2, [half(1)[0].T.copy(), half(1)[0]], [aligned((64, 64), np.float16)]
    with ptx_backend(None, "sm_90", capacity=5) as backend:
        ct.launch(None, (1,), ct.kernel(second_of_two), (a, b, c, flag), backend=backend)
    wanted = (b if flag else a)[1].astype(np.float64) @ b[0].astype(np.float64)
    np.testing.assert_array_equal(c[0], wanted.astype(np.float16))


@pytest.mark.parametrize("where", interpreters())
def test_another_array_in_each_step(where: str) -> None:
    a, b = ([integers((m, m), np.float16) for m in (64, 40, 64, 8, 16)] for _ in range(2))
    c = [aligned((64, 64), np.float32)]
    wanted = np.zeros((64, 64))
    for x, y in zip(a, b[::-1]):
        left, right = np.zeros((64, 64)), np.zeros((64, 64))
        left[: len(x), : len(x)], right[: len(y), : len(y)] = x, y
        wanted += left @ right
    found: list[Function] = []
    with (
        interpreters()[where] as backend,
        observed_passes(lambda name, function: found.append(function) if name == InsertBarriers.name else None),
    ):
        ct.launch(None, (1,), ct.kernel(sum_of_products), (a, b, c), backend=backend)
    np.testing.assert_array_equal(c[0], wanted)
    assert any(isinstance(op, ListedMap) for op in found[-1].walk())


def test_the_copy_engine_leaves_lists_alone_that_are_loaded_and_stored() -> None:
    @ct.kernel
    def in_place(xs):
        x = ct.load(xs[1], (0, 0), (64, 64))
        ct.store(xs[0], (0, 0), ct.mma(x, x, ct.zeros((64, 64), ct.float32)).astype(ct.float16))

    function = specialization(in_place, ([integers((64, 64), np.float16)] * 2,), "reference").function
    assert compile_to_ptx(function, "sm_90", None).tables[0].descriptors == ()
