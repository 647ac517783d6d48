"""Handlers for XLA on a GPU, as XLA calls them, and as the driver sees their launches; neither has to be there."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import xla
from support.driver import Compiler, Driver, executable
from support.operators import add_kernel

import tilewright as ct
from tilewright.backends import native, registry
from tilewright.backends.base import Capabilities
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import Artifact, GpuBinary
from tilewright.gpu_runtime.executable import FIRST as FIRST_TRIED
from tilewright.gpu_runtime.executable import GpuExecutable
from tilewright.ir import dtypes
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.types import PointerType, TileType
from tilewright.ops.xla_handler import Handler
from tilewright.runtime.abstract import RecordedLaunch, record_launches
from tilewright.runtime.arrays import AbstractAddress, abstract_array
from tilewright.runtime.variants import MultiVersioned

if not native.available():
    pytest.skip("handlers are machine code, which is not made here", allow_module_level=True)
FIRST, SECOND = 4096, 8192  # contexts
_BOX = {"elem_size": 2, "block_size": [64, 32], "swizzle": 3}
_ONE, _TWO = (ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * n) for n in (1, 2))


class Gpus(Driver):
    """Two devices, whose contexts are entered and left."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[int] = []
        self.depths: list[int] = []  # of contexts, at each launch
        self.cuStreamGetCtx = _TWO(self._context_of)
        self.cuCtxPushCurrent_v2 = _ONE(lambda context: self.stack.append(context) or 0)
        self.cuCtxPopCurrent_v2 = _ONE(lambda place: self.stack.pop() and 0)
        self.cuLaunchKernelEx = type(self.cuLaunchKernelEx)(self._entered)

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def _context_of(self, stream: int, place: int) -> int:
        ctypes.c_uint64.from_address(place).value = {77: FIRST, 88: SECOND}.get(stream, 1)
        return 0

    def _entered(self, *arguments: Any) -> int:
        self.depths.append(len(self.stack))
        return self._launch(*arguments)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    found = Gpus()
    monkeypatch.setattr(driver, "load", lambda: found)
    monkeypatch.setattr(driver, "device", lambda index=0: SimpleNamespace(capability=90, processors=132))
    return found


def recorded(made: Any, formats: tuple[str, ...], values: list[Any], grid: tuple[int, int, int] = (3, 2, 1)) -> Any:
    """A launch of ``made``, whose devices have contexts of their own."""
    for index, context in enumerate((FIRST, SECOND)):
        made._first._loaded[index].device = SimpleNamespace(context=context)
    kinds = {"u64": PointerType(dtypes.float32), "i32": dtypes.int32, "f32": dtypes.float32, "bf16": dtypes.bfloat16}
    function = SimpleNamespace(
        body=SimpleNamespace(args=[SimpleNamespace(tile=TileType(kinds[f], ())) for f in formats])
    )
    kernel: Any = SimpleNamespace(name="kernel")
    return RecordedLaunch(
        kernel, grid, function, made, Capabilities(embed=MultiVersioned.embedded), values, frozenset()
    )  # type: ignore[arg-type]


def test_launches_go_to_the_stream_of_xla(gpus: Gpus) -> None:
    formats = "u64", "i32", "f32", "u64"
    values = [AbstractAddress(0), -5, 1.5, AbstractAddress(1)]
    handler = Handler("tests::op", [recorded(executable(formats), formats, values)], 1, {}, True)
    for stream, handle in ((77, 16), (88, 17)):  # each device has the kernel's handle of its own
        calls = xla.Xla(handler, stream)
        assert calls.call([1 << 20], [1 << 21]) is None and not calls.errors
        grid, used, parameters = gpus.launches.pop()
        assert (grid, used, gpus.forms.pop()[0]) == ((3, 2, 1), stream, handle)
        wanted = [struct.pack("Q", 1 << 20), struct.pack("i", -5), struct.pack("f", 1.5), struct.pack("Q", 1 << 21)]
        assert [p[: len(w)] for p, w in zip(parameters, wanted)] == wanted
    assert gpus.depths == [1, 1] and gpus.stack == []
    assert xla.Xla(handler).call([1 << 20], [1 << 21], xla.PREPARE) is None and not gpus.launches


def test_what_xla_is_told(gpus: Gpus) -> None:
    """The version is XLA's own, and the launches may be recorded in a command buffer."""
    handler = Handler("tests::op", [recorded(executable(("u64",)), ("u64",), [AbstractAddress(0)])], 1, {}, True)
    assert xla.Xla(handler).metadata() == (0, 3, 1)


def test_changed_arrays_and_tensor_maps(gpus: Gpus) -> None:
    """The array that is changed is the result, which has the memory of the input where that is donated."""
    d = Descriptor(0, (("c", 64, 1), ("c", 48, 1)), (("c", 48, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    made = executable(("u64",), gpus, [(d, {"elem_size": 2, "block_size": [64, 32], "swizzle": 3})])
    handler = Handler("tests::op", [recorded(made, ("u64",), [AbstractAddress(0)])], 1, {0: 1}, True)
    calls = xla.Xla(handler)
    assert calls.call([32], [64]) is None
    assert [base for _, _, base, *_ in gpus.maps] == [64] and len(gpus.launches) == 1
    gpus.codes = [driver.INVALID_VALUE]  # of the map
    assert calls.call([32], [64]) == 1 and gpus.stack == []
    assert calls.errors == [(13, "tests::op: the launch of kernel() failed")]


def test_failures_are_errors_of_xla(gpus: Gpus) -> None:
    handler = Handler("tests::op", [recorded(executable(("u64",)), ("u64",), [AbstractAddress(0)])], 1, {}, True)
    for stream, address, code, message in (
        (77, 24, 3, "array 0 does not start at a multiple of 16 bytes"),
        (None, 32, 13, "XLA gives no stream"),
        (66, 32, 13, "the launch of kernel() failed"),  # of a device that has no kernel
    ):
        calls = xla.Xla(handler, stream)
        assert calls.call([address], []) == 1
        assert calls.errors == [(code, f"tests::op: {message}")]
    gpus.codes = [driver.INVALID_VALUE]
    calls = xla.Xla(handler)
    assert calls.call([32], []) == 1 and calls.errors == [(13, "tests::op: the launch of kernel() failed")]
    assert gpus.stack == [] and not gpus.launches


def test_grids_without_blocks(gpus: Gpus) -> None:
    launch = recorded(executable(("u64",)), ("u64",), [AbstractAddress(0)], (0, 2, 1))
    assert xla.Xla(Handler("tests::op", [launch], 1, {}, True)).call([32], []) is None
    assert not gpus.launches


def test_kernels_that_xla_cannot_launch(gpus: Gpus) -> None:
    launch = recorded(executable(("u64", "u64"), local_bytes=16), ("u64",), [AbstractAddress(0)])
    with pytest.raises(NotImplementedError, match=r"XLA cannot launch kernel\(\): it has arrays of its own"):
        Handler("tests::op", [launch], 0, {}, True)


def test_numbers_of_few_bits_are_rounded(gpus: Gpus) -> None:
    handler = Handler("tests::op", [recorded(executable(("bf16",)), ("bf16",), [1.5])], 0, {}, True)
    assert xla.Xla(handler).call([], []) is None
    assert gpus.launches.pop()[2][0] == struct.pack("=H6x", 0x3FC0)


def test_the_variant_for_so_few_blocks_is_what_xla_launches(gpus: Gpus) -> None:
    launch = recorded(executable(("u64",), depths=(3, 5)), ("u64",), [AbstractAddress(0)])
    assert xla.Xla(Handler("tests::op", [launch], 1, {}, True)).call([32], []) is None
    assert gpus.forms == [(3, 300)]


def test_recorded_launches_are_of_kernels_with_their_variants(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the one that reads arrays where they are, for which XLA makes no copies."""
    d = Descriptor(0, (("c", 64, 1), ("c", 50, 1)), (("c", 50, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    asked: list[Any] = []

    class Backend(Compiler):
        name, device = "cpu", "cpu"
        capabilities = Capabilities(direct_launch=True, variants=True, embed=MultiVersioned.embedded)

        def unavailable(self) -> str | None:
            return None

    def make(function: Any, variant: Any) -> Any:
        asked.append(variant)
        described = [replace(d, needs_realign=True)] if variant is None else []
        binary = GpuBinary(b"", "kernel", 128, 1, 0, tuple(_BOX for _ in described))
        formats = tuple("i64" if p.role == "scalar" else "u64" for p in function.params)
        made = GpuExecutable(
            function,
            Artifact(binary, formats, tuple(described), max(4 - len(formats), 0)),
            variant or FIRST_TRIED,
            dict,
        )
        made._loaded[0] = made._loaded[1] = SimpleNamespace(handle=ctypes.c_void_p(16), device=gpus)  # type: ignore[assignment]
        return made

    monkeypatch.setitem(registry._loaders, "cpu", lambda: Backend(make))
    kernel = add_kernel.replace_hints()
    given = [abstract_array(i, (300,), np.float32) for i in range(3)]
    launches = record_launches(lambda stream: ct.launch(stream, (2,), kernel, (*given, 256)))
    calls = xla.Xla(Handler("tests::op", launches, 2, {}, True))
    assert calls.call([32, 64], [96]) is None and not calls.errors
    assert [getattr(v, "realign", True) for v in asked] == [True, False] and len(gpus.launches) == 1


def test_the_structures_are_those_of_the_header(tmp_path: Path) -> None:
    """Where the header and a C compiler are there."""
    spec = importlib.util.find_spec("jaxlib")
    compiler = which("cc") or which("gcc")
    if spec is None or spec.origin is None or compiler is None:
        pytest.skip("needs jaxlib, whose header it reads, and a C compiler")
    fields = {
        ("XLA_FFI_CallFrame", "stage"): xla.Frame.stage.offset,
        ("XLA_FFI_CallFrame", "args.args"): xla.Frame.arguments.offset + xla.Arguments.items.offset,
        ("XLA_FFI_CallFrame", "rets.rets"): xla.Frame.results.offset + xla.Results.items.offset,
        ("XLA_FFI_Api", "XLA_FFI_Error_Create"): xla.Api.error_create.offset,
        ("XLA_FFI_Api", "XLA_FFI_Error_Destroy"): xla.Api.error_destroy.offset,
        ("XLA_FFI_Api", "XLA_FFI_Stream_Get"): xla.Api.stream.offset,
        ("XLA_FFI_Api", "XLA_FFI_ThreadPool_NumThreads"): xla.Api.threads.offset,
        ("XLA_FFI_Stream_Get_Args", "stream"): xla.Asked.found.offset,
        ("XLA_FFI_Buffer", "data"): xla.Buffer.data.offset,
        ("XLA_FFI_Error_Create_Args", "errc"): xla.ErrorCreate.code.offset,
        ("XLA_FFI_Metadata", "traits"): xla.Metadata.traits.offset,
        ("XLA_FFI_Metadata_Extension", "metadata"): xla.MetadataExtension.metadata.offset,
    }
    checks = "\n".join(
        f'_Static_assert(offsetof({s}, {f}) == {offset}, "{s}.{f}");' for (s, f), offset in fields.items()
    )
    source = tmp_path / "offsets.c"
    source.write_text(f'#include <stddef.h>\n#include <stdbool.h>\n#include "xla/ffi/api/c_api.h"\n{checks}\n')
    include = Path(spec.origin).parent / "include"
    done = subprocess.run([compiler, "-fsyntax-only", f"-I{include}", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
