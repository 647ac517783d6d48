"""Process replay: the Tile IR, LLVM IR and GPU code of a corpus of kernels, kept in a folder and compared between trees.

    PYTHONPATH=src:tests python tests/support/replay.py keep FOLDER [--kernels N] [--targets cpu,sm_90] [--stage PTX]
    PYTHONPATH=src:tests python tests/support/replay.py compare BEFORE AFTER

The corpus are N random kernels, kernels of ``benchmarks`` and C++ kernels of ``examples``. Run both trees from one path
(debug locations name it, and sizes count it) and with caches of their own. Names of temporary files are normalized.
A kernel that does not compile is kept as its error, so that errors are compared, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments

import tilewright as ct

_TEMPORARY = re.compile(r"/tmp/(tmp|tilewright-gpu-)[a-z0-9_]+")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))


def benchmark_kernels() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The benchmark kernels that tile arrays of float32, with arguments."""
    import cpu_kernels as k  # noqa: PLC0415 - the folder of benchmarks is no package

    x, y, z = (np.ones((512, 512), np.float32) for _ in range(3))
    v = np.ones(512, np.float32)
    yield "add", k.add, (v, v.copy(), v.copy(), 128)
    yield "scale_add", k.scale_add, (v, v.copy(), v.copy(), 2.0, 128)
    yield "transpose", k.transpose, (x, y, 32)
    yield "softmax", k.softmax, (x, y, 1, 512)
    yield "layer_norm", k.layer_norm, (x, v, v.copy(), y, 1e-5, 1, 512)
    yield "row_sum", k.row_sum, (x, v, 4, 512)
    yield "row_argmax", k.row_argmax, (x, np.zeros(512, np.int32), 4, 512)
    yield "row_cumsum", k.row_cumsum, (x, y, 4, 512)
    yield "matmul", k.matmul, (x, y, z, 64, 64, 32, ct.float32)
    yield "linear_gelu", k.linear_gelu, (x, y, v, z, 64, 64, 32)


def gpu_kernels() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The kernels that the passes for GPUs are about: pipelined, persistent, divided among blocks, with chained mma."""
    spec = importlib.util.spec_from_file_location("gpu_kernels", ROOT / "benchmarks" / "gpu_kernels.py")
    assert spec is not None and spec.loader is not None
    k: Any = importlib.util.module_from_spec(spec)
    k.ct = ct  # as ``benchmarks/gpu.py`` does, which also takes another implementation
    spec.loader.exec_module(k)
    half, wide = np.ones((4096, 4096), np.float16), np.ones((4096, 4096), np.float32)
    v, i32 = np.ones(4096, np.float16), np.zeros(4096, np.int32)
    heads = np.ones((2, 4, 1024, 128), np.float16)
    yield "gpu_matmul", k.matmul, (half, half, half, 128, 256, 64, 8, False)
    yield "gpu_matmul_small", k.matmul, (half, half, half, 64, 64, 64, 8, False)
    yield "gpu_matmul_tf32", k.matmul, (wide, wide, wide, 128, 128, 32, 8, True)
    yield "gpu_matmul_grid", k.matmul_grid, (half, half, half, 256, 128, 64, False)
    yield "gpu_matmul_persistent", k.matmul_persistent, (half, half, half, 128, 256, 64, 8, False)
    yield "gpu_matmul_parts", k.matmul_parts_grid, (half, half, half, 128, 256, 64, 1, 2)
    yield "gpu_attention", k.attention, (heads, heads, heads, heads, 0.5, 4, 128, 128, 128, False)
    yield "gpu_attention_causal", k.attention, (heads, heads, heads, heads, 0.5, 4, 128, 128, 64, True)
    yield "gpu_norm_in_steps", k.layer_norm_in_steps, (half, v, v.copy(), half.copy(), 1e-5, 1024)
    yield "gpu_cross_entropy", k.cross_entropy, (half, i32, np.zeros(4096, np.float32), 1024)
    yield "gpu_gated", k.gated, (half, half, half, half.copy(), 128, 128, 64, 8)
    yield "gpu_gather_rows", k.gather_rows, (half, i32, half.copy(), 1024)
    yield "gpu_transpose", k.transpose, (half, half.copy(), 64, 64)
    yield "gpu_too_large", k.matmul, (wide, wide, wide, 256, 256, 128, 8, False)


def cpp_kernels() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The kernels of the C++ examples."""
    x = np.ones((256, 256), np.float32)
    matmul = ct.cpp.compile(ROOT / "examples" / "matmul.cu").kernel("matmul<32, 32, 32>")
    yield "cpp_matmul", matmul, (x, x.copy(), x.copy(), 256, 256, 256)


def generated_kernels(count: int) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The kernels of the first ``count`` seeds."""
    for seed in range(count):
        made = KernelGenerator(seed).make()
        yield f"random{seed}", made.kernel(), arguments(made)[0]


def _stages(compiled: Callable[[], Any], wanted: frozenset[str]) -> dict[str, str]:
    try:
        found = compiled()
        return {s: found.stage(s) for s in found.stage_names() if not wanted or s in wanted}
    except Exception as e:  # noqa: BLE001 - any error is a result to compare
        return {"error": f"{type(e).__name__}: {e}"}


def keep(folder: Path, count: int, targets: list[str], wanted: frozenset[str]) -> None:
    """Write one file for each kernel, compiler and stage."""
    folder.mkdir(parents=True)
    for corpus in (benchmark_kernels(), gpu_kernels(), cpp_kernels(), generated_kernels(count)):
        for name, kernel, args in corpus:
            for target in targets:
                made = _stages(lambda k=kernel, a=args, t=target: _compiled(k, a, t), wanted)  # type: ignore[misc]
                for stage, text in made.items():
                    plain = _TEMPORARY.sub("<temporary>", text.replace(str(ROOT), "<tree>"))
                    (folder / f"{name}.{target}.{stage.replace(' ', '_').replace('/', '_')}").write_text(plain)


def _compiled(kernel: Any, args: tuple[Any, ...], target: str) -> Any:
    if target != "cpu":
        return kernel.compile_for(target, args)
    signature, backend = kernel.described(args, "cpu")
    return kernel.specialize(signature, backend)


def compare(before: Path, after: Path) -> int:
    """Print which files differ or are in one folder only; how many."""
    names = sorted({p.name for p in before.iterdir()} | {p.name for p in after.iterdir()})
    different = 0
    for name in names:
        old, new = before / name, after / name
        if not (old.exists() and new.exists() and old.read_bytes() == new.read_bytes()):
            print(f"differs: {name}" if old.exists() and new.exists() else f"only in one folder: {name}")
            different += 1
    errors = sum(name.endswith(".error") for name in names)
    print(f"{different} of {len(names)} files differ; {errors} are errors")
    return different


def main() -> int:
    """0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep")
    keeping.add_argument("folder", type=Path)
    keeping.add_argument("--kernels", type=int, default=40)
    keeping.add_argument("--targets", default="cpu,sm_80,sm_90,sm_100")
    keeping.add_argument("--stage", action="append", default=[])
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    o = parser.parse_args()
    if o.command == "compare":
        return int(compare(o.before, o.after) > 0)
    keep(o.folder, o.kernels, [t for t in o.targets.split(",") if t], frozenset(o.stage))
    return 0


if __name__ == "__main__":
    sys.exit(main())
