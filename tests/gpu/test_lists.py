"""Lists of arrays: of any length and layout, at other addresses, in graphs, on streams and from threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.gpu import GPU

import tilewright as ct

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

Shape = tuple[int, int, int]


@ct.kernel
def products(a, b, c, T: ct.Constant[int], K: ct.Constant[int]):
    """Products of the arrays of lists, spread over the blocks."""
    first = ct.bid(0)
    for g in range(len(a)):
        across = ct.num_tiles(c[g], 1, (T, T))
        for tile in range(first, ct.num_tiles(c[g], 0, (T, T)) * across, ct.num_blocks(0)):
            total = ct.zeros((T, T), ct.float32)
            for k in range(ct.num_tiles(a[g], 1, (T, K))):
                x = ct.load(a[g], (tile // across, k), (T, K), padding_mode=ct.PaddingMode.ZERO)
                y = ct.load(b[g], (k, tile % across), (K, T), padding_mode=ct.PaddingMode.ZERO)
                total = ct.mma(x, y, total)
            ct.store(c[g], (tile // across, tile % across), total.astype(ct.float16))


class Problem:
    """Matrices that are multiplied: small integers, whose products are exact."""

    def __init__(self, shapes: Sequence[Shape], padding: int = 0) -> None:
        self.a = [self._matrix(m, k, padding) for m, _, k in shapes]
        self.b = [self._matrix(k, n, padding) for _, n, k in shapes]
        self.c = [self._matrix(m, n, padding) for m, n, _ in shapes]

    @staticmethod
    def _matrix(rows: int, columns: int, padding: int) -> Any:
        return torch.randint(-2, 3, (rows, columns + padding), device="cuda").half()[:, :columns]

    def launch(self, stream: Any = None) -> None:
        stream = stream or torch.cuda.current_stream()
        ct.launch(stream, (16,), products, (self.a, self.b, self.c, 64, 32))

    def check(self) -> None:
        torch.cuda.synchronize()
        for a, b, c in zip(self.a, self.b, self.c):
            wanted = (a.double() @ b.double()).half() if a.shape[1] else torch.zeros_like(c)
            assert torch.equal(c, wanted)


def shapes(count: int, unit: int = 8, seed: int = 0) -> list[Shape]:
    found = np.random.default_rng(seed).integers(1, 24, (count, 3)) * unit
    return [(int(m), int(n), int(k)) for m, n, k in found]


@pytest.mark.parametrize("count", [1, 5, 32, 40, 90, 3])
@pytest.mark.parametrize(("unit", "padding"), [(8, 0), (8, 8), (7, 0)])
def test_lists_of_every_length(count: int, unit: int, padding: int) -> None:
    for seed in (0, 0, 0, 1):
        problem = Problem(shapes(count, unit, seed), padding)
        for _ in range(2):
            problem.launch()
            problem.check()
            problem.c = [torch.full_like(c, 3) for c in problem.c] if not padding else problem.c


def test_arrays_without_elements() -> None:
    problem = Problem([(0, 64, 64), (64, 64, 0), (64, 0, 64), (128, 128, 128)])
    problem.launch()
    problem.check()


def test_one_array_twice() -> None:
    """What a block stores through one entry, it loads through another."""

    @ct.kernel
    def count(xs):
        for i in range(len(xs)):
            ct.store(xs[i], (0, 0), ct.load(xs[len(xs) - 1 - i], (0, 0), (64, 64)) + 1)

    for n in (1, 2, 7, 40):
        x = torch.zeros(64, 64, device="cuda")
        ct.launch(torch.cuda.current_stream(), (1,), count, ([x] * n,))
        assert (x == n).all()


@pytest.mark.skipif(GPU.name == "tileir", reason="lists are no parameters of its kernels, but copied for each launch")
def test_graphs() -> None:
    problem, other = Problem(shapes(6)), Problem(shapes(6))
    problem.launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        problem.launch()
    other.launch()
    other.check()
    for c in problem.c:
        c.fill_(5)
    graph.replay()
    problem.check()
    long = Problem(shapes(300))  # more than a kernel takes among its parameters
    long.launch()
    with pytest.raises(RuntimeError, match="cannot be recorded"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        long.launch()
    torch.cuda.synchronize()


def test_bound_launches() -> None:
    problem, other = Problem(shapes(6)), Problem(shapes(6))
    run = products.bind((16,), (problem.a, problem.b, problem.c, 64, 32), stream=torch.cuda.current_stream())
    for _ in range(3):
        other.launch()
        for c in problem.c:
            c.fill_(5)
        run()
        problem.check()


def test_streams_and_threads() -> None:
    problems = [Problem(shapes(6, seed=n % 2)) for n in range(8)]
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    for i in range(40):
        problems[i % 8].launch(streams[i % 4])
    for problem in problems:
        problem.check()
        for c in problem.c:
            c.zero_()
    torch.cuda.synchronize()

    def work(problem: Problem) -> None:
        stream = torch.cuda.Stream(problem.c[0].device)  # a new thread begins with the first GPU
        for _ in range(20):
            problem.launch(stream)
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(problem,)) for problem in problems]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in problems:
        problem.check()
