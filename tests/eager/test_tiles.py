"""Tile operations that Python itself evaluates."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.frontend.python.ops.table import BUILDERS
from tilewright.ir.dtypes import ALL_DTYPES

F = ct.arange(8, dtype=ct.float32) - 3.5
I = ct.arange(8, dtype=ct.int32) - 4
M = ct.arange(8, dtype=ct.float32).reshape((2, 4))


def array() -> np.ndarray:
    return np.arange(24, dtype=np.int32).reshape(4, 6)


def raw() -> Any:
    return ct.Array.get_raw_memory(array())


def view() -> Any:
    return ct.Array.tiled_view(array(), (2, 2))


# Calls of every operation: its name, and what NumPy has to say about the result (None: nothing).
CALLS: dict[str, tuple[Callable[[], Any], Any]] = {
    "add": (lambda: ct.add(I, 1), np.arange(-3, 5)),
    "sub": (lambda: ct.sub(1, I), 5 - np.arange(8)),
    "mul": (lambda: ct.mul(I, I), np.arange(-4, 4) ** 2),
    "truediv": (lambda: ct.truediv(I, 2), np.arange(-4, 4) / 2),
    "floordiv": (lambda: ct.floordiv(I, 3), np.arange(-4, 4) // 3),
    "mod": (lambda: ct.mod(I, 3), np.arange(-4, 4) % 3),
    "pow": (lambda: ct.pow(F, 2), (np.arange(8) - 3.5) ** 2),
    "divmod": (lambda: ct.divmod(I, 3)[1], np.arange(-4, 4) % 3),
    "cdiv": (lambda: ct.cdiv(I + 4, 3), -(-np.arange(8) // 3)),
    "minimum": (lambda: ct.minimum(I, 0), np.minimum(np.arange(-4, 4), 0)),
    "maximum": (lambda: ct.maximum(I, 0), np.maximum(np.arange(-4, 4), 0)),
    "atan2": (lambda: ct.atan2(F, 1.0), np.arctan2(np.arange(8) - 3.5, 1)),
    "greater": (lambda: ct.greater(I, 0), np.arange(-4, 4) > 0),
    "greater_equal": (lambda: ct.greater_equal(I, 0), np.arange(-4, 4) >= 0),
    "less": (lambda: ct.less(I, 0), np.arange(-4, 4) < 0),
    "less_equal": (lambda: ct.less_equal(I, 0), np.arange(-4, 4) <= 0),
    "equal": (lambda: ct.equal(I, 0), np.arange(-4, 4) == 0),
    "not_equal": (lambda: ct.not_equal(I, 0), np.arange(-4, 4) != 0),
    "bitwise_and": (lambda: ct.bitwise_and(I, 3), np.arange(-4, 4) & 3),
    "bitwise_or": (lambda: ct.bitwise_or(I, 3), np.arange(-4, 4) | 3),
    "bitwise_xor": (lambda: ct.bitwise_xor(I, 3), np.arange(-4, 4) ^ 3),
    "bitwise_lshift": (lambda: ct.bitwise_lshift(I, 2), np.arange(-4, 4) << 2),
    "bitwise_rshift": (lambda: ct.bitwise_rshift(I, 1), np.arange(-4, 4) >> 1),
    "bitwise_not": (lambda: ct.bitwise_not(I), ~np.arange(-4, 4)),
    "negative": (lambda: ct.negative(I), -np.arange(-4, 4)),
    "abs": (lambda: ct.abs(I), np.abs(np.arange(-4, 4))),
    **{
        name: (lambda name=name: getattr(ct, name)(F), getattr(np, name)(np.arange(8, dtype=np.float32) - 3.5))
        for name in ("exp", "exp2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "isnan")
    },
    **{
        name: (lambda name=name: getattr(ct, name)(I + 5), getattr(np, name)(np.arange(1, 9, dtype=np.float32)))
        for name in ("log", "log2", "sqrt")
    },
    "rsqrt": (lambda: ct.rsqrt(I + 5), 1 / np.sqrt(np.arange(1, 9))),
    "where": (lambda: ct.where(I > 0, I, 0), np.maximum(np.arange(-4, 4), 0)),
    "astype": (lambda: ct.astype(F, ct.int8), (np.arange(8) - 3.5).astype(np.int8)),
    "bitcast": (lambda: ct.bitcast(I, ct.uint32), np.arange(-4, 4, dtype=np.int32).view(np.uint32)),
    "arange": (lambda: ct.arange(4, dtype=ct.int64, start=1, step=2), np.array([1, 3, 5, 7])),
    "full": (lambda: ct.full((2, 2), 300, ct.int8), np.full((2, 2), 44)),
    "ones": (lambda: ct.ones((2, 2), ct.float16), np.ones((2, 2))),
    "zeros": (lambda: ct.zeros(4, ct.bfloat16), np.zeros(4)),
    "astile": (lambda: ct.astile(((1, 2), (3, 4)), dtype=ct.int32), np.array([[1, 2], [3, 4]])),
    "reshape": (lambda: ct.reshape(I, (2, -1)), np.arange(-4, 4).reshape(2, 4)),
    "broadcast_to": (lambda: ct.broadcast_to(I, (2, 8)), np.broadcast_to(np.arange(-4, 4), (2, 8))),
    "expand_dims": (lambda: ct.expand_dims(I, 1), np.arange(-4, 4)[:, None]),
    "permute": (lambda: ct.permute(M, (1, 0)), np.arange(8).reshape(2, 4).T),
    "transpose": (lambda: ct.transpose(M), np.arange(8).reshape(2, 4).T),
    "cat": (lambda: ct.cat((M, M), 0), np.tile(np.arange(8).reshape(2, 4), (2, 1))),
    "extract": (lambda: ct.extract(M, (0, 1), (2, 2)), np.array([[2, 3], [6, 7]])),
    "insert": (lambda: ct.insert(M, (0, 1), ct.zeros((2, 2), ct.float32)), np.array([[0, 1, 0, 0], [4, 5, 0, 0]])),
    "pack_to_bytes": (lambda: ct.pack_to_bytes(I), np.arange(-4, 4, dtype=np.int32).view(np.uint8)),
    "unpack_from_bytes": (lambda: ct.unpack_from_bytes(ct.pack_to_bytes(I), ct.int32), np.arange(-4, 4)),
    "item": (lambda: ct.full((1, 1), 7, ct.int32).item(), np.array(7)),
    "sum": (lambda: ct.sum(M, 1), np.array([6, 22])),
    "prod": (lambda: ct.prod(M + 1, 0), np.array([5, 12, 21, 32])),
    "max": (lambda: ct.max(M), np.array(7)),
    "min": (lambda: ct.min(M, 1, keepdims=True), np.array([[0], [4]])),
    "argmax": (lambda: ct.argmax(M, 1), np.array([3, 3])),
    "argmin": (lambda: ct.argmin(M), np.array(0)),
    "cumsum": (lambda: ct.cumsum(M, 1), np.arange(8).reshape(2, 4).cumsum(1)),
    "cumprod": (lambda: ct.cumprod(M + 1, 1), (np.arange(8).reshape(2, 4) + 1).cumprod(1)),
    "reduce": (lambda: ct.reduce((I, I), 0, lambda a, b, c, d: (a + c, ct.maximum(b, d)), (0, -9))[0], np.array(-4)),
    "scan": (lambda: ct.scan(I, 0, ct.maximum, -9), np.arange(-4, 4)),
    "mma": (lambda: ct.mma(M, ct.transpose(M), ct.ones((2, 2), ct.float32)), np.array([[15, 39], [39, 127]])),
    "matmul": (lambda: ct.matmul(M, ct.transpose(M)), np.array([[14, 38], [38, 126]])),
    "mma_scaled": (
        lambda: ct.mma_scaled(
            ct.ones((2, 32), ct.float8_e4m3fn),
            ct.full((2, 1), 2, ct.float8_e8m0fnu),
            ct.ones((32, 2), ct.float8_e4m3fn),
            ct.full((1, 2), 4, ct.float8_e8m0fnu),
            ct.zeros((2, 2), ct.float32),
        ),
        np.full((2, 2), 256),
    ),
    "load": (lambda: ct.load(array(), (0, 1), (2, 2)), np.array([[2, 3], [8, 9]])),
    "store": (
        lambda: changed(lambda a: ct.store(a, (0, 0), ct.zeros((2, 2), ct.int32))),
        {(0, 1): 0, (1, 0): 0, (1, 1): 0},
    ),
    "gather": (
        lambda: ct.gather(array(), (1, ct.arange(8, dtype=ct.int32)), padding_value=-1),
        np.array([6, 7, 8, 9, 10, 11, -1, -1]),
    ),
    "scatter": (lambda: changed(lambda a: ct.scatter(a, (3, ct.arange(2, dtype=ct.int32)), 5)), {(3, 0): 5, (3, 1): 5}),
    "load_advanced_indexing": (
        lambda: ct.load_advanced_indexing(array(), (ct.astile((3, 0), dtype=ct.int32), ct.Slice(1, 2))),
        np.array([[19, 20], [1, 2]]),
    ),
    "store_advanced_indexing": (
        lambda: changed(
            lambda a: ct.store_advanced_indexing(
                a, (ct.astile((3, 0), dtype=ct.int32), ct.Slice(1, 1)), ct.ones((2, 1), ct.int32)
            )
        ),
        {(3, 1): 1},
    ),
    "Slice": (lambda: isinstance(ct.Slice(ct.int32(1), 4), ct.Slice), True),
    "atomic_cas": (lambda: changed(lambda a: ct.atomic_cas(a, (0, 0), 0, 9)), {(0, 0): 9}),
    "atomic_xchg": (lambda: changed(lambda a: ct.atomic_xchg(a, (0, 0), 9)), {(0, 0): 9}),
    "atomic_add": (lambda: ct.atomic_add(array(), (1, 1), 9), np.array(7)),
    "atomic_max": (lambda: changed(lambda a: ct.atomic_max(a, (0, 0), 9)), {(0, 0): 9}),
    "atomic_min": (lambda: changed(lambda a: ct.atomic_min(a, (1, 1), 2)), {(1, 1): 2}),
    "atomic_and": (lambda: changed(lambda a: ct.atomic_and(a, (1, 1), 2)), {(1, 1): 2}),
    "atomic_or": (lambda: changed(lambda a: ct.atomic_or(a, (1, 1), 8)), {(1, 1): 15}),
    "atomic_xor": (lambda: changed(lambda a: ct.atomic_xor(a, (1, 1), 2)), {(1, 1): 5}),
    "bid": (lambda: ct.bid(0), np.array(0)),
    "num_blocks": (lambda: ct.num_blocks(2), np.array(1)),
    "num_tiles": (lambda: ct.num_tiles(array(), 1, (1, 4)), np.array(2)),
    "assume_divisible_by": (lambda: ct.assume_divisible_by(ct.bid(0), 16), np.array(0)),
    "grid_dependency_control_wait": (ct.grid_dependency_control_wait, None),
    "grid_dependency_control_launch_dependents": (ct.grid_dependency_control_launch_dependents, None),
    "print": (lambda: ct.print("x =", I), None),
    "printf": (lambda: ct.printf("%d", I), None),
    "assert_": (lambda: ct.assert_(I < 8), None),
    "slice": (lambda: ct.load(ct.Array.slice(array(), 1, 2, 6), (0, 0), (1, 4)), np.array([[2, 3, 4, 5]])),
    "tiled_view": (lambda: view().num_tiles(0), np.array(2)),
    "num_tiles.view": (lambda: view().num_tiles(1), np.array(3)),
    "get_raw_memory": (lambda: raw().dtype is ct.int32, True),
    "from_foreign": (
        lambda: foreign(lambda p: ct.load(ct.Array.from_foreign(p, (2, 2), (6, 1)), (0, 0), (2, 2))),
        np.array([[0, 1], [6, 7]]),
    ),
    "load_offset": (lambda: raw().load_offset(ct.arange(4, dtype=ct.int32)), None),
    "store_offset": (lambda: raw().store_offset(0, 1), None),
    **{
        f"atomic_{n}_offset": (lambda n=n: getattr(raw(), f"atomic_{n}_offset")(0, 1), None)
        for n in ("add", "max", "min", "and", "or", "xor", "xchg")
    },
    "atomic_cas_offset": (lambda: raw().atomic_cas_offset(0, 0, 1), None),
    **{
        f"atomic_store_{n}": (lambda n=n: getattr(view(), f"atomic_store_{n}")((0, 0), 1), None)
        for n in ("add", "max", "min", "and", "or", "xor")
    },
}


def changed(operation: Callable[[np.ndarray], Any]) -> dict[tuple[int, ...], int]:
    """The elements of ``array()`` that ``operation`` changes."""
    a = array()
    operation(a)
    return {tuple(map(int, place)): int(a[tuple(place)]) for place in np.argwhere(a != array())}


def foreign(operation: Callable[[Any], Any]) -> Any:
    a = array()
    whole = ct.Array.slice(a, 0, 0, 4)
    return operation(whole.foreign_pointer)


@pytest.mark.parametrize("name", CALLS)
def test_operation(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    operation, expected = CALLS[name]
    found = operation()
    if isinstance(expected, np.ndarray):
        assert np.shape(found) == expected.shape
        np.testing.assert_allclose(np.asarray(found, np.float64), expected.astype(np.float64), rtol=1e-6, atol=1e-6)
    elif expected is not None:
        assert found == expected
    text = {"print": "x = [-4, -3, -2, -1, 0, 1, 2, 3]\n", "printf": "[-4, -3, -2, -1, 0, 1, 2, 3]"}
    assert capsys.readouterr().out == text.get(name, "")


def test_every_operation_is_tried() -> None:
    names = {stub.__name__ for stub in BUILDERS} - {"foreign_pointer_dtype"}
    assert names <= CALLS.keys()


@ct.kernel
def _sum(x, y, out):
    ct.store(out, (0,), ct.bitcast(ct.load(x, (0,), (8,)) + ct.load(y, (0,), (8,)), out.dtype))


@pytest.mark.parametrize("x, y", list(itertools.product([d for d in ALL_DTYPES if d.is_arithmetic], repeat=2)), ids=str)
def test_promotion_is_that_of_kernels(x: Any, y: Any) -> None:
    a, b = np.arange(8).astype(x.storage), (np.arange(8) * 3).astype(y.storage)

    def eager() -> Any:
        return ct.load(a, (0,), (8,)) + ct.load(b, (0,), (8,))

    try:
        found = eager()
    except ct.TileTypeError as e:
        with pytest.raises(ct.TileTypeError) as compiled:
            ct.launch(None, (1,), _sum, (a, b, a), backend="reference")
        assert compiled.value.message == e.message
        return
    out = np.zeros(8, f"u{found.dtype.bytes}")
    ct.launch(None, (1,), _sum, (a, b, out), backend="reference")
    np.testing.assert_array_equal(np.asarray(found).view(out.dtype), out)


def test_representations() -> None:
    assert repr(ct.arange(4, dtype=ct.int32) + 1) == "Tile([1, 2, 3, 4], dtype=int32)"
    assert repr(ct.float32(0.5)) == "Tile(0.5, dtype=float32)"
    assert repr(ct.full((2,), 1.5, ct.float8_e4m3fn)) == "Tile([1.5, 1.5], dtype=float8_e4m3fn)"
    assert str(I) == "[-4, -3, -2, -1, 0, 1, 2, 3]" and f"{ct.float32(2):6.2f}|{ct.int32(3) + I[None]:3d}" == (
        "  2.00|[[ -1,   0,   1,   2,   3,   4,   5,   6]]"
    )
    assert "in a combining function" in _inside(lambda a, b: repr(a))


def _inside(look: Callable[[Any, Any], str]) -> str:
    seen = []

    def combine(a: Any, b: Any) -> Any:
        seen.append(look(a, b))
        return a + b

    ct.reduce(I, 0, combine, 0)
    return seen[0]


def test_python_values() -> None:
    assert isinstance(I, ct.Tile) and I.shape == (8,) and I.ndim == 1 and I.dtype is ct.int32
    assert list(range(10))[ct.int32(3)] == 3 and int(ct.float32(2.5)) == 2 and float(ct.bfloat16(0.5)) == 0.5
    assert ct.int32(3) and not ct.float32(0) and bool(ct.sum(I) < 0)
    assert (ct.int8(1) == None) is False and ct.int8(1) in (2, ct.int8(1))  # noqa: E711
    assert repr(np.float32(2) * ct.arange(2, dtype=ct.float16)) == "Tile([0., 2.], dtype=float32)"
    with pytest.raises(TypeError, match="only such scalars"):
        raise TypeError(str(_error(lambda: list(range(3))[I])))


def _error(operation: Callable[[], Any]) -> ct.TileError:
    with pytest.raises(ct.TileError) as caught:
        operation()
    return caught.value


def test_errors_name_the_place() -> None:
    error = _error(lambda: I + ct.zeros(4, ct.int32))
    assert error.loc is not None and error.loc.file == __file__ and error.message.startswith("the shapes (8,) and (4,)")
    assert "I + ct.zeros(4, ct.int32)" in str(error)
    assert "a condition must be a scalar" in _error(lambda: bool(I)).message
    assert "must be known at compile time" in _error(lambda: ct.zeros(ct.bid(0), ct.int32)).message
    assert "assertion failed: no" in _error(lambda: ct.assert_(I < 0, "no")).message
    assert _error(lambda: ct.assert_(I < 0)).message == "assertion failed"
    assert "an array of the host" in _error(lambda: I + np.arange(8)).message
    assert "1 entry" in _error(lambda: ct.load(array(), (0,), (2, 2))).message
    assert "cannot branch" in _error(lambda: ct.reduce(I, 0, lambda a, b: a if a > b else b, 0)).message
    with pytest.raises(AttributeError, match="product of the entries"):
        I.size  # noqa: B018
    with pytest.raises(RuntimeError, match="cannot be called on the host"):
        ct.function(lambda x: x)(1)
    assert repr(ct.function(lambda x: x + 1)(ct.int8(1))) == "Tile(2, dtype=int8)"


def test_memory_lives_as_long_as_its_array() -> None:
    a = np.zeros(8, np.int32)
    alive = weakref.ref(a)
    part = ct.Array.slice(a, 0, 4, 8)
    pointer = part.foreign_pointer
    del a, part
    gc.collect()
    again = ct.Array.from_foreign(pointer, (4,), (1,))
    ct.store(again, (0,), ct.ones(4, ct.int32))
    assert repr(ct.load(again, (0,), (4,))) == "Tile([1, 1, 1, 1], dtype=int32)"
    del pointer, again
    gc.collect()
    assert alive() is None


def test_read_only_arrays_and_overruns() -> None:
    a = np.zeros(8, np.int32)
    a.flags.writeable = False
    assert "read-only" in _error(lambda: ct.store(a, (0,), 1)).message
    assert "promises to stay in bounds" in _error(lambda: ct.load(a, (1,), (8,), check_bounds=False)).message


def test_threads_have_sessions_of_their_own() -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(int(ct.sum(I + 1)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 4
