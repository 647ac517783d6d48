"""The kernels of the gallery in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from harness import normal


def sides(name: str, small: bool) -> Mapping[str, Callable[[], Any]]:
    """The cases of an example by their names, on what the example computes with."""

    def tensors(*arrays: Any) -> tuple[Any, ...]:
        return tuple(torch.from_numpy(a) for a in arrays)

    if name == "vector_add":
        n = 100_003 if small else 16_000_003
        a, b, out = tensors(normal(n), normal(n, seed=1), np.empty(n, np.float32))
        return {"vector add": lambda: torch.add(a, b, out=out)}
    if name in ("transpose", "softmax"):
        shapes = {"transpose": ((100, 70), (4096, 4096)), "softmax": ((64, 1000), (4096, 1024))}
        (x,) = tensors(normal(*shapes[name][not small]))
        return {"transpose": lambda: x.t().contiguous(), "softmax of rows": lambda: torch.softmax(x, 1)}
    if name == "layer_norm":
        shape = (32, 1500) if small else (2048, 3000)
        x, weight, bias = tensors(normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2))
        return {"layer norm": lambda: F.layer_norm(x, (shape[1],), weight, bias)}
    if name == "matmul":
        m, n, k = (200, 300, 500) if small else (1024, 1024, 1024)
        a, b = tensors(normal(m, k), normal(k, n, seed=1))
        c, d = (a, b) if small else tensors(normal(256, 16384), normal(16384, 256, seed=1))
        return {"matmul": lambda: a @ b, "matmul, persistent": lambda: a @ b, "matmul, split K": lambda: c @ d}
    if name == "attention":
        shape = (2, 150, 32) if small else (8, 1024, 64)
        q, k, v = tensors(*(normal(*shape, seed=seed) for seed in range(3)))
        attention = F.scaled_dot_product_attention
        return {
            "attention": lambda: attention(q, k, v),
            "attention, causal": lambda: attention(q, k, v, is_causal=True),
        }
    if name == "histogram":
        n, bins = (10_007, 64) if small else (4_000_003, 1024)
        (values,) = tensors(np.random.default_rng(0).integers(0, bins, n, dtype=np.int32))
        return {"histogram, atomics": lambda: torch.bincount(values, minlength=bins)}
    if name == "embedding":
        n, entries, width = (100, 50, 24) if small else (16384, 32000, 768)
        rows = np.random.default_rng(1).integers(0, entries, n, dtype=np.int32)
        table, tokens = tensors(normal(entries, width), rows)
        return {"embedding": lambda: F.embedding(tokens, table)}
    if name == "convolution":
        image, weights = tensors(normal(*((70, 150) if small else (1080, 1920))), normal(5, 5, seed=1))
        return {"convolution 5 x 5": lambda: F.conv2d(image[None, None], weights[None, None])[0, 0]}
    if name == "prefix_sum":
        n = 10_007 if small else 4_000_003
        (x,) = tensors(np.random.default_rng(0).integers(-100, 100, n, dtype=np.int32))
        return {"running sums": lambda: torch.cumsum(x, 0, dtype=torch.int32)}
    if name == "nbody":
        bodies, masses = tensors(normal(3, 100 if small else 3000), np.abs(normal(100 if small else 3000, seed=1)))

        def gravity() -> Any:
            away = bodies[:, None, :] - bodies[:, :, None]
            return (masses * ((away * away).sum(0) + 0.01) ** -1.5 * away).sum(2)

        return {"gravity of all pairs": gravity}
    return {}
