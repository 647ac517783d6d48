"""Which kernels the backend gpu takes from triton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attended, attention, backward_of_keys, backward_of_queries, decoded
from support.gpu_products import aligned, matmul, persistent, shares, strips

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import (
    is_attention_of_bytes,
    is_matmul_of_bytes_by_rows,
    is_matmul_of_integers,
    is_matmul_of_tfloat32,
    is_persistent_matmul_of_bytes,
    is_product_of_16_bits,
    is_scaled_matmul,
)
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
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
        "16 bits": is_product_of_16_bits,
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


def taken(kernel: Any, arrays: Sequence[Any], *arguments: Any, target: str = "sm_90", **hints: int) -> bool:
    """Whether ``kernel`` is for the backend gpu as one whose products are of 16 bits."""
    made = kernel if isinstance(kernel, Launchable) else ct.kernel(kernel, **hints)
    function = specialization(made, (*arrays, *arguments), "reference").function
    return is_product_of_16_bits(function, GpuBackend(target))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kernel", [matmul, persistent])
def test_products_that_are_taken(kernel: Any, dtype: Any) -> None:
    for tile in (LARGE, WIDE, NARROW, (256, 128, 64), (64, 64, 64)):
        assert classes(kernel, dtype=dtype, tile=tile, right=True, hints={"num_ctas": 1}) == ["16 bits"]
    assert classes(matmul, tile=(16, 128, 64)) == classes(matmul, tile=(32, 64, 64)) == ["16 bits"]


def test_rows_that_do_not_start_on_sectors() -> None:
    """Products are paired there; with CTAs that are to be alone they take longer."""
    assert classes(size=520) == classes(matmul, size=520) == classes(size=520, tile=NARROW) == ["16 bits"]
    assert not classes(size=520, hints={"num_ctas": 1})


def test_several_loops() -> None:
    """What whole tiles leave is of each CTA for itself."""
    assert classes(strips, size=520) == classes(shares, size=520) == classes(strips) == ["16 bits"]
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
        assert classes(parts, tile=NARROW, size=size) == classes(parts, tile=(64, 32, 64), size=size) == ["16 bits"]
    assert not classes(parts, tile=NARROW, size=513) and not classes(parts, tile=NARROW, dtype=np.float32)


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
    assert classes(integers, dtype=dtype, right=True, tile=(64, 128, 128)) == ["integers"]
    assert not classes(integers, dtype=dtype, right=True, tile=(128, 128, 32))
    assert classes(integers, dtype=dtype, tile=(128, 128, 128)) == ["integers"]
    assert classes(integers, dtype=dtype, tile=(64, 64, 64)) == ["integers"]
    assert not classes(integers, dtype=dtype, tile=(64, 32, 64)) and not classes(integers, dtype=dtype, size=520)


def test_others_are_not() -> None:
    assert not classes(size=510) and not classes(tile=(16, 32, 64))
    assert not classes(tile=(128, 32, 64)) and not classes(matmul, tile=(64, 64, 32))
    assert not classes(target="sm_80")
    assert not classes(dtype=ml_dtypes.float8_e4m3fn, right=True)
    assert not classes(hints={"occupancy": 2})
    assert not classes(hints={"num_ctas": 2})


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
    arrays = [*(aligned((256, 128), np.float16) for _ in range(3)), aligned((256, 128), np.float32)]
    assert taken(recurrent, arrays, 128, 64) and taken(recurrent, arrays, 128, 128)
    assert not taken(recurrent, arrays, 128, 32)


def is_taken(rows: int, keys: int, width: int, causal: bool = False, dtype: Any = np.float16, **how: Any) -> bool:
    arrays = [aligned((256, width), dtype) for _ in range(4)]
    return taken(attention, arrays, rows, keys, width, causal, **how)


def test_attention_that_is_taken() -> None:
    """Two loops under a mask, and one without; of few queries and keys and many; in two CTAs."""
    assert is_taken(128, 128, 128) and is_taken(128, 128, 128, True, ml_dtypes.bfloat16) and is_taken(128, 64, 256)
    assert is_taken(128, 128, 256) and is_taken(256, 128, 128) and is_taken(256, 128, 64, True)
    assert is_taken(64, 64, 64) and is_taken(64, 128, 64, True) and is_taken(128, 32, 64) and is_taken(64, 64, 256)
    assert is_taken(64, 64, 32) and is_taken(64, 64, 32, True) and is_taken(16, 64, 32) and is_taken(32, 64, 32, True)
    assert is_taken(128, 128, 128, occupancy=2) and is_taken(256, 128, 128, occupancy=1)
    assert is_taken(16, 64, 64) and is_taken(32, 128, 128, True) and is_taken(64, 128, 128) and is_taken(64, 32, 256)


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


@pytest.mark.parametrize("tile", [(128, 128, 128), (64, 64, 256), (128, 64, 128), (64, 64, 64)])
def test_soft_caps(tile: tuple[int, int, int]) -> None:
    assert taken(capped, [aligned((256, tile[-1]), np.float16) for _ in range(4)], *tile)


@pytest.mark.parametrize("how", [{"target": "sm_80"}, {"opt_level": 2}, {"dtype": np.float32}])
def test_attention_that_stays(how: dict[str, Any]) -> None:
    assert not is_taken(128, 128, 128, **how) and not is_taken(16, 64, 64, **how) and not is_taken(16, 64, 32, **how)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_attention_of_bytes_that_is_taken(dtype: Any) -> None:
    def is_taken_of_bytes(*tile: int, dtype: Any = dtype) -> bool:
        return is_attention_of_bytes(attended(*tile, dtype=dtype), GpuBackend("sm_90"))

    assert is_taken_of_bytes(128, 128, 128) and is_taken_of_bytes(256, 128, 128) and is_taken_of_bytes(64, 64, 128)
    assert not is_taken_of_bytes(128, 128, 128, dtype=np.float16)
    assert not is_product_of_16_bits(attended(128, 128, 128, dtype=dtype), GpuBackend("sm_90"))


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
    assert taken(with_sums, [*(aligned((256, 128), np.float16) for _ in range(4)), aligned((256,), np.float32)])


@ct.kernel
def biased(
    q: ct.Array, k: ct.Array, v: ct.Array, bias: ct.Array, o: ct.Array, T: ct.Constant[int], D: ct.Constant[int]
) -> None:
    x, total = ct.load(q, (0, 0), (T, D)), ct.zeros((T, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], T)):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (T, D))), ct.load(bias, (0, j), (T, T)).astype(ct.float32))
        total = ct.mma(ct.exp(scores).astype(q.dtype), ct.load(v, (j, 0), (T, D)), total)
    ct.store(o, (0, 0), total.astype(o.dtype))


@pytest.mark.parametrize(
    ("T", "D", "dtype"), [(128, 64, np.float16), (64, 64, np.float16), (128, 128, np.float16), (128, 64, np.float32)]
)
def test_attention_with_a_bias_of_16_bits_is_taken_where_scores_are_large(T: int, D: int, dtype: type) -> None:
    q, k, v, o = (aligned((256, D), np.float16) for _ in range(4))
    assert taken(biased, [q, k, v, aligned((256, 256), dtype), o], T, D) == ((T, D, dtype) == (128, 64, np.float16))


@ct.kernel
def shared_keys(
    q: ct.Array,
    k: ct.Array,
    v: ct.Array,
    g: ct.Array,
    dk: ct.Array,
    dv: ct.Array,
    M: ct.Constant[int],
    D: ct.Constant[int],
) -> None:
    """Gradients of 64 keys and values that all heads of queries share."""
    y, z = ct.load(k, (0, 0), (64, D)), ct.load(v, (0, 0), (64, D))
    keys, values = ct.zeros((64, D), ct.float32), ct.zeros((64, D), ct.float32)
    for h in range(q.shape[0]):
        for i in range(q.shape[1] // M):
            x = ct.load(q, (h, i, 0), (1, M, D)).reshape((M, D))
            grads = ct.load(g, (h, i, 0), (1, M, D)).reshape((M, D))
            weights = ct.exp2(ct.mma(y, ct.transpose(x), ct.zeros((64, M), ct.float32)))
            values = ct.mma(weights.astype(q.dtype), grads, values)
            change = ct.mma(z, ct.transpose(grads), ct.zeros((64, M), ct.float32))
            keys = ct.mma((weights * change).astype(q.dtype), x, keys)
    ct.store(dk, (0, 0), keys.astype(dk.dtype))
    ct.store(dv, (0, 0), values.astype(dv.dtype))


@pytest.mark.parametrize(("M", "D", "wanted"), [(64, 64, True), (128, 64, True), (64, 128, False), (128, 128, True)])
def test_gradients_of_keys_that_heads_share(M: int, D: int, wanted: bool) -> None:
    q, g = (aligned((2, 256, D), np.float16) for _ in range(2))
    assert (
        taken(shared_keys, [q, *(aligned((256, D), np.float16) for _ in range(2)), g, q.copy()[0], q.copy()[0]], M, D)
        == wanted
    )


def test_backward_passes_that_are_taken() -> None:
    def is_backward(kernel: Any, outputs: int, tile: tuple[int, int, int], dtype: Any = np.float16) -> bool:
        arrays = [aligned((256, tile[2]), dtype) for _ in range(4 + outputs)]
        arrays[4:4] = [aligned((256,), np.float32) for _ in range(2)]
        return taken(kernel, arrays, *tile)

    for tile in ((64, 64, 64), (128, 64, 128), (128, 128, 128), (128, 64, 64), (64, 128, 64), (32, 64, 128)):
        assert is_backward(backward_of_queries, 1, tile)
    for tile in ((64, 64, 64), (128, 64, 64), (128, 64, 128), (128, 128, 128), (64, 32, 64)):
        assert is_backward(backward_of_keys, 2, tile)
    assert not is_backward(backward_of_queries, 1, (64, 32, 64)) and not is_backward(backward_of_keys, 2, (32, 64, 128))
    assert not is_backward(backward_of_queries, 1, (64, 64, 64), np.float32)


def test_decoding_that_is_taken() -> None:
    """With keys along the rows."""
    q, k, v = (aligned((n, 512), np.float16) for n in (16, 256, 256))
    arrays = (q, k, v, aligned((16, 512), np.float32))
    assert taken(decoded, arrays, 128, 16, 512, False, occupancy=2)
    assert not taken(decoded, arrays, 128, 16, 512, False, target="sm_80")


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
    assert is_product_of_16_bits(function, backend)
    assert not is_attention_of_bytes(function, backend)
    backend.compile(function, {})
    assert len(runs) == 1
