"""Runs the all-gather with matmul in processes that share memory of the host, and checks it.

    python processes.py --processes 2 --repetitions 20

The same kernels run on GPUs: see ``torch_gather_matmul.py``.
"""

from __future__ import annotations

import argparse
import multiprocessing
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from gather_matmul import gather_matmul, publish

import tilewright as ct

COPIERS, TILE = 2, 32


def rows_of(rank: int, turn: int, shape: tuple[int, int]) -> Any:
    """The rows of a process, which are integers: products of them are exact, in any order."""
    return np.random.default_rng((rank, turn)).integers(-4, 5, shape).astype(np.float32)


def others(arrays: list[Any], rank: int) -> tuple[Any, ...]:
    """Those of the processes after ``rank``, and then those before it."""
    return (*arrays[rank + 1 :], *arrays[:rank])


def work(rank: int, memories: list[SharedMemory], shape: tuple[int, int], columns: int, turns: int) -> None:
    processes, (count, depth) = len(memories), shape
    signals: list[Any] = [np.ndarray((2,), np.int32, m.buf) for m in memories]
    shared: list[Any] = [np.ndarray(shape, np.float32, m.buf, offset=64) for m in memories]
    gathered = np.zeros((processes * count, depth), np.float32)
    arrived = np.zeros(processes * count // TILE, np.int32)
    b = rows_of(processes + rank, 0, (depth, columns))
    out = np.empty((len(gathered), columns), np.float32)
    blocks = COPIERS + ct.cdiv(len(out), TILE) * ct.cdiv(columns, TILE)
    for turn in range(1, turns + 1):
        takers = (turn - 1) * (processes - 1) * COPIERS
        rows, tiles = rows_of(rank, turn, shape), (count // TILE, ct.cdiv(depth, TILE))
        ct.launch(None, tiles, publish, (rows, shared[rank], gathered, signals[rank], rank, takers, TILE, TILE))
        args = (
            others(shared, rank),
            others(signals, rank),
            gathered,
            arrived,
            b,
            out,
            rank,
            turn,
            COPIERS,
            TILE,
            TILE,
            TILE,
            TILE,
        )
        ct.launch(None, (blocks,), gather_matmul, args)
        expected = np.concatenate([rows_of(r, turn, shape) for r in range(processes)]) @ b
        if not np.array_equal(out, expected):
            raise SystemExit(f"process {rank}: wrong in repetition {turn}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("processes", 2), ("repetitions", 20), ("rows", 64), ("depth", 96), ("columns", 80)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    shape = args.rows, args.depth
    if args.rows % TILE:
        parser.error(f"--rows must be a multiple of {TILE}")
    context = multiprocessing.get_context("spawn")
    memories = [SharedMemory(create=True, size=64 + 4 * args.rows * args.depth) for _ in range(args.processes)]
    try:
        given = memories, shape, args.columns, args.repetitions
        running = [context.Process(target=work, args=(rank, *given)) for rank in range(args.processes)]
        for process in running:
            process.start()
        for process in running:
            process.join()
    finally:
        for memory in memories:
            memory.close()
            memory.unlink()
    if any(process.exitcode for process in running):
        raise SystemExit("a process failed")
    print(f"{args.processes} processes: {args.repetitions} repetitions are right")


if __name__ == "__main__":
    main()
