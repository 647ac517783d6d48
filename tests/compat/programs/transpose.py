"""Transposition through ct.transpose, through the order of a load, and of a batch by permute."""

import cuda.tile as ct
import torch


@ct.kernel
def by_tile(x, y, TM: ct.Constant[int], TN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, index=(i, j), shape=(TM, TN))
    ct.store(y, index=(j, i), tile=ct.transpose(tile))


@ct.kernel
def by_order(x, y, TM: ct.Constant[int], TN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, index=(j, i), tile=ct.load(x, index=(j, i), shape=(TN, TM), order=(1, 0)))


@ct.kernel
def batched(x, y, TM: ct.Constant[int], TN: ct.Constant[int]):
    b, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    tile = ct.load(x, (b, i, j), (1, TM, TN))
    ct.store(y, (b, j, i), tile.permute((0, 2, 1)))


def launch(kernel, x, y, tm, tn):
    *batch, m, n = x.shape
    grid = (ct.cdiv(m, tm), ct.cdiv(n, tn), *batch)
    ct.launch(torch.cuda.current_stream(), grid, kernel, (x, y, tm, tn))


for dtype in (torch.float32, torch.float16, torch.int64):
    x = torch.arange(70 * 50, device="cuda").reshape(70, 50).to(dtype)
    for kernel in (by_tile, by_order):
        y = torch.zeros(50, 70, device="cuda", dtype=dtype)
        launch(kernel, x, y, 32, 16)
        assert torch.equal(y, x.T), kernel
    z = torch.stack([x, x * 2, x * 3])
    y = torch.zeros(3, 50, 70, device=z.device, dtype=dtype)
    launch(batched, z, y, 16, 32)
    assert torch.equal(y, z.transpose(1, 2))
print("transpose: ok")
