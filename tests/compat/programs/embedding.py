"""Gather of rows by token, by ct.gather and by advanced indexing; the gradient scatters with atomics."""

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def lookup(tokens, table, out, TM: ConstInt, TN: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    ids = ct.load(tokens, index=i, shape=TM, padding_mode=ct.PaddingMode.ZERO)
    columns = j * TN + ct.arange(TN, dtype=ct.int32)
    ct.store(out, (i, j), ct.gather(table, (ids[:, None], columns[None, :]), check_bounds=True))


@ct.kernel
def lookup_slices(tokens, table, out, TM: ConstInt, TN: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    ids = ct.load(tokens, (i,), (TM,), padding_mode=ct.PaddingMode.ZERO)
    rows = ct.load_advanced_indexing(table, (ids, ct.Slice(j * TN, TN)), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i, j), rows)


@ct.kernel
def gradient(tokens, dout, dtable, TN: ConstInt):
    i = ct.bid(0)
    row = ct.gather(tokens, i)
    columns = ct.arange(TN, dtype=ct.int32)
    ct.atomic_add(dtable, (row, columns), ct.gather(dout, (i, columns)))


torch.manual_seed(7)
tokens = torch.randint(0, 20, (37,), device="cuda")
table = torch.randn(20, 48, device="cuda")
for kernel in (lookup, lookup_slices):
    for dtype in (torch.float32, torch.bfloat16):
        t = table.to(dtype)
        out = torch.zeros(37, 48, device="cuda", dtype=dtype)
        ct.launch(torch.cuda.current_stream(), (ct.cdiv(37, 8), 3, 1), kernel, (tokens, t, out, 8, 16))
        assert torch.equal(out, torch.nn.functional.embedding(tokens, t))
dout = torch.randn(37, 48, device="cuda")
dtable = torch.zeros_like(table)
ct.launch(torch.cuda.current_stream(), (37,), gradient, (tokens, dout, dtable, 64))
expected = torch.zeros_like(table).index_add_(0, tokens, dout)
torch.testing.assert_close(dtable, expected, atol=1e-5, rtol=1e-5)
print("embedding: ok")
