"""Seconds of processor time from the source of kernels of 8-bit floats to machine code for sm_90, by this package and
by cuTile Python, which take turns in processes of their own, without caches:

    python benchmarks/fp8_compile.py [--turns 2] [--original python-that-has-cuda.tile]

No GPU is needed. Before the first kernel another one is compiled, so that what is loaded once does not count.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OURS, ORIGINAL = "tilewright", "cuda.tile"


def ours() -> Callable[[Any, Sequence[Any]], None]:
    np, ml_dtypes = importlib.import_module("numpy"), importlib.import_module("ml_dtypes")

    def made(value: Any) -> Any:
        if not isinstance(value, tuple):
            return value
        dtype, shape = value
        return np.zeros(shape, getattr(ml_dtypes, dtype, dtype))

    return lambda kernel, arguments: kernel.compile_for("sm_90", tuple(map(made, arguments)))


def original() -> Callable[[Any, Sequence[Any]], None]:
    ct, of = importlib.import_module("cuda.tile"), importlib.import_module("cuda.tile.compilation")

    def constraint(value: Any) -> Any:
        if not isinstance(value, tuple):
            return of.ConstantConstraint(value)
        dtype, shape = value[0], value[1]
        multiple = 16 // (getattr(ct, dtype).bitwidth // 8)
        outer = [multiple if n % multiple == 0 else 1 for n in shape[1:]]
        return of.ArrayConstraint(
            getattr(ct, dtype),
            len(shape),
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=[None] * len(outer) + [1],
            stride_divisible_by=[*outer, 1],
            shape_divisible_by=[16 if n % 16 == 0 else 1 for n in shape],
            base_addr_divisible_by=16,
        )

    def compile_one(kernel: Any, arguments: Sequence[Any]) -> None:
        convention = of.CallingConvention.cutile_python_v1()
        signature = of.KernelSignature([constraint(a) for a in arguments], convention, symbol="k")
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            of.export_kernel(kernel, [signature], file.name, gpu_code="sm_90", output_format="cubin")

    return compile_one


def processor_time() -> float:
    """Of this process and the assemblers that it waited for, in seconds."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(f.ru_utime + f.ru_stime for f in found)


def cases() -> list[tuple[str, Any, Sequence[Any]]]:
    found: list[tuple[str, Any, Sequence[Any]]] = importlib.import_module("fp8_kernels").CASES
    return found


def work(side: str) -> None:
    """The work of a process: a line of the standard output for each kernel."""
    compile_one = ours() if side == OURS else original()
    _, kernel, arguments = cases()[-1]
    compile_one(kernel, (*arguments[:-1], 64))
    for _, kernel, arguments in cases():
        began = processor_time()
        compile_one(kernel, arguments)
        print(processor_time() - began, flush=True)


def measured(side: str, python: str) -> list[float]:
    paths = [str(FOLDER)] if side == ORIGINAL else [str(FOLDER.parent / "src"), str(FOLDER)]
    with tempfile.TemporaryDirectory() as empty:
        names = "CUDA_TILE_CACHE_DIR", "TRITON_CACHE_DIR", "TILEWRIGHT_CACHE_DIR"
        environment = {**os.environ, **dict.fromkeys(names, empty), "PYTHONPATH": os.pathsep.join(paths)}
        command = [python, str(FOLDER / "fp8_compile.py"), "--work", side]
        environment["FP8_KERNELS_FOR"] = side
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{side}: {ran.stderr}")
    return [float(line) for line in ran.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--original", default=sys.executable)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    sides = {OURS: sys.executable, ORIGINAL: options.original}
    turns = [{side: measured(side, python) for side, python in sides.items()} for _ in range(options.turns)]
    best = {side: [min(times) for times in zip(*(turn[side] for turn in turns))] for side in sides}
    os.environ["FP8_KERNELS_FOR"] = OURS
    sys.path.insert(0, str(FOLDER.parent / "src"))
    print(f"| kernel | {OURS} | {ORIGINAL} |\n|---|---:|---:|")
    for (name, _, _), own, other in zip(cases(), *best.values()):
        print(f"| {name} | {own:.2f} | {other:.2f} |")
    print(f"| all | {sum(best[OURS]):.2f} | {sum(best[ORIGINAL]):.2f} |")


if __name__ == "__main__":
    main()
