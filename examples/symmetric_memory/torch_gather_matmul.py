"""Runs the all-gather with matmul on GPUs that see each other's memory, and checks it against NCCL and cuBLAS.

    torchrun --nproc-per-node 2 torch_gather_matmul.py --repetitions 1000

``processes.py`` runs the same kernels on the host.
"""

from __future__ import annotations

import argparse
import os
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory
from gather_matmul import PUBLISHED, TAKEN, gather_matmul, publish

import tilewright as ct

TM, TK, TC = 128, 64, 256
WIDE = gather_matmul.replace_options("triton", num_warps=8, num_stages=3)  # for tiles of 256 columns


class GatherMatmul:
    """The rows of all processes of ``group`` times a matrix. ``shape`` and ``dtype`` are those of the rows of one."""

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: torch.dtype,
        device: Any,
        group: Any,
        copiers: int = 32,
        wide: bool = False,
    ) -> None:
        if shape[0] % TM:
            raise ValueError(f"each process has {shape[0]} rows; it has to be a multiple of {TM}")
        self.rank, self.processes = dist.get_rank(group), dist.get_world_size(group)
        self.copiers, self.turn, self.wide = copiers, 0, wide
        self.shared = self._peers(shape, dtype, device, group)
        self.signals = self._peers((2,), torch.int32, device, group)
        self.gathered = torch.empty(self.processes * shape[0], shape[1], dtype=dtype, device=device)
        self.arrived = torch.zeros(self.processes * shape[0] // TM, dtype=torch.int32, device=device)
        self.stop = torch.zeros(1, dtype=torch.int32, device=device)
        self._one = torch.ones(1, dtype=torch.int32).pin_memory()
        self._seen = torch.zeros(self.processes, 2, dtype=torch.int32).pin_memory()
        self._side = torch.cuda.Stream(device)
        torch.cuda.synchronize()
        dist.barrier(group)  # all signals are 0

    def _peers(self, shape: tuple[int, ...], dtype: torch.dtype, device: Any, group: Any) -> list[torch.Tensor]:
        """Memory of each process in turn, which starts with zeros."""
        mine = symmetric_memory.empty(shape, dtype=dtype, device=device)
        handle = symmetric_memory.rendezvous(mine, group)
        mine.zero_()
        self._handles = [*getattr(self, "_handles", ()), (mine, handle)]  # the memory lives as long as these
        return [handle.get_buffer(r, shape, dtype) for r in range(self.processes)]

    def publish(self, rows: torch.Tensor) -> None:
        """Let the others see these rows; the next thing has to be ``multiply``."""
        takers = self.turn * (self.processes - 1) * self.copiers
        self.turn += 1
        grid = rows.shape[0] // TM, ct.cdiv(rows.shape[1], TC)
        mine = self.shared[self.rank], self.gathered, self.signals[self.rank], self.stop
        ct.launch(torch.cuda.current_stream(), grid, publish, (rows, *mine, self.rank, takers, TM, TC))

    def multiply(self, b: torch.Tensor) -> torch.Tensor:
        """The rows of all, which they have published in this turn, times ``b``."""
        out = torch.empty(self.gathered.shape[0], b.shape[1], dtype=b.dtype, device=b.device)
        kernel, columns = (WIDE, 256) if self.wide else (gather_matmul, 128)
        blocks = self.copiers + ct.cdiv(out.shape[0], TM) * ct.cdiv(out.shape[1], columns)
        others = [(*arrays[self.rank + 1 :], *arrays[: self.rank]) for arrays in (self.shared, self.signals)]
        args = *others, self.gathered, self.arrived, self.stop, b, out, self.rank, self.turn
        ct.launch(torch.cuda.current_stream(), (blocks,), kernel, (*args, self.copiers, TM, columns, TK, TC))
        return out

    def __call__(self, rows: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        self.publish(rows)
        return self.multiply(b)

    def synchronize(self, patience: float = 30.0) -> None:
        """Until all of this stream is done. RuntimeError after ``patience`` seconds: what has come from which process.

        The host asks by copies, which run beside kernels that wait, however many they are.
        """
        done = torch.cuda.Event()
        done.record()
        end = time.monotonic() + patience
        while not done.query():
            if time.monotonic() > end:
                with torch.cuda.stream(self._side):
                    for rank, signals in enumerate(self.signals):
                        self._seen[rank].copy_(signals, non_blocking=True)
                    self._side.synchronize()
                    self.stop.copy_(self._one, non_blocking=True)
                found = self._seen.tolist()
                state = ", ".join(f"process {r} {s[PUBLISHED]} and {s[TAKEN]}" for r, s in enumerate(found))
                raise RuntimeError(
                    f"process {self.rank}: nothing came for {patience:g} s in turn {self.turn}; blocks that have "
                    f"published, and copiers that have taken: {state}"
                )
            time.sleep(1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("repetitions", 1000), ("rows", 512), ("depth", 1024), ("columns", 768)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device, timeout=timedelta(seconds=60))
    torch.manual_seed(rank)
    ours = GatherMatmul((args.rows, args.depth), torch.float16, device, dist.group.WORLD)
    b = torch.randint(-2, 3, (args.depth, args.columns), device=device).half()
    gathered = torch.empty_like(ours.gathered)
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    for _ in range(args.repetitions):
        rows = torch.randint(-2, 3, (args.rows, args.depth), device=device).half()
        found = ours(rows, b)
        dist.all_gather_into_tensor(gathered, rows)
        wrong += (found != gathered @ b).any()  # sums of integers this small are exact
    ours.synchronize()
    if wrong.item():
        raise SystemExit(f"process {rank}: {int(wrong.item())} of {args.repetitions} repetitions are wrong")
    dist.barrier()
    if rank == 0:
        print(f"{dist.get_world_size()} GPUs: {args.repetitions} repetitions are right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
