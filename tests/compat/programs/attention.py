"""Grouped-query attention with online softmax; causal, with lengths that tiles do not divide."""

import math

import cuda.tile as ct
import numpy as np
import torch
from cuda.tile import RoundingMode as RMd
from torch.nn.functional import scaled_dot_product_attention

LOG2E = 1.0 / math.log(2)
ConstInt = ct.Constant[int]
ConstBool = ct.Constant[bool]


@ct.kernel(occupancy=2)
def fmha(
    Q,
    K,
    V,
    Out,
    scale: float,
    input_pos: int,
    D: ConstInt,
    H: ConstInt,
    TM: ConstInt,
    TN: ConstInt,
    GROUP: ConstInt,
    CAUSAL: ConstBool,
    EVEN_K: ConstBool,
):
    block, row = ct.bid(0), ct.bid(1)
    batch, head = row // H, row % H
    kv_head = head // GROUP
    scale = scale * LOG2E
    offs_m = block * TM + ct.arange(TM, dtype=np.int32)
    offs_m += input_pos
    offs_m = offs_m[:, None]
    offs_n_tile = ct.arange(TN, dtype=np.int32)[None, :]
    m_i = ct.full((TM, 1), -np.inf, dtype=np.float32)
    l_i = ct.full((TM, 1), 0.0, dtype=np.float32)
    acc = ct.full((TM, D), 0.0, dtype=np.float32)
    q = ct.load(Q, index=(batch, head, block, 0), shape=(1, 1, TM, D)).reshape((TM, D))
    m_end = input_pos + (block + 1) * TM
    length = K.shape[2]
    if CAUSAL:
        mask_start = min((input_pos + block * TM) // TN, length // TN)
        steps = ct.cdiv(min(m_end, length), TN)
    else:
        steps = ct.cdiv(length, TN)
        mask_start = length // TN
    for j in range(steps):
        k = ct.load(K, index=(batch, kv_head, 0, j), shape=(1, 1, D, TN), order=(0, 1, 3, 2), latency=2)
        qk = ct.full((TM, TN), 0.0, dtype=np.float32)
        qk = ct.mma(q, k.reshape((D, TN)), qk)
        if (CAUSAL or not EVEN_K) and j >= mask_start:
            offs_n = j * TN + offs_n_tile
            mask = ct.full((TM, TN), True, dtype=np.bool_)
            if not EVEN_K:
                mask = mask & (offs_n < length)
            if CAUSAL:
                mask = mask & (offs_m >= offs_n)
            qk += ct.where(mask, 0.0, -np.inf)
        m_ij = max(m_i, ct.max(qk, axis=-1, keepdims=True) * scale)
        qk = qk * scale - m_ij
        p = ct.exp2(qk, flush_to_zero=True)
        alpha = ct.exp2(m_i - m_ij, flush_to_zero=True)
        l_i = l_i * alpha + ct.sum(p, axis=-1, keepdims=True)
        acc = acc * alpha
        v = ct.load(V, index=(batch, kv_head, j, 0), shape=(1, 1, TN, D), latency=4).reshape((TN, D))
        acc = ct.mma(p.astype(Q.dtype), v, acc)
        m_i = m_ij
    acc = ct.truediv(acc, l_i, flush_to_zero=True, rounding_mode=RMd.APPROX)
    ct.store(Out, index=(batch, head, block, 0), tile=acc.reshape((1, 1, TM, D)).astype(Out.dtype))


def attention(q, k, v, causal, tm=32, tn=16):
    b, h, length, d = q.shape
    out = torch.empty_like(q)
    grid = (math.ceil(length / tm), b * h, 1)
    group, even = h // k.shape[1], k.shape[2] % tn == 0
    args = (q, k, v, out, 1.0 / math.sqrt(d), 0, d, h, tm, tn, group, causal, even)
    ct.launch(torch.cuda.current_stream(), grid, fmha, args)
    return out


torch.manual_seed(0)
for dtype, tolerance in ((torch.float32, 1e-3), (torch.float16, 1e-2)):
    for heads, kv_heads, length, causal in ((4, 4, 64, False), (4, 2, 64, True), (2, 1, 49, True), (2, 2, 33, False)):
        q = torch.randn(2, heads, length, 32, dtype=dtype, device="cuda")
        k = torch.randn(2, kv_heads, length, 32, dtype=dtype, device="cuda")
        v = torch.randn(2, kv_heads, length, 32, dtype=dtype, device="cuda")
        ref = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
        torch.testing.assert_close(attention(q, k, v, causal), ref, atol=tolerance, rtol=tolerance)
print("attention: ok")
