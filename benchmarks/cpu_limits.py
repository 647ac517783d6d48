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
from typing import Any

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
    """Of copies by that many threads, each of a part, with stores that do not read what they overwrite."""
    size = _MEGABYTES << 20
    source, target = np.ones(size + _LINE, np.uint8), np.zeros(size + _LINE, np.uint8)
    starts = [-a.ctypes.data % _LINE + a.ctypes.data for a in (source, target)]
    part = size // threads // _LINE * _LINE
    copy, _engine = _compiled(_COPY, "copy", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    work = [lambda k=k: copy(starts[0] + k * part, starts[1] + k * part, part // _LINE) for k in range(threads)]
    return 2 * part * threads / _fastest(work)


_LINE = 64  # bytes of a cache line, and of the vectors that are copied
_COPY = """
define void @copy(ptr %from, ptr %to, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = getelementptr <16 x float>, ptr %from, i64 %i
  %b = getelementptr <16 x float>, ptr %to, i64 %i
  %x = load <16 x float>, ptr %a, align 64
  store <16 x float> %x, ptr %b, align 64, !nontemporal !0
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %n
  br i1 %again, label %loop, label %end
end:
  ret void
}
!0 = !{i32 1}
"""


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
    number = ctypes.c_float if element == "float" else ctypes.c_double
    function, engine = _compiled("\n".join(lines), "work", number, ctypes.c_int64, number)
    return (lambda: function(_ITERATIONS, 0.5)), 2.0 * lanes * _CHAINS * _ITERATIONS, engine


def _compiled(text: str, name: str, result: Any, *arguments: Any) -> tuple[Any, llvm.ExecutionEngine]:
    """A function of LLVM IR as one of Python, which runs without the lock, and what keeps it in memory."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    width = ",-prefer-256-bit" if features.get("avx512f") else ""
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten() + width, opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return ctypes.CFUNCTYPE(result, *arguments)(engine.get_function_address(name)), engine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    threads = parser.parse_args().threads
    found = measure(threads)
    print(f"{threads} threads: copies {found.copy / 1e9:.1f} GB/s, read and written; multiply-adds", end=" ")
    print(f"{found.f32 / 1e9:.0f} GFLOP/s in float32, {found.f64 / 1e9:.0f} in float64")


if __name__ == "__main__":
    main()
