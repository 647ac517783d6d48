"""Every way to launch a kernel hands the same bytes to the driver: configuration, attributes, and each parameter."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from support.driver import Driver, encoded

from tilewright.backends import native
from tilewright.backends.base import NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import APART, Artifact, GpuBinary
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.executable import CAPACITIES, FIRST, GpuExecutable
from tilewright.gpu_runtime.launch_functions import MANY_BLOCKS
from tilewright.ir.dtypes import dtype_from_short
from tilewright.ir.gpu_parameters import Descriptor, TableParameter

HALF_TILE = {"elem_size": 2, "block_size": [64, 32], "swizzle": 3}
BASE, MAP_BYTES = 1 << 40, 88  # of the maps of this driver
HANDLE = 16
# Format -> values, and the bytes that the driver is to find.
NUMBERS: dict[str, list[tuple[Any, bytes]]] = {
    "i1": [(True, b"\1" + bytes(7)), (False, bytes(8))],
    "i8": [(-2, b"\xfe" + bytes(7))],
    "u16": [(65535, b"\xff\xff" + bytes(6))],
    "i32": [(-3, struct.pack("=i4x", -3)), (7, struct.pack("=i4x", 7))],
    "i64": [(-(1 << 62), struct.pack("=q", -(1 << 62)))],
    "u64": [(1 << 47, struct.pack("=Q", 1 << 47))],
    "f32": [(-0.0, struct.pack("=f4x", -0.0)), (0.1, struct.pack("=f4x", 0.1)), (1e300, struct.pack("=f4x", np.inf))],
    "tf32": [(1.5, struct.pack("=f4x", 1.5))],
    "f64": [(0.1, struct.pack("=d", 0.1))],
    "f16": [(-1.5, struct.pack("=e6x", -1.5)), (1e6, struct.pack("=e6x", np.inf))],
    "bf16": [(1.5, struct.pack("=H6x", 0x3FC0)), (-0.0, struct.pack("=H6x", 0x8000))],
    "f8e5m2": [(1.5, b"\x3e" + bytes(7))],
}
WIDTH = {"i1": 1, "i8": 1, "u16": 2, "i32": 4, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "f8e5m2": 1}


class Seen(NamedTuple):
    """What the driver was told of one launch."""

    handle: int
    shape: tuple[int, ...]  # grid, block and bytes of shared memory
    attributes: list[tuple[int, bytes]]
    parameters: list[bytes]


class Recorder(Driver):
    """Reads as many bytes of each parameter as ``sizes`` say."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self.streams: list[int] = []
        self.sizes: list[int] = []
        self.made: dict[int, Seen] = {}

    def _read(self, pointers: int) -> list[bytes]:
        addresses = (ctypes.c_uint64 * max(len(self.sizes), 1)).from_address(pointers)
        return [ctypes.string_at(a, size) for a, size in zip(addresses, self.sizes)]

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        *shape, stream, place, count = struct.unpack("=7I4xQQI", ctypes.string_at(config, 52))
        attributes = [struct.unpack("=I4x64s", ctypes.string_at(place + 72 * i, 72)) for i in range(count)]
        self.streams.append(stream)
        self.seen.append(Seen(handle, tuple(shape), attributes, self._read(pointers)))
        return 0

    def cuGraphAddKernelNode_v2(self, node: Any, graph: Any, before: None, count: Any, parameters: Any) -> int:
        handle, *shape, pointers = struct.unpack_from("=Q7I4xQ", parameters)
        self.made[graph.value] = Seen(handle, tuple(shape), [], self._read(pointers))
        node._obj.value = graph.value
        return 0

    def cuGraphKernelNodeSetAttribute(self, node: Any, number: int, value: bytes) -> int:
        self.made[node.value].attributes.append((number, value))
        return 0

    def _launch_graph(self, made: int, stream: int | None) -> int:
        self.streams.append(stream or 0)
        self.seen.append(self.made[made])
        return 0


def load(kernel: GpuExecutable, handle: int, on: Recorder) -> None:
    """Have ``kernel`` on the first device, as the entry ``handle``."""
    kernel._loaded[0] = SimpleNamespace(handle=ctypes.c_void_p(handle), device=on)  # type: ignore[assignment]


class Case(NamedTuple):
    artifact: Artifact
    values: tuple[Any, ...]
    grid: tuple[int, int, int]
    stream: int
    wanted: Seen


@st.composite
def cases(draw: st.DrawFn) -> Case:
    picked = [
        (name, draw(st.sampled_from(NUMBERS[name])))
        for name in draw(st.lists(st.sampled_from(sorted(NUMBERS)), max_size=5))
    ]
    formats, values = [n for n, _ in picked], [v for _, (v, _) in picked]
    parameters = [data[: WIDTH.get(name, 8)] for name, (_, data) in picked]
    maps, descriptors = [], []
    for _ in range(draw(st.integers(0, 2))):
        rows, pitch = draw(st.sampled_from([(1, 4), (1, 48), (5, 48), (300, 1 << 20)]))
        first, base = len(formats), BASE + 128 * draw(st.integers(0, 9))
        parameters += [struct.pack("=Q", base), struct.pack("=i", rows)]
        formats, values = [*formats, "u64", "i32"], [*values, base, rows]
        shape, strides = (("p", first + 1, 1), ("c", 48, 1)), (("c", pitch, 1), ("c", 1, 1))
        descriptors.append(Descriptor(first, shape, strides, (0, 1), (64, 32), "f16", pairs=draw(st.booleans())))
        maps.append(encoded(base, (48, rows), (max(2 * pitch, 16) if rows == 1 else 2 * pitch,)))
    hidden, ctas = draw(st.integers(0, 2)), draw(st.sampled_from([1, 2, 4]))
    shared, warps = draw(st.sampled_from([0, 1 << 16])), draw(st.sampled_from([1, 4, 8]))
    grid = draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)))
    blocks = 1 if maps or ctas > 1 else draw(st.sampled_from([1, 4, 16]))
    parts = draw(st.sampled_from([1, 4])) if blocks == ctas == 1 and not maps else 1
    width = grid[0] * ctas * parts
    if blocks > 1:  # the width of the grid is a number of the kernel, too, and wide grids have fewer CTAs
        grid = (draw(st.one_of(st.integers(1, 5000), st.just(15))), 99 * grid[1], grid[2])
        formats, parameters = [*formats, "i32"], [*parameters, struct.pack("=i", grid[0])]
        many = grid[0] >= blocks and math.prod(grid) > MANY_BLOCKS
        width = -(-grid[0] // blocks) if many else grid[0]
    waits = draw(st.booleans())
    binary = GpuBinary(b"", "kernel", 32 * warps, ctas, shared, (HALF_TILE,) * len(maps), dependent_launch=waits)
    paired = any(d.pairs for d in descriptors)
    cluster = 2 if paired else ctas
    attributes = PROGRAMMATIC_SERIALIZATION * waits
    attributes += [] if cluster == 1 or (paired and grid[0] % 2) else cluster_attributes(cluster)
    shape = (width, grid[1], grid[2], 32 * warps, 1, 1, shared)
    wanted = Seen(HANDLE, shape, attributes, [*parameters, *maps, *[bytes(8)] * hidden])
    artifact = Artifact(binary, tuple(formats), tuple(descriptors), hidden, blocks_of_cta=blocks, ctas_of_block=parts)
    return Case(artifact, tuple(values), grid, draw(st.sampled_from([0, 7, 1 << 40])), wanted)


PROGRAMMATIC_SERIALIZATION = [(6, struct.pack("=I60x", 1))]  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


def cluster_attributes(ctas: int) -> list[tuple[int, bytes]]:
    """CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, and its scheduling policy, which is to spread clusters."""
    return [(4, struct.pack("=3I52x", ctas, 1, 1)), (5, struct.pack("=I60x", 1))]


def launch(kernel: GpuExecutable, case: Case) -> None:
    kernel.launch(case.grid, LaunchArguments(case.values, (), case.stream, 0))


def bind(kernel: GpuExecutable, case: Case) -> None:
    bound = kernel.bind(case.grid, LaunchArguments(case.values, (), case.stream, 0))
    other = tuple(not v if v is True or v is False else v for v in case.values)
    kernel.launch((1, 2, 3), LaunchArguments(other, (), 9, 0))  # which has memory of its own
    bound()


def entered(stub: native.LaunchStub) -> Callable[..., int]:
    """What machine code enters: given the address of values, the grid and the stream."""
    function, record = stub.addresses
    enter = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4)(function)
    return lambda *given: int(enter(record, *given))


def needed(kernel: GpuExecutable, grid: tuple[int, int, int], values: tuple[Any, ...]) -> Constraints | None:
    """The variant that a launch asks for."""
    try:
        kernel.launch(grid, LaunchArguments(values, (), 0, 0))
    except NeedsVariant as e:
        variant: Constraints = e.variant
        return variant
    return None


def stub(kernel: GpuExecutable, case: Case) -> None:
    found = kernel.launch_stub(0, (), {})
    assert found is not None
    enter = entered(found)
    numbers = [struct.pack("=d" if isinstance(v, float) else "=q", v) for v in case.values]
    memory = ctypes.create_string_buffer(b"".join(numbers), 8 * len(numbers) + 8)
    assert enter(ctypes.addressof(memory), *case.grid, case.stream) == 0


@pytest.mark.parametrize("way", [launch, bind, stub])
@given(cases(), st.data())
def test_the_driver_finds_what_the_kernel_is_passed(
    way: Callable[[GpuExecutable, Case], None], case: Case, data: st.DataObject
) -> None:
    on = Recorder()
    on.sizes = [len(p) for p in case.wanted.parameters]
    on.version = data.draw(st.sampled_from([12020, 12030]))
    function: Any = SimpleNamespace(name="kernel", params=())
    loaded: Any = SimpleNamespace(handle=ctypes.c_void_p(HANDLE), device=on)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "load", lambda: on)
        kernel = GpuExecutable(function, case.artifact, FIRST, dict)
        kernel._loaded[0] = loaded
        way(kernel, case)
        way(kernel, case._replace(stream=7) if data.draw(st.booleans()) else case)
    wanted = case.wanted
    if way is bind or on.version < 12030:  # nothing is before it in its graph, or not every graph can have it
        wanted = wanted._replace(attributes=[a for a in wanted.attributes if a not in PROGRAMMATIC_SERIALIZATION])
    assert on.seen[0 if way is not bind else 1] == wanted
    assert on.seen[-1] == wanted and on.streams[-1] in (case.stream, 7)
    assert len(on.seen) == (4 if way is bind else 2)


def test_a_native_launch_picks_the_variant_for_its_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one with other attributes."""
    on = Recorder()
    on.sizes, on.processors = [8], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    binary = GpuBinary(b"", "kernel", 128, 1, 100, ())
    kernel = GpuExecutable(function, Artifact(binary, ("u64",), (), 0, depths=(8, 6)), FIRST, dict)
    variants = {}
    for handle, stages, blocks, other in (
        (24, 8, 1, dataclasses.replace(binary, threads=256, shared_bytes=900)),
        (32, 6, 2, dataclasses.replace(binary, num_ctas=2)),
    ):
        constraints = dataclasses.replace(FIRST, stages=stages, blocks=blocks)
        variants[constraints] = GpuExecutable(function, Artifact(other, ("u64",), (), 0), constraints, dict)
        load(variants[constraints], handle, on)
    load(kernel, HANDLE, on)
    found = kernel.launch_stub(0, (), variants)
    assert found is not None
    enter = entered(found)
    memory = ctypes.c_uint64(16)
    assert [enter(ctypes.addressof(memory), blocks, 1, 1, 0) for blocks in (10, 11, 20, 21)] == [0] * 4
    shapes = [(s.handle, s.shape[0], s.shape[3], s.shape[-1], len(s.attributes)) for s in on.seen]
    clusters = [(32, 2 * blocks, 128, 100, 2) for blocks in (11, 20)]
    assert shapes == [(24, 10, 256, 900, 0), *clusters, (HANDLE, 21, 128, 100, 0)]


@pytest.mark.parametrize(("lengths", "most"), [((40, 30), 40), ((48, 41), 48), ((48, 57), None), ((-1, 0), 40)])
def test_a_variant_for_rows_that_are_short(
    lengths: tuple[int, int], most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of which have to be: that with the least room for them."""
    on = Recorder()
    on.sizes, on.processors = [4, 4], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    artifact = Artifact(GpuBinary(b"", "kernel", 128, 1, 0, ()), ("i32", "i32"), (), 0, short_rows=(64, 0, 1))
    kernel, variants = GpuExecutable(function, artifact, FIRST, dict), {}
    load(kernel, HANDLE, on)
    for n in (40, 48, 56):
        how = dataclasses.replace(FIRST, rows=(n, 0, 1))
        variants[how] = GpuExecutable(function, dataclasses.replace(artifact, short_rows=()), how, dict)
        load(variants[how], n, on)
    found = needed(kernel, (3, 1, 1), lengths)
    assert (None if found is None else found.rows[0]) == most and kernel.variant_for((3, 1, 1), 10) is None
    on.seen.clear()
    made = kernel.launch_stub(0, (), variants)
    assert made is not None
    memory = ctypes.create_string_buffer(struct.pack("=2q", *lengths), 16)
    assert entered(made)(ctypes.addressof(memory), 3, 1, 1, 0) == 0
    assert [s.handle for s in on.seen] == [most or HANDLE]


@pytest.mark.parametrize("rows", [21, 20, 0, -5])
def test_a_parameter_says_how_many_blocks_there_are(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for every two rows, whatever grid is asked for; the variant is that for as many, and without rows nothing is
    launched. Of the parameter 32 bits count."""
    on = Recorder()
    on.sizes, on.processors = [4], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    binary = GpuBinary(b"", "kernel", 128, 1, 100, ())
    artifact = Artifact(binary, ("i32",), (), 0, depths=(3,), grid_extent=(0, 1, 0, 1, 2))
    kernel, few = GpuExecutable(function, artifact, FIRST, dict), dataclasses.replace(FIRST, stages=3, blocks=1)
    variant = GpuExecutable(function, dataclasses.replace(artifact, depths=()), few, dict)
    load(kernel, HANDLE, on)
    load(variant, 24, on)
    assert needed(kernel, (3, 1, 1), (rows,)) == (few if 0 < rows <= 20 else None)
    on.seen.clear()
    found = kernel.launch_stub(0, (), {few: variant})
    assert found is not None
    memory = ctypes.create_string_buffer(struct.pack("=q", rows), 8)
    assert [entered(found)(ctypes.addressof(memory), width, 1, 1, 0) for width in (1, 500)] == [0, 0]
    handle, blocks = (HANDLE, 11) if rows > 20 else (24, 10)
    assert [(s.handle, s.shape[:3]) for s in on.seen] == [(handle, (blocks, 1, 1))] * (2 if rows > 0 else 0)


def test_the_grid_says_whether_neighbouring_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a variant with fewer CTAs, where these divide the grid and leave few SMs idle, else by one whose blocks stay
    apart; Python starts those that no launch has needed."""
    on = Recorder()
    on.sizes, on.processors = [8], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    plain = Artifact(
        GpuBinary(b"", "kernel", 0, 1, 0, ()), ("u64",), (), 0, joinable=((1, 2, 1), (2, 2, 1)), busy=(90, 90)
    )
    kernel = GpuExecutable(function, plain, FIRST, dict)
    wanted = {(8, 10, 1): (2, 2, 1), (5, 2, 2): (1, 2, 1), (5, 3, 2): APART, (2, 8, 1): APART, (6, 8, 1): APART}
    found = [kernel.variant_for(grid, 10) for grid in wanted]
    assert [variant and variant.join for variant in found] == list(wanted.values())
    variants: dict[Any, GpuExecutable] = {}
    assert kernel.launch_stub(0, (), variants) is None
    memory, binary = ctypes.c_uint64(16), dataclasses.replace(plain.binary, threads=128)
    for handle, constraints, launched in ((24, found[0], [0, 1, 1, 1, 1]), (HANDLE, found[2], [0, 1, 0, 0, 0])):
        assert constraints is not None and constraints.join is not None
        artifact = dataclasses.replace(plain, binary=binary, joined=constraints.join, joinable=())
        variants[constraints] = GpuExecutable(function, artifact, constraints, dict)
        load(variants[constraints], handle, on)
        with pytest.raises(NeedsVariant) as raised:
            kernel.launch(list(wanted)[found.index(constraints)], LaunchArguments((16,), (), 0, 0))
        assert raised.value.variant == constraints
        stub = kernel.launch_stub(0, (), variants)
        assert stub is not None
        enter = entered(stub)
        assert [enter(ctypes.addressof(memory), *grid, 0) for grid in wanted] == launched
    apart = [(HANDLE, grid) for grid, joined in wanted.items() if joined == APART]
    assert [(s.handle, s.shape[:3]) for s in on.seen] == [(24, (4, 5, 1)), (24, (4, 5, 1)), *apart]


def test_how_busy_blocks_that_are_joined_keep_sms(monkeypatch: pytest.MonkeyPatch) -> None:
    """19 CTAs in two rounds on ten SMs are 95 per cent."""
    on, grid = Recorder(), (19, 2, 1)
    on.sizes, on.processors = [8], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    plain = Artifact(GpuBinary(b"", "kernel", 0, 1, 0, ()), ("u64",), (), 0, joinable=((1, 2, 1),))
    for busy, join in ((95, (1, 2, 1)), (96, APART)):
        artifact = Artifact.from_bytes(dataclasses.replace(plain, busy=(busy,)).to_bytes())
        kernel = GpuExecutable(function, artifact, FIRST, dict)
        assert kernel.variant_for(grid, 10) == dataclasses.replace(FIRST, join=join)
        with pytest.raises(NeedsVariant) as raised:
            kernel.launch(grid, LaunchArguments((16,), (), 0, 0))
        assert raised.value.variant == dataclasses.replace(FIRST, join=join)


def test_joined_blocks_that_are_few_have_a_variant_of_their_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code launches both: Python would take as long as a small product."""
    on = Recorder()
    on.sizes, on.processors = [8], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    binary = GpuBinary(b"", "kernel", 128, 1, 0, ())
    kernel = GpuExecutable(function, Artifact(binary, ("u64",), (), 0, joinable=((1, 2, 1),), busy=(90,)), FIRST, dict)
    joins = kernel.variant_for((5, 4, 1), 10)
    assert joins is not None
    joined = Artifact(binary, ("u64",), (), 0, joined=(1, 2, 1), depths=(8,))
    variants = {joins: GpuExecutable(function, joined, joins, dict)}
    deeper = variants[joins].variant_for((5, 4, 1), 10)
    assert deeper is not None and (deeper.join, deeper.stages, deeper.blocks) == ((1, 2, 1), 8, 1)
    variants[deeper] = GpuExecutable(function, dataclasses.replace(joined, depths=()), deeper, dict)
    load(variants[joins], 24, on)
    load(variants[deeper], 32, on)
    stub, memory = kernel.launch_stub(0, (), variants), ctypes.c_uint64(16)
    assert stub is not None
    enter = entered(stub)
    assert [enter(ctypes.addressof(memory), *grid, 0) for grid in ((5, 4, 1), (10, 4, 1))] == [0, 0]
    assert [(s.handle, s.shape[:3]) for s in on.seen] == [(32, (5, 2, 1)), (24, (10, 2, 1))]


def test_the_variant_for_rows_of_a_length_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of no step and very long ones need none; grids with few blocks have theirs."""
    on = Recorder()
    on.sizes, on.processors = [8], 10
    monkeypatch.setattr(driver, "load", lambda: on)
    monkeypatch.setattr(driver, "device", lambda index: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    binary = GpuBinary(b"", "kernel", 128, 1, 100, ())
    kernel = GpuExecutable(function, Artifact(binary, ("u64",), (), 0, depths=(8,), kept_rows=(0, 8, 2)), FIRST, dict)
    variants = {}
    for handle, changed in ((24, {"stages": 8, "blocks": 1}), (32, {"steps": 1}), (40, {"steps": 2})):
        constraints = dataclasses.replace(FIRST, **changed)
        variants[constraints] = GpuExecutable(function, Artifact(binary, ("u64",), (), 0), constraints, dict)
        load(variants[constraints], handle, on)
    load(kernel, HANDLE, on)
    found = kernel.launch_stub(0, (), variants)
    assert found is not None
    enter = entered(found)
    cases = (
        (10, 16, 40),
        (10, 17, 24),
        (11, 0, HANDLE),
        (11, 1, 32),
        (11, 8, 32),
        (11, 9, 40),
        (11, 16, 40),
        (11, 17, HANDLE),
    )
    for blocks, length, handle in cases:
        memory = ctypes.c_uint64(length)
        assert enter(ctypes.addressof(memory), blocks, 1, 1, 0) == 0
        assert on.seen[-1].handle == handle
        kernel.launch((blocks, 1, 1), LaunchArguments((length,), (), 0, 0))
        assert on.seen[-1].handle == handle


def test_rows_in_reversed_order_have_no_tensor_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without tensor maps is launched then."""
    on = Recorder()
    on.sizes = [8, 4]
    monkeypatch.setattr(driver, "load", lambda: on)
    d = Descriptor(0, (("c", 64, 1), ("c", 48, 1)), (("p", 1, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    artifact = Artifact(GpuBinary(b"", "kernel", 128, 1, 0, (HALF_TILE,)), ("u64", "i32"), (d,), 0)
    kernel = GpuExecutable(SimpleNamespace(name="kernel", params=()), artifact, FIRST, dict)  # type: ignore[arg-type]
    load(kernel, HANDLE, on)
    stub = kernel.launch_stub(0, (), {})
    assert stub is not None
    enter = entered(stub)
    for stride, refused in ((48, False), (-48, True), (0, False)):
        memory = (ctypes.c_int64 * 2)(BASE, stride)
        assert bool(enter(ctypes.addressof(memory), 1, 1, 1, 0)) == refused
        arguments = LaunchArguments((BASE, stride), (), 0, 0)
        if not refused:
            kernel.launch((1, 1, 1), arguments)
            continue
        for way in (kernel.launch, kernel.bind):
            with pytest.raises(NeedsVariant) as raised:
                way((1, 1, 1), arguments)
            assert not raised.value.variant.descriptors
    assert len(on.seen) == 4


def test_small_values_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Recorder()
    on.sizes = [8, 8]
    monkeypatch.setattr(driver, "load", lambda: on)
    function: Any = SimpleNamespace(name="kernel", params=())
    binary = GpuBinary(b"", "kernel", 128, 1, 0, ())
    kernel = GpuExecutable(function, Artifact(binary, ("i64", "i64"), (), 0), FIRST, dict)
    kernel.least = [(0, 0), (1, 1)]
    load(kernel, HANDLE, on)
    found = kernel.launch_stub(0, (), {})
    assert found is not None
    enter = entered(found)
    pairs = [(0, 1), (-1, 1), (0, 0), (5, -7), (5, 7)]
    memories = [(ctypes.c_int64 * 2)(*pair) for pair in pairs]
    assert [enter(ctypes.addressof(memory), 1, 1, 1, 0) for memory in memories] == [0, 1, 1, 1, 0]
    assert len(on.seen) == 2


@pytest.mark.parametrize("count", [1, 3, 4, 5])
@pytest.mark.parametrize("tiles", [True, False])
def test_tables_by_value_are_those_of_python(monkeypatch: pytest.MonkeyPatch, count: int, tiles: bool) -> None:
    """With the addresses of each launch; a list that is longer than what there is room for is left to Python."""
    on = Recorder()
    monkeypatch.setattr(driver, "load", lambda: on)
    shape, strides = (("t", 1, 1), ("t", 2, 1)), (("t", 3, 1), ("c", 1, 1))
    listed = (Descriptor(1, shape, strides, (0, 1), (64, 32), "f16", listed=True),) * tiles
    table = TableParameter(1, 5, listed, (HALF_TILE,) * tiles, by_value=True)
    binary = GpuBinary(b"", "kernel", 128, 1, 0, ())
    artifact = Artifact(binary, ("i32", "u64", "f32"), (), 0, tables=(table,), capacity=4)
    kernel = GpuExecutable(SimpleNamespace(name="kernel", params=()), artifact, FIRST, dict)  # type: ignore[arg-type]
    load(kernel, HANDLE, on)
    rows = np.array([[0, 9 + i, 48, 64, 1] for i in range(count)], np.int64)
    like = [ListTable(rows, [BASE] * count)]
    if count > 4:
        with pytest.raises(NeedsVariant) as needed:
            kernel.launch_stub(0, like, {})
        assert needed.value.variant.capacity == CAPACITIES[1]
        return
    found = kernel.launch_stub(0, like, {})
    assert found is not None
    enter = entered(found)
    on.sizes = [4, table.entry_bytes * 4, 4]
    for addresses in ([BASE + 128 * i for i in range(count)], [BASE + 512 * (count - i) for i in range(count)]):
        given = ListTable(rows, addresses)
        filled = given.filled()
        memory = ctypes.create_string_buffer(struct.pack("=qQd", -7, filled.ctypes.data, 0.5))
        assert enter(ctypes.addressof(memory), 2, 1, 1, 3) == 0
        kernel.launch((2, 1, 1), LaunchArguments((-7, filled.ctypes.data, 0.5), (), 3, 0, [given]))
        by_machine_code, by_python = on.seen[-2:]
        passed, first = by_python.parameters[1], 4 * table.map_bytes
        for launch in (by_machine_code, by_python):  # what there is room for is not written
            begin = first - count * table.map_bytes
            launch.parameters[1] = launch.parameters[1][begin : begin + count * table.entry_bytes]
        assert by_machine_code == by_python
        for i, address in enumerate(addresses):
            assert struct.unpack_from("=Q", passed, first + 40 * i)[0] == address
            assert not tiles or struct.unpack_from("=Q", passed, first - table.map_bytes * (i + 1))[0] == address


@pytest.mark.parametrize("short", ["f16", "bf16", "f8e4m3fn", "f8e5m2", "f32", "tf32"])
@given(data=st.data())
def test_floats_are_rounded_as_numpy_rounds_them(short: str, data: st.DataObject) -> None:
    """Through float32, to even, also to subnormal numbers, infinity and NaN."""
    storage = dtype_from_short(short).storage
    bits = st.integers(0, (1 << 8 * storage.itemsize) - 1)
    exact = bits.map(lambda n: float(np.array(n, f"u{storage.itemsize}").view(storage)))
    near = st.tuples(exact, exact).map(lambda pair: sum(pair) / 2)
    value = data.draw(st.one_of(exact, near, st.floats(), near.map(lambda x: math.nextafter(x, 9e9))))
    on = Recorder()
    on.sizes = [8]
    function: Any = SimpleNamespace(name="kernel", params=())
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(driver, "load", lambda: on)
        kernel = GpuExecutable(
            function, Artifact(GpuBinary(b"", "kernel", 128, 1, 0, ()), (short,), (), 0), FIRST, dict
        )
        load(kernel, HANDLE, on)
        kernel.launch((1, 1, 1), LaunchArguments((value,), (), 0, 0))
        wanted = np.float32(value).astype(storage)
    found = np.frombuffer(on.seen[0].parameters[0][: storage.itemsize], storage)[0]
    assert found.tobytes() == wanted.tobytes() or (math.isnan(found) and math.isnan(wanted))
    assert not any(on.seen[0].parameters[0][storage.itemsize :])
