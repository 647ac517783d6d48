"""Tile C++ on a GPU beside the same kernels in Python, and beside machine code of the original compiler.

    python benchmarks/cpp_gpu.py prepare FOLDER [--original 'nvcc --enable-tile --tilecubin -arch sm_90 -std=c++20']
    python benchmarks/cpp_gpu.py measure FOLDER

``prepare`` needs a C++ compiler and no GPU: it writes Tile IR and, where the original compiler is named, cubins.
``measure`` needs a GPU and PyTorch: the sides take turns, numbers are medians, results are checked against PyTorch.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "src")]
ct, cpp_module, printer, parser = map(
    importlib.import_module, ("tilewright", "tilewright.cpp.module", "tilewright.ir.printer", "tilewright.ir.parser")
)
SOURCE = FOLDER / "gpu_kernels.cu"
ROUNDS, MILLISECONDS = 5, 40
HALF, BF16 = "__half", "__nv_bfloat16"
LOG2_E = 1 / math.log(2)


@dataclass(frozen=True)
class Case:
    """A kernel with its template arguments, and the work that it is measured on."""

    work: str
    kernel: str
    arguments: tuple[str | int, ...]

    @property
    def expression(self) -> str:
        return f"{self.kernel}<{', '.join(map(str, self.arguments))}>"

    @property
    def file(self) -> str:
        return "_".join([self.kernel, *map(str, self.arguments)]).replace("__", "")


CASES = (
    Case("softmax f16 32768x4096", "softmax", (HALF, 4096)),
    Case("matmul bf16 8192x8192x8192", "matmul", (BF16, 128, 256, 64)),
    Case("matmul bf16 8192x8192x8192", "matmul", (BF16, 128, 128, 64)),
    Case("matmul f16 4096x4096x4096", "matmul", (HALF, 128, 256, 64)),
    Case("matmul f16 4096x4096x4096", "matmul", (HALF, 128, 128, 64)),
    Case("attention bf16 B4 H32 S4096 D128", "attention", (BF16, 128, 64, 128)),
    Case("attention bf16 B4 H32 S4096 D128", "attention", (BF16, 128, 128, 128)),
    Case("attention bf16 B4 H32 S4096 D128", "attention", (BF16, 128, 128, 64)),
    Case("attention bf16 B4 H32 S4096 D64", "attention", (BF16, 64, 64, 128)),
    Case("attention bf16 B4 H32 S4096 D64", "attention", (BF16, 64, 128, 128)),
    Case("attention bf16 B4 H32 S4096 D64", "attention", (BF16, 64, 128, 64)),
)
PARAMETERS = {
    "softmax": "{0} const*, {0}*, int, int",
    "matmul": "{0} const*, {0} const*, {0}*, int, int, int",
    "attention": "{0} const*, {0} const*, {0} const*, {0}*, int, int, float",
}


def prepare(folder: Path, original: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    module = ct.cpp.compile(SOURCE)
    for case in CASES:
        text = printer.print_function(module.kernel(case.expression).function, locations=True)
        (folder / f"{case.file}.tir").write_text(text)
        if original is not None:
            parameters = PARAMETERS[case.kernel].format(case.arguments[0])
            instance = folder / f"{case.file}.cu"
            instance.write_text(
                f'#include "{SOURCE.resolve()}"\ntemplate __tile_global__ void {case.expression}({parameters});\n'
            )
            subprocess.run(
                [*shlex.split(original), "-o", str(folder / f"{case.file}.cubin"), str(instance)], check=True
            )


class Cubin:
    """The one kernel of a cubin, launched through the driver."""

    def __init__(self, path: Path) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), path.read_bytes())
        self._call("cuModuleEnumerateFunctions", ctypes.byref(self.function), ctypes.c_uint(1), module)

    def _call(self, name: str, *arguments: Any) -> None:
        error = getattr(self.driver, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} gives error {error}")

    def launch(self, grid: tuple[int, int], stream: int, arguments: tuple[Any, ...]) -> None:
        values = [self._value(argument) for argument in arguments]
        slots = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        # One thread, as in the source; the driver makes those that the kernel was compiled for.
        self._call("cuLaunchKernel", self.function, *grid, 1, 1, 1, 1, 0, ctypes.c_void_p(stream), slots, None)

    @staticmethod
    def _value(argument: Any) -> Any:
        if isinstance(argument, (int, float)):
            return ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_float(argument)
        return ctypes.c_void_p(argument.data_ptr())


@dataclass
class Work:
    """Arrays, and how each kind of kernel is launched on them. ``amount`` is GB or TFLOP."""

    unit: str
    amount: float
    arrays: tuple[Any, ...]
    out: Any
    want: Any
    grid: Callable[[tuple[Any, ...]], tuple[int, int]]
    cpp: tuple[Any, ...]  # what follows the arrays
    python: Callable[[tuple[Any, ...]], tuple[Any, ...]]


def works() -> dict[str, Callable[[], Work]]:
    torch = importlib.import_module("torch")

    def softmax(rows: int, length: int) -> Work:
        x = torch.randn(rows, length, device="cuda", dtype=torch.float16)
        out = torch.empty_like(x)
        blocks = 132 * 8
        want = x[:64].float().softmax(1)
        return Work(
            "GB/s", 4e-9 * x.numel(), (x, out), out, want, lambda c: (blocks, 1), (rows, length), lambda c: (c[1],)
        )

    def matmul(n: int, dtype: Any) -> Work:
        a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)
        want = a[:64].float() @ b.float()
        return Work(
            *("TFLOP/s", 2e-12 * n**3, (a, b, out), out, want),
            *(lambda c: ((n // c[1]) * (n // c[2]), 1), (n, n, n), lambda c: (c[1], c[2], c[3], 8, False)),
        )

    def attention(width: int) -> Work:
        batch, heads, length = 4, 32, 4096
        q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(q)
        attend = torch.nn.functional.scaled_dot_product_attention
        want = attend(q[:1, :1].float(), k[:1, :1].float(), v[:1, :1].float())
        scale = LOG2_E / math.sqrt(width)
        return Work(
            *("TFLOP/s", 4e-12 * batch * heads * length**2 * width, (q, k, v, out), out, want),
            *(lambda c: (length // c[2], batch * heads), (batch * heads, length, scale)),
            lambda c: (scale, heads, c[1], c[2], c[3], False),
        )

    return {
        "softmax f16 32768x4096": lambda: softmax(32768, 4096),
        "matmul bf16 8192x8192x8192": lambda: matmul(8192, torch.bfloat16),
        "matmul f16 4096x4096x4096": lambda: matmul(4096, torch.float16),
        "attention bf16 B4 H32 S4096 D128": lambda: attention(128),
        "attention bf16 B4 H32 S4096 D64": lambda: attention(64),
    }


def sides(folder: Path, case: Case, work: Work) -> Iterator[tuple[str, Callable[[], None]]]:
    """The competitors for a case: a name, and what runs once."""
    torch, gpu = importlib.import_module("torch"), importlib.import_module("gpu")
    stream = torch.cuda.current_stream()
    grid = work.grid(case.arguments)
    function = parser.parse_function((folder / f"{case.file}.tir").read_text())
    kernel = cpp_module.Kernel(case.expression, function, lambda: function, "triton")
    same = getattr(gpu.kernels_for(ct), case.kernel)
    arguments = (*work.arrays, *work.python(case.arguments))
    yield "C++", lambda: ct.launch(stream, grid, kernel, (*work.arrays, *work.cpp))
    yield "Python", lambda: ct.launch(stream, grid, same, arguments, backend="triton")
    if (folder / f"{case.file}.cubin").exists():
        cubin = Cubin(folder / f"{case.file}.cubin")
        yield "original", lambda: cubin.launch(grid, stream.cuda_stream, (*work.arrays, *work.cpp))


def checked(run: Callable[[], None], work: Work) -> None:
    """Run once. RuntimeError for a result that is wrong."""
    work.out.fill_(float("nan"))
    run()
    got = work.out.reshape(-1, work.want.shape[-1])[: work.want.numel() // work.want.shape[-1]].float()
    want = work.want.reshape(got.shape)
    error = ((got - want).norm() / want.norm()).item()
    if not error < 1e-2:
        raise RuntimeError(f"the relative error is {error}")


def measure(folder: Path) -> None:
    triton = importlib.import_module("triton")
    made = works()
    best: dict[str, dict[str, tuple[float, str]]] = {}
    current: tuple[str, Work] | None = None
    for case in CASES:
        if current is None or current[0] != case.work:
            current = case.work, made[case.work]()
        work = current[1]
        competitors = {}
        for name, run in sides(folder, case, work):
            try:
                checked(run, work)
                competitors[name] = run
            except Exception as e:  # noqa: BLE001 - the others are still measured
                print(f"{case.expression}, {name}: {type(e).__name__}: {e}"[:400], flush=True)
        times: dict[str, list[float]] = {name: [] for name in competitors}
        for turn in range(ROUNDS):
            # In either order: who follows a slow side finds the GPU cooler, and its clock higher.
            for name, run in list(competitors.items())[:: -1 if turn % 2 else 1]:
                times[name].append(triton.testing.do_bench(run, warmup=5, rep=MILLISECONDS, quantiles=[0.5]))
        rates = {name: work.amount / statistics.median(t) * 1e3 for name, t in times.items()}
        shown = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
        print(f"{case.expression}: {shown} {work.unit}", flush=True)
        for name, rate in rates.items():
            row = best.setdefault(f"{case.work} | {work.unit}", {})
            row[name] = max(row.get(name, (0.0, "")), (rate, case.expression))
    report(best)


def report(best: dict[str, dict[str, tuple[float, str]]]) -> None:
    print("\n| work | unit | C++ | Python | original | C++ / Python | C++ / original |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, row in best.items():
        rates = [row.get(side, (math.nan, ""))[0] for side in ("C++", "Python", "original")]
        shown = " | ".join(f"{rate:.0f}" for rate in rates)
        print(f"| {name} | {shown} | {rates[0] / rates[1]:.2f} | {rates[0] / rates[2]:.2f} |")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("action", choices=("prepare", "measure"))
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--original", help="the command of the original compiler, without file names")
    given = arguments.parse_args()
    if given.action == "prepare":
        prepare(given.folder, given.original)
    else:
        measure(given.folder)


if __name__ == "__main__":
    main()
