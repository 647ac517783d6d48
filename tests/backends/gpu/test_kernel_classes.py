"""Which kernels the backend gpu takes from triton."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attended, attention, backward_of_keys, backward_of_queries, decoded
from support.gpu_products import aligned, matmul, persistent, shares, strips

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import (
    is_attention,
    is_attention_backward,
    is_attention_of_bytes,
    is_large_matmul,
    is_latent_decoding,
    is_linear_attention,
    is_matmul_of_bytes_by_rows,
    is_matmul_of_few_rows,
    is_matmul_of_integers,
    is_matmul_of_parts,
    is_matmul_of_tfloat32,
    is_matmul_with_strips,
    is_persistent_matmul,
    is_persistent_matmul_of_bytes,
    is_scaled_matmul,
)
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.transforms.bounds_check_elimination import BoundsCheckElimination

LARGE, WIDE, NARROW = (128, 256, 64), (128, 128, 64), (128, 64, 64)


def classes(
    kernel: Any = persistent, tile: tuple[int, ...] = LARGE, dtype: Any = np.float16, size: int = 512, **how: Any
) -> list[str]:
    arrays = tuple(aligned((size, size), dtype) for _ in range(2))
    out = aligned((size, size), np.float32 if np.dtype(dtype).itemsize == 1 else dtype)
    arguments = (*arrays, out, *tile, False, how.pop("right", False), ct.float32, how.pop("rounded", False))
    made = ct.kernel(kernel, **how.pop("hints", {}))
    function = specialization(made, arguments, "reference").function
    backend = GpuBackend(how.pop("target", "sm_90"))
    predicates = {
        "large": is_large_matmul,
        "persistent": is_persistent_matmul,
        "strips": is_matmul_with_strips,
        "parts": is_matmul_of_parts,
        "bytes": is_persistent_matmul_of_bytes,
        "integers": is_matmul_of_integers,
        "bytes by rows": is_matmul_of_bytes_by_rows,
        "tfloat32": is_matmul_of_tfloat32,
    }
    return [name for name, holds in predicates.items() if holds(function, backend)]


def fast(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """A persistent product that allows sums with fewer bits."""
    columns = ct.cdiv(c.shape[1], N)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], M) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((M, N), ct.float32)
        for k in range(ct.cdiv(a.shape[1], K)):
            total = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (j, k), (N, K)).transpose(), total, use_fast_acc=True)
        ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_products_that_are_taken(dtype: Any) -> None:
    assert classes(dtype=dtype) == ["large", "persistent"]
    assert classes(dtype=dtype, right=True, tile=(256, 128, 64), hints={"num_ctas": 1}) == ["large", "persistent"]
    assert classes(matmul, dtype=dtype) == ["large"]
    assert classes(dtype=dtype, tile=WIDE) == classes(dtype=dtype, tile=NARROW) == ["persistent"]


def test_rows_that_do_not_start_on_sectors() -> None:
    """Persistent products are paired there; with CTAs that are to be alone they take longer."""
    assert classes(size=520) == ["large", "persistent"] and classes(matmul, size=520) == ["large"]
    assert classes(size=520, tile=WIDE) == classes(size=520, tile=NARROW) == ["persistent"]
    assert not classes(size=520, tile=(64, 32, 64)) and not classes(size=520, hints={"num_ctas": 1})


def test_several_loops() -> None:
    """What whole tiles leave is of each CTA for itself. Where rows are whole sectors nothing is paired."""
    assert classes(strips, size=520) == ["strips"] and classes(shares, size=520) == ["large"]
    assert not classes(strips) and not classes(strips, size=520, tile=WIDE)
    assert not classes(strips, size=520, hints={"num_ctas": 1})


def parts(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """Three tiles side by side."""
    i, j = ct.bid(0), ct.bid(1)
    totals = tuple(ct.zeros((M, N), ct.float32) for _ in ct.static_iter(range(3)))
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        totals = tuple(
            ct.mma(x, ct.load(b, (k, 3 * j + p), (K, N), padding_mode=ct.PaddingMode.ZERO), totals[p])
            for p in ct.static_iter(range(3))
        )
    for p in ct.static_iter(range(3)):
        ct.store(c, (i, 3 * j + p), totals[p].astype(c.dtype))


def test_tiles_of_parts() -> None:
    """With rows of whole units: others are copied if that pays, which the launch knows."""
    for size in (512, 520):
        assert classes(parts, tile=NARROW, size=size) == classes(parts, tile=(64, 32, 64), size=size) == ["parts"]
    assert not classes(parts, tile=NARROW, size=513) and not classes(parts, tile=(128, 16, 64))
    assert not classes(parts, tile=NARROW, dtype=np.float32)
    assert not classes(matmul, tile=NARROW) and not classes(parts, tile=NARROW, target="sm_80")


def test_8_bit_floats() -> None:
    e4m3 = ml_dtypes.float8_e4m3fn
    assert classes(fast, dtype=e4m3, tile=(128, 256, 128)) == ["bytes"]
    assert not classes(fast, dtype=e4m3, tile=(64, 256, 128))
    assert not classes(dtype=e4m3, right=True, tile=(128, 256, 128))


def test_8_bit_floats_by_rows() -> None:
    def found(*tile: int, fast_acc: bool = True) -> list[str]:
        return classes(by_rows, dtype=ml_dtypes.float8_e4m3fn, tile=tile, rounded=fast_acc)

    assert found(128, 128, 64) == found(64, 64, 64) == ["bytes by rows"]
    assert not found(64, 64, 32) and not found(64, 32, 128) and not found(128, 128, 64, fast_acc=False)


def test_tfloat32() -> None:
    def found(kernel: Any, *tile: int, right: bool = True, **how: Any) -> list[str]:
        return classes(kernel, dtype=np.float32, tile=tile, right=right, rounded=True, **how)

    assert found(matmul, 128, 256, 32) == found(rounded, 128, 256, 32) == found(rounded, 128, 128, 32) == ["tfloat32"]
    assert not found(matmul, 128, 128, 32) and not found(matmul, 256, 128, 32) and not found(rounded, 128, 128, 64)
    assert found(rounded, 64, 64, 32, right=False) == ["tfloat32"] and not found(matmul, 64, 64, 32, right=False)
    assert (
        not found(rounded, 64, 64, 32)
        and found(rounded, 128, 128, 32, right=False) == found(matmul, 128, 256, 32, right=False) == ["tfloat32"]
        and not found(rounded, 256, 128, 32, right=False)
        and not found(rounded, 128, 128, 32, size=510)
    )
    assert not classes(dtype=np.float32, tile=(128, 256, 32), right=True)


def by_rows(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], fast_acc: ct.Constant[bool],
) -> None:  # fmt: skip
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), total, use_fast_acc=fast_acc)
    ct.store(c, (i, j), total.astype(c.dtype))


def rounded(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    """A persistent product of tfloat32."""
    columns = ct.cdiv(c.shape[1], N)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], M) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((M, N), ct.float32)
        for k in range(ct.cdiv(a.shape[1], K)):
            y = ct.load(b, (j, k), (N, K)).transpose() if right else ct.load(b, (k, j), (K, N))
            x = ct.load(a, (i, k), (M, K))
            total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
        ct.store(c, (i, j), total.astype(c.dtype))


def integers(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool], sums: ct.Constant[Any], rounded: ct.Constant[bool],
) -> None:  # fmt: skip
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.int32)
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.load(b, (j, k), (N, K)).transpose() if right else ct.load(b, (k, j), (K, N))
        total = ct.mma(ct.load(a, (i, k), (M, K)), y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_8_bit_integers(dtype: Any) -> None:
    assert classes(integers, dtype=dtype, right=True, tile=(128, 128, 128)) == ["integers"]
    assert not classes(integers, dtype=dtype, right=True, tile=(64, 128, 128))
    assert not classes(integers, dtype=dtype, right=True, tile=(128, 128, 32))
    assert classes(integers, dtype=dtype, tile=(128, 128, 128)) == ["integers"]
    assert classes(integers, dtype=dtype, tile=(64, 64, 64)) == ["integers"]
    assert not classes(integers, dtype=dtype, tile=(64, 32, 64)) and not classes(integers, dtype=dtype, size=520)


def test_others_are_not() -> None:
    assert not classes(matmul, tile=WIDE)
    assert not classes(tile=(64, 32, 64))
    assert not classes(size=510)
    assert not classes(target="sm_80")
    assert not classes(dtype=ml_dtypes.float8_e4m3fn, right=True)
    assert not classes(hints={"occupancy": 2})
    assert not classes(hints={"num_ctas": 2})


def test_tiles_of_few_rows() -> None:
    """They are multiplied as columns; not where rows are no whole sectors."""

    def found(*tile: int, kernel: Any = matmul, size: int = 512, dtype: Any = np.float16) -> bool:
        arrays = tuple(aligned((size, size), dtype) for _ in range(3))
        arguments = (*arrays, *tile, False, False, ct.float32, False)
        function = specialization(ct.kernel(kernel), arguments, "reference").function
        return is_matmul_of_few_rows(function, GpuBackend("sm_90"))

    assert found(16, 128, 64) and found(32, 64, 64) and found(16, 64, 128)
    assert not found(16, 32, 64) and not found(*NARROW) and not found(16, 128, 64, size=520)
    assert not found(16, 128, 64, kernel=persistent) and not found(16, 128, 64, dtype=np.float32)


@ct.kernel
def scaled(
    a: ct.Array, b: ct.Array, rows: ct.Array, all_: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int]
) -> None:
    """Each step has a scale for each row, and one for all."""
    total = ct.zeros((M, N), ct.float32)
    for k in range(a.shape[1] // 128):
        x, y = ct.load(a, (ct.bid(0), k), (M, 128)), ct.load(b, (ct.bid(1), k), (N, 128))
        scale = ct.load(rows, (ct.bid(0), k), (M, 1)) * ct.load(all_, (ct.bid(1), k), (1, 1))
        total += ct.mma(x, ct.transpose(y), ct.zeros((M, N), ct.float32)) * scale
    ct.store(c, (ct.bid(0), ct.bid(1)), total)


def test_products_with_scales() -> None:
    def found(*tile: int, dtype: Any = ml_dtypes.float8_e4m3fn) -> bool:
        arrays = [aligned((512, 512), dtype) for _ in range(2)]
        others = [aligned(shape, np.float32) for shape in ((512, 4), (4, 4), (512, 512))]
        function = specialization(scaled, (*arrays, *others, *tile), "reference").function
        return is_scaled_matmul(function, GpuBackend("sm_90"))

    assert found(128, 128) and found(64, 128) and not found(128, 32) and not found(128, 128, dtype=np.float16)


@ct.kernel
def recurrent(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, D: ct.Constant[int], T: ct.Constant[int]
) -> None:  # fmt: skip
    """Linear attention of one head."""
    state = ct.zeros((D, D), ct.float32)
    for i in range(q.shape[0] // T):
        queries, keys, values = ct.load(q, (i, 0), (T, D)), ct.load(k, (i, 0), (T, D)), ct.load(v, (i, 0), (T, D))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        result = ct.mma(queries, state.astype(q.dtype), ct.zeros((T, D), ct.float32))
        ct.store(o, (i, 0), ct.mma(scores.astype(q.dtype), values, result))
        state = ct.mma(ct.transpose(keys), values, state)


def test_linear_attention() -> None:
    def found(kernel: Any, *arguments: int) -> bool:
        arrays = [aligned((256, 128), np.float16) for _ in range(3)]
        function = specialization(kernel, (*arrays, aligned((256, 128), np.float32), *arguments), "reference").function
        return is_linear_attention(function, GpuBackend("sm_90"))

    assert found(recurrent, 128, 64) and found(recurrent, 128, 128)
    assert not found(recurrent, 128, 32) and not found(ct.kernel(attention), 64, 64, 128, False)


def is_taken(rows: int, keys: int, width: int, causal: bool = False, dtype: Any = np.float16, **how: Any) -> bool:
    arrays = tuple(aligned((256, width), dtype) for _ in range(4))
    made = ct.kernel(attention, **how.pop("hints", {}))
    function = specialization(made, (*arrays, rows, keys, width, causal), "reference").function
    return is_attention(function, GpuBackend(how.pop("target", "sm_90")))


def test_attention_that_is_taken() -> None:
    """Two loops under a mask, and one without; heads of 128 and of 256; in two CTAs."""
    assert is_taken(128, 128, 128) and is_taken(128, 128, 128, True, ml_dtypes.bfloat16) and is_taken(128, 64, 256)
    assert is_taken(128, 128, 256) and is_taken(256, 128, 128) and is_taken(256, 128, 64, True)
    assert is_taken(128, 64, 128) and is_taken(128, 32, 128, True) and not is_taken(128, 32, 256)
    assert is_taken(128, 128, 64) and is_taken(128, 32, 64, True) and not is_taken(128, 64, 64)
    assert is_taken(64, 64, 256) and is_taken(64, 128, 256, True) and not is_taken(64, 32, 256)
    assert is_taken(128, 128, 128, hints={"occupancy": 2}) and is_taken(256, 128, 128, hints={"occupancy": 1})


@ct.kernel
def capped(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int]
) -> None:
    x = ct.load(q, (ct.bid(0), 0), (M, D))
    total, size = ct.zeros((M, D), ct.float32), ct.zeros((M, 1), ct.float32)
    for j in range(k.shape[0] // N):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (N, D))), ct.zeros((M, N), ct.float32))
        weights = ct.exp(ct.tanh(scores))
        size += ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (N, D)), total)
    ct.store(o, (ct.bid(0), 0), (total / size).astype(o.dtype))


def test_soft_caps() -> None:
    def found(*tile: int) -> bool:
        arrays = [aligned((256, tile[-1]), np.float16) for _ in range(4)]
        return is_attention(specialization(capped, (*arrays, *tile), "reference").function, GpuBackend("sm_90"))

    assert found(128, 128, 128) and found(64, 64, 256) and found(64, 128, 256) and not found(128, 64, 128)


@pytest.mark.parametrize(
    ("rows", "keys", "width", "how"),
    [
        (128, 16, 128, {}),
        (64, 128, 128, {}),
        (256, 64, 64, {}),
        (128, 128, 128, {"target": "sm_80"}),
        (128, 128, 128, {"hints": {"opt_level": 2}}),
        (128, 128, 128, {"dtype": np.float32}),
    ],
)
def test_attention_that_stays(rows: int, keys: int, width: int, how: dict[str, Any]) -> None:
    assert not is_taken(rows, keys, width, **how)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_attention_of_bytes_that_is_taken(dtype: Any) -> None:
    def is_taken_of_bytes(*tile: int, dtype: Any = dtype) -> bool:
        return is_attention_of_bytes(attended(*tile, dtype=dtype), GpuBackend("sm_90"))

    assert is_taken_of_bytes(128, 128, 128) and is_taken_of_bytes(256, 128, 128)
    assert not is_taken_of_bytes(128, 64, 64) and not is_taken_of_bytes(128, 128, 128, dtype=np.float16)
    assert not is_attention(attended(128, 128, 128, dtype=dtype), GpuBackend("sm_90"))


@ct.kernel
def with_sums(q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, sums: ct.Array) -> None:
    x, total, size = ct.load(q, (0, 0), (128, 128)), ct.zeros((128, 128), ct.float32), ct.zeros((128,), ct.float32)
    for j in range(ct.cdiv(k.shape[0], 128)):
        y, z = ct.load(k, (j, 0), (128, 128)), ct.load(v, (j, 0), (128, 128))
        weights = ct.exp(ct.mma(x, ct.transpose(y), ct.zeros((128, 128), ct.float32)))
        size, total = size * 0.5 + ct.sum(weights, axis=1), ct.mma(weights.astype(q.dtype), z, total * 0.5)
    ct.store(o, (0, 0), total.astype(o.dtype))
    ct.store(sums, (0,), size)


def test_attention_that_stores_sums_is_taken() -> None:
    arrays = (*(aligned((256, 128), np.float16) for _ in range(4)), aligned((256,), np.float32))
    assert is_attention(specialization(with_sums, arrays, "reference").function, GpuBackend("sm_90"))


def test_backward_passes_that_are_taken() -> None:
    def is_backward(kernel: Any, outputs: int, tile: tuple[int, int, int], dtype: Any = np.float16) -> bool:
        arrays = [aligned((256, tile[2]), dtype) for _ in range(4 + outputs)]
        arrays[4:4] = [aligned((256,), np.float32) for _ in range(2)]
        function = specialization(kernel, (*arrays, *tile), "reference").function
        return is_attention_backward(function, GpuBackend("sm_90"))

    for tile in ((64, 64, 64), (128, 64, 128), (128, 128, 128)):
        assert is_backward(backward_of_queries, 1, tile)
    assert is_backward(backward_of_keys, 2, (64, 64, 64)) and is_backward(backward_of_keys, 2, (128, 64, 64))
    assert not is_backward(backward_of_keys, 2, (64, 128, 64))
    assert not is_backward(backward_of_queries, 1, (64, 128, 64))
    assert not is_backward(backward_of_queries, 1, (64, 64, 64), np.float32)


def test_decoding_that_is_taken() -> None:
    """With keys along the rows, and wide values."""

    def is_decoding(width: int, target: str = "sm_90", dtype: Any = np.float16) -> bool:
        q, k, v = (aligned((n, width), dtype) for n in (16, 256, 256))
        arrays = (q, k, v, aligned((16, width), np.float32))
        made = specialization(ct.kernel(decoded, occupancy=2), (*arrays, 128, 16, width, False), "reference")
        return is_latent_decoding(made.function, GpuBackend(target))

    assert is_decoding(512) and is_decoding(256)
    assert not is_decoding(128) and not is_decoding(512, "sm_80") and not is_decoding(512, dtype=np.float32)


def test_a_product_is_no_attention() -> None:
    arrays = tuple(aligned((512, 512), np.float16) for _ in range(3))
    made = specialization(ct.kernel(matmul), (*arrays, *LARGE, False, False, ct.float32, False), "reference")
    assert not is_attention(made.function, GpuBackend("sm_90"))


def test_the_passes_that_the_classes_look_behind_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Function] = []
    change = BoundsCheckElimination.change

    def changed(self: BoundsCheckElimination, function: Function) -> bool:
        runs.append(function)
        return change(self, function)

    monkeypatch.setattr(BoundsCheckElimination, "change", changed)
    arrays = [aligned((512, 512), np.float16) for _ in range(3)]
    made = ct.kernel(matmul, num_ctas=1)
    function = specialization(made, (*arrays, *LARGE, False, False, ct.float32, False), "reference").function
    backend = GpuBackend("sm_90")
    assert is_large_matmul(function, backend)
    assert not is_attention(function, backend)
    backend.compile(function, {})
    assert len(runs) == 1
