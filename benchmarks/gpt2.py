"""A training step of a GPT-2-small with tile kernels, beside the same model under torch.compile, in turns.

    python benchmarks/gpt2.py --batch 16                                  # on a GPU
    python benchmarks/gpt2.py --layers 1 --batch 1 --vocabulary 512       # is it right, on a CPU?

Attention, norms with the sums before them, the MLP and the loss are tile kernels on one side and PyTorch's operators on
the other; the rest is the same: products of attention and of the weights' gradients by cuBLAS, embedding, fused AdamW.
Both sides are compiled by torch.compile, start from the same weights, and see the same batches. Their losses are
compared. Parameters and activations are bfloat16.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import gpt2_kernels as tile
import torch
import torch.nn.functional as F
from torch import nn

TOLERANCE = 2e-2  # largest relative difference of a loss: bfloat16, whose products are rounded in other places


class Block(nn.Module):
    def __init__(self, width: int, heads: int, tiles: bool) -> None:
        super().__init__()
        self.heads, self.tiles = heads, tiles
        for name in ("norm1", "norm2"):
            self.register_parameter(f"{name}_weight", nn.Parameter(torch.ones(width)))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(width)))
        shapes = {
            "qkv": (width, 3 * width),
            "mix": (width, width),
            "up": (width, 4 * width),
            "down": (4 * width, width),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape) * 0.02))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(shape[1])))

    def forward(self, x: Any, y: Any, length: int) -> tuple[Any, Any]:
        """The residual stream is ``x + y``, which the next norm adds."""
        x, rows = added(x, y, self.norm1_weight, self.norm1_bias, self.tiles)
        qkv = torch.addmm(self.qkv_bias, rows, self.qkv).view(-1, length, 3, self.heads, x.shape[1] // self.heads)
        if self.tiles:
            mixed = tile.attention(qkv)[0]
        else:
            q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        mixed = torch.addmm(self.mix_bias, mixed.reshape(x.shape), self.mix)
        x, rows = added(x, mixed, self.norm2_weight, self.norm2_bias, self.tiles)
        if self.tiles:
            return x, tile.mlp(rows, self.up, self.up_bias, self.down, self.down_bias)[0]
        hidden = F.gelu(torch.addmm(self.up_bias, rows, self.up), approximate="tanh")
        return x, torch.addmm(self.down_bias, hidden, self.down)


def added(x: Any, y: Any, weight: Any, bias: Any, tiles: bool) -> tuple[Any, Any]:
    """The sum, and its norm."""
    if tiles:
        return tile.add_norm(x, y, weight, bias)[:2]
    total = x + y
    return total, F.layer_norm(total, (x.shape[1],), weight, bias, 1e-5)


class Model(nn.Module):
    def __init__(self, args: argparse.Namespace, tiles: bool) -> None:
        super().__init__()
        self.tiles = tiles
        self.tokens = nn.Parameter(torch.randn(args.vocabulary, args.width) * 0.02)
        self.places = nn.Parameter(torch.randn(args.length, args.width) * 0.02)
        self.blocks = nn.ModuleList(Block(args.width, args.heads, tiles) for _ in range(args.layers))
        self.norm_weight, self.norm_bias = nn.Parameter(torch.ones(args.width)), nn.Parameter(torch.zeros(args.width))

    def forward(self, tokens: Any, targets: Any) -> Any:
        batch, length = tokens.shape
        x = F.embedding(tokens.flatten(), self.tokens)
        y = self.places[:length].repeat(batch, 1)
        for block in self.blocks:
            x, y = block(x, y, length)
        rows = added(x, y, self.norm_weight, self.norm_bias, self.tiles)[1]
        logits = rows @ self.tokens.T
        if self.tiles:
            return tile.cross_entropy(logits, targets.flatten())[0].mean()
        return F.cross_entropy(logits.float(), targets.flatten())


def stepper(args: argparse.Namespace, tiles: bool, device: str) -> Callable[[Any, Any], Any]:
    torch.manual_seed(0)
    model = Model(args, tiles).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    compiled = torch.compile(model, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")

    def step(tokens: Any, targets: Any) -> Any:
        loss = compiled(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def parts(args: argparse.Namespace) -> None:
    """The microseconds of each operator, forward and backward, beside those of PyTorch's, compiled."""
    rows, width, bf16 = args.batch * args.length, args.width, torch.bfloat16
    normal = functools.partial(torch.randn, device="cuda", dtype=bf16)
    shape = args.batch, args.length, 3, args.heads, width // args.heads
    x, y, qkv, logits = normal(rows, width), normal(rows, width), normal(*shape), normal(rows, args.vocabulary)
    w, b, targets = normal(width), normal(width), torch.randint(args.vocabulary, (rows,), device="cuda")
    up, down, wide = normal(width, 4 * width) * 0.02, normal(4 * width, width) * 0.02, normal(4 * width)

    def attend(qkv: Any) -> Any:
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    def own_mlp(x: Any, up: Any, wide: Any, down: Any, b: Any) -> Any:
        return torch.addmm(b, F.gelu(torch.addmm(wide, x, up), approximate="tanh"), down)

    sides: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
        "attention": (lambda q: tile.attention(q)[0], attend, (qkv,)),
        "add, norm": (lambda *a: sum(added(*a, True)), lambda *a: sum(added(*a, False)), (x, y, w, b)),
        "MLP": (lambda *a: tile.mlp(*a)[0], own_mlp, (x, up, wide, down, b)),
        "loss": (
            lambda z: tile.cross_entropy(z, targets)[0].mean(), lambda z: F.cross_entropy(z.float(), targets), (logits,)
        ),
    }  # fmt: skip
    print("| part | tile kernels: forward, backward (us) | torch.compile |\n|---|---:|---:|")
    for name, (ours, theirs, given) in sides.items():
        shown = []
        for function in (ours, theirs):
            compiled = torch.compile(function, fullgraph=True)
            leaves = [a.detach().requires_grad_() for a in given]
            out = compiled(*leaves)
            grad = torch.randn_like(out)
            forward = microseconds(lambda f=compiled, a=leaves: f(*a))  # type: ignore[misc]
            again = microseconds(
                lambda o=out, a=leaves, g=grad: torch.autograd.grad(o, a, g, retain_graph=True)  # type: ignore[misc]
            )
            shown.append(f"{forward:.0f}, {again:.0f}")
        print(f"| {name} | {' | '.join(shown)} |")


def microseconds(run: Callable[[], Any], calls: int = 10) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        run()
    torch.cuda._sleep(2_000_000)  # so that the calls are queued when the first one begins
    start.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"layers": 12, "width": 768, "heads": 12, "length": 1024, "vocabulary": 50304, "batch": 16, "steps": 24}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--parts", action="store_true", help="the time of each operator, too")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    if args.parts:
        parts(args)
    sides = {"tile kernels": stepper(args, True, device), "torch.compile": stepper(args, False, device)}
    losses: dict[str, list[Any]] = {name: [] for name in sides}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    random = torch.Generator().manual_seed(1)
    for _ in range(args.steps):
        start_of = torch.randint(args.vocabulary, (args.batch, 1), generator=random)
        sequence = (start_of + torch.arange(args.length + 1) * 7) % args.vocabulary
        tokens, targets = (t.to(device).contiguous() for t in (sequence[:, :-1], sequence[:, 1:]))
        for name, step in sides.items():
            sync()
            start = time.perf_counter()
            loss = step(tokens, targets)
            sync()
            seconds[name].append(time.perf_counter() - start)
            losses[name].append(loss.item())
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {args.layers} layers, batch {args.batch} x {args.length}")
    print("| side | ms per step | first loss | last loss |\n|---|---:|---:|---:|")
    for name in sides:
        median = statistics.median(seconds[name][min(4, args.steps // 2) :])
        print(f"| {name} | {median * 1e3:.2f} | {losses[name][0]:.4f} | {losses[name][-1]:.4f} |")
    worst = max(abs(a - b) / abs(b) for a, b in zip(*losses.values()))
    print(f"largest relative difference of a loss: {worst:.1e} (at most {TOLERANCE})")
    if not worst <= TOLERANCE:
        raise SystemExit("the losses differ")


if __name__ == "__main__":
    main()
