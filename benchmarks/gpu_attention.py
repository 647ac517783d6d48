"""Attention in all its forms on a GPU, beside the original implementation and cuDNN through PyTorch, in one process.

    python benchmarks/gpu_attention.py [--rows GROUP ...] [--only TEXT ...] [--sides NAME ...] [--no-options] [--each]

As ``gpu.py``, whose sides and measuring these have: the gpu backend gets sizes of tiles alone, the original also hints.
The kernels are in ``gpu_attention_kernels.py``. What several kernels compute, such as parts of keys and what combines
them, is one row, whose work is that of the whole.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from gpu import LOG2_E, Row, Side, Tile, cdiv, cudnn, main

bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
INF = math.inf
Tiles = tuple[tuple[int, ...], ...]
_USUAL: Tiles = ((128, 128), (128, 64), (64, 128), (64, 64))
_WIDE: Tiles = ((128, 64), (64, 64), (128, 32))
_HINTS: tuple[dict[str, Any], ...] = ({}, {"occupancy": 2})


@dataclass(frozen=True)
class Form:
    """One form of attention, of ``batch`` times ``heads`` of queries of ``length``, of which ``group`` share those of
    keys."""

    name: str
    width: int = 128
    causal: bool = False
    dtype: torch.dtype = bf16
    cap: float = 0
    window: int = 0
    group: int = 1
    batch: int = 4
    heads: int = 32
    length: int = 4096
    tiles: Tiles = _USUAL

    @property
    def pairs(self) -> int:
        """Of queries and keys, of one head."""
        if self.window:
            return sum(min(i + 1, self.window) for i in range(self.length))
        return self.length**2 // (2 if self.causal else 1)

    @property
    def products(self) -> float:
        """TFLOP of one product of all heads."""
        return 2 * self.batch * self.heads * self.pairs * self.width / 1e12

    def made(self, heads: int) -> torch.Tensor:
        return normal(self.batch, heads, self.length, self.width, dtype=self.dtype)

    def expected(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Of one head."""
        scores = q.float() @ k.float().T / math.sqrt(self.width)
        if self.cap:
            scores = torch.tanh(scores / self.cap) * self.cap
        if self.causal:
            ahead = torch.arange(self.length, device=q.device)
            ahead = ahead[:, None] - ahead[None, :]
            seen = (ahead >= 0) & ((ahead < self.window) if self.window else True)
            scores = scores.masked_fill(~seen, -INF)
        return torch.softmax(scores, -1) @ v.float()


def normal(*shape: int, dtype: torch.dtype = bf16, scale: float = 1) -> torch.Tensor:
    made = torch.randn(*shape, device="cuda", dtype=dtype if dtype.itemsize > 1 else f32)
    return made.mul_(scale).to(dtype)


def configs(t: Tile, sizes: Tiles) -> list[Any]:
    """Sizes of tiles and the options of a side."""
    return [(size, o) for size, o in itertools.product(sizes, t.options([{}], list(_HINTS)))]


def last_head(found: torch.Tensor) -> torch.Tensor:
    return found[0, -1]


# -- forward


def forward_row(form: Form, tiles: list[Tile]) -> Row:
    q, k, v = form.made(form.heads), *(form.made(form.heads // form.group) for _ in range(2))
    out = torch.empty_like(q, dtype=bf16 if form.dtype.itemsize == 1 else form.dtype)
    lse = torch.empty(q.shape[:3], device="cuda")
    scale = 1 / math.sqrt(form.width)
    scales = (form.cap * LOG2_E, scale / form.cap) if form.cap else (scale * LOG2_E, 0.0)

    def run(t: Tile, config: Any) -> None:
        size, options = config
        how = form.heads, form.group, form.causal, form.cap > 0, form.window, False, form.width
        grid = form.length // size[0], form.batch * form.heads
        t.launch("attend", options, grid, (q, k, v, out, lse, *scales, *how, *size))

    sides = [Side(t.name, configs(t, form.tiles), functools.partial(run, t)) for t in tiles]
    if not form.cap and not form.window and form.dtype.itemsize == 2:
        sides.append(Side("torch", [None], lambda c: cudnn(q, k, v, form.causal)))
    expected, tolerance = form.expected(q[0, -1], k[0, -1], v[0, -1]), 2e-2 if form.dtype.itemsize == 2 else 8e-2
    name = f"forward {form.name} {form.length}"
    return Row(name, "TFLOP/s", 2 * form.products, sides, out, expected, tolerance, last_head)


_E4M3, _E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
_FORWARD = (
    Form("D128"),
    Form("D128 causal", causal=True),
    Form("D64", 64),
    Form("D64 causal", 64, causal=True),
    Form("D256", 256, heads=16, tiles=_WIDE),
    Form("D256 causal", 256, heads=16, causal=True, tiles=_WIDE),
    Form("D128 f16", dtype=f16),
    Form("D128 causal f16", causal=True, dtype=f16),
    Form("D128 causal cap", causal=True, cap=50.0),
    Form("D256 causal cap", 256, causal=True, cap=50.0, heads=16, tiles=_WIDE),
    Form("D64 causal cap", 64, causal=True, cap=50.0),
    Form("D128 causal window", causal=True, window=1024),
    Form("D64 causal window", 64, causal=True, window=1024),
    Form("D256 causal window", 256, causal=True, window=1024, heads=16, tiles=_WIDE),
)
_GROUPED = (
    Form("D128 64/8", batch=2, heads=64, group=8),
    Form("D128 64/8 causal", batch=2, heads=64, group=8, causal=True),
)
_FP8 = (
    Form("D128 e4m3", dtype=_E4M3),
    Form("D128 causal e4m3", causal=True, dtype=_E4M3),
    Form("D128 e5m2", dtype=_E5M2),
    Form("D128 causal e5m2", causal=True, dtype=_E5M2),
)


def forward_rows(forms: tuple[Form, ...], lengths: tuple[int, ...], tiles: list[Tile]) -> Iterator[Row]:
    """With as many tokens of each length."""
    for form, length in itertools.product(forms, lengths):
        batch, heads = form.batch * form.length // length, form.heads
        if batch == 0:
            batch, heads = 1, heads // 2
        yield forward_row(Form(**{**form.__dict__, "batch": batch, "heads": heads, "length": length}), tiles)


# -- gradients


def gradient_row(form: Form, tiles: list[Tile], *, at_once: bool = False) -> Row:
    """By two kernels, or by one, which adds up those of queries."""
    q, k, v = (form.made(n).requires_grad_() for n in (form.heads, *[form.heads // form.group] * 2))
    grad, group = form.made(form.heads), form.group
    out = cudnn(q, k, v, form.causal)
    lse, delta = (torch.empty(q.shape[:3], device="cuda") for _ in range(2))
    found = torch.empty_like(k)
    of_q, of_v = torch.empty_like(q), torch.empty_like(v)
    scale, G = 1 / math.sqrt(form.width), form.heads // group
    for h in range(form.heads):  # the logarithms of the sums, in parts
        scores = (q[:, h].detach().float() @ k[:, h // group].detach().float().mT) * (scale * LOG2_E)
        if form.causal:
            scores.masked_fill_(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -INF)
        lse[:, h] = torch.logsumexp(scores * (1 / LOG2_E), -1) * LOG2_E
        del scores
    arrays = q.detach(), k.detach(), v.detach()
    mixed = out.detach()
    summed = torch.empty_like(q, dtype=f32)
    torch.sum(mixed.float() * grad.float(), -1, out=delta)

    def run_at_once(t: Tile, config: Any) -> None:
        (tq, tk), options = config
        summed.zero_()
        how = scale * LOG2_E, scale, G, form.causal, form.width, tq, tk
        grid = form.length // tk, form.batch * G
        t.launch("gradients", options, grid, (*arrays, lse, grad, delta, summed, found, of_v, *how))

    def run(t: Tile, config: Any) -> None:
        if at_once:
            return run_at_once(t, config)
        (tq, tk, uq, uk), options = config
        how = group, form.causal, form.width
        grid = form.length // tq, form.batch * form.heads
        arguments = *arrays, mixed, lse, grad, delta, of_q, scale * LOG2_E, scale, form.heads, *how, tq, tk
        t.launch("gradient_of_queries", options, grid, arguments)
        grid = form.length // uk, form.batch * G
        arguments = *arrays, lse, grad, delta, found, of_v, scale * LOG2_E, scale, G, *how, uq, uk
        t.launch("gradient_of_keys", options, grid, arguments)

    sizes: Tiles = (128, 64, 64, 64), (128, 64, 64, 128), (64, 64, 64, 64)
    sizes = ((64, 64), (64, 128), (128, 64)) if at_once else sizes
    sides = [Side(t.name, configs(t, sizes), functools.partial(run, t)) for t in tiles]
    by_torch = functools.partial(torch.autograd.grad, out, (q, k, v), grad, retain_graph=True)
    sides.append(Side("torch", [None], lambda c: by_torch()[1]))
    exact = [x.detach()[:1].float().requires_grad_() for x in (q, k, v)]
    wide = [exact[0], *(x.repeat_interleave(group, 1) for x in exact[1:])]
    attend = torch.nn.functional.scaled_dot_product_attention
    pick = slice(form.heads - group, form.heads)  # heads of queries of the last head of keys
    one = attend(*(x[:, pick] for x in wide), is_causal=form.causal)
    expected = torch.autograd.grad(one, exact[1], grad[:1, pick].float())[0][0, -1]
    name = f"gradients {form.name} {form.length}" + (" in one kernel" if at_once else "")
    return Row(name, "TFLOP/s", 5 * form.products, sides, found, expected, 2e-2, last_head)


_GRADIENTS = (
    Form("D128", heads=16),
    Form("D128 causal", heads=16, causal=True),
    Form("D64", 64, heads=16),
    Form("D64 causal", 64, heads=16, causal=True),
    Form("D128 causal 16/4", heads=16, group=4, causal=True),
)


def gradient_rows(tiles: list[Tile]) -> Iterator[Row]:
    for at_once, form in itertools.product((False, True), _GRADIENTS):
        if form.group == 1 or not at_once:
            yield gradient_row(form, tiles, at_once=at_once)


# -- decoding


def in_parts(
    t: Tile, config: Any, kernel: str, blocks: tuple[int, ...], length: int, arguments: tuple[Any, ...],
    scales: tuple[Any, ...], out: torch.Tensor,
) -> None:  # fmt: skip
    """Launches what decodes over parts of the keys, and what combines them. Sizes are a number of parts, and others
    that end with that of tiles of keys."""
    (parts, *sizes), options = config
    B, H, D = out.shape
    found, lse = buffers(t.name, B, parts, H, D)
    steps = length // parts // sizes[-1]
    t.launch(kernel, options, (*blocks, parts), (*arguments, found, lse, *scales, steps, *sizes))
    t.launch("combine", {}, (B * H,), (found, lse, out, H, D, parts))


@functools.lru_cache(maxsize=8)
def buffers(side: str, B: int, parts: int, H: int, D: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(B, parts, H, D, device="cuda"), torch.empty(B, parts, H, device="cuda")


def weighted(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, -1) @ values.float()


def part_sizes(blocks: int, length: int, others: Tiles) -> Tiles:
    """Numbers of parts with which there are about one to four blocks for each SM, and the other sizes."""
    wanted = [1 << max(0, (n * 132 // blocks).bit_length() - 1) for n in (1, 2, 4)]
    return tuple((n, *more) for n in dict.fromkeys(wanted) for more in others if length // n >= more[-1])


def decoding_rows(tiles: list[Tile]) -> Iterator[Row]:
    for B, H, G, S, D in (
        (1, 64, 8, 8192, 128), (8, 64, 8, 8192, 128), (32, 64, 8, 8192, 128), (1, 32, 8, 16384, 64),
        (8, 32, 32, 4096, 128), (16, 16, 2, 8192, 256),
    ):  # fmt: skip
        q, k, v = normal(B, H, D), normal(B, G, S, D), normal(B, G, S, D)
        out, scale = torch.empty_like(q), 1 / math.sqrt(D)

        def run(t: Tile, c: Any, q=q, k=k, v=v, out=out, scale=scale, B=B, G=G, H=H, D=D, S=S) -> None:  # type: ignore[no-untyped-def]
            in_parts(t, c, "decode", (B * G,), S, (q, k, v), (scale * LOG2_E, G, H // G, D), out)

        sizes = part_sizes(B * G, S, ((64,), (128,)))
        sides = [Side(t.name, configs(t, sizes), functools.partial(run, t)) for t in tiles]
        sides.append(Side("torch", [None], lambda c, q=q, k=k, v=v: cudnn(q[:, :, None], k, v, False)[:, :, 0]))
        expected = weighted((q[0, -1].float() * scale) @ k[0, -1].float().T, v[0, -1])
        work = 2 * B * G * S * D * 2 / 1e9
        yield Row(f"decoding B{B} {H}/{G} {S} D{D}", "GB/s", work, sides, out, expected, 2e-2, last_head)


def latent_rows(tiles: list[Tile]) -> Iterator[Row]:
    D, R = 512, 64
    for B, H, S in ((1, 16, 8192), (8, 16, 8192), (32, 16, 4096), (8, 128, 4096)):
        q, q_rope, kv, k_rope = normal(B, H, D), normal(B, H, R), normal(B, S, D), normal(B, S, R)
        out, scale = torch.empty_like(q), 1 / math.sqrt(D + R)

        def run(t: Tile, c: Any, arrays=(q, q_rope, kv, k_rope), out=out, scale=scale, B=B, H=H, S=S) -> None:  # type: ignore[no-untyped-def]
            in_parts(t, c, "decode_latent", (B, H // c[0][1]), S, arrays, (scale * LOG2_E, D, R), out)

        rows: Tiles = ((16, 64), (16, 128)) if H == 16 else ((64, 64), (128, 64), (64, 128))
        blocks = B * H // rows[0][0]
        sides = [Side(t.name, configs(t, part_sizes(blocks, S, rows)), functools.partial(run, t)) for t in tiles]
        scores = q[0, -1].float() @ kv[0].float().T + q_rope[0, -1].float() @ k_rope[0].float().T
        expected, work = weighted(scores * scale, kv[0]), B * S * (D + R) * 2 / 1e9
        yield Row(f"latent decoding B{B} H{H} {S}", "GB/s", work, sides, out, expected, 2e-2, last_head)


_POOL = 1 << 19  # tokens at most, in pages that sequences share where all together have more


def paged_rows(tiles: list[Tile]) -> Iterator[Row]:
    H, G, D, PAGE = 64, 8, 128, 16
    for B, S, M in ((1, 8192, 1), (8, 8192, 1), (128, 32768, 1), (8, 8192, 4), (32, 8192, 8)):
        pages, each = min(B * S, _POOL) // PAGE, S // PAGE
        k, v = normal(pages * PAGE, G, D), normal(pages * PAGE, G, D)
        order = torch.stack([torch.randperm(pages, device="cuda")[:each] for _ in range(B)])
        if pages == B * each:
            order = torch.randperm(pages, device="cuda").view(B, each)
        table, group = order.int(), H // G
        q, scale = normal(B, G * M * group, D), 1 / math.sqrt(D)
        out = torch.empty_like(q)

        def run(t: Tile, c: Any, arrays=(q, k, v, table), out=out, scale=scale, B=B, M=M, S=S, group=group) -> None:  # type: ignore[no-untyped-def]
            scales = S, scale * LOG2_E, G, group, M, PAGE, D
            in_parts(t, c, "decode_pages", (B * G,), S, arrays, scales, out)

        sizes = part_sizes(B * G, S, ((64,), (128,)))
        sides = [Side(t.name, configs(t, sizes), functools.partial(run, t)) for t in tiles]
        rows = (table[0].long()[:, None] * PAGE + torch.arange(PAGE, device="cuda")).flatten()
        scores = (q[0, -1].float() * scale) @ k[rows, -1].float().T  # of the last token, which sees all
        expected, work = weighted(scores, v[rows, -1]), 2 * B * G * S * D * 2 / 1e9
        name = f"paged decoding B{B} {H}/{G} {S}" + (f" {M} tokens" if M > 1 else "")
        yield Row(name, "GB/s", work, sides, out, expected, 2e-2, last_head)


def quantized_rows(tiles: list[Tile]) -> Iterator[Row]:
    B, G, S, D = 16, 8, 8192, 128
    for H, dtype in itertools.product((32, 128), (_E4M3, torch.int8)):
        q, out, scale = normal(B, H, D), torch.empty(B, H, D, device="cuda", dtype=bf16), 1 / math.sqrt(D)
        k, v = (normal(B, G, S, D, dtype=dtype, scale=1 if dtype.is_floating_point else 40) for _ in range(2))
        scales = [torch.rand(B, G, S, device="cuda") / (1 if dtype.is_floating_point else 40) for _ in range(2)]

        def run(t: Tile, c: Any, arrays=(q, k, v, *scales), out=out, scale=scale, H=H) -> None:  # type: ignore[no-untyped-def]
            in_parts(t, c, "decode_quantized", (B * G,), S, arrays, (scale * LOG2_E, G, H // G, D), out)

        sides = [Side(t.name, configs(t, ((4, 64), (4, 128), (8, 64))), functools.partial(run, t)) for t in tiles]
        keys, values = (x[0, -1].float() * of[0, -1][:, None] for x, of in zip((k, v), scales))
        expected = weighted((q[0, -1].float() * scale) @ keys.T, values)
        name = f"decoding {'e4m3' if dtype is _E4M3 else 'int8'} B{B} {H}/{G} {S}"
        yield Row(name, "GB/s", 2 * B * G * S * (D + 4) / 1e9, sides, out, expected, 2e-2, last_head)


def sparse_rows(tiles: list[Tile]) -> Iterator[Row]:
    B, H, G, S, D, COUNT = 2, 32, 8, 8192, 128, 16
    for TQ, TK in ((64, 64), (128, 64), (128, 128)):
        q, k, v = normal(B, H, S, D), normal(B, G, S, D), normal(B, G, S, D)
        shape = B, G, S // TQ, S // TK
        listed = torch.rand(shape, device="cuda").argsort(-1)[..., :COUNT].int().contiguous()
        out, scale = torch.empty_like(q), 1 / math.sqrt(D)

        def run(t: Tile, c: Any, arrays=(q, k, v, listed, out), scale=scale) -> None:  # type: ignore[no-untyped-def]
            sizes = c[0]
            grid = S // sizes[0], B * H
            t.launch("attend_tiles", c[1], grid, (*arrays, scale * LOG2_E, H, H // G, COUNT, D, *sizes))

        sides = [Side(t.name, configs(t, ((TQ, TK),)), functools.partial(run, t)) for t in tiles]
        rows = (listed[0, -1, 0].long()[:, None] * TK + torch.arange(TK, device="cuda")).flatten()
        expected = weighted((q[0, -1, :TQ].float() * scale) @ k[0, -1, rows].float().T, v[0, -1, rows])
        work = 4 * B * H * S * COUNT * TK * D / 1e12
        yield Row(
            f"{COUNT} listed tiles {TQ}x{TK} {H}/{G} {S}", "TFLOP/s", work, sides, out, expected, 2e-2,
            lambda x, TQ=TQ: x[0, -1, :TQ],
        )  # fmt: skip


# -- states instead of scores, and a loss


def scan_rows(tiles: list[Tile]) -> Iterator[Row]:
    B, S, D, N, first = 4, 2048, 4096, 16, 64
    x, into, out_of = normal(B, S, D), normal(B, S, N), normal(B, S, N)
    rates, decay = torch.rand(B, S, D, device="cuda").to(bf16) / 8, -torch.rand(D, N, device="cuda")
    out = torch.empty_like(x)

    def run(t: Tile, config: Any) -> None:
        (size,), options = config
        t.launch("selective_scan", options, (B, D // size), (x, rates, decay, into, out_of, out, N, size))

    sides = [Side(t.name, configs(t, ((32,), (64,), (128,))), functools.partial(run, t)) for t in tiles]
    state, expected = torch.zeros(D, N, device="cuda"), []
    for i in range(first):
        rate = rates[0, i].float()[:, None]
        state = torch.exp2(rate * decay) * state + rate * x[0, i].float()[:, None] * into[0, i].float()
        expected.append((state * out_of[0, i].float()).sum(1))
    name, part = f"selective scan B{B} {S} D{D} N{N}", lambda out: out[0, :first]
    yield Row(name, "GB/s", 6 * B * S * D / 1e9, sides, out, torch.stack(expected), 2e-2, part)


def state_rows(tiles: list[Tile]) -> Iterator[Row]:
    H, S, D = 128, 4096, 128
    q, k, v = (normal(H, S, D, scale=1 / 8) for _ in range(3))
    out = torch.empty_like(q)

    def run(t: Tile, config: Any) -> None:
        (size,), options = config
        t.launch("linear", options, (H,), (q, k, v, out, D, size))

    sides = [Side(t.name, configs(t, ((64,), (128,))), functools.partial(run, t)) for t in tiles]
    expected = (q[-1].float() @ k[-1].float().T).tril() @ v[-1].float()
    work = H * S * D * (4 * 64 + 4 * D) / 1e12
    yield Row(f"linear attention H{H} {S} D{D}", "TFLOP/s", work, sides, out, expected, 2e-2, lambda x: x[-1])

    for H in (32, 64):
        q, k, v = normal(H, S, D, scale=D**-0.5), normal(H, S, D), normal(H, S, D)
        k = torch.nn.functional.normalize(k.float(), dim=-1).to(bf16)
        decay, beta = -torch.rand(H, S, device="cuda") / 8, torch.rand(H, S, device="cuda").to(bf16)
        out, T = torch.empty_like(q), 64
        yield delta_row(f"gated delta rule H{H} {S} D{D}", tiles, (q, k, v, decay, beta, out), T)


def delta_row(name: str, tiles: list[Tile], arrays: tuple[torch.Tensor, ...], T: int) -> Row:
    q, k, v, decay, beta, out = arrays
    H, S, D = q.shape

    def run(t: Tile, config: Any) -> None:
        (columns,), options = config
        t.launch("gated_delta", options, (H, D // columns), (*arrays, D, T.bit_length() - 2, T, columns))

    sides = [Side(t.name, configs(t, ((32,), (64,), (128,))), functools.partial(run, t)) for t in tiles]
    first = 256  # rows of one head, one after the other
    state, expected = torch.zeros(D, D, device="cuda"), []
    for i in range(first):
        x, y, z = (a[0, i].float() for a in (q, k, v))
        state = state * torch.exp2(decay[0, i])
        state = state + torch.outer(y, (z - y @ state) * beta[0, i].float())
        expected.append(x @ state)
    work = H * S * (8 * D * D + 8 * T * D) / 1e12
    return Row(name, "TFLOP/s", work, sides, out, torch.stack(expected), 3e-2, lambda x: x[0, :first])


def loss_rows(tiles: list[Tile]) -> Iterator[Row]:
    for dtype, (M, N, K) in itertools.product((bf16, f16), ((4096, 32768, 2048), (4096, 131072, 4096))):
        x, weight = normal(M, K, dtype=dtype, scale=LOG2_E / 64), normal(N, K, dtype=dtype)
        labels = torch.randint(0, N, (M,), device="cuda", dtype=torch.int32)
        out = torch.empty(M, device="cuda")

        def run(t: Tile, c: Any, x=x, weight=weight, labels=labels, out=out, M=M, N=N) -> None:  # type: ignore[no-untyped-def]
            (parts, tm, tn, tk), options = c
            top, total, wanted = (torch.empty(parts, M, device="cuda") for _ in range(3))
            arguments = x, weight, labels, top, total, wanted, cdiv(N, tn * parts), tm, tn, tk
            t.launch("linear_loss", options, (M // tm, parts), arguments)
            most = top.amax(0)
            sums = (total * torch.exp2(top - most)).sum(0)
            torch.mul(torch.log2(sums) + most - wanted.sum(0), 1 / LOG2_E, out=out)

        sizes: Tiles = tuple((p, *size) for p in (4, 16) for size in ((128, 256, 64), (128, 128, 64)))
        sides = [Side(t.name, configs(t, sizes), functools.partial(run, t)) for t in tiles]

        def by_torch(c: Any = None, x=x, weight=weight, labels=labels) -> torch.Tensor:  # type: ignore[no-untyped-def]
            return torch.nn.functional.cross_entropy(
                (x @ weight.T) * (1 / LOG2_E), labels.long(), reduction="none"
            ).float()

        sides.append(Side("torch", [None], by_torch))
        some = x[:256].float() @ weight.float().T / LOG2_E
        expected = torch.nn.functional.cross_entropy(some, labels[:256].long(), reduction="none")
        name = f"linear cross entropy {str(dtype)[6:]} {M}x{N}x{K}"
        yield Row(name, "TFLOP/s", 2 * M * N * K / 1e12, sides, out, expected, 1e-2, lambda found: found[:256])


GROUPS: dict[str, Callable[[list[Tile]], Iterator[Row]]] = {
    "forward": functools.partial(forward_rows, _FORWARD, (4096,)),
    "long": functools.partial(forward_rows, _FORWARD[:2], (8192, 16384)),
    "grouped": functools.partial(forward_rows, _GROUPED, (4096, 8192, 16384)),
    "fp8": functools.partial(forward_rows, _FP8, (4096,)),
    "gradients": gradient_rows,
    "decoding": decoding_rows,
    "latent": latent_rows,
    "paged": paged_rows,
    "quantized": quantized_rows,
    "sparse": sparse_rows,
    "states": state_rows,
    "scan": scan_rows,
    "loss": loss_rows,
}


if __name__ == "__main__":
    main(__doc__, GROUPS, "gpu_attention_kernels.py")
