"""Softmax of rows: in one tile, in chunks with an online maximum, and its gradient, as a torch function."""

import cuda.tile as ct
import torch


@ct.kernel
def forward_kernel(x, y, n_rows: ct.Constant[int], TILE: ct.Constant[int]):
    for row in range(ct.bid(0), n_rows, ct.num_blocks(0)):
        columns = ct.arange(TILE, dtype=ct.int32)
        values = ct.gather(x, (row, columns), padding_value=-float("inf")).astype(ct.float32)
        e = ct.exp(values - ct.max(values))
        ct.scatter(y, (row, columns), (e / ct.sum(e)).astype(y.dtype))


@ct.kernel
def chunked_kernel(x, y, TILE: ct.Constant[int]):
    row = ct.bid(0)
    top, total = ct.full((1, 1), -float("inf"), ct.float32), ct.zeros((1, 1), ct.float32)
    chunks = ct.num_tiles(x, axis=1, shape=(1, TILE))
    for j in range(chunks):
        v = ct.load(x, (row, j), (1, TILE), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        new = ct.maximum(top, ct.max(v, 1, keepdims=True))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(v - new), 1, keepdims=True)
        top = new
    for j in range(chunks):
        v = ct.load(x, (row, j), (1, TILE), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        ct.store(y, (row, j), (ct.exp(v - top) / total).astype(y.dtype))


@ct.kernel
def backward_kernel(y, dy, dx, TILE: ct.Constant[int]):
    at = (ct.bid(0), 0)
    zero = ct.PaddingMode.ZERO
    p = ct.load(y, at, (1, TILE), padding_mode=zero)
    g = ct.load(dy, at, (1, TILE), padding_mode=zero)
    ct.store(dx, at, p * (g - ct.sum(p * g, axis=1, keepdims=True)))


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        tile = 1 << (x.shape[1] - 1).bit_length()
        ct.launch(torch.cuda.current_stream(), (4,), forward_kernel, (x, y, x.shape[0], tile))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        tile = 1 << (y.shape[1] - 1).bit_length()
        ct.launch(torch.cuda.current_stream(), (y.shape[0],), backward_kernel, (y, dy.contiguous(), dx, tile))
        return dx


x = torch.randn(10, 300, device="cuda", requires_grad=True)
weights = torch.randn(10, 300, device="cuda")
y = Softmax.apply(x)
(y * weights).sum().backward()
x2 = x.detach().clone().requires_grad_()
y2 = torch.softmax(x2, -1)
(y2 * weights).sum().backward()
torch.testing.assert_close(y, y2)
torch.testing.assert_close(x.grad, x2.grad, atol=1e-5, rtol=1e-4)
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    x = torch.randn(7, 500, device="cuda").to(dtype)
    y = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (7,), chunked_kernel, (x, y, 128))
    torch.testing.assert_close(y, torch.softmax(x, -1), atol=1e-2, rtol=1e-2)
print("softmax: ok")
