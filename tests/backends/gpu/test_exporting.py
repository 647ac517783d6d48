"""Cubins without a GPU: the PTX that is assembled runs in its interpreter, called as the convention says."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from support.ptx.machine import Cta
from support.ptx.parser import parse

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.gpu import assemble
from tilewright.backends.gpu.assemble import Assembled, Resources
from tilewright.backends.launch_arguments import Buffer
from tilewright.backends.reference.memory import Memory
from tilewright.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel
from tilewright.ir.dtypes import float32

V2 = CallingConvention.cutile_python_v2()
VECTOR = ArrayConstraint(
    ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False
)


@ct.kernel
def scaled(x, out, T: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0),), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0),), tile * 2 + ct.sum(tile))


@ct.kernel
def talks(x):
    tile = ct.load(x, (0,), (64,))
    ct.print("tile", tile)
    ct.assert_(tile > 0, "positive")


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PTX that was to be assembled; the backend triton, which writes cubins too, is not there."""
    texts: list[str] = []

    def note(ptx: str, target: str, kernel: str) -> Assembled:
        texts.append(ptx)
        return Assembled(b"\x7fELF", Resources(0, 0, 0, 0))

    monkeypatch.setattr(assemble, "assemble", note)
    monkeypatch.setattr(assemble, "missing", lambda: None)
    monkeypatch.delitem(registry._loaders, "triton")
    return texts


def test_two_variants_in_one_file(assembled: list[str], tmp_path: Path) -> None:
    file = tmp_path / "kernels.cubin"
    signatures = [KernelSignature([VECTOR, VECTOR, tile], V2, f"scaled{tile}") for tile in (64, 128)]
    export_kernel(scaled, signatures, file, gpu_code="sm_90", output_format="cubin")
    launches = json.loads(file.with_suffix(".json").read_text())
    assert list(launches) == ["scaled64", "scaled128"]
    (ptx,) = assembled
    entries = parse(ptx)
    for tile in (64, 128):
        x, out = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
        buffers = []
        for name, array in (("x", x), ("out", out)):
            start = array.ctypes.data
            buffers.append(Buffer(name, start, start, start + array.nbytes, float32, True))
        parameters = [
            part
            for b in buffers
            for part in (struct.pack("<Q", b.address), struct.pack("<i", 200), struct.pack("<i", 1))
        ]
        launch = launches[f"scaled{tile}"]
        grid = -(-200 // tile), 1, 1
        for i in range(grid[0]):
            threads, shared = launch["threads_per_block"], launch["dynamic_shared_bytes"]
            Cta(entries[f"scaled{tile}"], parameters, Memory(buffers), threads, shared, (i, 0, 0), grid).run()
        sums = np.add.reduceat(x, np.arange(0, 200, tile))
        np.testing.assert_array_equal(out, x * 2 + np.repeat(sums, tile)[:200])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_what_is_printed_goes_to_a_variable(architecture: str, assembled: list[str], tmp_path: Path) -> None:
    file = tmp_path / "kernels.cubin"
    export_kernel(talks, [KernelSignature([VECTOR], V2, "talks")], file, gpu_code=architecture, output_format="cubin")
    output = json.loads(file.with_suffix(".json").read_text())["talks"]["output"]
    assert f".visible .global .align 8 .b8 {output['symbol']}[{8 * output['words']}];" in assembled[0]
    printed, failed = output["sites"]
    assert printed["words"] == 4 + 64 and failed["assert"] == "positive"


def test_without_an_assembler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(assemble, "missing", lambda: "ptxas is not installed; install it")
    monkeypatch.delitem(registry._loaders, "triton")
    with pytest.raises(ct.TileUnsupportedFeatureError, match="no cubin can be written here: ptxas is not installed"):
        signature = KernelSignature([VECTOR], V2, "talks")
        export_kernel(talks, [signature], tmp_path / "kernels.cubin", gpu_code="sm_90", output_format="cubin")
