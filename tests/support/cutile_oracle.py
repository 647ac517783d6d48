"""Compares our front end with cuTile Python's, where ``cuda.tile`` is installed: kernels that it compiles to CUDA Tile IR
must be read, come back byte by byte, be printed as ``tileirdisasm`` prints them, and compute on the CPU what ours do.

    python -m support.cutile_oracle 0 200                         # random kernels, each in one of the versions in turns
    python -m pytest -p support.cutile_oracle tests/conformance   # every launch of a Python kernel in the tests
"""

from __future__ import annotations

import collections
import contextlib
import functools
import io
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.cpu.comparison import owner
from support.cutile import VERSIONS, CuTile, Refused
from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments
from support.tile_ir_text import renamed

import tilewright as ct
from tilewright import tileir
from tilewright.backends.cuda_tools import tool
from tilewright.ir.dtypes import float64
from tilewright.ir.semantics import evaluate
from tilewright.language.dtypes import to_dtype
from tilewright.runtime.kernel import kernel as PythonKernel
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.module import Block, Operation, Value
from tilewright.tileir.optable import BY_NAME
from tilewright.tileir.text import parse_module, print_module

_TOLERANCE = 2e-3  # relative: sums are in any order, and float16 rounds them
_NAME = "kernel"
_MOST_BYTES = 1 << 24
_LOST_SIGN = re.compile(rb"([\x80-\xff]{9})\x03")  # cuTile Python writes negative float64 in 65 bits


@functools.cache
def front_end() -> CuTile:
    return CuTile()


def _arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _arrays(v)


def copied(values: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments in memory of their own, overlapping as they did."""
    wholes: dict[int, np.ndarray[Any, Any]] = {}
    if sum(owner(a).nbytes for a in _arrays(tuple(values))) > _MOST_BYTES:
        raise Refused("large arrays")

    def copy(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(copy, value))
        if not isinstance(value, np.ndarray):
            return value
        whole = owner(value)
        if id(whole) not in wholes:
            wholes[id(whole)] = whole.copy(order="K")
            if wholes[id(whole)].strides != whole.strides:
                raise Refused(f"an array with strides {whole.strides}")
        there = wholes[id(whole)]
        offset = value.ctypes.data - whole.ctypes.data
        return np.ndarray(value.shape, value.dtype, memory_of(there), offset, value.strides)

    return tuple(map(copy, values))


def memory_of(array: np.ndarray[Any, Any]) -> Any:
    """The memory of an array whose axes may be in any order."""
    if not array.ndim:
        return array.reshape(1).view(np.uint8).data
    order = np.argsort([-s for s in array.strides], kind="stable")
    return array.transpose(order).reshape(-1).view(np.uint8).data


def _overlap(values: Sequence[Any]) -> bool:
    bounds = sorted(np.lib.array_utils.byte_bounds(a) for a in _arrays(tuple(values)) if a.size)
    return any(low < end for (_, end), (low, _) in itertools.pairwise(bounds))


def parameters_of(values: Sequence[Any], rules: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as the calling convention has them: no constants, a table and a length for a list."""
    found: list[Any] = []
    for value, rule in zip(values, rules):
        if rule.constant:
            continue
        if isinstance(value, tuple):
            found += parameters_of(value, [rule.item(i) for i in range(len(value))])
        elif isinstance(value, list):
            rows = [[a.ctypes.data, *tileir.flattened(a)[1:]] for a in value]
            found += [np.array(rows, np.int64), len(value)]
        elif isinstance(value, np.ndarray):
            found += tileir.flattened(value)
        else:
            found.append(value)
    return tuple(found)


def disassembled(data: bytes) -> str | None:
    """What ``tileirdisasm`` prints, None where there is none. Refused when it does not take what cuTile Python wrote."""
    program = tool("tileirdisasm")
    if program is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".tilebc") as file:
        Path(file.name).write_bytes(data)
        ran = subprocess.run([program, file.name], capture_output=True, text=True, check=False, timeout=300)
    if ran.returncode:
        said = re.search(r"error: (?!error at)(.*)|error: error at offset \d+: (.*)", ran.stderr)
        raise Refused(f"by tileirdisasm: {said.group(1) or said.group(2) if said else ran.stderr[:100]}")
    return ran.stdout


def check_file(data: bytes) -> None:
    """Assert that a file comes back, as bytes and as text, and is printed as the disassembler does."""
    said = disassembled(data)
    module = read(data)
    assert write(module) == _LOST_SIGN.sub(rb"\1" + b"\x01", data), "what is written differs from what was read"
    shown = print_module(module)
    assert print_module(parse_module(shown)) == shown, "the text does not come back"
    if said is not None:
        assert renamed(shown) == renamed(said), "the text differs from that of tileirdisasm"


def uncontracted(data: bytes) -> bytes:
    """A file with a product and a sum for each ``fma`` that cuTile Python made of them: ours round twice."""
    module = read(data)
    module.layout = None
    for block in (entry.body for entry in module.entries):
        _uncontract(block)
    return write(module)


def _uncontract(block: Block) -> None:
    ops, block.ops = block.ops, []
    for op in ops:
        for region in filter(None, op.regions):
            _uncontract(region)
        if op.name != "fma":
            block.ops.append(op)
            continue
        product, factors = Value(op.results[0].type), {n: op.operands[n] for n in ("lhs", "rhs")}
        terms = {"lhs": product, "rhs": op.operands["acc"]}
        block.ops.append(Operation(BY_NAME["mulf"], factors, op.attributes, [product], [], op.loc))
        block.ops.append(Operation(BY_NAME["addf"], terms, op.attributes, op.results, [], op.loc))


def compare(kernel: PythonKernel, grid: Any, before: Sequence[Any], after: Sequence[Any], version: str) -> None:
    """Assert that the kernel, as cuTile Python compiles it, makes ``after`` of the arguments ``before``.

    Refused when it does not compile it.
    """
    groups = ("all",) if _overlap(before) else ()
    data = front_end().bytecode(kernel, before, version, groups, _NAME)
    check_file(data)
    given = parameters_of(before, [rule for _, rule in kernel.parameters])
    with contextlib.redirect_stdout(io.StringIO()):
        ct.launch(None, grid, tileir.load(uncontracted(data)).kernel(_NAME), given, backend="cpu")
    for i, (found, wanted) in enumerate(zip(_arrays(tuple(before)), _arrays(tuple(after)))):
        same = np.isclose(_numbers(found), _numbers(wanted), _TOLERANCE, 1e-5, equal_nan=True)
        assert same.all(), f"array {i}: {int((~same).sum())} of {same.size} elements differ"


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dtype = to_dtype(array.dtype)
    floating = dtype is not None and dtype.is_floating
    return evaluate("cast", dtype, {"dtype": float64}, [array]) if dtype is not None and floating else array


class Outcomes:
    """How often each thing happened, and what went wrong where."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
        self.versions = 0

    def one(self, name: str, kernel: Any, grid: Any, values: Sequence[Any], launch: Callable[[], Any]) -> None:
        """Launch, and compare what that did if it did not fail."""
        try:
            before = copied(values)
        except Refused:
            launch()
            return
        launch()
        version = VERSIONS[self.versions % len(VERSIONS)]
        self.versions += 1
        try:
            compare(kernel, grid, before, values, version)
            self.counts["equal"] += 1
        except Refused as error:
            self.counts["refused by cuTile Python or tileirdisasm"] += 1
            self.refused[str(error)[:150]] += 1
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            self.counts["faults"] += 1
            self.faults.append(f"{name} {kernel.name} in {version}: {type(error).__name__}: {error}".splitlines()[0])

    def random(self, seed: int) -> None:
        """Compare a random kernel."""
        generated = KernelGenerator(seed).make()
        kernel, values = generated.kernel(), arguments(generated)[0]
        launch = functools.partial(ct.launch, None, generated.grid, kernel, values, backend="cpu")
        self.one(f"seed {seed}", kernel, generated.grid, values, launch)

    def __str__(self) -> str:
        lines = [f"  {n} times: {said}" for said, n in self.refused.most_common(25)]
        return "\n".join([*self.faults, *lines, ", ".join(f"{n} {what}" for what, n in self.counts.items())])


# -- as a plugin of pytest

OUTCOMES = Outcomes()


@pytest.fixture(autouse=True)
def _compared(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    original = ct.launch

    def launch(stream: Any, grid: Any, kernel: Any, kernel_args: Any, **options: Any) -> None:
        do = functools.partial(original, stream, grid, kernel, kernel_args, **options)
        if isinstance(kernel, PythonKernel) and isinstance(kernel_args, tuple):
            OUTCOMES.one(request.node.nodeid, kernel, grid, kernel_args, do)
        else:
            do()

    monkeypatch.setattr(ct, "launch", launch)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(str(OUTCOMES))


def main() -> int:
    start, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(start, start + count):
        OUTCOMES.random(seed)
    print(OUTCOMES)
    return int(OUTCOMES.counts["faults"] > 0)


if __name__ == "__main__":
    sys.exit(main())
