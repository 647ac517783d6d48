"""Right operands that threads compute or convert: they write them to shared memory, where warp groups read them."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attention, decoded
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.core import Function, Op
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.barriers import MbarrierArrive, MbarrierWait
from tilewright.ir.ops.gpu.memory import Barrier, GlobalLoad, PrefetchEach, SharedAlloc, SharedCopy, SharedLoad
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import Restage, WarpSpecialize
from tilewright.ir.ops.gpu.tma import AsyncFence, TmaLoad
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.types import SharedType, TileType
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes


def run(
    backend: str, keys: int, heads: int, width: int, step: int = 64, dtype: Any = np.float16, adds: bool = False
) -> Function:
    """Compare with NumPy; the function of the gpu stage."""
    rng = np.random.default_rng(keys)
    q, k, v = (aligned(shape, dtype) for shape in ((heads, width), (keys, width), (keys, width)))
    o = aligned((heads, width), np.float32)
    for x in (q, k, v):
        x[...] = rng.integers(-2, 3, x.shape)
    wanted = np.zeros((heads, width))
    for at in range(0, keys, step):
        weights = (q.astype(np.float64) @ k[at : at + step].astype(np.float64).T / 2).astype(dtype)
        wanted = wanted * (1 if adds else 0.5) + weights.astype(np.float64) @ v[at : at + step].astype(np.float64)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see):
        ct.launch(None, (1,), ct.kernel(decoded), (q, k, v, o, step, heads, width, adds), backend=backend)
    np.testing.assert_array_equal(o, wanted.astype(np.float32))
    return found[-1]


def interpreted() -> Any:
    return interpreter_backend(None, target="sm_90")


def as_ptx() -> Any:
    return ptx_backend(None, "sm_90")


CASES = [
    (64, 8, 64, 64, np.float16, False),  # rows of 16 bytes, which are stored along k
    (200, 16, 64, 64, BF16, False),
    (192, 32, 128, 64, np.float16, True),  # in several pieces along the rows; sums in flight read the tile
    (192, 64, 64, 128, np.float16, False),
    (256, 64, 128, 128, BF16, True),  # two warp groups
    (300, 16, 512, 128, BF16, False),  # tiles of 128 KiB, which take turns in one buffer
]


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("case", CASES)
def test_products_of_computed_right_operands(make: Callable[[], Any], case: tuple[Any, ...]) -> None:
    keys, heads, width, step, dtype, adds = case
    with make() as backend:
        function = run(backend, keys, heads, width, step, dtype, adds)
    products = [op for op in function.walk() if isinstance(op, Wgmma)]
    assert len(products) == 2 and all(isinstance(v.type, SharedType) for op in products for v in (op.x, op.y))
    large = [op for op in function.walk() if isinstance(op, SharedAlloc) and op.type.bytes >= 1 << 17]
    assert len(large) == (width == 512)


@pytest.mark.parametrize(("kind", "number"), [(AsyncFence, 0), (Barrier, 0), (Barrier, 1)])
def test_faults(kind: type[Op], number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fence between threads and the second product, the barrier before they write, or the one after."""
    removed = []

    def dropped(op: Op) -> bool:
        if type(op) is not kind or "total if ADDS" not in linecache.getline(op.loc.file, op.loc.line):
            return False
        removed.append(op)
        return len(removed) == number + 1

    after(InsertBarriers, functools.partial(without, dropped), monkeypatch)
    with pytest.raises(Fault) as found, interpreter_backend(None, target="sm_90") as backend:
        run(backend, 128, 16, 64)
    assert len(removed) == (1 if kind is AsyncFence else 2)
    assert found.value.category == "race" and found.value.loc is not None


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(
    ("keys", "shape", "dtype", "causal"),
    [
        (200, (128, 128, 128), ml_dtypes.float8_e4m3fn, False),
        (256, (128, 128, 64), ml_dtypes.float8_e5m2, True),
        (256, (128, 64, 128), ml_dtypes.float8_e4m3fn, True),
        (256, (64, 64, 128), ml_dtypes.float8_e4m3fn, True),  # one warp group, which transposes them itself
    ],
)
def test_attention_of_bytes(
    make: Callable[[], Any], keys: int, shape: tuple[int, int, int], dtype: Any, causal: bool
) -> None:
    """Values of 8 bits, which wgmma does not read along their rows, are transposed on the way to shared memory: beside
    two warp groups by others."""
    rng = np.random.default_rng(keys)
    q, k, v = (aligned((n, shape[2]), dtype) for n in (256, keys, keys))
    found, wanted = (aligned((256, shape[2]), np.float32) for _ in range(2))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    functions: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            functions.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (256 // shape[0],), ct.kernel(attention), (q, k, v, found, *shape, causal), backend=backend)
    ct.launch(None, (256 // shape[0],), ct.kernel(attention), (q, k, v, wanted, *shape, causal), backend="reference")
    assert np.linalg.norm(found - wanted) < 1e-5 * np.linalg.norm(wanted)
    late = [op for op in functions[-1].walk() if isinstance(op, Wgmma) and isinstance(op.x.type, TileType)]
    assert late and all(op.x.tile.element.bytes == op.y.type.dtype.bytes == 1 for op in late)
    assert not any(isinstance(op, (GpuMma, GlobalLoad)) for op in functions[-1].walk())
    assert any(isinstance(op, Restage) for op in functions[-1].walk()) == (shape[0] == 128)


@pytest.mark.parametrize(
    ("kind", "number", "fault"),
    [
        (MbarrierWait, 0, "read before arrival"),
        (MbarrierWait, 1, "race"),  # the MMA op of an earlier step reads it
        (MbarrierArrive, 0, "deadlock"),
        (MbarrierArrive, 1, "deadlock"),
    ],
)
def test_faults_of_a_stager(kind: type[Op], number: int, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what it waits for, and what it tells the others, in each iteration of its loop."""

    def change(function: Function) -> None:
        (roles,) = function.ops_of(WarpSpecialize)
        assert roles.stager is not None
        loop = next(op for op in roles.stager.walk() if isinstance(op, For))
        [op for op in loop.body.ops if isinstance(op, kind)][number].erase()

    after(InsertBarriers, change, monkeypatch)
    x = aligned((1024, 64), ml_dtypes.float8_e4m3fn)
    x[...] = 1
    with pytest.raises(Fault) as found, interpreter_backend(None, target="sm_90") as backend:
        o = aligned((1024, 64), np.float32)
        ct.launch(None, (1,), ct.kernel(attention), (x, x, x, o, 128, 128, 64, False), backend=backend)
    assert found.value.category == fault


@pytest.mark.parametrize(("make", "causal"), [(interpreted, False), (as_ptx, True)])
def test_two_warp_groups_divide_columns_that_are_too_many_for_one(make: Callable[[], Any], causal: bool) -> None:
    """Of 64 rows of attention, whose weights both multiply, and whose maxima are of both."""
    rng = np.random.default_rng(causal)
    q, k, v = (aligned((128, 512), np.float16) for _ in range(3))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    o, wanted = (aligned((128, 512), np.float32) for _ in range(2))
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    kernel = ct.kernel(attention)
    ct.launch(None, (2,), kernel, (q, k, v, wanted, 64, 64, 512, causal), backend="reference")
    with observed_passes(see), make() as backend:
        ct.launch(None, (2,), kernel, (q, k, v, o, 64, 64, 512, causal), backend=backend)
    np.testing.assert_allclose(o, wanted, rtol=1e-2, atol=1e-3)
    sums = {op.acc.tile.shape for op in found[-1].walk() if isinstance(op, Wgmma)}
    assert sums == {(64, 64), (64, 512)} and not any(isinstance(op, GpuMma) for op in found[-1].walk())


@ct.kernel
def recurrent(q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, D: ct.Constant[int], T: ct.Constant[int]) -> None:
    """Linear attention of one head: the state that a loop carries is the right operand of the next step."""
    state = ct.zeros((D, D), ct.float32)
    for i in range(q.shape[0] // T):
        queries, keys, values = ct.load(q, (i, 0), (T, D)), ct.load(k, (i, 0), (T, D)), ct.load(v, (i, 0), (T, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        result = ct.mma(queries, state.astype(q.dtype), ct.zeros((T, D), ct.float32))
        result = ct.mma(scores.astype(q.dtype), values, result)
        state = ct.mma(ct.transpose(keys), values, state)
        ct.store(o, (i, 0), result)


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(("D", "T"), [(64, 64), (128, 64), (128, 128)])
def test_a_state_that_a_loop_carries(make: Callable[[], Any], D: int, T: int) -> None:
    rng = np.random.default_rng(D)
    q, k, v = (aligned((2 * T, D), np.float16) for _ in range(3))
    for x in (q, k, v):
        x[...] = rng.integers(-1, 2, x.shape) * (rng.random(x.shape) < 0.2)
    o, wide = aligned((2 * T, D), np.float32), [x.astype(np.float64) for x in (q, k, v)]
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (1,), recurrent, (q, k, v, o, D, T), backend=backend)
    seen = np.kron(np.tri(2), np.ones((T, T)))  # all of this step and of those before it
    np.testing.assert_array_equal(o, (wide[0] @ wide[1].T * seen @ wide[2]).astype(np.float32))
    assert sum(isinstance(op, Wgmma) for op in found[-1].walk()) == 4
    assert not any(isinstance(op, GpuMma) for op in found[-1].walk())


@ct.kernel
def faded(
    q: ct.Array, k: ct.Array, v: ct.Array, rates: ct.Array, o: ct.Array,
    D: ct.Constant[int], N: ct.Constant[int], T: ct.Constant[int], TURNED: ct.Constant[bool],
    FED: ct.Constant[bool],
) -> None:  # fmt: skip
    """A delta rule of one head: keys are multiplied as they are, and faded, and values are changed by what is known."""
    state = ct.zeros((D, N), ct.float32)
    for i in range(q.shape[0] // T):
        queries, keys, values = ct.load(q, (i, 0), (T, D)), ct.load(k, (i, 0), (T, D)), ct.load(v, (i, 0), (T, N))
        rate = ct.load(rates, (i,), (T,))
        if FED:
            rate = rate + 0.1 * ct.load(o, (max(i * T - 1, 0), 0), (1, T)).reshape((T,))
        power = ct.mma(keys, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        for _ in range(2):
            power = ct.mma(power.astype(q.dtype), power.astype(q.dtype), power) * 0.5
        known = ct.mma(keys, state.astype(q.dtype), ct.zeros((T, N), ct.float32))
        change = (values.astype(ct.float32) - known) * rate[:, None]
        new = ct.mma(power.astype(q.dtype), change.astype(q.dtype), ct.zeros((T, N), ct.float32)).astype(q.dtype)
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        result = ct.mma(queries, state.astype(q.dtype), ct.zeros((T, N), ct.float32))
        ct.store(o, (i, 0), ct.mma(scores.astype(q.dtype), new, result))
        if TURNED:
            late = (ct.transpose(keys).astype(ct.float32) * rate[None, :]).astype(q.dtype)
        else:
            late = ct.transpose((keys.astype(ct.float32) * rate[:, None]).astype(q.dtype))
        state = ct.mma(late, new, state * 0.5)


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(
    ("D", "N", "turned", "fed"),
    [(64, 64, False, False), (64, 64, True, True), (128, 32, False, False), (64, 128, True, False)],
)
def test_tiles_that_warp_groups_multiply_and_threads_change(
    make: Callable[[], Any], D: int, N: int, turned: bool, fed: bool
) -> None:
    """Keys are copied once, for MMA ops and for threads, which put faded ones beside them; the values are loaded as
    threads have sums. Rates of the next step are loaded beside this one, but for those that this one stores."""
    T, rng = 64, np.random.default_rng(D + N)
    q, k, v = aligned((3 * T, D), np.float16), aligned((3 * T, D), np.float16), aligned((3 * T, N), np.float16)
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) * (1 if x is v else D**-0.5)
    rates = rng.choice([0.25, 0.5], 3 * T).astype(np.float32)
    o, wanted = aligned((3 * T, N), np.float32), np.zeros((3 * T, N), np.float32)
    o[...] = 0
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    ct.launch(None, (1,), faded, (q, k, v, rates, wanted, D, N, T, turned, fed), backend="reference")
    with observed_passes(see), make() as backend:
        ct.launch(None, (1,), faded, (q, k, v, rates, o, D, N, T, turned, fed), backend=backend)
    for step, exact in zip(o.reshape(3, T, N), wanted.reshape(3, T, N)):
        assert np.abs(step - exact).max() < 2e-3 * np.abs(exact).max()
    assert sum(isinstance(op, Wgmma) for op in found[-1].walk()) == 9
    assert not any(isinstance(op, GpuMma) for op in found[-1].walk())
    assert sum(isinstance(op, TmaLoad) for op in found[-1].walk()) == 3
    loads = [op for op in found[-1].walk() if isinstance(op, GlobalLoad)]
    assert all(op.result.tile.size == T for op in loads)
    (loop,) = (op for op in found[-1].walk() if isinstance(op, For) and any(v.op in loads for v in op.inits))
    assert sum(op.block is loop.body and op.result not in loop.next_values for op in loads) == fed


@ct.kernel
def of_bytes(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]
) -> None:
    """A product whose right operand has 8 bits in memory."""
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        total = ct.mma(ct.load(a, (0, k), (M, K)), ct.load(b, (k, ct.bid(0)), (K, N)).astype(a.dtype), total)
    ct.store(c, (0, ct.bid(0)), total)


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(
    ("M", "N", "K", "dtype"), [(64, 64, 64, np.int8), (128, 128, 64, np.uint8), (64, 32, 32, np.int8)]
)
def test_right_operands_converted_beside_left_ones_that_are_loaded(
    make: Callable[[], Any], M: int, N: int, K: int, dtype: Any
) -> None:
    rng = np.random.default_rng(M + N)
    a, b, c = aligned((M, 3 * K), np.float16), aligned((3 * K, 2 * N), dtype), aligned((M, 2 * N), np.float32)
    a[...], b[...] = rng.integers(-4, 5, a.shape), rng.integers(0, 9, b.shape)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (2,), of_bytes, (a, b, c, M, N, K), backend=backend)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert any(isinstance(op, Wgmma) for op in found[-1].walk())


@ct.kernel
def state_space(
    c: ct.Array, b: ct.Array, h: ct.Array, x: ct.Array, rates: ct.Array, o: ct.Array,
    N: ct.Constant[int], SCALED: ct.Constant[bool], SEEN: ct.Constant[bool],
) -> None:  # fmt: skip
    """Chunks of a state space model, transposed: both operands of the last product are tfloat32 that threads compute."""
    for i in range(ct.bid(0), x.shape[0] // 64, ct.num_blocks(0)):
        scores, result = ct.zeros((64, 64), ct.float32), ct.zeros((64, 64), ct.float32)
        for n in range(c.shape[1] // N):
            left, right = ct.load(c, (i, n), (64, N)), ct.load(b, (i, n), (64, N))
            scores = ct.mma(left, ct.transpose(right), scores)
            result = ct.mma(ct.load(h, (0, n), (64, N)), ct.transpose(left), result)
        rate = ct.load(rates, (i,), (64,))
        seen = ct.arange(64, dtype=ct.int32)[:, None] >= ct.arange(64, dtype=ct.int32)[None, :]
        scores = ct.where(seen, scores, 0.0)
        values = ct.load(x, (i, 0), (64, 64))
        late = ct.transpose(rate[:, None] * values if SCALED else values).astype(ct.tfloat32)
        result = ct.mma(late, ct.transpose(scores).astype(ct.tfloat32), result * rate[None, :])
        ct.store(o, (i, 0), ct.transpose(result) + (values if SEEN else 0.0))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(
    ("N", "dtype", "scaled", "seen"),
    [
        (32, BF16, True, False), (64, BF16, True, True), (64, np.float32, True, False),
        (64, np.float32, True, True), (64, BF16, False, True), (64, np.float32, False, False),
    ],
)  # fmt: skip
def test_tfloat32_that_threads_compute(make: Callable[[], Any], N: int, dtype: Any, scaled: bool, seen: bool) -> None:
    """What is only rounded stays as it is."""
    rng = np.random.default_rng(N)
    c, b, h = (aligned((n, 64), BF16) for n in (256, 256, 64))
    x, o, wanted = aligned((256, 64), dtype), aligned((256, 64), np.float32), np.zeros((256, 64), np.float32)
    for a in (c, b, h, x):
        a[...] = rng.standard_normal(a.shape) / 2
    rates = rng.random(256, np.float32)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    ct.launch(None, (2,), state_space, (c, b, h, x, rates, wanted, N, scaled, seen), backend="reference")
    with observed_passes(see), make() as backend:
        ct.launch(None, (2,), state_space, (c, b, h, x, rates, o, N, scaled, seen), backend=backend)
    assert np.linalg.norm(o - wanted) < 1e-3 * np.linalg.norm(wanted)
    if not scaled:
        return
    operands = [op.y.type for op in found[-1].walk() if isinstance(op, Wgmma)]
    assert [t.dtype.short for t in operands if isinstance(t, SharedType)] == [*["bf16"] * (len(operands) - 1), "tf32"]
    assert not any(isinstance(op, GpuMma) for op in found[-1].walk())


def test_one_instruction_rounds_what_goes_through_shared_memory() -> None:
    arrays = [aligned((256, 64), BF16)] * 4
    arguments = (*arrays, aligned((256,), np.float32), aligned((256, 64), np.float32), 64, True, True)
    ptx = compile_to_ptx(specialization(state_space, arguments, "reference").function, "sm_90", None).ptx
    assert ptx.count("cvt.rn.tf32.f32") == 2 * 64 * 64 // 128, "of both operands, for each thread"


@ct.kernel
def fading_state(x: ct.Array, b: ct.Array, rates: ct.Array, o: ct.Array, N: ct.Constant[int]) -> None:
    """The states of a state space model in front of each chunk: one operand is scaled row by row, and the sum fades."""
    state = ct.zeros((64, N), ct.float32)
    for i in range(x.shape[0] // 64):
        ct.store(o, (i, 0, ct.bid(0)), state.reshape((1, 64, N)))
        values, rate = ct.load(x, (i, 0), (64, 64)), ct.load(rates, (i,), (64,))
        late = (ct.load(b, (i, ct.bid(0)), (64, N)) * rate[:, None]).astype(b.dtype)
        state = ct.mma(ct.transpose(values), late, state * ct.extract(rate, (63,), (1,)))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("N", [32, 64])
def test_warp_groups_add_to_a_sum_that_fades(make: Callable[[], Any], N: int) -> None:
    """Threads scale what was fetched for the other operand, once the MMA op of the step before has been waited for.
    Rates of steps that are further ahead than the next one are brought to the L2 cache."""
    rng = np.random.default_rng(N)
    x, b = aligned((256, 64), BF16), aligned((256, 2 * N), BF16)
    o, wanted = aligned((4, 64, 2 * N), np.float32), np.zeros((4, 64, 2 * N), np.float32)
    for a in (x, b):
        a[...] = rng.standard_normal(a.shape)
    rates = rng.random(256, np.float32)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    ct.launch(None, (2,), fading_state, (x, b, rates, wanted, N), backend="reference")
    with observed_passes(see), make() as backend:
        ct.launch(None, (2,), fading_state, (x, b, rates, o, N), backend=backend)
    assert np.linalg.norm(o - wanted) < 1e-5 * np.linalg.norm(wanted)
    assert any(isinstance(op, Wgmma) for op in found[-1].walk())
    assert not any(isinstance(op, GpuMma) for op in found[-1].walk())
    assert any(isinstance(op, PrefetchEach) for op in found[-1].walk())


@ct.kernel
def mixed(c: ct.Array, b: ct.Array, x: ct.Array, rates: ct.Array, o: ct.Array) -> None:
    """The transpose of what is loaded is an operand, and added."""
    for i in range(ct.bid(0), x.shape[0] // 64, ct.num_blocks(0)):
        scores = ct.zeros((64, 64), ct.float32)
        for n in range(c.shape[1] // 32):
            scores = ct.mma(ct.load(c, (i, n), (64, 32)), ct.transpose(ct.load(b, (i, n), (64, 32))), scores)
        values, rate = ct.load(x, (i, 0), (64, 64)), ct.load(rates, (i,), (64,))
        late = ct.transpose(rate[:, None] * values).astype(ct.tfloat32)
        result = ct.mma(late, scores.astype(ct.tfloat32), ct.zeros((64, 64), ct.float32))
        ct.store(o, (i, 0), ct.transpose(result + 0.5 * ct.transpose(values)))


def test_what_a_tile_loads_beside_its_steps_is_loaded_for_the_next_one() -> None:
    """Columns of 16 bits are transposed before they are widened. Tiles are fetched, and read for the product and for
    the sum; vectors are loaded for the next one."""
    rng = np.random.default_rng(0)
    c, b, x = (aligned((256, 64), BF16) for _ in range(3))
    for a in (c, b, x):
        a[...] = rng.integers(-2, 3, a.shape)
    rates, o, wanted = rng.integers(0, 3, 256).astype(BF16), *(aligned((256, 64), np.float32) for _ in range(2))
    ct.launch(None, (2,), mixed, (c, b, x, rates, wanted), backend="reference")
    for make in (interpreted, as_ptx):
        o[...] = 0
        with make() as backend:
            ct.launch(None, (2,), mixed, (c, b, x, rates, o), backend=backend)
        np.testing.assert_array_equal(o, wanted)
    compiled = compile_to_ptx(specialization(mixed, (c, b, x, rates, o), "reference").function, "sm_90", None)
    (roles,) = (op for op in compiled.distributed.walk() if isinstance(op, WarpSpecialize))
    (tiles,) = (op for op in roles.consumer.ops if isinstance(op, For))
    ops = tiles.body.ops
    (load,) = (op for op in ops if isinstance(op, GlobalLoad))
    assert load.result in tiles.next_values
    (wgmma,) = (op for op in ops if isinstance(op, Wgmma))
    (fetched,) = (op for op in roles.producer.ops if isinstance(op, For))
    assert any(isinstance(op, TmaLoad) for op in fetched.body.ops), "of what is multiplied and added"
    reads = [op for op in ops if isinstance(op, SharedLoad) and isinstance(op.buffer.op, SharedCopy)]
    assert [ops.index(op) < ops.index(wgmma) for op in reads] == [True, False], "once more before it is given back"
    assert compiled.ptx.count("ldmatrix.sync.aligned.m8n8.x4.trans") == 2 * 64 * 64 // 128 // 8


@pytest.mark.parametrize(("asked", "registers"), [(1, None), (2, (40, 216))])
def test_as_many_ctas_as_a_hint_says_where_mma_ops_wait(asked: int, registers: tuple[int, int] | None) -> None:
    """For tfloat32 that threads compute; the shared memory of an SM is divided among them."""
    arrays = [aligned((256, 64), BF16)] * 4
    arguments = (*arrays, aligned((256,), np.float32), aligned((256, 64), np.float32), 64, True, True)
    hinted = state_space.replace_hints(occupancy=asked)
    compiled = compile_to_ptx(specialization(hinted, arguments, "reference").function, "sm_90", None)
    (roles,) = (op for op in compiled.distributed.walk() if isinstance(op, WarpSpecialize))
    assert roles.registers == registers and compiled.shared_bytes * asked < 228 << 10
    assert "occupancy" not in compiled.ignored_hints
