"""Vector addition: by tiles, by gather and scatter, and in two dimensions."""

import argparse
from math import ceil

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def add_1d(a, b, c, TILE: ConstInt):
    block = ct.bid(0)
    ta = ct.load(a, index=(block,), shape=(TILE,))
    tb = ct.load(b, index=(block,), shape=(TILE,))
    ct.store(c, index=(block,), tile=ta + tb)


@ct.kernel
def add_1d_gather(a, b, c, TILE: ConstInt):
    offsets = ct.bid(0) * TILE + ct.arange(TILE, dtype=torch.int32)
    total = ct.gather(a, offsets) + ct.gather(b, (offsets,))
    ct.scatter(c, offsets, total)


@ct.kernel
def add_2d(a, b, c, TM: ConstInt, TN: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.load(a, (i, j), (TM, TN)) + ct.load(b, (i, j), (TM, TN))
    ct.store(c, (i, j), total)


def vector_add(a: torch.Tensor, b: torch.Tensor, use_gather: bool = False) -> torch.Tensor:
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    if a.device != b.device or not a.is_cuda or not b.is_cuda:
        raise ValueError("both tensors belong on one GPU")
    c = torch.empty_like(a)
    stream = torch.cuda.current_stream()
    if a.ndim == 1:
        tile = min(1024, 2 ** ceil(torch.log2(torch.tensor(a.shape[0])).item()))
        kernel = add_1d_gather if use_gather else add_1d
        ct.launch(stream, (ceil(a.shape[0] / tile), 1, 1), kernel, (a, b, c, tile))
    else:
        grid = (ceil(a.shape[0] / 16), ceil(a.shape[1] / 64), 1)
        ct.launch(stream, grid, add_2d, (a, b, c, 16, 64))
    return c


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--correctness-check", action="store_true")
    options = parser.parse_args()
    for shape, gather in (((3000,), False), ((3000,), True), ((70, 130), False)):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
            a = (torch.rand(shape, device="cuda") * 100).to(dtype)
            b = (torch.rand(shape, device="cuda") * 100).to(dtype)
            c = vector_add(a, b, gather)
            if options.correctness_check:
                torch.testing.assert_close(c, a + b)
    torch.cuda.synchronize()
    print("Correctness check passed" if options.correctness_check else "Correctness check disabled")


if __name__ == "__main__":
    main()
