"""SwiGLU and GEGLU forward and backward, with helpers, rounding modes and torch's autograd."""

import cuda.tile as ct
import torch
import torch.nn.functional as F
from cuda.tile import RoundingMode as RMd

ConstInt = ct.Constant[int]
SQRT_2_OVER_PI = 0.7978845608028654


def sigmoid(x):
    denominator = ct.add(1, ct.exp(-x), flush_to_zero=True)
    return ct.truediv(1.0, denominator, flush_to_zero=True, rounding_mode=RMd.APPROX)


def silu(x):
    return x * sigmoid(x)


@ct.kernel
def swiglu_forward(a, b, c, TILE: ConstInt):
    row, column = ct.bid(0), ct.bid(1)
    x = ct.load(a, index=(row, column), shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO)
    y = ct.load(b, index=(row, column), shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO)
    x = x.astype(ct.float32)
    ct.store(c, index=(row, column), tile=ct.astype(silu(x), c.dtype) * y)


@ct.kernel
def swiglu_backward(dc, a, b, da, db, TILE: ConstInt):
    at = (ct.bid(0), ct.bid(1))
    g = ct.load(dc, at, (1, TILE))
    x, y = ct.load(a, at, (1, TILE)), ct.load(b, at, (1, TILE))
    s = sigmoid(x)
    ct.store(db, at, g * x * s)
    ct.store(da, at, g * y * (s * (1 + x * (1 - s))))


@ct.kernel
def geglu(a, b, c, n: int, TILE: ConstInt):
    offsets = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    inside = offsets < n
    x, y = ct.gather(a, offsets, mask=inside), ct.gather(b, offsets, mask=inside)
    inner = SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)
    ct.scatter(c, offsets, 0.5 * x * (1 + ct.tanh(inner)) * y, mask=inside)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        c = torch.empty_like(a)
        ct.launch(torch.cuda.current_stream(), (a.shape[0], ct.cdiv(a.shape[1], 128)), swiglu_forward, (a, b, c, 128))
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        da, db = torch.empty_like(a), torch.empty_like(b)
        grid = (a.shape[0], ct.cdiv(a.shape[1], 128))
        ct.launch(torch.cuda.current_stream(), grid, swiglu_backward, (dc.contiguous(), a, b, da, db, 128))
        return da, db


a = torch.randn(5, 300, device="cuda", requires_grad=True)
b = torch.randn(5, 300, device="cuda", requires_grad=True)
ours = SwiGLU.apply(a, b)
gradients = torch.autograd.grad(ours.square().sum(), (a, b))
theirs = F.silu(a) * b
torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
for x, y in zip(gradients, torch.autograd.grad(theirs.square().sum(), (a, b))):
    torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)
h = torch.randn(3, 64, device="cuda").half()
c = torch.empty_like(h)
ct.launch(torch.cuda.current_stream(), (3, 1), swiglu_forward, (h, h, c, 64))
torch.testing.assert_close(c, F.silu(h) * h, atol=1e-2, rtol=1e-2)
x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
z = torch.empty_like(x)
ct.launch(torch.cuda.current_stream(), (ct.cdiv(1000, 256),), geglu, (x, y, z, 1000, 256))
torch.testing.assert_close(z, F.gelu(x, approximate="tanh") * y, atol=1e-5, rtol=1e-5)
print("activations: ok")
