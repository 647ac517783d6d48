"""Milliseconds of processor time that the gpu backend takes for four kernels before ptxas, and ptxas after it.

    python benchmarks/gpu_compile.py [--target sm_90] [--rounds 15]

The kernels take turns; the numbers are medians. No GPU is needed; ptxas is measured where one is found.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "src"))

import tilewright as ct  # noqa: E402
from tilewright.backends.gpu import assemble  # noqa: E402
from tilewright.backends.gpu.compiler import compile_to_ptx  # noqa: E402
from tilewright.ir.core import Function  # noqa: E402
from tilewright.ir.rewrite import clone_function  # noqa: E402
from tilewright.runtime.launch import specialization  # noqa: E402

GOALS = {"vector add": 15, "softmax": 20, "matmul": 50, "attention": 100}
STEPS = ("tile passes", "gpu passes", "lowering", "LLVM")


def functions() -> dict[str, Function]:
    path = FOLDER / "gpu_kernels.py"
    module = types.ModuleType("gpu_kernels")
    module.__dict__.update(ct=ct, __file__=str(path))
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)

    def made(name: str, *arguments: Any) -> Function:
        return specialization(getattr(module, name), arguments, "reference").function

    flat, rows = np.zeros(4096, np.float32), np.zeros((64, 4096), ml_dtypes.bfloat16)
    square, heads = np.zeros((1024, 1024), ml_dtypes.bfloat16), np.zeros((1, 1, 4096, 128), ml_dtypes.bfloat16)
    return {
        "vector add": made("vadd", flat, flat.copy(), flat.copy(), 1024),
        "softmax": made("softmax", rows, rows.copy(), 4096),
        "matmul": made("matmul", square, square.copy(), square.copy(), 128, 128, 64, 8, False),
        "attention": made("attention", *(heads.copy() for _ in range(4)), 0.1, 1, 128, 128, 128, True),
    }


def processor_time() -> float:
    """Of this process and the assemblers that it waited for, in seconds."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    time.perf_counter = time.process_time  # what the compiler tells of its steps
    kernels = functions()
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in kernels}
    for number in range(arguments.rounds + 1):
        for name, function in kernels.items():
            fresh = clone_function(function)  # optimized anew: a function remembers its optimized form
            start = processor_time()
            compiled = compile_to_ptx(fresh, arguments.target, None)
            middle = processor_time()
            if assemble.missing() is None:
                assemble.assemble(compiled.ptx, compiled.target.name, compiled.name)
            times = *(compiled.seconds[s] for s in STEPS), middle - start, processor_time() - middle
            if number:  # the first one imports what is missing
                found[name].append(times)
    print(f"| kernel | {' | '.join(STEPS)} | before ptxas | goal | ptxas |\n|---|{'---:|' * 7}")
    for name, all_times in found.items():
        *steps, whole, assembling = (statistics.median(column) * 1e3 for column in zip(*all_times))
        cells = " | ".join(f"{x:.1f}" for x in (*steps, whole))
        print(f"| {name} | {cells} | {GOALS[name]} | {assembling:.0f} |")


if __name__ == "__main__":
    main()
