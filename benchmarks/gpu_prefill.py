"""Prefill attention of sequences of several lengths: keys in pages, or packed one after the other.

    python benchmarks/gpu_prefill.py [--forms paged ragged ...] [--sides gpu triton] [--tiles TQxTK ...]
        [--check] [--turns N]

Both backends in one process, in turns: medians, TFLOP/s, and the error relative to PyTorch in float32.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import tilewright as ct

INF = math.inf
LOG2_E = 1 / math.log(2)


def step(queries, keys, values, top, total, result, scale, seen, TQ, TK):
    """One step of online softmax: the new maxima, sums of weights and results."""
    scores = ct.mma(queries, ct.transpose(keys), ct.zeros((TQ, TK), ct.float32))
    scores = ct.where(seen, scores, -1e6)
    new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
    weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
    correction = ct.exp2(top - new_top, flush_to_zero=True)
    total = total * correction + ct.sum(weights, axis=1, keepdims=True)
    result = ct.mma(weights.astype(values.dtype), values, result * correction)
    return new_top, total, result


@ct.kernel
def paged(
    q, k, v, starts, lengths, pages, out, scale,
    GROUP: ct.Constant[int], D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """``k`` and ``v`` are pages of TK tokens; ``pages[b]`` are those of sequence b, whose queries begin at
    ``starts[b]``."""
    b, h, block = ct.bid(0), ct.bid(1), ct.num_blocks(2) - 1 - ct.bid(2)
    start, length = ct.load(starts, (b,), ()), ct.load(lengths, (b,), ())
    if block * TQ >= length:
        return
    mine, stored = q.slice(0, start, start + length), out.slice(0, start, start + length)
    queries = ct.load(mine, (block, h, 0), (TQ, 1, D), padding_mode=ct.PaddingMode.ZERO).reshape((TQ, D))
    top = ct.full((TQ, 1), -INF, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32)[:, None]
    columns = ct.arange(TK, dtype=ct.int32)[None, :]
    for j in range(ct.cdiv(min((block + 1) * TQ, length), TK)):
        page = ct.gather(pages, (b, j), padding_value=0).item()
        keys = ct.load(k, (page, 0, h // GROUP, 0), (1, TK, 1, D)).reshape((TK, D))
        values = ct.load(v, (page, 0, h // GROUP, 0), (1, TK, 1, D)).reshape((TK, D))
        seen = rows >= j * TK + columns
        top, total, result = step(queries, keys, values, top, total, result, scale, seen, TQ, TK)
    result = ct.truediv(result, total, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(stored, (block, h, 0), result.reshape((TQ, 1, D)).astype(out.dtype))


@ct.kernel
def ragged(
    q, k, v, starts, lengths, pages, out, scale,
    GROUP: ct.Constant[int], D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int],
):  # fmt: skip
    """Keys and values of sequence b are those of ``lengths[b]`` tokens from ``starts[b]`` on, as its queries are."""
    b, h, block = ct.bid(0), ct.bid(1), ct.num_blocks(2) - 1 - ct.bid(2)
    start, length = ct.load(starts, (b,), ()), ct.load(lengths, (b,), ())
    if block * TQ >= length:
        return
    zero = ct.PaddingMode.ZERO
    mine, stored = q.slice(0, start, start + length), out.slice(0, start, start + length)
    all_keys, all_values = k.slice(0, start, start + length), v.slice(0, start, start + length)
    queries = ct.load(mine, (block, h, 0), (TQ, 1, D), padding_mode=zero).reshape((TQ, D))
    top = ct.full((TQ, 1), -INF, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    rows = block * TQ + ct.arange(TQ, dtype=ct.int32)[:, None]
    columns = ct.arange(TK, dtype=ct.int32)[None, :]
    for j in range(ct.cdiv(min((block + 1) * TQ, length), TK)):
        keys = ct.load(all_keys, (j, h // GROUP, 0), (TK, 1, D), padding_mode=zero).reshape((TK, D))
        values = ct.load(all_values, (j, h // GROUP, 0), (TK, 1, D), padding_mode=zero).reshape((TK, D))
        seen = rows >= j * TK + columns
        top, total, result = step(queries, keys, values, top, total, result, scale, seen, TQ, TK)
    result = ct.truediv(result, total, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(stored, (block, h, 0), result.reshape((TQ, 1, D)).astype(out.dtype))


FORMS = {"paged": paged, "ragged": ragged}


class Work:
    """Sequences of ``lengths``, packed one after the other, with keys and values in shuffled pages of ``page``."""

    def __init__(self, name: str, lengths: list[int], heads: int, group: int, width: int, tile: tuple[int, int]):
        self.name, self.lengths, self.heads, self.group, self.width, self.tile = (
            name, lengths, heads, group, width, tile,
        )  # fmt: skip
        torch.manual_seed(0)
        page, tokens, shared = tile[1], sum(lengths), heads // group

        def made(heads: int) -> torch.Tensor:
            return torch.randn(tokens, heads, width, device="cuda").to(torch.bfloat16)

        self.q, self.k, self.v = made(heads), made(shared), made(shared)
        self.out = torch.empty_like(self.q)
        self.starts = torch.tensor([sum(lengths[:i]) for i in range(len(lengths))], device="cuda", dtype=torch.int32)
        self.sizes = torch.tensor(lengths, device="cuda", dtype=torch.int32)
        needed = [-(-n // page) for n in lengths]
        order = torch.randperm(sum(needed), device="cuda").to(torch.int32)
        self.pages = torch.zeros(len(lengths), max(needed), device="cuda", dtype=torch.int32)
        cached = [torch.zeros(sum(needed), page, shared, width, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        taken = 0
        for i, (n, count) in enumerate(zip(lengths, needed)):
            numbers = order[taken : taken + count]
            self.pages[i, :count] = numbers
            for cache, source in zip(cached, (self.k, self.v)):
                padded = torch.zeros(count * page, shared, width, device="cuda", dtype=torch.bfloat16)
                padded[:n] = source[int(self.starts[i]) :][:n]
                cache[numbers.long()] = padded.view(count, page, shared, width)
            taken += count
        if name == "paged":
            self.keys, self.values = cached
        else:
            self.keys, self.values = self.k, self.v

    @property
    def work(self) -> float:
        """TFLOP of both products."""
        return sum(2 * self.heads * n * n * self.width for n in self.lengths) / 1e12

    def run(self, backend: str) -> None:
        tq, tk = self.tile
        grid = len(self.lengths), self.heads, -(-max(self.lengths) // tq)
        arguments = (
            self.q, self.keys, self.values, self.starts, self.sizes, self.pages, self.out,
            LOG2_E / math.sqrt(self.width), self.group, self.width, tq, tk,
        )  # fmt: skip
        ct.launch(torch.cuda.current_stream(), grid, FORMS[self.name], arguments, backend=backend)

    def error(self) -> float:
        """Of the last head of all sequences."""
        wanted = []
        for start, n in zip(self.starts.tolist(), self.lengths):
            q, k, v = (x[start : start + n, -1].float() for x in (self.q, self.k, self.v))
            scores = (q @ k.T / math.sqrt(self.width)).masked_fill(
                ~torch.ones(n, n, dtype=torch.bool, device="cuda").tril(), -INF
            )
            wanted.append(torch.softmax(scores, -1) @ v)
        expected = torch.cat(wanted).double()
        return float((self.out[:, -1].double() - expected).norm() / expected.norm())


def measure(work: Work, options: argparse.Namespace) -> None:
    running: dict[str, Callable[[], None]] = {}
    for side in options.sides:
        try:
            work.out.fill_(math.nan)
            work.run(side)
            torch.cuda.synchronize()
            error = work.error()
        except Exception as e:  # noqa: BLE001 - a side that cannot do it is told, and others are measured
            print(f"{work.name} {work.tile}, {side}: {type(e).__name__}: {str(e)[:300]}", flush=True)
            continue
        print(f"{work.name} {work.tile}, {side}: error {error:.1e}", flush=True)
        if error < 2e-2:
            running[side] = lambda side=side: work.run(side)
    if options.check:
        return
    times: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(options.turns):
        for name, run in running.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            run()
            begin.record()
            for _ in range(3):
                run()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / 3)
    for name, found in times.items():
        ms = statistics.median(found)
        print(f"{work.name} {work.tile}, {name}: {ms:.3f} ms, {work.work / ms * 1e3:.0f} TFLOP/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--sides", nargs="*", default=["gpu", "triton"], help="gpu, triton")
    tiles = [(128, 128), (128, 64)]
    parser.add_argument("--tiles", nargs="*", default=tiles, type=lambda t: tuple(map(int, t.split("x"))))
    parser.add_argument("--check", action="store_true", help="only compare, at small sizes")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    lengths, heads = ([300, 128, 77], 8) if options.check else ([4096, 2048, 3000, 1111, 4000, 512], 32)
    for name in options.forms:
        for tile in options.tiles:
            measure(Work(name, lengths, heads, 4, 128, tile), options)


if __name__ == "__main__":
    main()
