"""Copies of arrays that the TMA unit cannot read where they are: what a launch writes, and describes to the backend.
The memory of the device is that of the host here, and the reference backend copies."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aligned_arrays import AlignedArrays, AlignedCopy
from support.driver import Driver, executable

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.backends.triton import backend
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.resource_usage import resource_usage
from tilewright.gpu_runtime import driver, launch_code, realign
from tilewright.gpu_runtime.artifact import Artifact, GpuBinary
from tilewright.gpu_runtime.executable import FIRST, GpuExecutable
from tilewright.ir.dtypes import dtype_from_short
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.runtime.compiling import compiled

BYTES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def write(item: int, grid: tuple[int, int, int], numbers: tuple[int, ...]) -> None:
    """Run ``realign.kernel``."""
    source, copy, rows, columns, step, pitch = numbers
    dtype = dtype_from_short(f"u{8 * item}")
    buffers = [
        Buffer(name, start, start, start + item * ((rows - 1) * stride + columns), dtype, name == "copy")
        for name, start, stride in (("source", source, step), ("copy", copy, pitch))
    ]
    REFERENCE.compile(realign.kernel(realign.Kind(item)), {}).launch(grid, LaunchArguments(numbers, buffers))


COPIES = 4096  # the handle of the kernel that writes copies


class Looking(Driver):
    """Writes copies of arrays of 16 bits, and keeps what the TMA unit would read in each other launch: the rows of all
    arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[Any]] = []
        self.numbers: list[bytes] = []  # what comes after those of the arrays
        self.copies: list[tuple[int, ...]] = []  # the numbers of each, and the stream

    def copier(self) -> GpuExecutable:
        """What the kernel that copies was compiled to."""
        formats = "u64", "u64", "i64", "i64", "i64", "i64"
        made = GpuExecutable(
            SimpleNamespace(params=[], name="align"),  # type: ignore[arg-type]
            Artifact(GpuBinary(b"", "align", 128, 1, 0, ()), formats, (), 0),
            FIRST,
            dict,
        )
        made._loaded[0] = SimpleNamespace(handle=ctypes.c_void_p(COPIES), device=self)  # type: ignore[assignment]
        return made

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        if handle == COPIES:
            x, y, z, *_others, stream = struct.unpack("=7I4xQ", ctypes.string_at(config, 40))
            numbers = [ctypes.c_int64.from_address(a).value for a in (ctypes.c_uint64 * 6).from_address(pointers)]
            write(2, (x, y, z), tuple(numbers))
            self.copies.append((*numbers, stream))
            return 0
        addresses = (ctypes.c_uint64 * 11).from_address(pointers)
        self.numbers.append(ctypes.string_at(addresses[8], 8))
        maps = [struct.unpack("=11Q", ctypes.string_at(a, 88)) for a in addresses[9:]]
        self.seen.append([self._rows(*found[:3], found[6]) for found in maps])
        return super()._launch(config, handle, pointers, None)

    @staticmethod
    def _rows(base: int, columns: int, rows: int, step: int) -> Any:
        assert base % 16 == 0 and step % 16 == 0
        rows_ = [ctypes.string_at(base + i * step, 2 * columns) for i in range(rows)]
        return np.frombuffer(b"".join(rows_), np.uint16).reshape(rows, columns)


def product_of(on: Looking, transposed: bool = False, number: str = "f32") -> Any:
    """A kernel that loads tiles of two arrays of 16 bits, of which each is a base, two extents and a stride; then comes
    a ``number``. The second one is read along its columns if it is ``transposed``."""
    described = []
    for first, axes in ((0, (0, 1)), (4, (1, 0) if transposed else (0, 1))):
        strides = (("p", first + 3, 1), ("c", 1, 1))
        shape = (("p", first + 1, 1), ("p", first + 2, 1))
        d = Descriptor(
            first, shape, strides[::-1] if transposed and first else strides, axes, (64, 64), "i16", needs_realign=True
        )
        described.append((d, {"elem_size": 2, "block_size": [64, 64], "swizzle": 3}))
    return executable((*("u64", "i32", "i32", "i32") * 2, number), on, described, copier=on.copier())


def numbers_of(*arrays: Any, number: float = 1.5) -> tuple[Any, ...]:
    return *(n for a in arrays for n in (a.ctypes.data, *a.shape, a.strides[0] // 2)), number


def launch(on: Looking, kernel: Any, values: Sequence[int], grid: tuple[int, int, int] = (4, 1, 1)) -> list[Any]:
    """What the backend would read."""
    kernel.launch(grid, LaunchArguments(values, (), 7, 0))
    assert not on.borrowed
    return on.seen.pop()


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    found = Looking()
    monkeypatch.setattr(driver, "load", lambda: found)
    return found


@pytest.mark.parametrize("item", BYTES)
@pytest.mark.parametrize("seed", range(6))
def test_copies_of_every_size(item: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, more = (int(n) for n in rng.integers(1, (20, 600, 9)))
    x = rng.integers(0, 255, (rows, columns + more)).astype(BYTES[item])
    copy = AlignedCopy(x.ctypes.data, item, rows, columns, columns + more)
    assert copy.pitch % 128 == 0 and columns * item <= copy.pitch < columns * item + 128
    out = np.full((rows, copy.pitch // item), 77, BYTES[item])
    write(item, copy.grid, copy.numbers(out.ctypes.data))
    np.testing.assert_array_equal(out[:, :columns], x[:, :columns])
    assert (out[:, columns:] == 77).all()


@pytest.mark.parametrize("item", BYTES)
def test_tiles_do_not_change_their_layout_to_be_copied(item: int) -> None:
    target = parse_target("sm_90")
    binary = compile_for(realign.kernel(realign.Kind(item)), target, realign.OPTIONS).binary
    assert resource_usage(binary, target)["bytes of stack and spilled registers per thread"] == 0
    assert binary.shared_bytes == 0


def test_the_kernel_that_copies_is_kept_for_later_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    compiling = backend.TritonBackend(parse_target("sm_90"))

    def copiers() -> list[Artifact]:
        found: list[Any] = [
            compiled(realign.kernel(realign.Kind(item)), compiling, realign.OPTIONS)[0] for item in (2, 4)
        ]
        return [replace(f.artifact, binary=replace(f.artifact.binary, texts={})) for f in found]

    first = copiers()
    assert first[0] != first[1]
    monkeypatch.setattr(backend, "compile_for", lambda *_, **__: pytest.fail("compiled again"))
    assert copiers() == first


@pytest.mark.parametrize("transposed", [False, True])
def test_what_the_copy_engine_reads(looking: Looking, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    kernel = product_of(looking, transposed)
    for columns, others, begin in ((67, 128, 0), (128, 67, 0), (67, 69, 0), (128, 128, 0), (128, 128, 1)):
        a = rng.integers(0, 99, (9, columns + 8)).astype(np.uint16)[:, begin : begin + columns]
        b = rng.integers(0, 99, (columns, others)).astype(np.uint16)
        values = numbers_of(a, b)
        if transposed:
            values = *values[:5], *values[6:4:-1], *values[7:]
        needed = sum(x.ctypes.data % 16 != 0 or x.strides[0] % 16 != 0 for x in (a, b))
        for _ in range(2):  # the second time it knows the arrays
            looking.copies.clear()
            for found, wanted in zip(launch(looking, kernel, values), (a, b)):
                np.testing.assert_array_equal(found, wanted)
            assert [stream for *_, stream in looking.copies] == [7] * needed


def test_an_array_that_is_read_twice_is_copied_once(looking: Looking) -> None:
    x = np.arange(67 * 67, dtype=np.uint16).reshape(67, 67)
    seen = launch(looking, product_of(looking), numbers_of(x, x))
    assert len(looking.copies) == 1
    for found in seen:
        np.testing.assert_array_equal(found, x)


def test_arrays_without_elements_are_not_copied(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_code, "memory_for_nothing", lambda device: 64)
    x = np.arange(67 * 67, dtype=np.uint16).reshape(67, 67)
    kernel = product_of(looking)
    monkeypatch.setattr(Looking, "_rows", staticmethod(lambda *numbers: numbers))
    launch(looking, kernel, numbers_of(x[:0], x))
    assert len(looking.copies) == 1


def test_a_launch_that_fails(looking: Looking) -> None:
    """Memory is given back, and the next launches are what they were."""
    x, *others = (np.arange(n * n, dtype=np.uint16).reshape(n, n) for n in (67, 71, 73))
    kernel = product_of(looking)
    launch(looking, kernel, numbers_of(x, x))
    for y, before in zip(others, (1, 2)):  # maps that are made, before another one or the launch fails
        looking.codes = [0] * before + [driver.INVALID_VALUE]
        with pytest.raises(driver.CudaError):
            kernel.launch((4, 1, 1), LaunchArguments(numbers_of(y, y), (), 7, 0))
        assert not looking.borrowed
        looking.codes = []
        for wanted in (x, x, y):
            for found in launch(looking, kernel, numbers_of(wanted, wanted)):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["f32", "bf16", "i32"])
@pytest.mark.parametrize("columns", [64, 67])
def test_other_numbers(looking: Looking, kind: str, columns: int) -> None:
    """Those of equal launches too: zeros have signs."""
    x, numbers = np.zeros((columns, columns), np.uint16), [2.0, 0.0, -0.0, 0.0, 0.0, -0.0, -0.0, 2.0]
    kernel = product_of(looking, number=kind)
    for number in numbers:
        launch(looking, kernel, numbers_of(x, x, number=int(number) if kind == "i32" else number))
    words = [bytes(2) + n[:2] if kind == "bf16" else n[:4] for n in looking.numbers]
    found = [struct.unpack("=i" if kind == "i32" else "=f", word)[0] for word in words]
    assert list(map(str, found)) == [str(int(n) if kind == "i32" else n) for n in numbers]


class Noting(Looking):
    """Notes what is copied, and copies nothing."""

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        if handle != COPIES:
            return 0
        grid = struct.unpack("=3I", ctypes.string_at(config, 12))
        self.copies.append((*(ctypes.c_int64.from_address(a).value for a in _six(pointers)), *grid))
        return 0


def _six(pointers: int) -> list[int]:
    return list((ctypes.c_uint64 * 6).from_address(pointers))


def copies_of(described: Sequence[tuple[Descriptor, dict[str, Any]]], numbers: Sequence[int], blocks: int) -> Any:
    """What a launch with so many blocks copies, and to where, from the first copy on, with the grid of each; None where
    the kernel that copies nothing is launched."""
    on = Noting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "load", lambda: on)
        patch.setattr(launch_code, "memory_for_nothing", lambda device: 64)
        kernel = executable(("u64", "i64", "i64", "i64") * len(described), on, described, copier=on.copier())
        kernel.launch((blocks, 1, 1), LaunchArguments(numbers, (), 0, 0))
    assert not on.borrowed
    first = min((target for _, target, *_ in on.copies), default=0)
    in_place = any(not variant.realign for variant in kernel._variants)
    return None if in_place else [(source, to - first, *rest) for source, to, *rest in on.copies]


def wanted(described: Sequence[tuple[Descriptor, dict[str, Any]]], numbers: Sequence[int], blocks: int) -> Any:
    layout = AlignedArrays([d for d, _ in described], [meta for _, meta in described], dict(enumerate(numbers)))
    if not layout.pays(blocks):
        return None
    return [(*copy.numbers(to), *copy.grid) for copy, to in layout.copies.items()]


def matrix(first: int, item: int, axes: tuple[int, int] = (0, 1), transposed: bool = False, rows: int = 64) -> Any:
    """A map of an array whose address, extents and stride are the numbers from the ``first`` on."""
    shape, strides = (("p", first + 1, 1), ("p", first + 2, 1)), (("p", first + 3, 1), ("c", 1, 1))
    d = Descriptor(first, shape, strides, axes, (rows, 128), f"i{8 * item}", True, transposed=transposed)
    return d, {"elem_size": item, "block_size": [64, 64], "swizzle": 3}


@pytest.mark.parametrize(
    ("numbers", "blocks", "worth"),
    [
        ((16, 2, 1 << 10, 1 << 10, 1 << 10), 1, True),  # 2 MiB
        ((16, 2, 1 << 10, 1 << 10, 1 << 11), 1, True),
        ((16, 2, (1 << 10) + 1, 1 << 10, 1 << 10), 1, False),
        ((16, 2, (1 << 10) + 1, 1 << 10, 1 << 10), 2, True),
        ((16, 2, 4, 9, 8), 1, False),  # rows that overlap
        ((16, 2, 4, 9, -16), 1, False),
        ((16, 1, 1, 256 * 65535, 256 * 65535), 99, True),
        ((16, 1, 1, 256 * 65535 + 1, 256 * 65535 + 1), 99, False),  # more blocks than a grid has along an axis
    ],
)
def test_which_arrays_are_worth_a_copy(numbers: Any, blocks: int, worth: bool) -> None:
    base, item, *sizes = numbers
    found = copies_of([matrix(0, item)], (base + 2, *sizes), blocks)
    assert (found is not None) == worth and found == wanted([matrix(0, item)], (base + 2, *sizes), blocks)


@pytest.mark.parametrize(
    ("item", "steps", "blocks", "worth"),
    [(1, 512, 64, False), (1, 4096, 128, False), (1, 4096, 256, True), (4, 1024, 132, False), (4, 2048, 132, True)],
)
def test_which_arrays_are_worth_a_transposed_copy(item: int, steps: int, blocks: int, worth: bool) -> None:
    """Those that blocks would transpose often themselves."""
    described = [matrix(0, item, (1, 0), transposed=True)]
    found = copies_of(described, (16, steps, 4096, 4096), blocks)
    assert (found is not None) == worth and found == wanted(described, (16, steps, 4096, 4096), blocks)


@pytest.mark.parametrize(("rows", "worth"), [(256, False), (896, False), (897, True), (4096, True)])
def test_transposed_copies_are_of_arrays_that_are_read_often(rows: int, worth: bool) -> None:
    """Once for each row of tiles of the left operand; another array of other sizes does not count."""
    described = [matrix(0, 1, (1, 0), True, 128), *(matrix(first, 1, rows=128) for first in (4, 8))]
    numbers = (16, 16384, 4096, 4096, 32, rows, 16384, 16384, 48, 64, 4096, 4096)
    found = copies_of(described, numbers, 132)
    assert (found is not None) == worth and found == wanted(described, numbers, 132)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_copied(data: st.DataObject) -> None:
    """Of up to three arrays, some of which are the same one."""
    described, numbers = [], list[int]()
    for _ in range(data.draw(st.integers(1, 3))):
        item, turned = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.booleans())
        described.append(matrix(len(numbers), item, (1, 0) if turned else (0, 1), turned))
        rows, columns = (data.draw(st.sampled_from([0, 1, 9, 64, 1024, 1040])) for _ in range(2))
        step = columns + data.draw(st.sampled_from([-1, 0, 0, 1, 7, 16]))
        numbers += [64 + data.draw(st.sampled_from([0, 0, 4, 256])), rows, columns, step]
    blocks = data.draw(st.sampled_from([1, 132, 5000]))
    assert copies_of(described, numbers, blocks) == wanted(described, numbers, blocks)
