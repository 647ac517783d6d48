"""Tuning a matmul over a space of published size: kernels compiled one after another, in processes, and as by default.

    python benchmarks/tuning.py --processes 16            # on the CPU
    python benchmarks/tuning.py --processes 16 --cuda     # on all GPUs

Each time everything is compiled anew, Triton's own cache included. With ``--cuda`` every GPU measures, in the run with
processes, whose start and end count. They never use the GPU, so that they may be forks of a process that does.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np

import tilewright as ct

SPACE = [
    {"TM": m, "TN": n, "TK": k, "CTAS": c}
    for m, n, k, c in itertools.product((64, 128, 256), (64, 128, 256), (32, 64), (1, 2))
]


@ct.kernel
def matmul(a: Any, b: Any, c: Any, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TK)):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


class Here(Executor):
    """Does everything at once, in this thread."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done = Future[Any]()
        try:
            done.set_result(function(*args, **kwargs))
        except ct.TileError as e:
            done.set_exception(e)
        return done


def search(arrays: tuple[Any, ...], executor: Executor | None, devices: list[Executor], space: list[Any]) -> float:
    """The seconds that a search takes, with nothing compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = folder, f"{folder}/triton"
        start = time.perf_counter()
        found = ct.tune.exhaustive_search(
            space,
            None,
            lambda c: (ct.cdiv(arrays[2].shape[0], c["TM"]), ct.cdiv(arrays[2].shape[1], c["TN"])),
            matmul.replace_hints(),
            lambda c: (*arrays, c["TM"], c["TN"], c["TK"]),
            lambda c: {"num_ctas": c["CTAS"]},
            quiet=True,
            executor=executor,
            devices=devices,
        )
        seconds = time.perf_counter() - start
    print(f"  best of {len(found.successes)}: {found.best.config}, {found.best.mean_us:.0f} us", flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--extent", type=int, default=2048)
    parser.add_argument("--every", type=int, default=1, help="take each so many-th configuration")
    parser.add_argument("--start", default="fork", choices=multiprocessing.get_all_start_methods())
    parser.add_argument("--cuda", action="store_true")
    args = parser.parse_args()
    n, devices = args.extent, list[Executor]()
    arrays: tuple[Any, ...] = tuple(np.ones((n, n), np.float32) for _ in range(3))
    if args.cuda:
        import torch  # noqa: PLC0415  needed for GPUs only

        arrays = tuple(torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(3))
        for index in range(torch.cuda.device_count() if torch.cuda.device_count() > 1 else 0):
            devices.append(ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(index,)))
    space = SPACE[:: args.every]
    print(f"{len(space)} configurations, {args.processes} processes")
    alone = search(arrays, Here(), [], space)
    if args.cuda:  # with processes of its own
        own = search(arrays, None, devices, space)
        print(f"one after another {alone:.1f} s, without an executor {own:.1f} s: {alone / own:.1f} times faster")
    context = multiprocessing.get_context(args.start)
    if args.start == "forkserver":
        context.set_forkserver_preload(["tilewright", *(["tilewright.backends.triton.compiler"] if args.cuda else [])])
    start = time.perf_counter()
    with ProcessPoolExecutor(args.processes, mp_context=context) as executor:
        within = search(arrays, executor, devices, space)
    together = time.perf_counter() - start  # with the start and the end of the processes
    print(f"  the search itself {within:.1f} s; the rest is the start and the end of the processes")
    print(f"one after another {alone:.1f} s, in processes {together:.1f} s: {alone / together:.1f} times faster")


if __name__ == "__main__":
    main()
