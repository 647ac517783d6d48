"""Trains a small transformer of tile kernels with PyTorch: in one process, or with FSDP2 and tensor parallelism.

    python train_torch.py                                     # one process, one device
    torchrun --nproc-per-node 4 train_torch.py --tensor 2     # 2 x 2: shards of the data and of the weights

Each process takes a GPU where there are enough, with NCCL, and else the CPU, with gloo. The losses are compared with
those of the same model made of PyTorch's own operators, on one device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tile_ops import attention, cross_entropy, matmul, norm, swiglu
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

TOLERANCE = 2e-3  # largest relative difference of a loss: float32 sums in another order, over so many steps
VOCABULARY = 64


class Block(nn.Module):
    """Attention and MLP, each after a norm and with a residual connection."""

    def __init__(self, width: int, heads: int, tiles: bool) -> None:
        super().__init__()
        self.heads, self.tiles = heads, tiles
        hidden = 2 * width
        self.norm1, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        shapes = {"query": (width, width), "key": (width, width), "value": (width, width), "out": (width, width)}
        shapes |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape) / shape[0] ** 0.5))

    def forward(self, x: Any, shape: tuple[int, int]) -> Any:
        """``x`` has a row for each token of ``shape``: sequences and their length."""
        batch, length = shape
        product = matmul if self.tiles else torch.matmul
        rows = self.normed(x, self.norm1)
        weights = self.query, self.key, self.value
        q, k, v = (product(rows, w).view(batch, length, self.heads, -1).transpose(1, 2) for w in weights)
        mixed = attention(q, k, v)[0] if self.tiles else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch * length, -1)
        x = x + replicated(product(mixed, self.out))
        rows = self.normed(x, self.norm2)
        gate, up = product(rows, self.gate), product(rows, self.up)
        hidden = swiglu(gate, up) if self.tiles else F.silu(gate) * up
        return x + replicated(product(hidden, self.down))

    def normed(self, x: Any, weight: Any) -> Any:
        return norm(x, weight)[0] if self.tiles else F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


class Model(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, tiles: bool) -> None:
        super().__init__()
        self.tiles = tiles
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, width) * 0.5)
        self.blocks = nn.ModuleList(Block(width, heads, tiles) for _ in range(layers))
        self.norm = nn.Parameter(torch.ones(width))
        self.head = nn.Parameter(torch.randn(width, VOCABULARY) / width**0.5)

    def forward(self, tokens: Any, targets: Any) -> Any:
        """The mean loss of the next tokens."""
        x = F.embedding(tokens.flatten(), self.embedding)
        for block in self.blocks:
            x = block(x, tuple(tokens.shape))
        rows = norm(x, self.norm)[0] if self.tiles else F.rms_norm(x, (x.shape[-1],), self.norm, 1e-5)
        if not self.tiles:
            return F.cross_entropy(rows @ self.head, targets.flatten())
        return cross_entropy(matmul(rows, self.head), targets.flatten())[0].mean()


def replicated(x: Any) -> Any:
    """The sum of the parts that the devices of the tensor-parallel mesh have."""
    return x.redistribute(placements=[Replicate()]) if isinstance(x, DTensor) else x


def parallelized(model: Model, mesh: Any, compiled: bool) -> Model:
    """``model`` with its heads and its hidden units split over the mesh ``tensor``, and all of it over ``data``.

    What is compiled are the blocks, each without a graph break: FSDP2 gathers their weights between them.
    """
    tensor = mesh["tensor"]
    split = {"query": 1, "key": 1, "value": 1, "out": 0, "gate": 1, "up": 1, "down": 0}
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            kind = Shard(split[name]) if name in split else Replicate()
            shared = distribute_tensor(parameter.detach(), tensor, [kind])
            module.register_parameter(name, nn.Parameter(shared))
    for i, block in enumerate(model.blocks):
        if compiled:
            model.blocks[i] = torch.compile(block, fullgraph=True)
        fully_shard(model.blocks[i], mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    return model


def batches(steps: int, batch: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Sequences that count up in steps of one to three, from anywhere."""
    random = torch.Generator().manual_seed(1)
    found = []
    for _ in range(steps):
        start = torch.randint(0, VOCABULARY, (batch, 1), generator=random)
        stride = torch.randint(1, 4, (batch, 1), generator=random)
        sequence = (start + stride * torch.arange(length + 1)) % VOCABULARY
        found.append((sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()))
    return found


def stepper(args: argparse.Namespace, tiles: bool, mesh: Any, device: torch.device) -> Any:
    """What takes one step with the tokens and targets of all devices, and gives the mean loss, still on the device."""
    torch.manual_seed(0)
    model = Model(args.width, args.heads, args.layers, tiles).to(device)
    rank, share = 0, 1
    if mesh is not None:
        model, rank, share = parallelized(model, mesh, args.compile), mesh["data"].get_local_rank(), mesh["data"].size()
    elif args.compile:
        for block in model.blocks:
            block.compile(fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)

    def step(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        given: list[Any] = [t.chunk(share)[rank].to(device) for t in (tokens, targets)]
        if mesh is not None:
            given = [DTensor.from_local(t, mesh["tensor"], [Replicate()]) for t in given]
        loss = model(*given)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach()
        mean = mean.full_tensor() if isinstance(mean, DTensor) else mean
        if mesh is not None:
            dist.all_reduce(mean, group=mesh["data"].get_group())
        return mean / share

    return step


def train(args: argparse.Namespace, tiles: bool, mesh: Any, device: torch.device) -> tuple[list[float], list[float]]:
    """The loss of each step, and its seconds."""
    step = stepper(args, tiles, mesh, device)
    losses, seconds = [], []
    for tokens, targets in batches(args.steps, args.batch, args.length):
        start = time.perf_counter()
        losses.append(step(tokens, targets).item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("steps", 20), ("batch", 8), ("length", 48), ("width", 64), ("heads", 4), ("layers", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--tensor", type=int, default=1, help="processes that share the weights of each layer")
    parser.add_argument("--own", action="store_true", help="PyTorch's own operators, to compare times")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--json", help="a file for the losses and times")
    args = parser.parse_args()
    processes, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= processes
    device = torch.device("cuda", rank) if gpus else torch.device("cpu")
    mesh = None
    if gpus:
        torch.cuda.set_device(device)
    if processes > 1:
        dist.init_process_group("nccl" if gpus else "gloo")
        shape = processes // args.tensor, args.tensor
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=("data", "tensor"))
    expected, plain = train(args, False, None, device)
    losses, seconds = train(args, not args.own, mesh, device)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected))
    if rank == 0:
        ours, theirs = (f"{statistics.median(times) * 1e3:.1f}" for times in (seconds, plain))
        times = f"{ours} ms per step (PyTorch's own, one device: {theirs})"
        print(f"{processes} x {device.type}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, {times}")
        print(f"largest relative difference of a loss: {worst:.1e} (at most {TOLERANCE})")
        if args.json:
            record = {"processes": processes, "losses": losses, "expected": expected, "seconds": seconds}
            with open(args.json, "w") as file:
                json.dump(record, file)
    if processes > 1:
        dist.destroy_process_group()
    if not worst <= TOLERANCE:
        raise SystemExit("the losses differ")


if __name__ == "__main__":
    main()
