"""Cross entropy of long rows by online log-sum-exp, with ignored labels; the gradient replaces the logits."""

import cuda.tile as ct
import torch
import torch.nn.functional as F

ConstInt = ct.Constant[int]
NEG_INF = float("-inf")


@ct.kernel(opt_level=3)
def cross_entropy(logits, labels, loss, grad_scale: float, IGNORE: ConstInt, VOCAB: ConstInt, TILE: ConstInt):
    row = ct.bid(0)
    label = ct.gather(labels, row)
    if label == IGNORE:
        ct.scatter(loss, row, 0.0)
        for j in range(ct.cdiv(VOCAB, TILE)):
            ct.store(logits, (row, j), ct.zeros((1, TILE), logits.dtype))
        return
    top = ct.float32(NEG_INF)
    total = ct.float32(0.0)
    for j in range(ct.cdiv(VOCAB, TILE)):
        x = ct.load(logits, (row, j), (1, TILE), padding_mode=ct.PaddingMode.NEG_INF)
        x = ct.astype(x, ct.float32)
        new = ct.maximum(top, ct.max(x))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(x - new))
        top = new
    at_label = ct.gather(logits, (row, label)).astype(ct.float32)
    ct.scatter(loss, row, top + ct.log(total) - at_label)
    for j in range(ct.cdiv(VOCAB, TILE)):
        x = ct.load(logits, (row, j), (1, TILE), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        column = j * TILE + ct.arange(TILE, dtype=ct.int32)[None, :]
        p = ct.exp(x - top) / total
        p = ct.where(column == label, p - 1, p) * grad_scale
        ct.store(logits, (row, j), p.astype(logits.dtype))


torch.manual_seed(4)
rows, vocabulary = 9, 1000
logits = torch.randn(rows, vocabulary, device="cuda")
labels = torch.randint(0, vocabulary, (rows,), device="cuda")
labels[3] = -100
x = logits.clone().requires_grad_()
expected = F.cross_entropy(x, labels, reduction="none", ignore_index=-100)
expected.sum().backward()
loss = torch.empty(rows, device="cuda")
ct.launch(torch.cuda.current_stream(), (rows,), cross_entropy, (logits, labels, loss, 1.0, -100, vocabulary, 256))
torch.testing.assert_close(loss, expected.detach(), atol=1e-4, rtol=1e-5)
torch.testing.assert_close(logits, x.grad, atol=1e-5, rtol=1e-4)
print("cross entropy: ok")
