"""AdamW over a list of parameters in one launch, dropout with a counter-based generator, and a sum of squares."""

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def adamw(
    params,
    grads,
    first,
    second,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    step: int,
    TILE: ConstInt,
):
    which = ct.bid(1)
    p, g = params[which], grads[which]
    i = ct.bid(0)
    if i * TILE >= p.shape[0]:
        return
    w, d = ct.load(p, i, TILE), ct.load(g, i, TILE)
    m = beta1 * ct.load(first[which], i, TILE) + (1 - beta1) * d
    v = beta2 * ct.load(second[which], i, TILE) + (1 - beta2) * d * d
    t = step.astype(ct.float32)
    m_hat, v_hat = m / (1 - ct.pow(beta1, t)), v / (1 - ct.pow(beta2, t))
    w = w - lr * (m_hat / (ct.sqrt(v_hat) + eps) + decay * w)
    ct.store(p, i, w)
    ct.store(first[which], i, m)
    ct.store(second[which], i, v)


def random_bits(counter, seed):
    """A few rounds of mixing on uint32."""
    x = counter.astype(ct.uint32) * ct.uint32(0x9E3779B9) + seed
    for shift, factor in ct.static_iter(((16, 0x85EBCA6B), (13, 0xC2B2AE35))):
        x = x ^ (x >> shift)
        x = x * ct.uint32(factor)
    return x ^ (x >> 16)


@ct.kernel
def dropout(x, y, p: float, seed, TILE: ConstInt):
    offsets = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    uniform = (random_bits(offsets, seed.astype(ct.uint32)) >> 8).astype(ct.float32) / (1 << 24)
    values = ct.gather(x, offsets)
    ct.scatter(y, offsets, ct.where(uniform >= p, values / (1 - p), 0.0))


@ct.kernel
def square_sum(x, out, TILE: ConstInt):
    v = ct.load(x, ct.bid(0), TILE, padding_mode=ct.PaddingMode.ZERO)
    ct.atomic_add(out, (0,), ct.sum(v * v))


torch.manual_seed(8)
stream = torch.cuda.current_stream()
sizes = (100, 30, 257)
params = [torch.randn(n, device="cuda") for n in sizes]
expected = [torch.nn.Parameter(p.clone()) for p in params]
optimizer = torch.optim.AdamW(expected, lr=1e-2, weight_decay=0.1)
first, second = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params]
for step in range(1, 4):
    grads = [torch.randn_like(p) for p in params]
    for p, g in zip(expected, grads):
        p.grad = g.clone()
    optimizer.step()
    args = (params, grads, first, second, 1e-2, 0.9, 0.999, 1e-8, 0.1, step, 64)
    ct.launch(stream, (ct.cdiv(max(sizes), 64), len(sizes), 1), adamw, args)
for ours, theirs in zip(params, expected):
    torch.testing.assert_close(ours, theirs.detach(), atol=1e-5, rtol=1e-4)
x, y = torch.ones(5000, device="cuda"), torch.empty(5000, device="cuda")
ct.launch(stream, (ct.cdiv(5000, 256),), dropout, (x, y, 0.25, 1234, 256))
kept = (y > 0).float().mean().item()
assert abs(kept - 0.75) < 0.05 and torch.equal(y[y > 0].unique(), torch.tensor([1 / 0.75], device="cuda"))
total = torch.zeros(1, device="cuda")
ct.launch(stream, (20,), square_sum, (params[2], total, 16))
torch.testing.assert_close(total[0], params[2].square().sum())
print("optimizers: ok")
