"""Runs many random kernels, in processes of their own, and says which fail: by hand, on GPUs and in continuous
integration. A kernel that ends its process, or all work on the GPU, is one that fails.

    python -m support.random_runs products --on gpu --seeds 0:3000 --jobs 16
    python -m support.random_runs --on sm_80,sm_90,sm_100 --count 300      # all generators, compiled by Triton only
    python -m support.random_runs --on gpu:sm_80,gpu:sm_90,gpu:sm_100      # compiled by the gpu backend, verified
    python -m support.random_runs kernels products --on ptx --count 100            # the interpreter of PTX: no GPU
    python -m support.random_runs kernels products --on tileir --seeds 0:2000        # by NVIDIA's compiler, on a GPU
    python -m support.random_runs kernels products --on tileir:sm_90,tileir:sm_100   # assembled only
    python -m support.random_runs kernels products --on oracle             # by all backends, and through CUDA Tile IR
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fuzz.check import faults
from fuzz.programs import program
from support.kernel_runs import GENERATORS as KERNELS
from support.kernel_runs import arguments, check_product, compare
from support.product_generator import ProductKernel
from support.tile_ir_oracle import differences

from tilewright import TileError
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends import registry
from tilewright.backends.gpu.backend import choose
from tilewright.backends.gpu.compiler import Compiled, compile_to_ptx
from tilewright.backends.tileir.backend import TileIRBackend
from tilewright.backends.triton.backend import compile_for
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import DEEPER
from tilewright.runtime.launch import specialization

GENERATORS: dict[str, Callable[[int], Any]] = {**KERNELS, "programs": program}
_TOO_LARGE = ("shared memory",)  # what a kernel may need too much of, and is told so
_WRONGLY = "is compiled wrongly"  # what Triton makes of integers, and is refused
_OK, _SKIPPED, _FALLBACK = "ok", "too large", "ok with"  # less freedom for tileiras
_TIMEOUT = 700  # seconds for one kernel, which tileiras may be given in six forms
_GRACE = 5  # seconds that a process has to end by itself
_STEPS = 4  # of rows that are kept, in the one of their variants that is compiled
_MINUTE = 60  # seconds after which a run that may be killed says how far it is
# What takes the place of the CPU backend.
_PLUGINS = {"gpu": "support.gpu", "tileir": "support.gpu_tileir", "ptx": "support.ptx.plugin"}


def _run(name: str, seed: int, on: str) -> str:
    """How kernel ``seed`` of the generator ``name`` fares: ``_OK``, ``_SKIPPED``, or the first line of what went wrong."""
    kernel = GENERATORS[name](seed)
    targets = on.split(",") if on.startswith(("sm_", "gfx", "tileir:", "gpu:")) else []
    target = targets[seed % len(targets)] if targets else ""
    try:
        if name == "programs":
            if not target:
                return _said(faults(kernel, ("reference", "cpu")))
            made, given = kernel.kernel(), kernel.arguments(kernel.written())
            if target.startswith("gpu:"):
                return _compile(specialization(made, tuple(given), "reference").function, target)
            made.compile_for(target, given)
        elif target:
            return _compile(specialization(kernel.kernel(), arguments(kernel)[0], "reference").function, target)
        elif on == "oracle":
            return _said(differences(kernel))
        elif isinstance(kernel, ProductKernel):
            check_product(kernel, "cpu")
        else:
            compare(kernel, "cpu")
    except TileError as error:
        if isinstance(error, driver.CudaError) and error.code in driver.LOST:
            raise  # nothing that this process tries after it would work
        text = str(error)
        if _WRONGLY in text:
            return f"{_FALLBACK} refusals"
        return (
            _SKIPPED if any(what in text for what in _TOO_LARGE) else f"{type(error).__name__}: {text}".splitlines()[0]
        )
    return _OK


def _said(found: Sequence[str]) -> str:
    if not found:
        return _OK
    if any(what in line for line in found for what in _TOO_LARGE):
        return _SKIPPED
    return "; ".join(line.splitlines()[0] for line in found)


def _compile(function: Function, target: str) -> str:
    if target.startswith("tileir:"):
        fallback = TileIRBackend(target.removeprefix("tileir:")).compile(function, {}).artifact.fallback
        return f"{_FALLBACK} {', '.join(fallback)}" if fallback else _OK
    if target.startswith("gpu:"):
        _compile_variants(function, target.removeprefix("gpu:"))
    else:
        compile_for(function, parse_target(target), {})
    return _OK


def _compile_variants(function: Function, target: str) -> None:
    """Compile all that launches may need of ``function``, up to PTX."""

    def compiled(how: Constraints) -> Compiled:
        return compile_to_ptx(function, target, choose(function, {}, parse_target(target))["num_warps"], None, how)

    first = Constraints()
    made = compiled(first)
    depths = made.distributed.hints.get(DEEPER, ())
    how = [replace(first, join=join) for join in made.joinable]
    how += [replace(first, stages=stages, blocks=n) for n, stages in enumerate(depths, 1) if stages]
    how += [replace(first, steps=_STEPS)] if made.kept_rows else []
    how += [replace(first, across=n, blocks=1) for n in made.divisions]
    for others in (*how, replace(first, realign=False), replace(first, descriptors=False)):
        compiled(others)


def _work(on: str) -> None:
    """The work of a process: the kernels that the standard input names, a line of the standard output for each."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore", RuntimeWarning)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it runs ends with it
    os.environ["TILEWRIGHT_VERIFY"] = "1"
    if on in _PLUGINS:
        host = importlib.import_module(_PLUGINS[on]).BACKEND
        registry.register_backend("cpu", lambda: host, default_for="cpu")
    for line in sys.stdin:
        name, seed = line.split()
        with contextlib.redirect_stdout(io.StringIO()):
            lost = False
            try:
                said = _run(name, int(seed), on)
            except Exception as error:  # noqa: BLE001 - every failure is a finding
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                lost = isinstance(error, driver.CudaError) and error.code in driver.LOST
        print(said, file=out, flush=True)
        if lost:
            os._exit(1)


class Runner:
    """Runs kernels in processes, each of which is replaced when it dies. ``failures`` are the kernels that failed."""

    def __init__(self, on: str, seconds: float, *, each: bool = False) -> None:
        self.on = on
        self.each = each
        self.end = time.monotonic() + seconds
        self.failures: list[tuple[str, int, str]] = []
        self.counts = {_OK: 0, _SKIPPED: 0, _FALLBACK: 0}
        self._told = time.monotonic()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()

    def stop(self) -> None:
        """Begin no further kernel, and end all processes."""
        self.end = 0.0
        for process in list(self._running):
            _end(process)

    def share(self, work: Sequence[tuple[str, int]]) -> None:
        """Run ``work`` in one process at a time."""
        left = iter(work)
        while self._until_it_dies(left):
            pass

    def _until_it_dies(self, left: Iterator[tuple[str, int]]) -> bool:
        """Whether a process ended before the work did."""
        command = [sys.executable, "-m", "support.random_runs", "--work", "--on", self.on]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as p, self._while_running(p):
            assert p.stdin is not None and p.stdout is not None and p.stderr is not None
            noise: list[str] = []
            reader = threading.Thread(target=lambda: noise.extend(p.stderr or ()))
            reader.start()
            for name, seed in left:
                if time.monotonic() > self.end:
                    p.stdin.close()
                    return False
                watch = threading.Timer(_TIMEOUT, _end, [p])
                watch.start()
                with contextlib.suppress(BrokenPipeError):
                    print(name, seed, file=p.stdin, flush=True)
                said = p.stdout.readline().strip()
                watch.cancel()
                if not said:
                    p.wait()
                    reader.join()
                    last = next((line.strip() for line in noise if "Assertion" in line), "".join(noise[-1:]).strip())
                    self._note(name, seed, f"the process ended with {p.returncode}: {last}")
                    return True
                self._note(name, seed, said)
                if p.poll() is not None:
                    return True
            p.stdin.close()
        return False

    @contextlib.contextmanager
    def _while_running(self, process: subprocess.Popen[str]) -> Iterator[None]:
        self._running.add(process)
        try:
            yield
        finally:
            self._running.remove(process)

    def _note(self, name: str, seed: int, said: str) -> None:
        with self._lock:
            kind = _FALLBACK if said.startswith(_FALLBACK) else said
            if kind in self.counts:
                self.counts[kind] += 1
            else:
                self.failures.append((name, seed, said))
            if self.each or kind is _FALLBACK or kind not in self.counts:
                print(f"{name} {seed}: {said}", flush=True)
            if time.monotonic() - self._told >= _MINUTE:
                self._told = time.monotonic()
                print(f"so far: {self}", flush=True)

    def __str__(self) -> str:
        less = {_FALLBACK: f"{_FALLBACK} less freedom"}
        counts = "".join(f"{n} {less.get(what, what)}, " for what, n in self.counts.items() if n)
        return f"{counts}{len(self.failures)} failed"


def _end(process: subprocess.Popen[str]) -> None:
    """End a process, which ends the assembler that it runs, unless it is stuck."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def _seeds(given: str | None, count: int) -> range:
    """Those that were asked for, or ``count`` of today."""
    if given:
        start, number = (int(n) for n in given.split(":"))
        return range(start, start + number)
    today = datetime.datetime.now(datetime.timezone.utc).date().toordinal() * 10_000
    return range(today, today + count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("generators", nargs="*", choices=[*GENERATORS, []])
    parser.add_argument(
        "--on", default="cpu", help="cpu, gpu, ptx, tileir, oracle, or architectures to compile for, in turns"
    )
    parser.add_argument("--seeds", help="start:count; those of today without it")
    parser.add_argument("--count", type=int, default=300, help="how many of today")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=1e9, help="no kernel is begun after so many")
    parser.add_argument("--each", action="store_true", help="a line for each kernel, as there is with the oracle")
    parser.add_argument("--folder", type=Path, help="where the kernels that fail are written to")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(given.on)
        return 0
    names = given.generators or list(GENERATORS)
    work = [(name, seed) for seed in _seeds(given.seeds, -(-given.count // len(names))) for name in names]
    runner, began = Runner(given.on, given.seconds, each=given.each or given.on == "oracle"), time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        try:
            list(pool.map(runner.share, (work[i :: given.jobs] for i in range(given.jobs))))
        except KeyboardInterrupt:
            runner.stop()
            raise
    for name, seed, said in runner.failures if given.folder else ():
        given.folder.mkdir(parents=True, exist_ok=True)
        kernel = GENERATORS[name](seed)
        text = kernel.source if name == "programs" else kernel
        (given.folder / f"{name}-{seed}.py").write_text(f"# {said}\n{text}")
    took = time.monotonic() - began
    print(f"random {' and '.join(names)} on {given.on}: {runner}, {took:.0f} s")
    return 1 if runner.failures or not runner.counts[_OK] else 0


if __name__ == "__main__":
    sys.exit(main())
