"""A mixture of experts: rows are sorted by expert, gathered, multiplied, weighted and scattered back."""

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def fused_moe(
    A,
    B,
    C,
    weights,
    token_ids,
    expert_ids,
    num_tokens: int,
    N: ConstInt,
    K: ConstInt,
    TM: ConstInt,
    TN: ConstInt,
    TK: ConstInt,
    TOP_K: ConstInt,
    WEIGHTED: ct.Constant[bool],
):
    block_m, block_n = ct.bid(0), ct.bid(1)
    rows = ct.gather(token_ids, block_m * TM + ct.arange(TM, dtype=ct.int32))
    tokens = rows // TOP_K
    expert = ct.load(expert_ids, index=block_m, shape=())
    acc = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(K, TK)):
        columns = k * TK + ct.arange(TK, dtype=ct.int32)
        a = ct.gather(A, (tokens[:, None], columns[None, :]))
        b = ct.load(B, (expert, k, block_n), (1, TK, TN), order=(0, 2, 1), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b.reshape((TK, TN)), acc)
    if WEIGHTED:
        acc = acc * ct.gather(weights, rows)[:, None]
    columns = block_n * TN + ct.arange(TN, dtype=ct.int32)
    ct.scatter(C, (rows[:, None], columns[None, :]), acc.astype(C.dtype))


def align(topk_ids, block, experts):
    """Token slots by expert, each expert padded to whole blocks with a slot that does not exist."""
    slots, owners = [], []
    flat = topk_ids.flatten().tolist()
    for e in range(experts):
        mine = [i for i, x in enumerate(flat) if x == e]
        mine += [len(flat)] * (-len(mine) % block)
        slots += mine
        owners += [e] * (len(mine) // block)
    to = {"dtype": torch.int32, "device": topk_ids.device}
    return torch.tensor(slots, **to), torch.tensor(owners, **to)


torch.manual_seed(2)
tokens, experts, top_k, n, k = 21, 5, 2, 48, 40
hidden = torch.randn(tokens, k, device="cuda")
w = torch.randn(experts, n, k, device="cuda")
routing = torch.softmax(torch.randn(tokens, experts, device="cuda"), -1)
topk_weights, topk_ids = routing.topk(top_k, dim=-1)
token_ids, expert_ids = align(topk_ids, 8, experts)
out = torch.zeros(tokens * top_k, n, device="cuda")
grid = (expert_ids.shape[0], ct.cdiv(n, 16), 1)
args = (hidden, w, out, topk_weights.flatten(), token_ids, expert_ids, tokens * top_k, n, k, 8, 16, 16, top_k, True)
ct.launch(torch.cuda.current_stream(), grid, fused_moe, args)
result = out.view(tokens, top_k, n).sum(1)
expected = torch.zeros(tokens, n, device="cuda")
for t in range(tokens):
    for weight, e in zip(topk_weights[t], topk_ids[t]):
        expected[t] += weight * (w[e] @ hidden[t])
torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)
print("moe: ok")
