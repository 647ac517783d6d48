"""Layer normalisation forward and backward: weight gradients meet through a lock per group of rows."""

from math import ceil

import cuda.tile as ct
import torch
import torch.nn.functional as F

ConstInt = ct.Constant[int]
PAD_ZERO = ct.PaddingMode.ZERO


def statistics(X, row, TILE_N, N):
    total = ct.zeros((1, TILE_N), ct.float32)
    tiles = ct.num_tiles(X, axis=1, shape=(1, TILE_N))
    for j in range(tiles):
        total += ct.load(X, index=(row, j), shape=(1, TILE_N), padding_mode=PAD_ZERO)
    mean = ct.sum(total, axis=1) / N
    spread = ct.zeros((1, TILE_N), ct.float32)
    for j in range(tiles):
        tx = ct.load(X, index=(row, j), shape=(1, TILE_N), padding_mode=PAD_ZERO)
        inside = (j * TILE_N + ct.arange(TILE_N, dtype=ct.int32)) < N
        spread += ct.where(inside, tx - mean, 0) ** 2
    return mean, ct.sum(spread, axis=1) / N


@ct.kernel
def forward_kernel(X, W, B, Y, Mean, Rstd, eps, TILE_N: ConstInt):
    row = ct.bid(0)
    mean, var = statistics(X, row, TILE_N, X.shape[1])
    rstd = 1 / ct.sqrt(var + eps)
    ct.store(Mean, index=(row,), tile=mean)
    ct.store(Rstd, index=(row,), tile=rstd)
    for j in range(ct.num_tiles(X, axis=1, shape=(1, TILE_N))):
        tx = ct.load(X, index=(row, j), shape=(1, TILE_N), padding_mode=PAD_ZERO)
        tw = ct.load(W, index=(j,), shape=(TILE_N,), padding_mode=PAD_ZERO)
        tb = ct.load(B, index=(j,), shape=(TILE_N,), padding_mode=PAD_ZERO)
        ct.store(Y, index=(row, j), tile=((tx - mean) * rstd * tw + tb).astype(Y.dtype))


@ct.kernel
def backward_kernel(DX, DY, DW, DB, X, W, Mean, Rstd, Locks, N: ConstInt, GROUPS: ConstInt, TILE_N: ConstInt):
    row = ct.bid(0)
    group = row % GROUPS
    tx = ct.load(X, (row, 0), (1, TILE_N), padding_mode=PAD_ZERO)
    tdy = ct.load(DY, (row, 0), (1, TILE_N), padding_mode=PAD_ZERO)
    tw = ct.load(W, 0, TILE_N, padding_mode=PAD_ZERO)
    mean, rstd = ct.load(Mean, row, 1), ct.load(Rstd, row, 1)
    inside = ct.arange(TILE_N, dtype=ct.int32) < N
    xhat = ct.where(inside, (tx - mean) * rstd, 0)
    wdy = ct.where(inside, tw * tdy, 0)
    c1 = ct.sum(xhat * wdy, axis=1) / N
    c2 = ct.sum(wdy, axis=1) / N
    ct.store(DX, (row, 0), ((wdy - (xhat * c1 + c2)) * rstd).astype(DX.dtype))
    while ct.atomic_cas(Locks, group, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    ct.store(DW, (group, 0), ct.load(DW, (group, 0), (1, TILE_N)) + tdy * xhat)
    ct.store(DB, (group, 0), ct.load(DB, (group, 0), (1, TILE_N)) + tdy)
    ct.atomic_xchg(Locks, group, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def reduce_kernel(Partial, Out, ROWS: ConstInt, TILE: ConstInt):
    j = ct.bid(0)
    ct.store(Out, (j,), ct.sum(ct.load(Partial, (0, j), (ROWS, TILE), padding_mode=PAD_ZERO), axis=0))


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        y = torch.empty_like(x)
        mean = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        ct.launch(torch.cuda.current_stream(), (x.shape[0],), forward_kernel, (x, w, b, y, mean, rstd, eps, 64))
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        m, n = x.shape
        groups, tile = 4, 1 << (n - 1).bit_length()
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        partial_w = torch.zeros(groups, n, device=x.device)
        partial_b = torch.zeros_like(partial_w)
        locks = torch.zeros(groups, dtype=torch.int32, device=x.device)
        stream = torch.cuda.current_stream()
        args = (dx, dy.contiguous(), partial_w, partial_b, x, w, mean, rstd, locks, n, groups, tile)
        ct.launch(stream, (m,), backward_kernel, args)
        for partial, out in ((partial_w, dw), (partial_b, db)):
            ct.launch(stream, (ceil(n / 32),), reduce_kernel, (partial, out, groups, 32))
        return dx, dw, db, None


torch.manual_seed(0)
x, dy = torch.randn(37, 200, device="cuda"), torch.randn(37, 200, device="cuda")
w, b = torch.rand(200, device="cuda"), torch.rand(200, device="cuda")
results = []
for function in (lambda *a: LayerNorm.apply(*a, 1e-5), lambda x, w, b: F.layer_norm(x, (200,), w, b, 1e-5)):
    leaves = [t.detach().clone().requires_grad_() for t in (x, w, b)]
    y = function(*leaves)
    y.backward(dy)
    results.append([y, *(t.grad for t in leaves)])
for ours, theirs in zip(*results):
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
print("layer norm: ok")
