"""Products of quantised operands: int8 with per-channel scales, fp8 with block scales, and packed int4 weights."""

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def int8_matmul(A, B, C, sa, sb, TM: ConstInt, TN: ConstInt, TK: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((TM, TN), ct.int32)
    for k in range(ct.cdiv(A.shape[1], TK)):
        a = ct.load(A, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    scale = ct.load(sa, i, TM)[:, None] * ct.load(sb, j, TN)[None, :]
    ct.store(C, (i, j), (acc.astype(ct.float32) * scale).astype(C.dtype))


@ct.kernel
def fp8_matmul(A, B, C, SA, SB, TM: ConstInt, TN: ConstInt, BLOCK: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(A.shape[1], BLOCK)):
        a, b = ct.load(A, (i, k), (TM, BLOCK)), ct.load(B, (k, j), (BLOCK, TN))
        part = ct.mma(a, b, ct.zeros((TM, TN), ct.float32))
        acc += part * ct.load(SA, (i, k), (TM, 1)) * ct.load(SB, (k, j), (1, TN))
    ct.store(C, (i, j), acc)


@ct.kernel
def int4_matmul(A, packed, C, scales, TM: ConstInt, TN: ConstInt, TK: ConstInt):
    """Each byte of ``packed`` holds rows 2r (low half) and 2r + 1 of the weights."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(A.shape[1], TK)):
        p = ct.load(packed, (k, j), (TK // 2, TN), padding_mode=ct.PaddingMode.ZERO)
        low, high = (p & 0xF).astype(ct.int8), (p >> 4).astype(ct.int8)
        low, high = ct.where(low > 7, low - 16, low), ct.where(high > 7, high - 16, high)
        w = ct.cat((low[:, None, :], high[:, None, :]), 1).reshape((TK, TN))
        a = ct.load(A, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, w.astype(A.dtype), acc)
    ct.store(C, (i, j), (acc * ct.load(scales, (j,), (TN,))).astype(C.dtype))


def quantize(x, dim):
    scale = x.abs().amax(dim, keepdim=True) / 127
    return (x / scale).round().to(torch.int8), scale.squeeze(dim)


torch.manual_seed(5)
stream = torch.cuda.current_stream()
m, n, k = 40, 48, 64
a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
(qa, sa), (qb, sb) = quantize(a, 1), quantize(b, 0)
c = torch.empty(m, n, device="cuda")
ct.launch(stream, (ct.cdiv(m, 16), ct.cdiv(n, 16)), int8_matmul, (qa, qb, c, sa, sb, 16, 16, 32))
exact = (qa.double() @ qb.double()).float() * sa[:, None] * sb
torch.testing.assert_close(c, exact)

fa, fb = (torch.randn(s, device="cuda").to(torch.float8_e4m3fn) for s in ((32, 64), (64, 32)))
s1, s2 = torch.rand(32, 2, device="cuda"), torch.rand(2, 32, device="cuda")
c = torch.empty(32, 32, device="cuda")
ct.launch(stream, (2, 2), fp8_matmul, (fa, fb, c, s1, s2, 16, 16, 32))
full = (fa.float() * s1.repeat_interleave(32, 1)) @ (fb.float() * s2.repeat_interleave(32, 0))
torch.testing.assert_close(c, full, atol=1e-4, rtol=1e-4)

w = torch.randint(-8, 8, (k, n), device="cuda", dtype=torch.int32)
packed = ((w[::2] & 15) | ((w[1::2] & 15) << 4)).to(torch.uint8)
scales = torch.rand(n, device="cuda")
h = a.half()
c = torch.empty(m, n, dtype=torch.float16, device="cuda")
ct.launch(stream, (ct.cdiv(m, 16), ct.cdiv(n, 16)), int4_matmul, (h, packed, c, scales, 16, 16, 32))
torch.testing.assert_close(c.float(), (h.float() @ w.float()) * scales, atol=2e-1, rtol=1e-2)
print("quantized matmul: ok")
