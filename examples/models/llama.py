"""A Llama of Hugging Face's transformers, with its attention, norms, rotary embedding and MLP on tile kernels.

    tilewright run --device cpu --replace examples/models/llama.py --layers 6 --width 1024

The weights are random, so that nothing is downloaded. Prints how far the logits are from PyTorch's, and the time of
both for a prompt and for each new token. A program for cuda.tile and CUDA tensors: on a GPU it runs there.
"""

# pyright: basic, reportMissingImports=false

import argparse
import contextlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import cuda.tile as ct
import torch
from torch import Tensor
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

TILE_Q, TILE_K = 64, 64


def power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def launch(grid: tuple[int, ...], kernel: ct.kernel, arguments: tuple[object, ...]) -> None:
    ct.launch(torch.cuda.current_stream(), grid, kernel, arguments)


# -- norms


@ct.kernel
def normalize(x: ct.Array, weight: ct.Array, out: ct.Array, epsilon: float, TILE: ct.Constant[int]) -> None:
    row, width = ct.bid(0), x.shape[1]
    values = ct.load(x, (row, 0), (1, TILE), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(values * values) / width + epsilon)
    scaled = (values * scale).astype(x.dtype)
    ct.store(out, (row, 0), scaled * ct.load(weight, (0,), (TILE,), padding_mode=ct.PaddingMode.ZERO)[None, :])


def rms_norm(module: torch.nn.Module, x: Tensor) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty_like(rows)
    arguments = (rows, module.weight, out, module.variance_epsilon, power_of_two(x.shape[-1]))
    launch((rows.shape[0],), normalize, arguments)
    return out.view(x.shape)


# -- gated MLP


@ct.kernel
def gate_and_multiply(gate: ct.Array, up: ct.Array, out: ct.Array, TILE: ct.Constant[int]) -> None:
    row, part = ct.bid(0), ct.bid(1)
    x = ct.load(gate, (row, part), (1, TILE), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    silu = (x / (1 + ct.exp(-x))).astype(gate.dtype)
    ct.store(out, (row, part), silu * ct.load(up, (row, part), (1, TILE), padding_mode=ct.PaddingMode.ZERO))


def mlp(module: torch.nn.Module, x: Tensor) -> Tensor:
    gate = module.gate_proj(x).reshape(-1, module.intermediate_size)
    up = module.up_proj(x).reshape(gate.shape)
    tile = min(1024, power_of_two(gate.shape[1]))
    launch((gate.shape[0], ct.cdiv(gate.shape[1], tile)), gate_and_multiply, (gate, up, gate, tile))
    return module.down_proj(gate.view(*x.shape[:-1], -1))


# -- rotary embedding


def rotate_row(
    x: ct.Array, cos: ct.Array, sin: ct.Array, out: ct.Array, batch: int, head: int, position: int, half: int
) -> None:
    """The halves of a row are the coordinates that turn."""
    angles = batch % cos.shape[0]
    for side in ct.static_iter(range(2)):
        a = ct.load(x, (batch, head, position, side), (1, 1, 1, half))
        b = ct.load(x, (batch, head, position, 1 - side), (1, 1, 1, half))
        c = ct.load(cos, (angles, position, side), (1, 1, half)).reshape((1, 1, 1, half))
        s = ct.load(sin, (angles, position, side), (1, 1, half)).reshape((1, 1, 1, half))
        ct.store(out, (batch, head, position, side), a * c - b * s if side == 0 else a * c + b * s)


@ct.kernel
def rotate(
    q: ct.Array,
    k: ct.Array,
    cos: ct.Array,
    sin: ct.Array,
    q_out: ct.Array,
    k_out: ct.Array,
    HALF: ct.Constant[int],
) -> None:
    """Queries and keys of one position and head; there are fewer heads of keys."""
    position, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    rotate_row(q, cos, sin, q_out, batch, head, position, HALF)
    if head < k.shape[1]:
        rotate_row(k, cos, sin, k_out, batch, head, position, HALF)


def rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
    q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    k_out = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    batch, heads, length, width = q.shape
    launch((length, heads, batch), rotate, (q, k, cos, sin, q_out, k_out, width // 2))
    return q_out, k_out


# -- attention


@ct.kernel
def attend(
    q: ct.Array,
    k: ct.Array,
    v: ct.Array,
    out: ct.Array,
    scale: float,
    D: ct.Constant[int],
    TQ: ct.Constant[int],
    TK: ct.Constant[int],
    GROUP: ct.Constant[int],
) -> None:
    """A tile of queries of one head; the last query sees all keys, and GROUP heads share their keys."""
    block, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    length, shift = k.shape[2], k.shape[2] - q.shape[2]
    queries = ct.load(q, (batch, head, block, 0), (1, 1, TQ, D), padding_mode=ct.PaddingMode.ZERO).reshape((TQ, D))
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32) + shift
    top = ct.full((TQ, 1), -math.inf, ct.float32)  # the largest score so far, and the sum of exp(score - top)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    for j in range(ct.cdiv(min((block + 1) * TQ + shift, length), TK)):
        keys = ct.load(
            k, (batch, head // GROUP, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2), padding_mode=ct.PaddingMode.ZERO
        ).reshape((D, TK))
        values = ct.load(v, (batch, head // GROUP, j, 0), (1, 1, TK, D), padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32)) * scale
        columns = j * TK + ct.arange(TK, dtype=ct.int32)
        scores = ct.where(columns[None, :] <= rows[:, None], scores, -math.inf)
        new_top = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp(scores - new_top)
        correction = ct.exp(top - new_top)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        result = ct.mma(weights.astype(v.dtype), values.reshape((TK, D)), result * correction)
        top = new_top
    ct.store(out, (batch, block, head, 0), (result / total).astype(out.dtype).reshape((1, TQ, 1, D)))


@ct.kernel
def attend_one(
    q: ct.Array,
    k: ct.Array,
    v: ct.Array,
    out: ct.Array,
    scale: float,
    D: ct.Constant[int],
    TK: ct.Constant[int],
    GROUP: ct.Constant[int],
) -> None:
    """One query of each of the GROUP heads that share their keys: each key is read once."""
    group, batch = ct.bid(0), ct.bid(1)
    queries = ct.load(q, (batch, group, 0, 0), (1, GROUP, 1, D)).reshape((GROUP, D))
    top = ct.full((GROUP, 1), -math.inf, ct.float32)
    total = ct.zeros((GROUP, 1), ct.float32)
    result = ct.zeros((GROUP, D), ct.float32)
    for j in range(ct.cdiv(k.shape[2], TK)):
        keys = ct.load(k, (batch, group, 0, j), (1, 1, D, TK), order=(0, 1, 3, 2), padding_mode=ct.PaddingMode.ZERO)
        values = ct.load(v, (batch, group, j, 0), (1, 1, TK, D), padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(queries, keys.reshape((D, TK)), ct.zeros((GROUP, TK), ct.float32)) * scale
        seen = j * TK + ct.arange(TK, dtype=ct.int32) < k.shape[2]
        scores = ct.where(seen[None, :], scores, -math.inf)
        new_top = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp(scores - new_top)
        correction = ct.exp(top - new_top)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        result = ct.mma(weights.astype(v.dtype), values.reshape((TK, D)), result * correction)
        top = new_top
    ct.store(out, (batch, 0, group, 0), (result / total).astype(out.dtype).reshape((1, 1, GROUP, D)))


def attention(
    module: torch.nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float, **options: object
) -> tuple[Tensor, None]:
    batch, heads, length, width = q.shape
    group = heads // k.shape[1]
    out = torch.empty((batch, length, heads, width), dtype=q.dtype, device=q.device)
    if length == 1:
        launch((k.shape[1], batch), attend_one, (q, k, v, out, scaling, width, TILE_K, group))
    else:
        grid = ct.cdiv(length, TILE_Q), heads, batch
        launch(grid, attend, (q, k, v, out, scaling, width, TILE_Q, TILE_K, group))
    return out, None


# -- the model


@contextmanager
def tile_kernels(model: LlamaForCausalLM) -> Iterator[None]:
    """Within this context the model runs on the kernels above."""
    AttentionInterface.register("tile", attention)
    usual = model.config._attn_implementation
    with (
        mock.patch.object(modeling_llama.LlamaRMSNorm, "forward", rms_norm),
        mock.patch.object(modeling_llama.LlamaMLP, "forward", mlp),
        mock.patch.object(modeling_llama, "apply_rotary_pos_emb", rotary),
    ):
        model.set_attn_implementation("tile")
        try:
            yield
        finally:
            model.set_attn_implementation(usual)


def random_llama(layers: int, width: int, dtype: torch.dtype) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=width * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        num_key_value_heads=max(1, width // 256),
        vocab_size=4096,
        max_position_embeddings=4096,
    )
    return LlamaForCausalLM(config).to(dtype).cuda().eval()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="A Llama with random weights on tile kernels, and on PyTorch.")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=256, help="tokens")
    parser.add_argument("--new", type=int, default=16, help="tokens that are generated")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    model = random_llama(given.layers, given.width, getattr(torch, given.dtype))
    tokens = torch.randint(0, model.config.vocab_size, (1, given.prompt), device="cuda")

    def prefill() -> Tensor:
        return model(tokens, use_cache=False).logits

    def generate(new: int = given.new) -> Tensor:
        return model.generate(tokens, max_new_tokens=new, min_new_tokens=new, do_sample=False)

    sides = {"torch": contextlib.nullcontext, "tiles": lambda: tile_kernels(model)}
    found: dict[str, tuple[Tensor, Tensor]] = {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    with torch.inference_mode():
        for name, side in sides.items():
            with side():
                found[name] = prefill(), generate()
        for _ in range(given.runs):  # in turns: the speed of a machine changes
            for name, side in sides.items():
                with side():
                    first, all_of_them = seconds(lambda: generate(1)), seconds(generate)
                    times[name].append((seconds(prefill), (all_of_them - first) / max(1, given.new - 1)))
    expected, logits = (found[name][0].float() for name in ("torch", "tiles"))
    error = ((logits - expected).abs().max() / expected.abs().max()).item()
    agree = (found["torch"][1] == found["tiles"][1]).float().mean().item()
    print(f"largest difference of logits: {error:.1e} of the largest; {agree:.0%} of the tokens agree")
    for name, measured in times.items():
        prompt, token = map(statistics.median, zip(*measured))
        print(f"{name}: prompt of {given.prompt} tokens {prompt * 1e3:.1f} ms, each new token {token * 1e3:.2f} ms")
    return int(error > (1e-4 if given.dtype == "float32" else 3e-2))


if __name__ == "__main__":
    sys.exit(main())
