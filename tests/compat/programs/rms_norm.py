"""RMS normalisation: one row a block through tiles, through gathers, and persistently through several rows."""

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def by_tiles(x, w, out, rstd, N: ConstInt, eps: ct.Constant[float], OFFSET: ct.Constant[float], TILE: ConstInt):
    row = ct.bid(0)
    total = ct.full((1, TILE), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(N, TILE)):
        v = ct.load(x, (row, j), (1, TILE), allow_tma=False, latency=1, padding_mode=ct.PaddingMode.ZERO)
        v = v.astype(ct.float32)
        total += v * v
    r = ct.rsqrt(ct.sum(total, axis=1, keepdims=False) / N + eps)
    ct.store(rstd, index=(row,), tile=r)
    for j in range(ct.cdiv(N, TILE)):
        v = ct.load(x, (row, j), (1, TILE), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        scale = ct.load(w, (j,), (TILE,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32) + OFFSET
        ct.store(out, (row, j), ct.astype(v * r * scale, out.dtype))


@ct.kernel
def by_gathers(x, w, out, N: ConstInt, eps: float, TILE: ConstInt):
    row = ct.bid(0)
    total = ct.zeros((TILE,), dtype=ct.float32)
    offsets = ct.arange(TILE, dtype=ct.int32)
    for j in range(ct.cdiv(N, TILE)):
        v = ct.astype(ct.gather(x, (row, offsets + j * TILE), latency=1), ct.float32)
        total = total + v**2
    r = ct.rsqrt(ct.sum(total) / N + eps)
    for j in range(ct.cdiv(N, TILE)):
        at = offsets + j * TILE
        v = ct.astype(ct.gather(x, (row, at)), ct.float32) * r * ct.gather(w, at)
        ct.scatter(out, (row, at), v.astype(out.dtype), latency=1)


@ct.kernel
def persistent(x, w, out, TILE_M: ConstInt, TILE_N: ConstInt, eps: float):
    weights = ct.load(w, (0,), (TILE_N,), padding_mode=ct.PaddingMode.ZERO)
    weights = ct.reshape(weights, (1, TILE_N))
    N = x.shape[1]
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], TILE_M), ct.num_blocks(0)):
        v = ct.load(x, (i, 0), (TILE_M, TILE_N), latency=10, padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        mean_square = ct.truediv(ct.sum(ct.mul(v, v), axis=1, keepdims=True), N)
        r = ct.rsqrt(ct.add(mean_square, ct.full((TILE_M, 1), eps, dtype=ct.float32)))
        ct.store(out, (i, 0), ct.mul(ct.mul(v, r), weights).astype(x.dtype), allow_tma=False, latency=3)


def reference(x, w, eps):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


stream = torch.cuda.current_stream()
for dtype in (torch.float32, torch.bfloat16):
    x = torch.randn(13, 200, device="cuda", dtype=dtype)
    w = torch.randn(200, device="cuda", dtype=dtype)
    expected = reference(x, w, 1e-5)
    rstd = torch.empty(13, device="cuda", dtype=torch.float32)
    outs = [torch.empty_like(x) for _ in range(3)]
    ct.launch(stream, (13, 1, 1), by_tiles, (x, w, outs[0], rstd, 200, 1e-5, 0.0, 64))
    ct.launch(stream, (13, 1, 1), by_gathers, (x, w, outs[1], 200, 1e-5, 64))
    ct.launch(stream, (2, 1, 1), persistent, (x, w, outs[2], 4, 256, 1e-5))
    for out in outs:
        torch.testing.assert_close(out, expected, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(rstd, torch.rsqrt(x.float().pow(2).mean(-1) + 1e-5), atol=1e-5, rtol=1e-5)
print("rms norm: ok")
