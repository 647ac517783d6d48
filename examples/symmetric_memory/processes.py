"""Runs the all-gather with matmul in processes that share memory of the host, and checks it.

    python processes.py --processes 2 --repetitions 20

The same kernels run on GPUs: see ``torch_gather_matmul.py``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import threading
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from gather_matmul import PUBLISHED, TAKEN, gather_matmul, publish

import tilewright as ct

COPIERS, TILE = 2, 32


def rows_of(rank: int, turn: int, shape: tuple[int, int]) -> Any:
    """The rows of a process, which are integers: products of them are exact, in any order."""
    return np.random.default_rng((rank, turn)).integers(-4, 5, shape).astype(np.float32)


def others(arrays: list[Any], rank: int) -> tuple[Any, ...]:
    """Those of the processes after ``rank``, and then those before it."""
    return (*arrays[rank + 1 :], *arrays[:rank])


def work(
    rank: int, memories: list[SharedMemory], shape: tuple[int, int], columns: int, turns: int, patience: float
) -> None:
    processes, (count, depth) = len(memories), shape
    signals: list[Any] = [np.ndarray((2,), np.int32, m.buf) for m in memories]
    shared: list[Any] = [np.ndarray(shape, np.float32, m.buf, offset=64) for m in memories]
    gathered = np.zeros((processes * count, depth), np.float32)
    arrived, stop = np.zeros(processes * count // TILE, np.int32), np.zeros(1, np.int32)
    b = rows_of(processes + rank, 0, (depth, columns))
    out = np.empty((len(gathered), columns), np.float32)
    blocks = COPIERS + ct.cdiv(len(out), TILE) * ct.cdiv(columns, TILE)
    for turn in range(1, turns + 1):
        takers = (turn - 1) * (processes - 1) * COPIERS
        rows, tiles = rows_of(rank, turn, shape), (count // TILE, ct.cdiv(depth, TILE))
        watchdog = threading.Timer(patience, stop.fill, (1,))
        watchdog.start()
        ct.launch(None, tiles, publish, (rows, shared[rank], gathered, signals[rank], stop, rank, takers, TILE, TILE))
        arrays = others(shared, rank), others(signals, rank), gathered, arrived, stop, b, out
        ct.launch(None, (blocks,), gather_matmul, (*arrays, rank, turn, COPIERS, TILE, TILE, TILE, TILE))
        watchdog.cancel()
        if stop[0]:
            state = ", ".join(f"process {r} {s[PUBLISHED]} and {s[TAKEN]}" for r, s in enumerate(signals))
            raise SystemExit(
                f"process {rank}: nothing came for {patience:g} s in repetition {turn}; blocks that have published, "
                f"and copiers that have taken: {state}"
            )
        expected = np.concatenate([rows_of(r, turn, shape) for r in range(processes)]) @ b
        if not np.array_equal(out, expected):
            raise SystemExit(f"process {rank}: wrong in repetition {turn}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("processes", 2), ("repetitions", 20), ("rows", 64), ("depth", 96), ("columns", 80)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--patience", type=float, default=60.0, help="the seconds that a process waits for the others")
    args = parser.parse_args()
    shape = args.rows, args.depth
    if args.rows % TILE:
        parser.error(f"--rows must be a multiple of {TILE}")
    context = multiprocessing.get_context("spawn")
    memories = [SharedMemory(create=True, size=64 + 4 * args.rows * args.depth) for _ in range(args.processes)]
    try:
        given = memories, shape, args.columns, args.repetitions, args.patience
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
