"""What a machine can do at most, measured: copies of memory, and multiply-adds in registers.

python benchmarks/cpu_limits.py [--threads N]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

import llvmlite.binding as llvm
import numpy as np

_MEGABYTES = 256  # of each array that is copied: more than any last-level cache
_CHAINS = 12  # multiply-adds that do not wait for each other: latency 4, two units, and some to spare
_ITERATIONS = 4_000_000
_REPETITIONS = 5


@dataclass(frozen=True)
class Limits:
    """Bytes per second, read and written; operations per second in float32 and float64. A multiply-add counts two."""

    copy: float
    f32: float
    f64: float

    def of(self, flops: float, moved: float, double: bool = False) -> tuple[str, float]:
        """Which limit binds, and the seconds that the work takes at least."""
        compute, memory = flops / (self.f64 if double else self.f32), moved / self.copy
        return ("compute", compute) if compute > memory else ("memory", memory)


def measure(threads: int) -> Limits:
    return Limits(copy_bandwidth(threads), peak(threads, "float"), peak(threads, "double"))


def copy_bandwidth(threads: int) -> float:
    """Of NumPy's copies by that many threads, each of a part."""
    size = _MEGABYTES << 20
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    parts = [slice(size * i // threads, size * (i + 1) // threads) for i in range(threads)]
    return 2 * size / _fastest([lambda p=p: np.copyto(target[p], source[p]) for p in parts])


def peak(threads: int, element: str) -> float:
    """Of multiply-adds on the widest vectors of the processor, by that many threads."""
    work, operations, _engine = _multiply_adds(element)
    return threads * operations / _fastest([work] * threads)


def _fastest(work: list[Callable[[], object]]) -> float:
    """The seconds of the fastest of several runs of all ``work`` at once."""
    best = float("inf")
    for _ in range(_REPETITIONS):
        threads = [Thread(target=w) for w in work]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return best


def _multiply_adds(element: str) -> tuple[Callable[[], object], float, llvm.ExecutionEngine]:
    """A function of independent chains of multiply-adds, its operations, and what keeps it in memory."""
    features = llvm.get_host_cpu_features()
    bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    lanes = bits // (32 if element == "float" else 64)
    vector, chains = f"<{lanes} x {element}>", range(_CHAINS)
    suffix = f"v{lanes}f{32 if element == 'float' else 64}"
    one = ", ".join([f"{element} 1.0"] * lanes)
    lines = [
        f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
        f"define {element} @work(i64 %n, {element} %seed) {{",
        "entry:",
        f"  %s0 = insertelement {vector} undef, {element} %seed, i32 0",
        f"  %s = shufflevector {vector} %s0, {vector} undef, <{lanes} x i32> zeroinitializer",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %x{k} = phi {vector} [ <{one}>, %entry ], [ %y{k}, %loop ]" for k in chains),
        *(f"  %y{k} = call {vector} @llvm.fma.{suffix}({vector} %x{k}, {vector} %s, {vector} <{one}>)" for k in chains),
        "  %next = add i64 %i, 1",
        "  %again = icmp ult i64 %next, %n",
        "  br i1 %again, label %loop, label %end",
        "end:",
        f"  %t1 = fadd {vector} %y0, %y1",
        *(f"  %t{k} = fadd {vector} %t{k - 1}, %y{k}" for k in chains[2:]),
        f"  %r = extractelement {vector} %t{_CHAINS - 1}, i32 0",
        f"  ret {element} %r",
        "}",
    ]
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    wide = ",+prefer-256-bit" if bits == 256 else ",-prefer-256-bit"
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten() + wide, opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly("\n".join(lines)), machine)
    engine.finalize_object()
    number = ctypes.c_float if element == "float" else ctypes.c_double
    function = ctypes.CFUNCTYPE(number, ctypes.c_int64, number)(engine.get_function_address("work"))
    return (lambda: function(_ITERATIONS, 0.5)), 2.0 * lanes * _CHAINS * _ITERATIONS, engine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    threads = parser.parse_args().threads
    found = measure(threads)
    print(f"{threads} threads: copies {found.copy / 1e9:.1f} GB/s, read and written; multiply-adds", end=" ")
    print(f"{found.f32 / 1e9:.0f} GFLOP/s in float32, {found.f64 / 1e9:.0f} in float64")


if __name__ == "__main__":
    main()
