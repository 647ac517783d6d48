"""Cubins of the gpu backend are loaded and launched by a program in C."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.gpu import assemble
from tilewright.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel
from tilewright.gpu_runtime import driver

PROGRAM = Path(__file__).with_name("launch_cubin.c")
VECTOR = ArrayConstraint(
    ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False
)


@ct.kernel
def centered(x, out, T: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0),), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0),), tile * 2 - ct.max(tile))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.skipif(assemble.missing() is not None, reason=assemble.missing() or "")
def test_a_program_in_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry._loaders, "triton")  # which writes cubins, too
    program, file, n, tile = tmp_path / "launch", tmp_path / "centered.cubin", 1000, 256
    subprocess.run(["cc", "-O1", PROGRAM, "-o", program, "-ldl"], check=True)
    signature = KernelSignature([VECTOR, VECTOR, tile], CallingConvention.cutile_python_v2(), "centered")
    code = f"sm_{driver.device(0).capability}"
    export_kernel(centered, [signature], file, gpu_code=code, output_format="cubin")
    launch = json.loads(file.with_suffix(".json").read_text())["centered"]
    sizes = [-(-n // tile), launch["threads_per_block"], launch["dynamic_shared_bytes"], n]
    ran = subprocess.run([program, file, "centered", *map(str, sizes)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    x = np.arange(n, dtype=np.float32) % 17
    np.testing.assert_array_equal(np.array(ran.stdout.split(), np.float32), x * 2 - 16)
