"""Rotary embeddings, in place, on halves of the head dimension; views of one tensor as arguments."""

import cuda.tile as ct
import torch


@ct.kernel
def rope_kernel(q, cos, sin, HEADS: ct.Constant[int], HALF: ct.Constant[int]):
    batch, position = ct.bid(0), ct.bid(1)
    c = ct.load(cos, (position, 0), (1, HALF))[None, None]
    s = ct.load(sin, index=(position, 0), shape=(1, HALF)).reshape((1, 1, 1, HALF))
    first = ct.load(q, (batch, 0, position, 0), (1, HEADS, 1, HALF))
    second = ct.load(q, (batch, 0, position, 1), (1, HEADS, 1, HALF))
    ct.store(q, (batch, 0, position, 0), (first * c - second * s).astype(q.dtype))
    ct.store(q, (batch, 0, position, 1), (second * c + first * s).astype(q.dtype))


@ct.kernel
def interleaved_kernel(even, odd, cos, sin, TM: ct.Constant[int], HALF: ct.Constant[int]):
    i = ct.bid(0)
    c, s = rotation(cos, sin, i, TM, HALF)
    x, y = ct.load(even, (i, 0), (TM, HALF)), ct.load(odd, (i, 0), (TM, HALF))
    ct.store(even, (i, 0), x * c - y * s)
    ct.store(odd, (i, 0), x * s + y * c)


def rotation(cos, sin, i, tm, half):
    return ct.load(cos, (i, 0), (tm, half)), ct.load(sin, (i, 0), (tm, half))


torch.manual_seed(1)
b, h, t, d = 2, 4, 9, 32
q = torch.randn(b, h, t, d, device="cuda")
angles = torch.outer(torch.arange(t), 1e4 ** (-torch.arange(d // 2) / (d // 2))).to("cuda")
cos, sin = angles.cos().contiguous(), angles.sin().contiguous()
x1, x2 = q[..., : d // 2], q[..., d // 2 :]
expected = torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)
ct.launch(torch.cuda.current_stream(), (b, t, 1), rope_kernel, (q, cos, sin, h, d // 2))
torch.testing.assert_close(q, expected)

x = torch.randn(t, d, device="cuda")
e, o = x[:, ::2], x[:, 1::2]
want = torch.stack([e * cos - o * sin, e * sin + o * cos], -1).flatten(1)
ct.launch(torch.cuda.current_stream(), (3,), interleaved_kernel, (e, o, cos, sin, 4, d // 2))
torch.testing.assert_close(x, want)
print("rope: ok")
