"""Products of warp groups with tiles that the TMA unit copies: the results in both interpreters, and what is chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, E5M2, Product, aligned, matmul, persistent, random_product
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function, Op
from tilewright.ir.layouts import LANE, LANES
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.barriers import GroupBarrier, MbarrierArrive, MbarrierExpect, MbarrierWait
from tilewright.ir.ops.gpu.memory import Barrier, GlobalStore, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import AsyncFence, Put, TmaLoad, TmaStore, TmaStoreWait
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

PRODUCTS = [
    Product(),
    Product((200, 88, 104), out=np.float16),  # edges, and fewer steps than stages
    Product((128, 64, 64), (128, 64, 64), BF16, BF16),  # two warp groups
    Product((256, 64, 64), (256, 64, 32)),  # each of which has two times 64 rows
    Product(tile=(64, 64, 32), right=True),  # rows of 64 bytes
    Product((64, 32, 64), (64, 32, 16), right=True),  # and of 32
    Product(tile=(64, 64, 128)),  # two boxes along k
    Product((64, 256, 64), (64, 256, 64), left=True),
    Product((64, 32, 64), (64, 32, 32)),  # contiguous across k, in rows of 64 bytes
    Product((64, 48, 64), (64, 16, 32), BF16),  # and of 32
    Product(left=True, right=True, out=BF16),
    Product(dtype=E4M3, right=True),
    Product(dtype=E5M2, right=True, tile=(64, 64, 32)),
    Product(dtype=np.int8, out=np.int32, right=True),
    Product(dtype=np.uint8, out=np.int32, right=True),
    Product(dtype=E4M3),  # transposed by threads
    Product((200, 80, 208), (64, 32, 64), np.int8, np.int32),
    Product((64, 64, 64), (64, 32, 32), np.uint8, np.int32),
    Product((72, 80, 96), (64, 32, 32), np.float32, rounded=True),
    Product((128, 64, 64), (128, 64, 64), np.float32, rounded=True),
    Product((128, 128, 128), (128, 64, 128), E5M2, BF16),  # by two warp groups
    Product(dtype=np.float32, right=True, tile=(64, 64, 32), rounded=True),
    Product((40, 136, 72), (16, 64, 32)),  # few rows: the transposed product
    Product((30, 256, 64), (32, 128, 64), BF16, np.float32),
]


def seen(product: Product, kernel: Any = matmul) -> Function:
    """Run ``product`` in the interpreter of the gpu stage, and return the function of that."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), interpreter_backend(None, target="sm_90") as backend:
        product.run(backend, kernel)
    return found[-1]


def kinds(function: Function) -> list[type[Op]]:
    return [type(op) for op in function.walk()]


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products_in_the_interpreter(product: Product) -> None:
    found = kinds(seen(product))
    assert Wgmma in found and GpuMma not in found


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products_as_ptx(product: Product) -> None:
    """Also the descriptors, which only PTX has."""
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend)


WIDE = Product((64, 128, 128), (64, 128, 64), np.float32, rounded=True)


@pytest.mark.parametrize("product", [Product(dtype=E4M3), WIDE], ids=str)
def test_products_whose_operands_threads_transpose_stay_in_flight(product: Product) -> None:
    assert [op.pending for op in seen(product).walk() if isinstance(op, Wgmma)] == [1]


def partial_sums(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """Threads store the sums."""
    i, j = ct.bid(0) // ct.cdiv(c.shape[1], N), ct.bid(0) % ct.cdiv(c.shape[1], N)
    total = ct.zeros((M, N), sums)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype), allow_tma=False)


@pytest.mark.parametrize(("out", "converted"), [(np.float32, False), (np.float16, True)])
def test_sums_that_threads_store(out: Any, converted: bool) -> None:
    """Those of 32 bits fill sectors as they are, and take no shared memory; others are brought side by side."""
    assert (SharedStore in kinds(seen(Product((64, 128, 64), out=out), partial_sums))) == converted


def test_rows_that_begin_anywhere_are_stored_one_by_one() -> None:
    """A warp stores its rows, as many columns at once as it has lanes."""
    function = seen(Product((64, 133, 64), (64, 128, 64), np.float16, np.float16, right=True))
    stores = [op for op in function.walk() if isinstance(op, GlobalStore)]
    assert [store.ptrs.tile.shape for store in stores] == [(64, LANES)] * 4
    assert all(store.ptrs.tile.layout.images(LANE) == tuple((0, 1 << i) for i in range(5)) for store in stores)


def two_heights(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """A tile of ``M`` rows, and one of half as many below."""
    for i, rows in ct.static_iter(((0, M), (2, M // 2))):
        total = ct.zeros((rows, N), sums)
        for k in range(ct.cdiv(a.shape[1], K)):
            total = ct.mma(ct.load(a, (i, k), (rows, K)), ct.load(b, (k, 0), (K, N)), total)
        ct.store(c, (i, 0), total.astype(c.dtype))


@pytest.mark.parametrize(("columns", "multiplies"), [(128, Wgmma), (256, GpuMma)])
def test_loops_of_tiles_of_several_heights(columns: int, multiplies: type[Op]) -> None:
    """One warp group multiplies both, unless it has no registers for the larger one."""
    found = seen(Product((192, columns, 64), (128, columns, 64), out=np.float16), two_heights)
    mmas = [type(op) for op in found.walk() if isinstance(op, (Wgmma, GpuMma))]
    assert mmas == [Wgmma, multiplies]


ONE_STAGE = 81  # for more there is no room: no product stays in flight while the next tiles arrive


@pytest.mark.parametrize("seed", [*range(5), ONE_STAGE])
def test_random_products(seed: int) -> None:
    """With grids of tiles and with persistent loops."""
    product = random_product(seed)
    assert Wgmma in kinds(seen(product))
    kernel = matmul if product.rounded else persistent
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend, kernel, blocks=1 + seed % 3)


@pytest.mark.parametrize("blocks", [1, 3])
def test_persistent_loops(blocks: int) -> None:
    """The producer goes on with the next tile; the slots of the ring go on from tile to tile."""
    product = Product((256, 192, 160), (128, 64, 32), out=np.float16)
    with interpreter_backend(None, target="sm_90") as backend:
        product.run(backend, persistent, blocks)
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend, persistent, blocks)


def two_loops(a: ct.Array, b: ct.Array, c: ct.Array, d: ct.Array) -> None:
    """Products of tiles of different sizes, one loop after the other."""
    i = ct.bid(0)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (i, 0), total.astype(c.dtype))
    other = ct.zeros((64, 32), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 128)):
        other = ct.mma(ct.load(a, (i, k), (64, 128)), ct.load(b, (k, 1), (128, 32)), other)
    ct.store(d, (i, 0), other.astype(d.dtype))


def test_loops_one_after_the_other_share_buffers() -> None:
    rng = np.random.default_rng(1)
    a, b = aligned((128, 256), np.float16), aligned((256, 64), np.float16)
    for x in (a, b):
        x[...] = rng.integers(-3, 4, x.shape)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    for make in (lambda: interpreter_backend(None, target="sm_90"), lambda: ptx_backend(None, "sm_90")):
        c, d = aligned((128, 64), np.float32), aligned((128, 32), np.float32)
        with observed_passes(see), make() as backend:
            ct.launch(None, (2,), ct.kernel(two_loops), (a, b, c, d), backend=backend)
        assert (c == wanted).all() and (d == wanted[:, 32:]).all()
    rings = {op.buffer.op.buffer for op in found[0].walk() if isinstance(op, TmaLoad)}  # type: ignore[union-attr]
    assert len(rings) == 2


def turned(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    """A persistent loop over matrices, of which right operands lie along k: turned with their batch."""
    for matrix in range(ct.bid(0), a.shape[0], ct.num_blocks(0)):
        total = ct.zeros((128, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[2], 64)):
            x = ct.load(a, (matrix, 0, k), (1, 128, 64)).reshape((128, 64))
            y = ct.permute(ct.load(b, (matrix, 0, k), (1, 64, 64)), (0, 2, 1)).reshape((64, 64))
            total = ct.mma(x, y, total)
        ct.store(c, (matrix, 0, 0), total.astype(c.dtype).reshape((1, 128, 64)))


def test_turned_batches() -> None:
    rng = np.random.default_rng(3)
    a, b = aligned((3, 128, 96), np.float16), aligned((3, 64, 96), np.float16)
    for x in (a, b):
        x[...] = rng.integers(-3, 4, x.shape)
    assert Wgmma in _chosen(turned, a, b, aligned((3, 128, 64), np.float16), grid=(2, 1, 1))
    for make in (lambda: interpreter_backend(None, target="sm_90"), lambda: ptx_backend(None, "sm_90")):
        c = aligned((3, 128, 64), np.float32)
        with make() as backend:
            ct.launch(None, (2,), ct.kernel(turned), (a, b, c), backend=backend)
        assert (c == a.astype(np.float32) @ b.astype(np.float32).transpose(0, 2, 1)).all()


def batched(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    """A matrix for each block along the third axis, with tiles of rank 3."""
    i, j, matrix = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((1, 64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[2], 32)):
        x, y = ct.load(a, (matrix, i, k), (1, 64, 32)), ct.load(b, (matrix, k, j), (1, 32, 64))
        total = ct.mma(x, y, total)
    ct.store(c, (matrix, i, j), total.astype(c.dtype))


@pytest.mark.parametrize("dtype", [np.float16, E4M3, E5M2])
def test_batches(dtype: Any) -> None:
    """Of 8 bits with right operands that threads transpose."""
    rng = np.random.default_rng(2)
    a, b = aligned((2, 128, 96), dtype), aligned((2, 96, 64), dtype)
    for x in (a, b):
        x[...] = rng.integers(-3, 4, x.shape)
    assert Wgmma in _chosen(batched, a, b, aligned((2, 128, 64), np.float16), grid=(2, 1, 2))
    for make in (lambda: interpreter_backend(None, target="sm_90"), lambda: ptx_backend(None, "sm_90")):
        c = aligned((2, 128, 64), np.float32)
        with make() as backend:
            ct.launch(None, (2, 1, 2), ct.kernel(batched), (a, b, c), backend=backend)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


def in_parts(
    a: ct.Array, b: ct.Array, c: ct.Array, N: ct.Constant[int], K: ct.Constant[int], ROWS: ct.Constant[int]
) -> None:
    """A tile of so many times 64 rows and three times N columns, for which there is no power of two."""
    i, j = ct.bid(0), ct.bid(1)
    sums = tuple(ct.zeros((64, N), ct.float32) for _ in ct.static_iter(range(3 * ROWS)))
    for k in range(ct.cdiv(a.shape[1], K)):
        xs = tuple(ct.load(a, (ROWS * i + r, k), (64, K)) for r in ct.static_iter(range(ROWS)))
        ys = tuple(ct.load(b, (k, 3 * j + n), (K, N)) for n in ct.static_iter(range(3)))
        sums = tuple(ct.mma(xs[p // 3], ys[p % 3], sums[p]) for p in ct.static_iter(range(3 * ROWS)))
    for p in ct.static_iter(range(3 * ROWS)):
        ct.store(c, (ROWS * i + p // 3, 3 * j + p % 3), sums[p].astype(c.dtype))


@pytest.mark.parametrize(("columns", "rows"), [(64, 1), (32, 2)])
def test_products_that_are_joined(columns: int, rows: int) -> None:
    """Three right operands that lie equally far apart are one of three times the columns."""
    rng = np.random.default_rng(columns)
    a, b = aligned((64 * rows, 160), np.float16), aligned((160, 6 * columns), np.float16)
    for x in (a, b):
        x[...] = rng.integers(-3, 4, x.shape)
    for make in (lambda: interpreter_backend(None, target="sm_90"), lambda: ptx_backend(None, "sm_90")):
        c = aligned((64 * rows, 6 * columns), np.float32)
        kernel = ct.kernel(in_parts)
        with make() as backend:
            ct.launch(None, (1, 2), kernel, (a, b, c, columns, 32, rows), backend=backend)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    (found,) = kernel.inspect().specializations
    assert f"m64n{3 * columns}k16" in found.stage("PTX") and f"m64n{columns}k16" not in found.stage("PTX")


def few_rows(a: ct.Array, b: ct.Array, c: ct.Array, low: ct.Array, high: ct.Array) -> None:
    """Stores of fewer than eight rows, of several boxes, after a product."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (0, 0), total)
    for rows, array in ct.static_iter(((2, low), (4, high))):
        ct.store(
            array,
            (0, 0),
            ct.arange(rows, dtype=ct.int32)[:, None] * 256 + ct.arange(128, dtype=ct.int32),
            allow_tma=True,
        )


def test_stores_of_few_rows() -> None:
    """The second box of a tile begins where the swizzle of eight rows does not repeat."""
    rng = np.random.default_rng(3)
    a, b, c = aligned((64, 128), np.float16), aligned((128, 64), np.float16), aligned((64, 64), np.float32)
    for x in (a, b):
        x[...] = rng.integers(-3, 4, x.shape)
    wanted = np.arange(8)[:, None] * 256 + np.arange(128)
    for make in (lambda: interpreter_backend(None, target="sm_90"), lambda: ptx_backend(None, "sm_90")):
        low, high = aligned((2, 120), np.int32), aligned((4, 120), np.int32)
        kernel = ct.kernel(few_rows)
        with make() as backend:
            ct.launch(None, (1,), kernel, (a, b, c, low, high), backend=backend)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
        assert (low == wanted[:2, :120]).all() and (high == wanted[:4, :120]).all()
    (found,) = kernel.inspect().specializations
    assert found.stage("PTX").count("cp.async.bulk.tensor.2d.global") >= 2 * 4


def test_roles() -> None:
    """The loop of the consumers waits, multiplies and gives back; nothing else is in it that takes part."""
    function = seen(Product((128, 128, 128), (128, 128, 64), out=np.float16))
    (roles,) = (op for op in function.walk() if isinstance(op, WarpSpecialize))
    (loop,) = (op for op in roles.consumer.ops if op.regions)
    work = (MbarrierWait, Wgmma, MbarrierArrive, Barrier, TmaLoad, WgmmaWait)
    assert [type(op) for op in loop.walk() if isinstance(op, work)] == [MbarrierWait, Wgmma, MbarrierArrive]
    assert next(op for op in loop.walk() if isinstance(op, Wgmma)).pending == 1
    stores = [op for op in roles.consumer.ops if isinstance(op, TmaStore)]
    assert len(stores) == 2 and not any(isinstance(op, Put) for op in function.walk())
    assert [type(op) for op in roles.producer.ops if op.regions] == [type(loop)]


# -- what is left out of a schedule is found


def changed(change: Callable[[Op], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have schedules without the ops for which ``change``, which may also change ops, is true."""
    after(InsertBarriers, functools.partial(without, change), monkeypatch)


def _without(kind: type[Op], number: int | None = None) -> Callable[[Op], bool]:
    """The ops of ``kind``, or one of them."""
    count = [0]

    def change(op: Op) -> bool:
        if type(op) is not kind:
            return False
        count[0] += 1
        return number is None or count[0] - 1 == number

    return change


def _pending(op: Op) -> bool:
    if isinstance(op, Wgmma):
        op.attributes.update(pending=2)
    return False


def _bytes(op: Op) -> bool:
    if isinstance(op, MbarrierExpect):
        op.attributes.update(bytes=op.bytes + 16)
    return False


FAULTS: dict[str, tuple[Callable[[], Callable[[Op], bool]], str]] = {
    "the producer does not wait for an empty slot": (lambda: _without(MbarrierWait, 1), "read before arrival"),
    "the consumers do not wait for a full one": (lambda: _without(MbarrierWait, 0), "uninitialized shared memory"),
    "a slot is given back while it is read": (lambda: _pending, "race"),
    "no slot is given back": (lambda: _without(MbarrierArrive), "deadlock"),
    "more bytes are expected than come": (lambda: _bytes, "deadlock"),
    "the sum is used in flight": (lambda: _without(WgmmaWait), "read before arrival"),
    "the barriers are not published": (lambda: _without(Barrier, 0), "race"),
    "no fence before a store by TMA": (lambda: _without(AsyncFence), "race"),
    "no barrier before a store by TMA": (lambda: _without(Barrier, 2), "race"),
    "a buffer is written while it is stored": (lambda: _without(TmaStoreWait), "race"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    product = Product((128, 512, 512), (64, 256, 64), out=np.float16)
    change, category = FAULTS[fault]
    changed(change(), monkeypatch)
    with pytest.raises(Fault) as found, interpreter_backend(None, target="sm_90") as backend:
        product.run(backend)
    assert found.value.category == category and found.value.loc is not None


@pytest.mark.parametrize("number", [0, 1])
def test_faults_between_threads_of_a_warp_group(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two warp groups waits for itself: before it writes to a buffer, and before it has that stored."""
    changed(_without(GroupBarrier, number), monkeypatch)
    with pytest.raises(Fault) as found, interpreter_backend(None, target="sm_90") as backend:
        Product((128, 256, 64), (128, 256, 64), out=np.float16).run(backend)
    assert found.value.category == "race"


# -- what is chosen


def _chosen(program: Any, *arrays: Any, grid: tuple[int, ...] = (1,)) -> list[type[Op]]:
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), interpreter_backend(None, target="sm_90") as backend:
        ct.launch(None, grid, ct.kernel(program), arrays, backend=backend)
    return kinds(found[-1])


def test_operands_that_are_computed_stay_with_mma_sync() -> None:
    def program(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
        x = ct.load(a, (0, 0), (64, 64)) + ct.load(a, (0, 0), (64, 64))
        ct.store(c, (0, 0), ct.mma(x, ct.load(b, (0, 0), (64, 64)), ct.zeros((64, 64), ct.float32)))

    a, b, c = aligned((64, 64), np.float16), aligned((64, 64), np.float16), aligned((64, 64), np.float32)
    a[...], b[...] = 1, 2
    found = _chosen(program, a, b, c)
    assert (c == 256).all() and Wgmma not in found and GpuMma in found


def test_a_tile_for_a_loop_may_have_other_uses() -> None:
    """It is loaded once more for them, which costs little outside of the loop."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
        x = ct.load(a, (0, 0), (64, 64))
        total = ct.zeros((64, 64), ct.float32)
        for j in range(2):
            total = ct.mma(x, ct.load(b, (j, 0), (64, 64)), total)
        ct.store(c, (0, 0), total + x.astype(ct.float32))

    a, b, c = aligned((64, 64), np.float16), aligned((128, 64), np.float16), aligned((64, 64), np.float32)
    a[...], b[...] = 1, 2
    found = _chosen(program, a, b, c)
    assert (c == 257).all() and Wgmma in found and GpuMma not in found


def test_without_room_in_shared_memory_all_stays_with_mma_sync() -> None:
    """The joined tile needs more than the ring leaves: only that is known late."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
        for i in range(2):
            x, y = ct.load(a, (i, 0), (128, 128)), ct.load(b, (0, 0), (128, 128))
            product = ct.mma(x, y, ct.zeros((128, 128), ct.float32))
            ct.store(c, (i, 0), ct.cat((product, product + 1), 1))

    a, b, c = aligned((256, 128), np.float16), aligned((128, 128), np.float16), aligned((256, 256), np.float32)
    a[...], b[...] = 1, 2
    found = _chosen(program, a, b, c)
    assert (c[:, :128] == 256).all() and (c[:, 128:] == 257).all() and Wgmma not in found


@pytest.mark.parametrize("written", [False, True])
def test_places_that_are_read_from_memory(written: bool) -> None:
    """The thread that loads reads what nobody writes; it does not wait for other threads."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array, which: ct.Array, written: ct.Constant[bool]) -> None:
        k = ct.load(which, (0,), ())
        if written:
            ct.store(which, (0,), k)
        x, y = ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64))
        ct.store(c, (0, 0), ct.mma(x, y, ct.zeros((64, 64), ct.float32)))

    a, b, c = aligned((64, 128), np.float16), aligned((128, 64), np.float16), aligned((64, 64), np.float32)
    a[...], b[...] = 1, 2
    which = np.ones(1, np.int32)
    found = _chosen(program, a, b, c, which, written)
    assert (c == 128).all() and (Wgmma in found) == (not written)


def test_iterations_that_end_early_stay_with_mma_sync() -> None:
    """Between the load and the product: the slot of the ring would never be given back."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array, skipped: int) -> None:
        total = ct.zeros((64, 64), ct.float32)
        for k in range(8):
            x, y = ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64))
            if k == skipped:
                continue
            total = ct.mma(x, y, total)
        ct.store(c, (0, 0), total)

    a, b, c = aligned((64, 512), np.float16), aligned((512, 64), np.float16), aligned((64, 64), np.float32)
    a[...], b[...] = np.arange(512) // 64, 1
    found = _chosen(program, a, b, c, 3)
    assert (c == 64 * (28 - 3)).all() and Wgmma not in found


def test_products_that_need_each_other_wait() -> None:
    """Sums that a loop looks at are there before; two products of one loop share a stage."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array, d: ct.Array) -> None:
        total, other, most = (
            ct.zeros((64, 64), ct.float32),
            ct.zeros((64, 64), ct.float32),
            ct.zeros((64, 64), ct.float32),
        )
        last = other
        for k in range(3):
            x, y = ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64))
            total = ct.mma(x, y, total)
            other = ct.mma(x, y, other)
            most = ct.maximum(most, total)
            last = other
        ct.store(c, (0, 0), total + last)
        ct.store(d, (0, 0), most)

    a, b = aligned((64, 192), np.float16), aligned((192, 64), np.float16)
    c, d = aligned((64, 64), np.float32), aligned((64, 64), np.float32)
    a[...], b[...] = 1, 2
    found = _chosen(program, a, b, c, d)
    assert (c == 768).all() and (d == 384).all() and found.count(Wgmma) == 2


def test_loads_under_conditions_and_in_loops_that_are_left() -> None:
    """Both sides count the same fetches, whichever way control takes."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array, n: int) -> None:
        total = ct.zeros((64, 64), ct.float32)
        k = 0
        while True:
            if k >= n:
                break
            if k % 2 == 0:
                total = ct.mma(ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
            k += 1
        ct.store(c, (0, 0), total)

    a, b, c = aligned((64, 512), np.float16), aligned((512, 64), np.float16), aligned((64, 64), np.float32)
    a[...], b[...] = np.arange(512) // 64, 1
    found = _chosen(program, a, b, c, 7)
    assert (c == 64 * (0 + 2 + 4 + 6)).all() and Wgmma in found


@ct.kernel
def scaled(
    a: ct.Array, b: ct.Array, left: ct.Array, right: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int]
) -> None:
    """Each step of 64 along k has a scale for each row, and one for each 64 columns."""
    total = ct.zeros((M, N), ct.float32)
    for k in range(a.shape[1] // 64):
        x, y = ct.load(a, (ct.bid(0), k), (M, 64)), ct.load(b, (ct.bid(1), k), (N, 64))
        scale = ct.load(left, (ct.bid(0), k), (M, 1)) * ct.load(right, (ct.bid(1) * N // 64, k), (1, 1))
        total += ct.mma(x, ct.transpose(y), ct.zeros((M, N), ct.float32)) * scale
    ct.store(c, (ct.bid(0), ct.bid(1)), total)


@pytest.mark.parametrize("on", ["gpu", "ptx"])
def test_scales_are_loaded_as_they_are_used(on: str) -> None:
    """By each thread that has an accumulator of the row: no memory that threads share is in between."""
    rng, size = np.random.default_rng(0), 128
    a, b = (aligned((size, size), E4M3) for _ in range(2))
    left, right, c = (aligned(shape, np.float32) for shape in ((size, 2), (2, 2), (size, size)))
    for x, low, high in ((a, -4, 5), (b, -4, 5), (left, 1, 4), (right, 1, 4)):
        x[...] = rng.integers(low, high, x.shape)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    make = interpreter_backend(None, target="sm_90") if on == "gpu" else ptx_backend(None, "sm_90")
    with observed_passes(see), make as backend:
        ct.launch(None, (1, 2), scaled, (a, b, left, right, c, 128, 64), backend=backend)
    wide = np.repeat(np.repeat(right, 64, 0), 64, 1)
    wanted = (a.astype(np.float64) * np.repeat(left, 64, 1)) @ (b.astype(np.float64) * wide).T
    np.testing.assert_array_equal(c, wanted.astype(np.float32))
    loop = next(op for op in found[-1].walk() if isinstance(op, For) and any(isinstance(o, Wgmma) for o in op.walk()))
    assert not any(isinstance(op, (SharedStore, Barrier)) for op in loop.walk())


def test_results_between_loops_have_memory_of_their_own() -> None:
    """The thread that loads is in the second loop already; memory is left for them."""

    def program(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
        for i in ct.static_iter(range(2)):
            total = ct.zeros((128, 128), ct.float32)
            for k in range(a.shape[1] // 64):
                total = ct.mma(ct.load(a, (i, k), (128, 64)), ct.load(b, (k, 0), (64, 128)), total)
            ct.store(c, (i, 0), total)

    a, b, c = aligned((256, 128), np.float16), aligned((128, 128), np.float16), aligned((256, 128), np.float32)
    a[...], b[...] = 1, 2
    found = _chosen(program, a, b, c)
    assert (c == 256).all() and Wgmma in found and GpuMma not in found
