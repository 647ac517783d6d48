"""Compares our front end of Tile C++ with NVIDIA's: what ``nvcc`` of CUDA 13.3 or later compiles to CUDA Tile IR must be
read, come back byte by byte, be printed as ``tileirdisasm`` does, and compute on the CPU what a model of it says, which
``fuzz.cpp`` and the tests of the documents hold our front end to.

    python -m support.nvcc_oracle 0 200           # random kernels, in bytecode, in fat binaries and in objects in turns
    python -m support.nvcc_oracle documents       # the examples of the documents

``nvcc`` is that on PATH, or that of NVIDIA's wheels (nvidia-cuda-nvcc, -crt, -cccl, -runtime, and nvidia-nvvm).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fuzz.check import same_bits
from fuzz.cpp_programs import BLOCKS, PREAMBLE, CppProgram, cpp_program
from support.cutile import Refused
from support.cutile_oracle import check_file
from support.tile_cpp_examples import EXAMPLES

import tilewright as ct
from tilewright import tileir
from tilewright.backends.cuda_tools import tool
from tilewright.tileir.fatbinary import bytecode_images, is_fat_binary

# Bytecode, a fat binary, and an object, whose fat binary is compressed, and one whose is not.
FORMS = (("--tilebc",), ("--tilefatbin",), ("-c",), ("-c", "--no-compress"))
SLOTS = 64
SHOW = """
template <typename T> __tile__ void show(double* out, T x) {
    ct::store(out + ct::iota<ct::tile<int, ct::tile_shape_t<T>>>(), ct::element_cast<double>(x));
}
"""


def compiled(source: str, form: Sequence[str] = FORMS[0]) -> bytes:
    """What nvcc makes of ``source``. Refused when it does not take it."""
    nvcc = tool("nvcc")
    if nvcc is None:
        raise SystemExit("nvcc is not installed")
    with tempfile.TemporaryDirectory() as folder:
        file, made = Path(folder, "kernels.cu"), Path(folder, "made")
        file.write_text(source)
        command = [nvcc, "--enable-tile", *form, "-arch=sm_90", "-std=c++20", "-w", file, "-o", made]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if ran.returncode:
            raise Refused("; ".join([line for line in ran.stderr.splitlines() if "error" in line][:3]) or ran.stderr)
        return made.read_bytes()


def loaded(data: bytes) -> tileir.Module:
    """The kernels of ``data``, whose bytecode comes back and is printed as it should be."""
    for image in bytecode_images(data) if is_fat_binary(data) else [data]:
        check_file(image)
    return tileir.load(data)


def faults(programs: Sequence[CppProgram], form: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with which program, all of them being one translation unit; "refused" begins what nvcc refuses."""
    try:
        module = loaded(compiled(PREAMBLE + "\n".join(p.source for p in programs), form))
    except Refused as error:
        if len(programs) > 1:  # find those that it refuses
            for p in programs:
                yield from faults([p], form)
            return
        yield programs[0].name, f"refused: {error}"
        return
    for p in programs:
        try:
            name = next(n for n in module.kernels if p.name in n)
            inputs, outputs = [a.copy() for a in p.inputs], p.fresh_outputs()
            ct.launch(None, (BLOCKS,), module.kernel(name), (*inputs, *outputs), backend="cpu")
            for i, (found, wanted) in enumerate(zip(outputs, p.predict())):
                wrong = ~same_bits(found, wanted)
                if wrong.any():
                    at = int(np.argmax(wrong))
                    yield p.name, f"o{i}[{at}] of {wrong.sum()} is {found[at]} instead of {wanted[at]}"
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            yield p.name, f"{type(error).__name__}: {str(error)[:300]}"


def example_faults() -> Iterator[tuple[str, str]]:
    """As ``faults``, of the examples of the documents."""
    for number, (name, (statements, values)) in enumerate(EXAMPLES.items()):
        shown = "".join(f"show(out + {SLOTS * i}, {expression});\n" for i, expression in enumerate(values))
        head = f'#include <cuda_fp16.h>\n{PREAMBLE}{SHOW}extern "C" __tile_global__ void k(int* p, double* out, int n)'
        try:
            module = loaded(compiled(f"{head} {{\n{statements}\n{shown}}}", FORMS[number % len(FORMS)]))
            out = np.full(SLOTS * len(values), np.nan)
            ct.launch(None, (1,), module.kernel(), (np.arange(64, dtype=np.int32), out, 5), backend="cpu")
            for i, (expression, value) in enumerate(values.items()):
                wanted = np.ravel(np.asarray(value, np.float64))
                np.testing.assert_array_equal(out[SLOTS * i :][: wanted.size], wanted, err_msg=expression)
        except Refused as error:
            yield name, f"refused: {error}"
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            yield name, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", help="the first seed, or documents")
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--unit", type=int, default=10, help="kernels in a translation unit")
    options = parser.parse_args(arguments)
    found: list[tuple[str, str]] = []
    if options.start == "documents":
        total = len(EXAMPLES)
        found = list(example_faults())
    else:
        start, total = int(options.start), options.count
        for number, first in enumerate(range(start, start + total, options.unit)):
            programs = [cpp_program(seed) for seed in range(first, min(first + options.unit, start + total))]
            for fault in faults(programs, FORMS[number % len(FORMS)]):
                print(*fault, sep=": ", flush=True)
                found.append(fault)
    for fault in found if options.start == "documents" else ():
        print(*fault, sep=": ")
    refused = sum(text.startswith("refused") for _, text in found)
    print(f"Tile C++ by nvcc: {total} kernels, {refused} refused by it, {len(found) - refused} faults")
    return int(len(found) > refused)


if __name__ == "__main__":
    sys.exit(main())
