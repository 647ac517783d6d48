"""A launch that looks like the previous one is taken for it only where it is one."""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
import types
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.backends import native
from tilewright.backends.launch_arguments import ListTable
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import stub_code
from tilewright.backends.registry import get_backend
from tilewright.language.annotations import ArrayAnnotation
from tilewright.runtime import dlpack, launch_plan, tensor_memory
from tilewright.runtime.arguments import RUNTIME_SLOT, BoundArguments, bind_argument, describe
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.cached_launch import cached_launch
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule

PLAIN, CONSTANT = Rule(), Rule(constant=True)


@pytest.fixture(autouse=True, params=["Python", "machine code"])
def asked_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What asks whether launches are alike: machine code from the second one on, or the keys of their arguments."""
    if request.param == "machine code" and not native.available():
        pytest.skip("launches are prepared in Python here")
    for name in ("_SOON", "_STORED", "_LATER"):
        monkeypatch.setattr(launch_plan, name, 1 if request.param == "machine code" else 1 << 60)
    for kernel in (fill, fill_with, add_all):
        kernel.cached_launch = None
        kernel.plans.clear()
        kernel._repeated.clear()
        kernel.last = None
    return str(request.param)


class Values:
    """Tells the values that a cached launch like one with ``args`` hands over; None for arguments that are not alike.
    Of a table it gives the rows."""

    def __init__(
        self,
        rules: Sequence[Rule],
        args: tuple[Any, ...],
        template: Sequence[Any],
        tables: Sequence[ListTable] = (),
        specs: Sequence[Any] = (),
    ) -> None:
        if not native.available():
            pytest.skip("launches are prepared in Python here")
        native.compiler()
        self.seen, self.tables, self.record = np.zeros(len(template), np.int64), tables, ctypes.c_int64()
        found: Any = self
        launch = cached_launch(None, rules, args, template, found, None, tables, (), specs)
        assert launch is not None
        self.launch = launch

    def launch_stub(self, device: int, tables: Sequence[ListTable], variants: object) -> native.LaunchStub:
        body = Body()
        for i in range(self.seen.size):
            body.store("i64", body.load("i64", "%values", 8 * i), str(self.seen.ctypes.data + 8 * i).join(POINTER))
        return native.LaunchStub(stub_code(body, "0"), self.record, ())

    def __call__(self, args: Any) -> tuple[Any, ...] | None:
        return tuple(self.seen.tolist()) if self.launch(None, (1,), args, None) else None


POINTER = "inttoptr (i64 ", " to ptr)"


@ct.kernel
def fill(x, out, factor, step: ct.Constant[int]):
    i = ct.arange(4, dtype=ct.int32)
    ct.scatter(out, i * step, ct.gather(x, i).astype(ct.float64) * factor)


def launched(x: Any, factor: Any, step: Any, n: int = 16) -> np.ndarray[Any, Any]:
    out = np.zeros(n)
    ct.launch(None, (1,), fill, (x, out, factor, step), backend="cpu")
    return out


def expected(x: Any, factor: Any, step: int, n: int = 16) -> np.ndarray[Any, Any]:
    out = np.zeros(n)
    out[np.arange(4) * step] = np.asarray(x[:4], np.float64) * factor
    return out


class Interface:
    """An array of another library, known by the interface of arrays."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]


class Exported:
    """An array known by DLPack, as written before that had versions, or after."""

    def __init__(self, array: np.ndarray[Any, Any], *versions: Any) -> None:
        self.array, self.versions = array, versions

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __dlpack__(self, **keywords: Any) -> Any:
        if keywords and not self.versions:
            raise TypeError("no keywords")
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


NUMBERS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int8, np.uint16, np.int32, np.uint32, np.int64)


@pytest.mark.parametrize("kind", [*NUMBERS, np.uint64, np.bool_])
def test_numbers_of_numpy(kind: Any, asked_in: str) -> None:
    """Each kind is another one for the kernel."""
    x, other = np.arange(4, dtype=np.float32), np.float32 if kind is not np.float32 else np.int32
    for value in (1, 0, 3, 100, 1):
        assert (launched(x, kind(value), 1) == expected(x, kind(value).item(), 1)).all()
        assert (launched(x, other(value + 1), 2) == expected(x, value + 1, 2)).all()
    if asked_in == "machine code" and get_backend("cpu").capabilities.direct_launch:
        likes = [like for like in fill._repeated.values() if like.cached is not None]
        assert len(likes) == 1 + (kind in NUMBERS)


def test_changes_of_any_argument_are_seen() -> None:
    buffer = np.arange(64, dtype=np.float32)
    read_only = buffer[8:12]
    read_only.flags.writeable = False
    plain: list[tuple[Any, ...]] = [
        (buffer[:4], 2, 1),
        (buffer[4:8], 3, 1),  # another address, another number
        (buffer[1:5], 3, 1),  # not aligned
        (buffer[:8:2], 3, 1),
        (buffer[:4][::-1], 3, 1),
        (buffer.astype(np.float64)[:4], 3, 1),
        (buffer.view(np.int32)[:4], 3, 1),
        (buffer[:5], 3, 1),
        (read_only, 3, 1),
        (buffer[:4], 2.5, 1),
        (buffer[:4], -0.0, 1),
        (buffer[:4], 0.0, 1),
        (buffer[:4], True, 1),
        (buffer[:4], 2, True),
        (buffer[:4], 2, 3),
        (buffer[:4], 2, 3, 13),
    ]
    others: list[tuple[Any, ...]] = [
        *((Interface(array), 2, 1) for array in (buffer[:4], buffer[4:8], buffer[:8:2], buffer.view(np.int32)[:4])),
        *((Exported(array), 2, 1) for array in (buffer[:4], buffer[1:5], buffer[:5], buffer.view(np.int32)[:4])),
        *((Exported(array, 1), 2, 1) for array in (buffer[:4], buffer[4:8], buffer[:8:2], read_only)),
    ]
    for before, after in (*itertools.product(plain, plain), *itertools.product(others, others)):
        for launch in (before, before, before, after):
            found, wanted = launched(*launch), expected(*launch)
            np.testing.assert_array_equal(found.view(np.int64), wanted.view(np.int64), str((before, after)))


@ct.kernel
def fill_with(x, out, value: ct.Constant[float], dtype, twice: ct.Constant[bool]):
    i = ct.arange(4, dtype=ct.int32)
    number = ct.full((4,), 1.75, ct.float32).astype(dtype).astype(ct.float64)
    ct.scatter(out, i, ct.full((4,), value, ct.float64) * ct.gather(x, i))
    ct.scatter(out, i + 4, number * (2 if twice else 1))


def test_changes_of_constants_are_seen() -> None:
    """Numbers of every kind, and dtypes."""
    values, dtypes = (0.0, -0.0, 0.5, 1, True, math.inf, math.nan), (ct.float32, ct.int32, np.int8)
    constants = [*((value, ct.float32, True) for value in values), *itertools.product([0.5], dtypes, (True, False))]
    x = np.ones(4)
    for before, after in itertools.product(constants, constants):
        for value, dtype, twice in (before, before, before, after):
            out = np.zeros(8)
            ct.launch(None, (1,), fill_with, (x, out, value, dtype, twice), backend="cpu")
            number = 1.75 if dtype is ct.float32 else 1.0
            wanted = np.array([value] * 4 + [number * (2 if twice else 1)] * 4)
            np.testing.assert_array_equal(out.view(np.int64), wanted.view(np.int64), str((before, after)))


def test_constants_are_recognized(asked_in: str) -> None:
    args = np.ones(4), np.zeros(8), 0.5, ct.float32, True
    for _ in range(8):
        ct.launch(None, (1,), fill_with, args, backend="cpu")
    assert isinstance(fill_with.cached_launch, types.BuiltinFunctionType) == (asked_in == "machine code")


@ct.kernel
def add_all(xs, ys, factor):
    for i in range(len(xs)):
        x = ct.load(xs[i], (0,), (8,), padding_mode=ct.PaddingMode.ZERO)
        ct.store(ys[i], (0,), ct.load(ys[i], (0,), (8,)) + x * factor)


def added(xs: Any, factor: float) -> None:
    """Launch it, and look at what it did."""
    ys = [np.arange(x.size, dtype=x.dtype) for x in xs]
    ct.launch(None, (1,), add_all, (xs, ys, factor), backend="cpu")
    for x, y in zip(xs, ys):
        np.testing.assert_array_equal(y, np.arange(x.size) + x * factor)


def test_changes_of_lists_are_seen() -> None:
    """Of their lengths, and of the places, layouts and alignments of their arrays, which may be one array."""
    base = np.arange(64, dtype=np.float32)
    a, b, odd, short, reverse = base[:8], base[16:24], base[1:9], base[8:12], base[:16:2][::-1]
    read_only = base[:8]
    read_only.flags.writeable = False
    lists: list[Any] = [[a], [b], [a, b], [b, a], [a, a], [odd, b], [a, odd], [a, short], [short, a], [a, reverse]]
    lists += [[a, read_only], [a.astype(np.float64)], [a, b, a], [a, b] * 20, [Interface(b), a]]
    for before, after in itertools.product(lists[:-1], lists[:-1]):
        for xs in (before, before, before.copy(), after):
            added(xs, 2.0)
    for xs in (lists[2], lists[2], lists[2], lists[-1]):
        ys = [np.zeros(8, np.float32), np.zeros(8, np.float32)]
        ct.launch(None, (1,), add_all, (xs, ys, 2.0), backend="cpu")
        np.testing.assert_array_equal(ys, np.array([x[:8] for x in xs]) * 2)


def test_lists_that_change_are_looked_at_anew() -> None:
    xs = [np.full(8, i, np.float32) for i in range(3)]
    for i in range(12):
        added(xs, i)
        xs[i % 3] = np.full(8, 10 * i, np.float32)
    for _ in range(4):
        xs.append(xs[0])
        added(xs, 3)


def test_lists_are_recognized(asked_in: str) -> None:
    xs, ys = ([np.ones(8) for _ in range(3)] for _ in range(2))
    for _ in range(8):
        ct.launch(None, (1,), add_all, (xs, ys, 2.0), backend="cpu")
    assert isinstance(add_all.cached_launch, types.BuiltinFunctionType) == (asked_in == "machine code")
    if add_all.cached_launch is None:
        return
    assert add_all.cached_launch(None, (1,), (xs, ys[::-1], 3.0), "cpu")
    for others in (xs[:2], tuple(xs), xs[0], [*xs[:2], xs[0].astype(np.float32)], [*xs[:2], None], []):
        assert not add_all.cached_launch(None, (1,), (xs, others, 3.0), "cpu")
    assert [y[0] for y in ys] == [20.0] * 3


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ([], TypeError, "is an empty list"),
        ([np.zeros(8), 3], TypeError, r"'xs\[1\]' of add_all\(\) is not an array"),
        ([np.zeros(8), np.zeros(8, np.float32)], TypeError, "one dtype and one rank"),
        ([np.zeros(8), np.zeros((8, 1))], TypeError, "one dtype and one rank"),
        (
            [np.zeros(8, np.int32), np.zeros(8)],
            TypeError,
            r"is a float64 array of rank 1, but argument 'xs\[0\]' of add_all\(\) an int32 array",
        ),
        ([np.zeros(8), None], TypeError, "is not an array"),
    ],
)
def test_mistakes_in_lists_are_seen(wrong: Any, error: type[Exception], said: str) -> None:
    xs = [np.ones(8), np.ones(8)]
    for _ in range(4):
        added(xs, 1.0)
    with pytest.raises(error, match=said):
        ct.launch(None, (1,), add_all, (wrong, xs, 1.0), backend="cpu")
    added(xs, 1.0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda: launched(np.zeros(4), 1 << 40, 1), OverflowError),
        (lambda: launched(np.zeros(4, complex), 2, 1), TypeError),
        (lambda: launched(np.zeros(4), "2", 1), TypeError),
        (lambda: ct.launch(None, (1,), fill, (np.zeros(4), np.zeros(16), 2)), TypeError),
        (lambda: ct.launch(None, (0,), fill, (np.zeros(4), np.zeros(16), 2, 1), backend="cpu"), ValueError),
        (lambda: ct.launch(None, (1.0,), fill, (np.zeros(4), np.zeros(16), 2, 1), backend="cpu"), TypeError),
        (lambda: ct.launch((1,), (1,), fill, (np.zeros(4), np.zeros(16), 2, 1), backend="cpu"), TypeError),
        (lambda: ct.launch(None, (1,), fill, [np.zeros(4), np.zeros(16), 2, 1], backend="cpu"), TypeError),
    ],
)
def test_mistakes_are_seen(change: Callable[[], Any], error: type[Exception]) -> None:
    for _ in range(3):
        launched(np.zeros(4), 2, 1)
    with pytest.raises(error):
        change()


def test_settings_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.ones(4), np.zeros(16)
    args = (x, out, 2, 1)

    def backend(**keywords: Any) -> str | None:
        ct.launch(None, (1,), fill, args, **keywords)
        return fill.last.key[0]  # type: ignore[union-attr, no-any-return]

    for _ in range(3):
        assert backend(backend="cpu") == "cpu"
    assert backend(backend="reference") == "reference"
    assert backend() is None
    assert backend() is None
    with ct.use_backend("reference"):
        assert backend() == "reference"
    assert backend() is None
    monkeypatch.setenv("TILEWRIGHT_BACKEND", "reference")
    assert backend() == "reference"
    monkeypatch.undo()
    for _ in range(3):
        assert backend() is None
    overlapping = (out[:4], out, 2, 1)
    ct.launch(None, (1,), fill, overlapping)
    ct.launch(None, (1,), fill, overlapping)
    monkeypatch.setenv("TILEWRIGHT_CHECK_OVERLAP", "1")
    for _ in range(3):
        with pytest.raises(ValueError, match="overlaps"):
            ct.launch(None, (1,), fill, overlapping)


def _shapes() -> list[np.ndarray[Any, Any]]:
    base = np.zeros(4096, np.float16)
    square, high = base[:256].reshape(16, 16), base[:96].reshape(12, 8)
    lines = [base[:n] for n in (0, 1, 2, 8, 15, 16, 17, 48)]
    lines += [base[:64:2], base[:96:3], base[:512:16], base[:1024:32], base[64:0:-8], base[512::-32][:9]]
    views = [
        square,
        square.T,
        square[:, :1],
        square[:1],
        square[:, :5],
        square[::2],
        square[:0],
        high,
        high.T,
        high[1:9:2],
    ]
    return [*lines, *views, base[:4000].reshape(4, 8, 125), base[:4096].reshape(16, 1, 256), base[:1].reshape(())]


class WithoutStrides(Exported):
    """As DLPack lets arrays be exported that are contiguous."""

    def __dlpack__(self, **keywords: Any) -> Any:
        capsule = super().__dlpack__(**keywords)
        if self.array.flags.c_contiguous:
            dlpack.header(capsule)[1].strides = type(dlpack.header(capsule)[1].strides)()
        return capsule


_ANNOTATIONS = [ArrayAnnotation(), ArrayAnnotation(static_shape_dims=(0,)), ArrayAnnotation(static_stride_dims=(-1,))]


@pytest.mark.parametrize("kind", [np.asarray, Exported, lambda array: Exported(array, 1), WithoutStrides, "torch"])
@pytest.mark.parametrize("annotation", [*_ANNOTATIONS, ArrayAnnotation(index_dtype=ct.int64)])
def test_extents_are_numbers_of_what_kernels_are_specialized_on(
    kind: Any, annotation: ArrayAnnotation, asked_in: str
) -> None:
    """Launches are alike where Python would launch the same specialization, with the extents that it finds."""
    if asked_in == "Python":
        pytest.skip("of machine code")
    if kind == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        arrays = [torch.from_numpy(a) for a in _shapes() if min(a.strides, default=0) >= 0]
    else:
        arrays = [kind(a) for a in _shapes()]
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for x in arrays:
        bound, runtime, rule = BoundArguments([], [], []), RuntimeValues(), Rule(array=annotation)
        key = describe(rule, x, runtime)
        if len(key[2]) == 0 and annotation not in (_ANNOTATIONS[0], ArrayAnnotation(index_dtype=ct.int64)):
            continue  # it has no axis that could be static
        spec = bind_argument(rule, ArgumentRef("f", "x"), key, bound)
        values = tuple(runtime.numbers[0] if value is RUNTIME_SLOT else value for value in bound.values)
        form = (spec, *key[4:], key[2:4] if 0 in key[2] else None)
        found.setdefault(form, []).append((x, values, bound, rule))
    assert len(found) > 5 and max(map(len, found.values())) > 1
    for form, alike in found.items():
        x, values, bound, rule = alike[0]
        handed = Values([rule], (x,), bound.values, (), (form[0],))
        for other, entries in found.items():
            for y, expected, *_ in entries:
                if other == form:
                    assert handed((y,)) == expected
                elif 0 not in expected[1:] or other[0] != form[0]:  # else empty ones may also be like others
                    assert handed((y,)) is None, (x, y)


@pytest.mark.parametrize("dtype", [ct.int8, ct.int32, ct.uint32, ct.int64, ct.uint64, ct.float32, ct.float64])
def test_numbers_of_declared_types(dtype: Any) -> None:
    """What Python refuses, machine code does not take; what it takes, Python would round alike."""
    rule, largest = Rule(declared=dtype), float(np.finfo(np.float32).max)
    values = Values([rule], (3.0 if dtype.is_floating else 3,), [RUNTIME_SLOT])
    floats = [0.1, -0.0, 1e-46, largest, -largest, largest * (1 + 1e-9), 1e39, -1e300, math.inf, math.nan, 5.0]
    whole = [0, -1, 127, 128, -129, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 63), 1 << 63, 1 << 64]
    taken = 0
    for number in (*floats, *whole, True, np.float32(2), np.int32(2), "3", None):
        handed, runtime = values((number,)), RuntimeValues()
        key = describe(rule, number, runtime)
        if handed is not None:
            taken += 1
            (expected,) = runtime.numbers
            assert key[0] == "declared"
            assert handed == (np.float64(expected).view(np.int64) if dtype.is_floating else expected,)
    assert taken >= 2


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.arange(64, dtype=torch.float32)
    values = Values([PLAIN, PLAIN, CONSTANT], (x, 5, 7), [RUNTIME_SLOT, 64, RUNTIME_SLOT])
    address = x.data_ptr()
    assert values((x, 6, 7)) == (address, 64, 6)
    moved = torch.zeros(80)[16:]
    assert values((moved, 6, 7)) == (moved.data_ptr(), 64, 6)
    others = [x.double(), x[:32], x[::2], x.reshape(8, 8), torch.zeros(65)[1:], x.to("meta"), x.numpy()]
    others.append(torch._neg_view(x))
    for other in others:
        assert values((other, 6, 7)) is None, other
    both = Values([PLAIN, PLAIN], (x, x), [RUNTIME_SLOT, RUNTIME_SLOT])
    assert both((x, x)) == (address, address)
    assert both((moved, moved)) == (moved.data_ptr(), moved.data_ptr())
    assert both((x, moved)) == (address, moved.data_ptr())
    assert both((x, torch.nn.Parameter(moved))) is None
    assert both((x, moved.requires_grad_())) == (address, moved.data_ptr())
    changed = torch.zeros(64)
    assert values((changed, 6, 7)) is not None
    changed.resize_(8, 8)
    assert values((changed, 6, 7)) is None
    changed.resize_(64)
    changed.data = torch.zeros(64, dtype=torch.float64)
    assert values((changed, 6, 7)) is None
    for args in ((x, 6, 7.0), (x, 6, 8), (x, 6.0, 7), (x, 1 << 31, 7), (x, True, 7), (x, 6), [x, 6, 7]):
        assert values(args) is None


def test_launches_of_two_kinds_in_turns_are_recognized_each(asked_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @ct.kernel
    def double(x):
        ct.store(x, (0,), ct.load(x, (0,), (4,)) * 2)

    arrays = [np.ones(4), np.ones(16), np.ones(4), np.ones(16)]
    for x in (*arrays, *arrays, *arrays):
        ct.launch(None, (1,), double, (x,), backend="cpu")
    assert [x[0] for x in arrays] == [8, 8, 8, 8]
    for plan, size in zip(double.plans.values(), (4, 16)):
        assert isinstance(plan.cached, types.BuiltinFunctionType) == (asked_in == "machine code")
        for x in arrays if plan.cached is not None else ():
            assert plan.cached(None, (1,), (x,), "cpu") == (x.size == size)
    if asked_in == "machine code":  # which finds the plan that came after that of the launch before
        monkeypatch.setattr(double, "plan_for", None)
    others = [np.ones(16), np.ones(4), np.ones(16)]
    for x in others:
        ct.launch(None, (1,), double, (x,), backend="cpu")
    assert [x[0] for x in others] == [2, 2, 2]


@pytest.mark.parametrize("kind", [np.asarray, Interface, Exported, lambda array: Exported(array, 1)])
def test_machine_code_runs_what_is_repeated(kind: Callable[..., Any], asked_in: str) -> None:
    base = np.arange(64, dtype=np.float32)
    before = sys.getrefcount(base)
    for i in range(100):
        start = 4 * (i % 8)
        np.testing.assert_array_equal(launched(kind(base[start : start + 4]), i, 1), expected(base[start:], i, 1))
    assert isinstance(fill.cached_launch, types.BuiltinFunctionType) == (asked_in == "machine code")
    assert sys.getrefcount(base) == before


def test_an_array_that_lets_itself_be_exported_once() -> None:
    class Once(Exported):
        left = 1

        def __dlpack__(self, **keywords: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise BufferError("exported before")
            return super().__dlpack__(**keywords)

    for i in range(40):
        np.testing.assert_array_equal(launched(Once(np.arange(4.0), 1), i, 1), expected(np.arange(4.0), i, 1))


@pytest.mark.parametrize(("error", "calls"), [(KeyboardInterrupt, 1), (LookupError, 2)])
def test_an_export_that_fails(error: type[BaseException], calls: int, asked_in: str) -> None:
    class Failing(Exported):
        failures = 0

        def __dlpack__(self, **keywords: Any) -> Any:
            if fail:
                Failing.failures += 1
                raise error("now")
            return super().__dlpack__(**keywords)

    array, fail = np.arange(4.0), False
    for i in range(10):
        np.testing.assert_array_equal(launched(Failing(array, 1), i, 1), expected(array, i, 1))
    fail = True
    with pytest.raises(TypeError if error is LookupError else error, match="now"):
        launched(Failing(array, 1), 1, 1)
    assert Failing.failures == (calls if asked_in == "machine code" else 1)  # Python takes a look after machine code
    fail = False
    np.testing.assert_array_equal(launched(Failing(array, 1), 7, 1), expected(array, 7, 1))


def test_threads_have_launches_of_their_own() -> None:
    """The same kernel, alike arguments, from many threads at once."""

    def work(i: int) -> bool:
        x = np.full(4, i, np.float32)
        return all(launched(x, i, 1)[0] == i * i for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_threads_have_lists_of_their_own() -> None:
    def work(i: int) -> None:
        for n in (1, 3, 2) * 10:
            added([np.full(8, i, np.float32)] * n, i)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))


@pytest.mark.parametrize("found", [True, False])
def test_launches_on_tensors(found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are like the first one are repeated, and others are looked at closely: in memory, or by PyTorch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not found:
        monkeypatch.setattr(tensor_memory, "dispatch_keys", lambda: None)
    x = torch.arange(64, dtype=torch.float32)
    wide = torch.complex(torch.zeros(64), x)
    alike = [x, x + 1, torch.zeros(80)[16:], x.clone().requires_grad_(), torch.nn.Parameter(x)]
    others = [x.double(), x[:32], x[::2], x[1:], x.reshape(8, 8)[:, 0], wide.imag, x.numpy(), x.bfloat16()]
    for tensor in [x] * 4 + [t for pair in zip(alike * 2, others + alike) for t in pair]:
        plain = tensor.detach().to(torch.float32) if isinstance(tensor, torch.Tensor) else tensor
        np.testing.assert_array_equal(launched(tensor, 2.0, 3), expected(np.asarray(plain), 2.0, 3))
    refused = [wide.conj().imag, x.to("meta"), x.to_sparse(), torch.nested.nested_tensor([x[:4], x[:3]])]
    for tensor in refused:
        assert launched(x, 2.0, 3)[3] == 2
        with pytest.raises((TypeError, ValueError)):
            launched(tensor, 2.0, 3)
    for transform in (torch.func.vmap, torch.func.grad):
        with pytest.raises(TypeError, match="without memory"):
            transform(lambda t: launched(t, 2.0, 3))(torch.zeros(2, 64) if transform is torch.func.vmap else x)


def test_dispatch_keys_of_tensors_are_read() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    keys = tensor_memory.dispatch_keys()
    assert keys is not None
    x = torch.arange(64, dtype=torch.float32)
    with torch.inference_mode():
        made = [x + 1, torch.nn.Parameter(x + 1, requires_grad=False), torch._neg_view(x + 1)]
    tensors = [
        x,
        x[::2],
        torch._neg_view(x),
        x.clone().requires_grad_() * 2,
        torch.nn.Parameter(x),
        x.to(torch.int8),
        *made,
    ]
    for tensor in tensors:
        assert keys.of(tensor) == torch._C._dispatch_keys(tensor).raw_repr()
        assert bool(keys.of(tensor) & keys.negated) == tensor.is_neg()
        assert (not keys.of(tensor) & keys.inference) == tensor.is_inference()


def test_machine_code_reads_tensors(asked_in: str) -> None:
    """It takes the place of Python where the class of a tensor has the exchange API of DLPack."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.arange(64, dtype=torch.float32)
    for _ in range(4):
        launched(x, 2.0, 3)
    known = hasattr(torch.Tensor, "__dlpack_c_exchange_api__") and asked_in == "machine code"
    assert isinstance(fill.cached_launch, types.BuiltinFunctionType) == known


def test_lists_of_tensors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rows, xs = np.array([[0, 8, 1]] * 2), [torch.zeros(8), torch.zeros(8)]
    values = Values([PLAIN], (xs,), [RUNTIME_SLOT, 2], [ListTable(rows, [x.data_ptr() for x in xs])])
    found = values(([torch.zeros(8), xs[0]],))
    assert found is not None and found[1] == 2
    for wrong in (
        [xs[0]],
        [xs[0], torch.zeros(9)],
        [xs[0], torch.zeros(9)[1:]],
        [xs[0], xs[1].double()],
    ):
        assert values((wrong,)) is None


def test_streams_do_not_keep_launches_on_a_cpu_from_being_recognized(
    monkeypatch: pytest.MonkeyPatch, asked_in: str
) -> None:
    """Programs for GPUs name one in every launch."""
    x, stream = np.arange(8.0), types.SimpleNamespace(cuda_stream=0)
    described: list[Any] = []
    plan_for = ct.kernel.plan_for
    monkeypatch.setattr(ct.kernel, "plan_for", lambda *a: described.append(a) or plan_for(*a))  # type: ignore[func-returns-value]
    for number in range(12):
        out = np.zeros(16)
        ct.launch(stream, (1,), fill, (x, out, number, 2), backend="cpu")
        np.testing.assert_array_equal(out, expected(x, number, 2))
    assert len(described) == (1 if asked_in == "machine code" else 12)
    for wrong in ([], "stream", x):
        with pytest.raises(TypeError, match="the first argument of ct.launch is the stream"):
            ct.launch(wrong, (1,), fill, (x, np.zeros(16), 1, 2), backend="cpu")


def test_launches_that_alternate_are_repeated_too(asked_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arrays of two extents in turns, of which one is divisible by 16, each is like the launch before the previous
    one; those of other extents are like these."""
    made: list[Any] = []
    run = launch_plan.LaunchPlan.run
    monkeypatch.setattr(launch_plan.LaunchPlan, "run", lambda *args, **how: (made.append(args), run(*args, **how)))
    arrays = [np.arange(4.0), np.arange(16.0), np.arange(6.0), np.arange(32.0)]
    for factor in range(5):
        for x in arrays:
            np.testing.assert_array_equal(launched(x, factor, 2), expected(x, factor, 2))
    assert len(made) == (2 if asked_in == "machine code" else 20)
