"""Counting: atomics on repeated indices, private histograms, and a queue with a ticket counter."""

import cuda.tile as ct
import torch


@ct.kernel
def histogram(values, counts, TILE: ct.Constant[int]):
    v = ct.load(values, index=(ct.bid(0),), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
    position = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.atomic_add(counts, ct.where(position < values.shape[0], v, -1), 1, memory_order=ct.MemoryOrder.RELAXED)


@ct.kernel
def private_histogram(values, counts, BINS: ct.Constant[int], TILE: ct.Constant[int]):
    local = ct.zeros((BINS,), ct.int32)
    bins = ct.arange(BINS, dtype=ct.int32)[:, None]
    for j in range(ct.bid(0), ct.num_tiles(values, 0, TILE), ct.num_blocks(0)):
        v = ct.load(values, j, TILE, padding_mode="ZERO")
        inside = j * TILE + ct.arange(TILE, dtype=ct.int32) < values.shape[0]
        local += ct.sum(((v[None, :] == bins) & inside[None, :]).astype(ct.int32), axis=1)
    ct.atomic_add(counts, ct.arange(BINS, dtype=ct.int32), local)


@ct.kernel
def compact(values, out, cursor, TILE: ct.Constant[int]):
    """Appends the even values in any order."""
    v = ct.load(values, ct.bid(0), TILE, padding_mode=ct.PaddingMode.ZERO)
    keep = (v % 2 == 0) & (ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32) < values.shape[0])
    ranks = ct.cumsum(keep.astype(ct.int32), axis=0)
    total = ct.max(ranks)
    start = ct.atomic_add(cursor, 0, total)
    ct.scatter(out, start + ranks - 1, v, mask=keep)


g = torch.Generator(device="cuda").manual_seed(3)
values = torch.randint(0, 32, (1000,), device="cuda", dtype=torch.int32, generator=g)
stream = torch.cuda.current_stream()
expected = torch.bincount(values, minlength=32).int()
counts = torch.zeros(32, dtype=torch.int32, device="cuda")
ct.launch(stream, (ct.cdiv(1000, 64), 1, 1), histogram, (values, counts, 64))
assert torch.equal(counts, expected)
counts.zero_()
ct.launch(stream, (3,), private_histogram, (values, counts, 32, 64))
assert torch.equal(counts, expected)
out = torch.full((1000,), -1, dtype=torch.int32, device="cuda")
cursor = torch.zeros(1, dtype=torch.int32, device="cuda")
ct.launch(stream, (ct.cdiv(1000, 64),), compact, (values, out, cursor, 64))
even = values[values % 2 == 0]
assert cursor.item() == even.numel()
assert torch.equal(out[: cursor.item()].sort().values, even.sort().values)
print("histogram: ok")
