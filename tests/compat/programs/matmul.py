"""Matrix products: swizzled, persistent, split along K with a lock, and batched."""

from math import ceil

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


def swizzle(M, N, tm, tn, group):
    """Which tile a block computes: groups of rows, so that neighbours share operands."""
    bid = ct.bid(0)
    return swizzle_from(M, N, tm, tn, group, bid)


def swizzle_from(M, N, tm, tn, group, bid):
    rows, columns = ct.cdiv(M, tm), ct.cdiv(N, tn)
    in_group = group * columns
    first = bid // in_group * group
    size = min(rows - first, group)
    return first + bid % size, bid % in_group // size


@ct.kernel(num_ctas=ct.ByTarget(sm_100=2))
def plain(A, B, C, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = swizzle(A.shape[0], B.shape[1], tm, tn, 8)
    steps = ct.num_tiles(A, axis=1, shape=(tm, tk))
    acc = ct.full((tm, tn), 0, dtype=ct.float32)
    pad = ct.PaddingMode.ZERO
    dtype = ct.tfloat32 if A.dtype == ct.float32 else A.dtype
    for k in range(steps):
        a = ct.load(A, index=(i, k), shape=(tm, tk), padding_mode=pad).astype(dtype)
        b = ct.load(B, index=(k, j), shape=(tk, tn), padding_mode=pad).astype(dtype)
        acc = ct.mma(a, b, acc)
    ct.store(C, index=(i, j), tile=ct.astype(acc, C.dtype))


@ct.kernel
def persistent(A, B, C, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    M, N = A.shape[0], B.shape[1]
    tiles = ct.cdiv(M, tm) * ct.cdiv(N, tn)
    zero_pad = ct.PaddingMode.ZERO
    for current in range(ct.bid(0), tiles, ct.num_blocks(0)):
        i, j = swizzle_from(M, N, tm, tn, 4, current)
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(A.shape[1], tk)):
            a = ct.load(A, (i, k), (tm, tk), padding_mode=zero_pad, latency=4)
            b = ct.load(B, (k, j), (tk, tn), padding_mode=zero_pad, latency=4)
            acc = ct.mma(a, b, acc)
        ct.store(C, (i, j), acc.astype(C.dtype))


@ct.kernel
def split_k(A, B, C, locks, counts, tm: ConstInt, tn: ConstInt, tk: ConstInt, SPLIT: ConstInt):
    tile_id, part = ct.bid(0), ct.bid(1)
    columns = ct.cdiv(B.shape[1], tn)
    i, j = tile_id // columns, tile_id % columns
    steps = ct.cdiv(ct.cdiv(A.shape[1], tk), SPLIT)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(part * steps, part * steps + steps):
        a = ct.load(A, (i, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, (k, j), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    while ct.atomic_cas(locks, tile_id, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    done = ct.gather(counts, tile_id)
    if done == 0:
        ct.store(C, (i, j), acc.astype(C.dtype))
    else:
        ct.store(C, (i, j), (ct.load(C, (i, j), (tm, tn)).astype(ct.float32) + acc).astype(C.dtype))
    ct.scatter(counts, tile_id, (done + 1) % SPLIT)
    ct.atomic_xchg(locks, tile_id, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def batched(A, B, C, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    b, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.full((1, tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(A.shape[2], tk)):
        x = ct.load(A, (b, i, k), (1, tm, tk), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(B, (b, k, j), (1, tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(C, (b, i, j), acc.astype(C.dtype))


def close(c, a, b):
    torch.testing.assert_close(c.float(), a.float() @ b.float(), atol=3e-1, rtol=3e-2)


torch.manual_seed(0)
tm, tn, tk = 32, 32, 16
stream = torch.cuda.current_stream()
sms = torch.cuda.get_device_properties("cuda").multi_processor_count
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for m, n, k in ((64, 96, 48), (70, 50, 90)):
        a = torch.randn(m, k, dtype=dtype, device="cuda")
        b = torch.randn(k, n, dtype=dtype, device="cuda")
        tiles = ceil(m / tm) * ceil(n / tn)
        c = torch.empty(m, n, dtype=dtype, device="cuda")
        ct.launch(stream, (tiles, 1, 1), plain, (a, b, c, tm, tn, tk))
        close(c, a, b)
        c.zero_()
        ct.launch(stream, (min(sms, tiles), 1, 1), persistent, (a, b, c, tm, tn, tk))
        close(c, a, b)
        c.zero_()
        locks = torch.zeros(tiles, dtype=torch.int32, device="cuda")
        counts = torch.zeros_like(locks)
        ct.launch(stream, (tiles, 3, 1), split_k, (a, b, c, locks, counts, tm, tn, tk, 3))
        close(c, a, b)
    a = torch.randn(3, 40, 70, dtype=dtype, device="cuda")
    b = torch.randn(3, 70, 50, dtype=dtype, device="cuda")
    c = torch.empty(3, 40, 50, dtype=dtype, device="cuda")
    ct.launch(stream, (3, 2, 2), batched, (a, b, c, tm, tn, tk))
    close(c, a, b)
print("matmul: ok")
