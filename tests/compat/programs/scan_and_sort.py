"""Scans and reductions with functions of the program's own: cumulative sums over blocks, arg-max pairs, a sort network."""

import operator

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def block_scan(x, y, sums, TILE: ConstInt):
    i = ct.bid(0)
    values = ct.load(x, i, TILE, padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, i, ct.cumsum(values, axis=0))
    ct.scatter(sums, i, ct.sum(values))


@ct.kernel
def add_offsets(y, sums, TILE: ConstInt, BLOCKS: ConstInt):
    i = ct.bid(0)
    all_sums = ct.load(sums, 0, BLOCKS, padding_mode=ct.PaddingMode.ZERO)
    before = ct.where(ct.arange(BLOCKS, dtype=ct.int32) < i, all_sums, 0)
    ct.store(y, i, ct.load(y, i, TILE) + ct.reduce(before, 0, operator.add, 0))


@ct.kernel
def best(x, values, places, ROWS: ConstInt, TILE: ConstInt):
    tile = ct.load(x, (0, 0), (ROWS, TILE), padding_mode=ct.PaddingMode.NEG_INF)
    index = ct.broadcast_to(ct.arange(TILE, dtype=ct.int32), (ROWS, TILE))

    def larger(v, i, w, j):
        take = (v > w) | ((v == w) & (i < j))
        return ct.where(take, v, w), ct.where(take, i, j)

    v, i = ct.reduce((tile, index), 1, larger, (float("-inf"), 2**31 - 1))
    ct.store(values, 0, v)
    ct.store(places, 0, i)


@ct.kernel
def bitonic_sort(x, y, N: ConstInt):
    values = ct.load(x, 0, N, padding_mode=ct.PaddingMode.POS_INF)
    position = ct.arange(N, dtype=ct.int32)
    for k in ct.static_iter([2**i for i in range(1, N.bit_length())]):
        for j in ct.static_iter([k >> s for s in range(1, k.bit_length())]):
            pairs = values.reshape((N // (2 * j), 2, j))
            low = pairs.extract((0, 0, 0), (N // (2 * j), 1, j))
            high = pairs.extract((0, 1, 0), (N // (2 * j), 1, j))
            up = ((position & k) == 0).reshape((N // (2 * j), 2, j)).extract((0, 0, 0), (N // (2 * j), 1, j))
            small, large = ct.minimum(low, high), ct.maximum(low, high)
            values = ct.cat((ct.where(up, small, large), ct.where(up, large, small)), 1).reshape((N,))
    ct.store(y, 0, values)


torch.manual_seed(6)
stream = torch.cuda.current_stream()
x = torch.randint(-50, 50, (1000,), dtype=torch.int32, device="cuda")
y, sums = torch.empty_like(x), torch.empty(16, dtype=torch.int32, device="cuda")
ct.launch(stream, (16,), block_scan, (x, y, sums, 64))
ct.launch(stream, (16,), add_offsets, (y, sums, 64, 16))
assert torch.equal(y, x.cumsum(0, dtype=torch.int32))
z = torch.randn(4, 50, device="cuda")
values, places = torch.empty(4, device="cuda"), torch.empty(4, dtype=torch.int32, device="cuda")
ct.launch(stream, (1,), best, (z, values, places, 4, 64))
assert torch.equal(values, z.max(1).values) and torch.equal(places.long(), z.argmax(1))
s = torch.empty(32, device="cuda")
ct.launch(stream, (1,), bitonic_sort, (z[0, :29], s, 32))
assert torch.equal(s[:29], z[0, :29].sort().values)
print("scan and sort: ok")
