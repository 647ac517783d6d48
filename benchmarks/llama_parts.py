"""The parts of a Llama layer on tile kernels beside PyTorch's operators: processor time of one thread, which other work
on the machine hardly changes.

    tilewright run --device cpu --replace benchmarks/llama_parts.py

Width 1024, 16 heads that share 4 of keys, float32: a prompt of 256 tokens, and one token after 272. The launches are
those of examples/models/llama.py.
"""

# pyright: basic, reportMissingImports=false

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["TILEWRIGHT_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "models"))

import llama
import torch
import torch.nn.functional as F
from torch import Tensor

HEADS, SHARED, HEAD, WIDTH, INNER, EPSILON = 16, 4, 64, 1024, 2816, 1e-5
ROUNDS, WARM, CALLS = 12, 5, 40
Side = Callable[[], object]


def half_turned(x: Tensor) -> Tensor:
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)


def parts(tokens: int, seen: int) -> dict[str, tuple[Side, Side]]:
    """The launch and the operators of each part, for ``tokens`` queries on ``seen`` keys."""

    def heads(count: int, length: int) -> Tensor:
        return torch.randn(1, length, count, HEAD).transpose(1, 2)

    q, k, v, new = heads(HEADS, tokens), heads(SHARED, seen), heads(SHARED, seen), heads(SHARED, tokens)
    x, weight = torch.randn(tokens, WIDTH), torch.randn(WIDTH)
    gate, up = torch.randn(tokens, INNER), torch.randn(tokens, INNER)
    cos, sin = torch.randn(1, tokens, HEAD), torch.randn(1, tokens, HEAD)
    scale, group = HEAD**-0.5, HEADS // SHARED
    out, mixed = torch.empty(1, tokens, HEADS, HEAD), torch.empty_like(gate)
    rows, q_out, k_out = torch.empty_like(x), torch.empty_like(q), torch.empty_like(new)

    def launched(grid: tuple[int, ...], kernel: object, *arguments: object) -> Side:
        return lambda: llama.launch(grid, kernel, arguments)

    def norm() -> Tensor:
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON))

    def rotary() -> tuple[Tensor, Tensor]:
        c, s = cos[:, None], sin[:, None]
        return q * c + half_turned(q) * s, new * c + half_turned(new) * s

    def attention() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1, scale=scale, enable_gqa=True)

    attend = (
        launched((SHARED, 1), llama.attend_one, q, k, v, out, scale, HEAD, llama.TILE_K, group)
        if tokens == 1
        else launched((-(-tokens // llama.TILE_Q), HEADS, 1), llama.attend, q, k, v, out, scale, HEAD, 64, 64, group)
    )
    return {
        "RMS norm": (launched((tokens,), llama.normalize, x, weight, rows, EPSILON, WIDTH), norm),
        "rotary": (launched((tokens, HEADS, 1), llama.rotate, q, new, cos, sin, q_out, k_out, HEAD // 2), rotary),
        "attention": (attend, attention),
        "gated MLP": (launched((tokens, 3), llama.gate_and_multiply, gate, up, mixed, 1024), lambda: F.silu(gate) * up),
    }


def medians(sides: tuple[Side, Side]) -> list[float]:
    """Seconds of processor time of each side, in turns."""
    found: list[list[float]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for times, side in zip(found, sides, strict=True):
            for _ in range(WARM):
                side()
            for _ in range(CALLS):
                before = time.thread_time()
                side()
                times.append(time.thread_time() - before)
    return [sorted(times)[len(times) // 2] for times in found]


def main() -> None:
    torch.set_num_threads(1)
    print("| part | tile kernels, us | PyTorch, us |\n|---|--:|--:|")
    with torch.inference_mode():
        for tokens, seen in ((256, 256), (1, 272)):
            for name, sides in parts(tokens, seen).items():
                ours, theirs = (seconds * 1e6 for seconds in medians(sides))
                print(f"| {name}, {tokens} token{'s' * (tokens > 1)} | {ours:.1f} | {theirs:.1f} |", flush=True)


if __name__ == "__main__":
    main()
