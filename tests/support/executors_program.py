"""A search whose configurations compile and are measured by the executor of a library: KIND is mpi, ray or dask.

Usage: executors_program.py KIND, for mpi under ``mpiexec -n 2 python``.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import tilewright as ct


@contextlib.contextmanager
def executor_of(kind: str) -> Iterator[Any]:
    """The executor, or None where a process only works for that of another one."""
    if kind == "mpi":
        with importlib.import_module("mpi4py.futures").MPICommExecutor() as executor:
            yield executor
    elif kind == "ray":
        ray = importlib.import_module("ray")

        class Pool:
            def submit(self, function: Any, *args: Any) -> Any:
                return ray.remote(function).remote(*args).future()

        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        yield Pool()
        ray.shutdown()
    else:
        dask = importlib.import_module("dask.distributed")
        with (
            dask.LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster,
            dask.Client(cluster) as client,
        ):
            yield client


def search(executor: Any) -> None:
    factor = 3

    @ct.kernel
    def local(x: Any, out: Any, TILE: ct.Constant[int]) -> None:
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * factor)

    x, out = np.ones(500), np.zeros(500)
    for devices in ([], [executor]):
        result = ct.tune.exhaustive_search(
            [64, 128, 100],  # the last one is no power of two
            None,
            lambda tile: (ct.cdiv(500, tile),),
            local.replace_hints(),
            lambda tile: (x, out, tile),
            quiet=True,
            executor=executor,
            devices=devices,
        )
        assert {m.config for m in result.successes} == {64, 128}, result
        assert [(config, kind) for config, kind, _ in result.failures] == [(100, ct.TileTypeError)], result


if __name__ == "__main__":
    with executor_of(sys.argv[1]) as chosen:
        if chosen is not None:
            search(chosen)
            print("done")
