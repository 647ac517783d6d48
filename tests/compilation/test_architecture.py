"""Exports of CUDA Tile IR for one architecture."""

from __future__ import annotations

import io
from typing import Any

import pytest

import tilewright as ct
from tilewright.compilation import ArrayConstraint, CallingConvention, KernelSignature, export_kernel


@ct.kernel
def copy(x):
    ct.scatter(x, 0, ct.gather(x, 1))


@ct.kernel
def add(x):
    i = ct.arange(8, dtype=ct.int32)
    ct.atomic_add(x, i, ct.gather(x, i))


@ct.kernel
def add_to_a_view(x):
    view = x.tiled_view((8,))
    view.atomic_store_add(0, view.load(1))


def export(kernel: Any, dtype: ct.DType, architecture: str | None, version: str) -> None:
    array = ArrayConstraint(
        dtype, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False
    )
    signature = KernelSignature([array], CallingConvention.cutile_python_v1())
    options = {"gpu_code": architecture, "output_format": "tileir_bytecode", "bytecode_version": version}
    export_kernel(kernel, [signature], io.BytesIO(), **options)


LACKING = (
    (copy, ct.float8_e4m3fn, "sm_80", "float8_e4m3fn is not supported on sm_80; it needs sm_90"),
    (copy, ct.float8_e5m2, "sm_89", "float8_e5m2 is not supported on sm_89; it needs sm_90"),
    (copy, ct.float8_e8m0fnu, "sm_90a", "float8_e8m0fnu is not supported on sm_90a; it needs sm_100"),
    (add, ct.bfloat16, "sm_86", "an atomic add of bfloat16 is not supported on sm_86; it needs sm_90"),
    (add_to_a_view, ct.bfloat16, "sm_80", "an atomic add of bfloat16 is not supported on sm_80; it needs sm_90"),
)


@pytest.mark.parametrize(("kernel", "dtype", "architecture", "said"), LACKING)
def test_what_an_architecture_lacks_is_refused(kernel: Any, dtype: ct.DType, architecture: str, said: str) -> None:
    with pytest.raises(ct.TileUnsupportedFeatureError, match=said):
        export(kernel, dtype, architecture, "13.3")
    for other in (None, "sm_100", "sm_100a", "sm_120f"):
        export(kernel, dtype, other, "13.3")


def test_versions_without_atomic_adds_of_bfloat16() -> None:
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"an atomic add of bfloat16 needs bytecode 13.3"):
        export(add, ct.bfloat16, "sm_90", "13.2")
    export(add, ct.float16, "sm_90", "13.2")


@pytest.mark.parametrize("name", ["sm_100aa", "sm_100x", "h100", "sm90"])
def test_names_of_architectures(name: str) -> None:
    with pytest.raises(ValueError, match="is no architecture of NVIDIA"):
        export(copy, ct.float32, name, "13.3")
