"""Pairs of CTAs that fetch tiles for each other: the results in both interpreters, and schedules that are wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, Product, matmul, persistent, random_product, shares, strips
from support.gpu_stage import Fault, specialized
from support.passes import after, without
from support.ptx import hopper
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Op
from tilewright.ir.ops.gpu.barriers import MbarrierArrive, MbarrierInit
from tilewright.ir.ops.gpu.cluster import ClusterBarrier
from tilewright.transforms.gpu.insert_barriers import InsertBarriers

PRODUCTS = [
    Product((128, 64, 128), (64, 64, 64)),
    Product((256, 128, 192), (64, 64, 64), BF16, BF16),
    Product((256, 64, 192), (64, 64, 64), left=True, out=BF16),
    Product((128, 128, 256), (64, 64, 128), E4M3, right=True),
    Product((256, 64, 64), (64, 64, 32), "float32", right=True, rounded=True),
]


def in_both(
    product: Product, kernel: Callable[..., None], blocks: int, monkeypatch: pytest.MonkeyPatch, ctas: int | None = 2
) -> list[int]:
    """Run ``product`` in both interpreters; how many copies for two CTAs were made in each."""
    counts = [0, 0]
    mine, targets = specialized._of_my_half, hopper._targets

    def see_half(*args: object) -> object:
        counts[0] += 1
        return mine(*args)  # type: ignore[arg-type]

    def see_targets(*args: object) -> object:
        found = targets(*args)  # type: ignore[arg-type]
        counts[1] += len(found) == 2
        return found

    monkeypatch.setattr(specialized, "_of_my_half", see_half)
    monkeypatch.setattr(hopper, "_targets", see_targets)
    with interpreter_backend(None, target="sm_90") as backend:
        product.run(backend, kernel, blocks, num_ctas=ctas)
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend, kernel, blocks, num_ctas=ctas)
    return counts


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_a_grid_of_tiles(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours have the same columns of the right operand."""
    steps = -(-product.size[2] // product.tile[2])
    tiles = product.size[0] // product.tile[0] * (product.size[1] // product.tile[1])
    found = in_both(product, matmul, 0, monkeypatch)
    assert found[0] == steps * tiles and found[1] >= found[0]


def columns_first(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[object], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """A persistent loop, in which tiles of a column follow each other."""
    rows = ct.cdiv(c.shape[0], M)
    for tile in range(ct.bid(0), rows * ct.cdiv(c.shape[1], N), ct.num_blocks(0)):
        i, j = tile % rows, tile // rows
        total = ct.zeros((M, N), ct.float32)
        for k in range(ct.cdiv(a.shape[1], K)):
            x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
        ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("rows", [128, 192])
@pytest.mark.parametrize("kernel", [persistent, columns_first])
def test_persistent_loops(rows: int, blocks: int, kernel: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """With an odd number of tiles, and with pairs that need different tiles at times, too."""
    found = in_both(Product((rows, 192, 160), (64, 64, 32), out="float16"), kernel, blocks, monkeypatch)
    assert 0 < found[0] <= found[1]


@pytest.mark.parametrize(("kernel", "columns"), [(strips, 216), (shares, 184)])
def test_several_loops(kernel: Callable[..., None], columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those after the persistent loop are of one CTA, or of pairs. Neighbours have five times tiles in common, of two
    steps: once both operands are, four times one."""
    product = Product((192, columns, 72), (64, 64, 64), out="float16")
    found = in_both(product, kernel, 4, monkeypatch, None)
    assert found == [20, 20]


@pytest.mark.parametrize(("depth", "pairs"), [(72, True), (80, False)])
def test_without_a_hint(depth: int, pairs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Persistent kernels are paired where rows do not start on whole sectors."""
    product = Product((192, 80, depth), (64, 64, 32), out="float16")
    assert (in_both(product, persistent, 2, monkeypatch, None)[0] > 0) == pairs
    assert in_both(product, matmul, 2, monkeypatch, None) == [0, 0]


def test_stores_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that the TMA unit cannot store to; the last tile is stored by one CTA alone."""
    product = Product((192, 71, 64), (64, 64, 32), out="float16", right=True)
    assert in_both(product, persistent, 2, monkeypatch)[0] > 0


@pytest.mark.parametrize("blocks", [1, 3])
def test_no_clusters_in_grids_of_an_odd_width(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_both(Product((128, 192, 64), (64, 64, 32), out="float16"), persistent, blocks, monkeypatch) == [0, 0]


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_products(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    product = random_product(seed)
    in_both(product, matmul if product.rounded else persistent, 2, monkeypatch)


# -- what is left out of a schedule is found


def _cluster_barrier(number: int) -> Callable[[Op], bool]:
    count = [0]

    def change(op: Op) -> bool:
        count[0] += isinstance(op, ClusterBarrier)
        return isinstance(op, ClusterBarrier) and count[0] - 1 == number

    return change


def _alone(op: Op) -> bool:
    """CTAs give slots back to themselves alone, as often as they have to."""
    if isinstance(op, MbarrierArrive):
        op.attributes.update(cluster=False)
    if isinstance(op, MbarrierInit) and op.count > 1:
        op.attributes.update(count=op.count // 2)
    return False


def _half(op: Op) -> bool:
    if isinstance(op, MbarrierArrive):
        op.attributes.update(cluster=False)
    return False


FAULTS: dict[str, tuple[Callable[[], Callable[[Op], bool]], str]] = {
    "barriers are used before the mate has made them": (lambda: _cluster_barrier(0), "race|uninitialized"),
    "a CTA ends before the other one": (lambda: _cluster_barrier(1), "race"),
    "a slot is filled that the mate still reads": (lambda: _alone, "race|read before arrival"),
    "the mate's slots are not given back": (lambda: _half, "deadlock"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, category = FAULTS[fault]
    change = make()
    after(InsertBarriers, functools.partial(without, change), monkeypatch)
    with pytest.raises(Fault, match=category), interpreter_backend(None, target="sm_90") as backend:
        Product((128, 256, 512), (64, 256, 64), out="float16").run(backend, num_ctas=2)
