"""A training step of a GPT-2-small with tile kernels, beside the same model under torch.compile, in turns.

    python benchmarks/gpt2.py --batch 16 --tune 16                        # on a GPU
    python benchmarks/gpt2.py --layers 1 --batch 1 --vocabulary 512       # is it right, on a CPU?

Attention, norms with the sums before them, the MLP and the loss are tile kernels on one side and PyTorch's operators on
the other; the rest is the same: products of attention and of the weights' gradients by cuBLAS, embedding, fused AdamW.
Both sides are compiled by torch.compile, start from the same weights, and see the same batches. Their losses are
compared. Parameters and activations are bfloat16.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import gpt2_kernels as tile
import torch
import torch.nn.functional as F
from torch import nn

import tilewright as ct

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
        return self.finish(x, y, targets)

    def finish(self, x: Any, y: Any, targets: Any) -> Any:
        """The loss of the last norm's logits."""
        rows = added(x, y, self.norm_weight, self.norm_bias, self.tiles)[1]
        if self.tiles:
            return tile.LinearLoss.apply(rows, self.tokens, targets.flatten()).mean()
        return F.cross_entropy((rows @ self.tokens.T).float(), targets.flatten())


def stepper(args: argparse.Namespace, tiles: bool, device: str) -> Callable[[Any, Any], Any]:
    torch.manual_seed(0)
    model = Model(args, tiles).to(device, torch.bfloat16)
    gpu = device == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu, capturable=gpu)
    # On both sides the blocks are compiled, which takes as long as one of them, and what comes after them.
    how: dict[str, Any] = {"fullgraph": True, "backend": "inductor" if gpu else "aot_eager"}
    for block in model.blocks:
        block.compile(**how)
    model.finish = torch.compile(model.finish, **how)  # type: ignore[method-assign]

    def step(tokens: Any, targets: Any) -> Any:
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def graphed(step: Callable[[Any, Any], Any], tokens: Any, targets: Any) -> Callable[[Any, Any], Any]:
    """The whole step as one CUDA graph, made by taking four steps with these."""
    given = tokens.clone(), targets.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(*given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(*given)

    def replay(tokens: Any, targets: Any) -> Any:
        for held, new in zip(given, (tokens, targets)):
            held.copy_(new)
        graph.replay()
        return loss

    return replay


CONFIGS: dict[str, list[tuple[tuple[int, ...], int, int]]] = {  # sizes, warps, stages
    "attention": [((128, 64), 8, 2), ((128, 64), 4, 2), ((64, 64), 4, 2), ((128, 128), 8, 2), ((64, 128), 4, 2)],
    "queries": [((128, 64), 8, 2), ((64, 64), 4, 2), ((64, 64), 4, 3), ((128, 64), 4, 2), ((64, 128), 4, 2)],
    "keys": [((64, 128), 8, 2), ((64, 64), 4, 2), ((64, 64), 4, 3), ((64, 128), 4, 2), ((32, 128), 4, 2)],
    "norm": [((r,), w, 1) for r, w in ((1, 1), (1, 2), (1, 4), (2, 4), (4, 4), (4, 8))],
    "norm back": [((r,), w, 1) for r, w in ((1, 2), (1, 4), (2, 4), (4, 4), (4, 8), (8, 8))],
    "loss": [
        ((c, b), w, 1)
        for c, w, b in (
            (8192, 32, 264),
            (8192, 32, 132),
            (4096, 32, 264),
            (16384, 32, 132),
            (4096, 16, 396),
            (2048, 8, 528),
        )
    ],
}
_LARGE = [((128, 256, 64), 8, 3), ((128, 256, 64), 8, 4), ((256, 128, 64), 8, 3)]
_SMALL = [((128, 128, 64), warps, stages) for warps in (4, 8) for stages in (3, 4)]  # two on an SM with three stages
CONFIGS |= {name: [*_LARGE, *_SMALL] for name in ("up", "down", "back")}


def works(args: argparse.Namespace) -> dict[str, tuple[Any, Callable[[Any], tuple[int, ...]], tuple[Any, ...]]]:
    """The kernel of each launch, its grid for sizes of tiles, and its arguments without them."""
    rows, width, heads, bf16 = args.batch * args.length, args.width, args.heads, torch.bfloat16
    d = width // heads
    normal = functools.partial(torch.randn, device="cuda", dtype=bf16)
    single = functools.partial(torch.randn, device="cuda")
    qkv, grad = normal(args.batch, args.length, 3, heads, d), normal(args.batch, args.length, heads, d)
    lse, delta = single(args.batch, heads, args.length) + 20, single(args.batch, heads, args.length)
    scale, factor, blocks = tile.LOG2_E / d**0.5, 1 / d**0.5, args.batch * heads
    back = lse, delta, grad, torch.empty_like(qkv), scale, factor, heads, d
    x, y, weight, bias = normal(rows, width), normal(rows, width), normal(width), normal(width)
    mean, inverse, parts = single(rows), single(rows), [single(tile.PARTS, width) for _ in range(2)]
    norm = x, y, weight, bias, torch.empty_like(x), torch.empty_like(x), mean, inverse, tile.padded(width)
    norm_back = x, weight, mean, inverse, y, normal(rows, width), torch.empty_like(x), *parts, tile.padded(width)
    up, down, wide = normal(width, 4 * width), normal(4 * width, width), normal(4 * width)
    pre, act, sums = normal(rows, 4 * width), normal(rows, 4 * width), single(-(-rows // 64), 4 * width)
    logits, targets = normal(rows, args.vocabulary), torch.randint(args.vocabulary, (rows,), device="cuda")

    def tiles(out: Any) -> Callable[[Any], tuple[int, ...]]:
        return lambda s: (-(-out.shape[0] // s[0]) * -(-out.shape[1] // s[1]),)

    return {
        "attention": (
            tile.attention_kernel,
            lambda s: (args.length // s[0], blocks),
            (qkv, grad, lse, scale, heads, d),
        ),
        "queries": (tile.attention_queries_kernel, lambda s: (args.length // s[0], blocks), (qkv, grad, *back)),
        "keys": (tile.attention_keys_kernel, lambda s: (args.length // s[1], blocks), (qkv, *back)),
        "norm": (tile.add_norm_kernel, lambda s: (-(-rows // s[0]),), norm),
        "norm back": (tile.add_norm_gradient_kernel, lambda s: (tile.PARTS,), norm_back),
        "up": (tile.up_kernel, tiles(pre), (x, up, wide, pre, act)),
        "down": (tile.down_kernel, tiles(x), (act, down, bias, y)),
        "back": (tile.back_kernel, tiles(pre), (x, down, pre, sums, act)),
        "loss": (tile.loss_kernel, lambda s: (s[1],), (logits, targets, mean, torch.empty_like(logits))),
    }


def tune(args: argparse.Namespace) -> None:
    """Choose sizes, warps and stages of every launch by measuring; processes compile ahead."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.tune, mp_context=spawn) as executor:
        for name, (kernel, grid, given) in works(args).items():
            if name not in (args.kernels or CONFIGS):
                continue
            result = ct.tune.exhaustive_search(
                CONFIGS[name],
                None,
                lambda c, grid=grid: grid(c[0]),  # type: ignore[misc]
                lambda c, kernel=kernel: kernel.replace_options("triton", num_warps=c[1], num_stages=c[2]),  # type: ignore[misc]
                lambda c, given=given: (*given, *c[0]),  # type: ignore[misc]
                executor=executor,
                quiet=True,
            )
            best = result.best
            shown = ", ".join(f"{m.config}: {m.mean_us:.0f}" for m in result.successes)
            failed = "".join(f"; {c} {kind.__name__}: {text[:60]}" for c, kind, text in result.failures)
            print(f"{name}: {shown}{failed}", flush=True)
            tile.choose(name, best.config[0], {"num_warps": best.config[1], "num_stages": best.config[2]})


def profile(steps: dict[str, Callable[[Any, Any], Any]], tokens: Any, targets: Any) -> None:
    """The kernels that take the most time in a step of each side."""
    for name, step in steps.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
            step(tokens, targets)
            torch.cuda.synchronize()
        rows = sorted(found.key_averages(), key=lambda e: -e.self_device_time_total)
        print(f"{name}: {sum(e.self_device_time_total for e in rows) / 1e3:.2f} ms on the GPU")
        for e in rows[:16]:
            print(f"  {e.self_device_time_total / 1e3:8.2f} ms {e.count:5} x {e.key[:90]}")


def parts(args: argparse.Namespace) -> None:
    """The microseconds of each operator, forward and backward, beside those of PyTorch's, compiled."""
    rows, width, bf16 = args.batch * args.length, args.width, torch.bfloat16
    normal = functools.partial(torch.randn, device="cuda", dtype=bf16)
    shape = args.batch, args.length, 3, args.heads, width // args.heads
    x, y, qkv = normal(rows, width), normal(rows, width), normal(*shape)
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
        "logits, loss": (
            lambda x, w: tile.LinearLoss.apply(x, w, targets).mean(),
            lambda x, w: F.cross_entropy((x @ w.T).float(), targets),
            (x, normal(args.vocabulary, width) * 0.02),
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
    for _ in range(30):  # until repeated launches are made by machine code
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
    parser.add_argument("--tune", type=int, default=0, metavar="PROCESSES", help="choose the sizes of tiles first")
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="those to choose for, of: " + ", ".join(CONFIGS))
    parser.add_argument("--graph", action="store_true", help="both sides as CUDA graphs of whole steps, too")
    parser.add_argument("--profile", action="store_true", help="what takes the time of a step")
    parser.add_argument("--parts", action="store_true", help="the time of each operator, too")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.tune:
        tune(args)
    if args.parts:
        parts(args)
    if not args.steps:
        return
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {args.layers} layers, batch {args.batch} x {args.length}")
    sides = {"tile kernels": stepper(args, True, device), "torch.compile": stepper(args, False, device)}
    data = batches(args, device)
    in_turns(sides, data, "")
    if args.graph:
        graphs = {side: graphed(step, *data[0]) for side, step in sides.items()}
        in_turns(graphs, data, ", one CUDA graph")
    if args.profile:
        profile(sides, *data[0])


def batches(args: argparse.Namespace, device: str) -> list[tuple[Any, Any]]:
    """Tokens and targets of each step: sequences that count up in sevens, from anywhere."""
    random = torch.Generator().manual_seed(1)
    found = []
    for _ in range(args.steps):
        start = torch.randint(args.vocabulary, (args.batch, 1), generator=random)
        sequence = (start + torch.arange(args.length + 1) * 7) % args.vocabulary
        found.append((sequence[:, :-1].contiguous().to(device), sequence[:, 1:].contiguous().to(device)))
    return found


def in_turns(sides: dict[str, Callable[[Any, Any], Any]], data: list[tuple[Any, Any]], how: str) -> None:
    """Times and losses of both sides, which take their steps in turns. SystemExit where the losses differ."""
    losses: dict[str, list[Any]] = {name: [] for name in sides}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    sync = torch.cuda.synchronize if data[0][0].is_cuda else lambda: None
    for given in data:
        for name, step in sides.items():
            sync()
            start = time.perf_counter()
            loss = step(*given)
            sync()
            seconds[name].append(time.perf_counter() - start)
            losses[name].append(loss.item())
    print("| side | ms per step | first loss | last loss |\n|---|---:|---:|---:|")
    for name in sides:
        median = statistics.median(seconds[name][min(4, len(data) // 2) :])
        print(f"| {name}{how} | {median * 1e3:.2f} | {losses[name][0]:.4f} | {losses[name][-1]:.4f} |", flush=True)
    worst = max(abs(a - b) / abs(b) for a, b in zip(*losses.values()))
    print(f"largest relative difference of a loss: {worst:.1e} (at most {TOLERANCE})", flush=True)
    if not worst <= TOLERANCE:
        raise SystemExit("the losses differ")


if __name__ == "__main__":
    main()
