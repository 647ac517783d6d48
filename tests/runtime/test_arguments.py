"""What can be passed to a kernel, and what is refused before anything runs."""

from __future__ import annotations

import ctypes
import enum
import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.registry import default_backend
from tilewright.gpu_runtime.driver import why_not
from tilewright.runtime.backend_choice import usable
from tilewright.runtime.numpy_memory import offset

N = 32


@ct.kernel
def copy(source, target):
    i = ct.bid(0)
    ct.store(target, (i,), ct.load(source, (i,), (8,)))


@ct.kernel
def copy2(source, target):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(target, (i, j), ct.load(source, (i, j), (4, 4)))


def run_copy(source: Any, target: Any) -> None:
    ct.launch(None, (ct.cdiv(N, 8),), copy, (source, target))


@ct.kernel
def copy_first(source, target):
    i = ct.bid(0)
    ct.store(target[0], (i,), ct.load(source, (i,), (8,)))


def run_copy_first(source: Any, target: Any) -> None:
    ct.launch(None, (ct.cdiv(N, 8),), copy_first, (source, target))


class WithInterface:
    """An array of another library, seen through ``__array_interface__`` only."""

    def __init__(self, array: np.ndarray, **changes: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class WithDLPack:
    """An array of another library, seen through DLPack only."""

    def __init__(self, array: np.ndarray, *, versioned: bool = True) -> None:
        self.array = array
        self.versioned = versioned

    def __dlpack__(self, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("no such option")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def numbers(dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(N) % 7 - (0 if np.dtype(dtype).kind in "ub" else 3)).astype(dtype)


DTYPES = [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float64, ml_dtypes.bfloat16]
DTYPES += [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_numpy_dtypes(backend: str, dtype: Any) -> None:
    source = np.abs(numbers()).astype(dtype)
    target = np.zeros_like(source)
    run_copy(source, target)
    np.testing.assert_array_equal(target.view(np.uint8), source.view(np.uint8))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[::2],
        lambda a: a[5:],
        lambda a: a[::-3],
        lambda a: np.broadcast_to(a[:1], (N,)),
    ],
    ids=["reversed", "step 2", "offset", "step -3", "stride 0"],
)
def test_views(backend: str, view: Any) -> None:
    source = view(np.arange(2.0 * N, dtype=np.float32))
    target = np.full(N, -1.0, np.float32)
    n = min(N, source.size)
    run_copy(source, target[:n])
    np.testing.assert_array_equal(target[:n], source[:n])
    np.testing.assert_array_equal(target[n:], -1.0)


def test_stores_through_negative_strides(backend: str) -> None:
    source, target = numbers(), np.zeros(2 * N, np.float32)
    run_copy(source, target[::-2])
    np.testing.assert_array_equal(target[::-2], source)
    np.testing.assert_array_equal(target[::2], 0)


def test_axes_in_any_order(backend: str) -> None:
    source = np.arange(8 * 12, dtype=np.int32).reshape(12, 8)
    target = np.zeros((8, 12), np.int32)
    ct.launch(None, (2, 3), copy2, (source.T, target))
    np.testing.assert_array_equal(target, source.T)


def test_scalar_and_empty_arrays(backend: str) -> None:
    @ct.kernel
    def add_one(x, out):
        ct.store(out, (), ct.load(x, (), ()) + 1)

    out = np.zeros((), np.int32)
    ct.launch(None, (1,), add_one, (np.array(41, np.int32), out))
    assert out == 42
    empty = np.zeros(0, np.float32)
    run_copy(empty, empty.copy())
    target = np.zeros(N, np.float32)
    run_copy(empty, target)
    ct.launch(None, (1, 1), copy2, (np.zeros((0, 3)), np.zeros((0, 3))))


@pytest.mark.parametrize("wrap", [WithInterface, WithDLPack, lambda a: WithDLPack(a, versioned=False)])
def test_protocols(backend: str, wrap: Any) -> None:
    source, target = numbers(), np.zeros(2 * N, np.float32)
    run_copy(wrap(source), wrap(target[::2]))
    np.testing.assert_array_equal(target[::2], source)
    np.testing.assert_array_equal(target[1::2], 0)


def test_interface_without_strides_and_with_bfloat16(backend: str) -> None:
    source, target = numbers(ml_dtypes.bfloat16), np.zeros(N, ml_dtypes.bfloat16)
    run_copy(WithInterface(source, strides=None, typestr="<V2"), target)
    np.testing.assert_array_equal(target, source)


def test_memory_of_ctypes(backend: str) -> None:
    memory = (ctypes.c_float * N)(*range(N))
    target = np.zeros(N, np.float32)
    run_copy(np.ctypeslib.as_array(memory), target)
    np.testing.assert_array_equal(target, range(N))


def test_arrays_are_not_copied(backend: str) -> None:
    target = np.zeros(N, np.float32)
    address = target.ctypes.data
    run_copy(numbers(), target)
    assert target.ctypes.data == address
    np.testing.assert_array_equal(target, numbers())


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 5


class Ratio(float):
    """A number of a class of its own."""


@ct.kernel
def weigh(out, level, ratio, TIMES: ct.Constant[int], PLUS: ct.Constant):
    ct.static_assert(TIMES == Level.HIGH)
    ct.store(out, (0,), ct.full((1,), level * TIMES + ratio + PLUS, ct.float32))


def test_numbers_of_derived_classes() -> None:
    """Members of integer enumerations, and numbers of other derived classes, are the numbers."""
    out = np.zeros(1, np.float32)
    for level in (*[Level.LOW] * 6, Level.HIGH):
        ct.launch(None, (1,), weigh, (out, level, Ratio(0.5), Level.HIGH, Ratio(0.25)))
        assert out[0] == level * 5 + 0.75


def odd(**attributes: Any) -> Any:
    """An object that claims to be an array, in the way that its attributes say."""
    return type("Odd", (), attributes)()


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("lost")


def gone(self: Any) -> Any:
    raise RuntimeError("gone")


def at_nowhere() -> np.ndarray:
    """NumPy makes no such array, but other libraries might."""
    array = np.zeros(N, np.float32)[:]
    ctypes.c_void_p.from_address(id(array) + offset("address")).value = None
    return array


BAD_INTERFACES = [
    ({"data": (0, False)}, TypeError, "WithInterface with elements but without memory"),
    ({"data": (1 << 64, False)}, TypeError, "that is malformed"),
    ({"data": (-4, False)}, TypeError, "that is malformed"),
    ({"data": (1,)}, TypeError, "that is malformed (ValueError"),
    ({"data": ("1", False)}, TypeError, "that is malformed (TypeError"),
    ({"data": None}, TypeError, "without an address"),
    ({"shape": None}, TypeError, "that is malformed (TypeError"),
    ({"shape": (1.5,)}, TypeError, "that is malformed (TypeError"),
    ({"shape": (-4,)}, TypeError, "extent along axis 0 is -4"),
    ({"shape": (1 << 70,)}, OverflowError, "does not fit in int32"),
    ({"strides": (4, 4)}, TypeError, "that is malformed"),
    ({"strides": ("4",)}, TypeError, "that is malformed"),
    ({"typestr": 4}, TypeError, "that is malformed (4,"),
    ({"typestr": "what"}, TypeError, "typestr 'what'"),
]
ODD: list[tuple[dict[str, Any], str]] = [
    ({"__array_interface__": {}}, "without an address"),
    ({"__array_interface__": {"data": (16, False), "shape": (N,)}}, "malformed (KeyError: 'typestr')"),
    ({"__array_interface__": {"data": (16, False), "typestr": "<f4"}}, "malformed (KeyError: 'shape')"),
    ({"__array_interface__": None}, "malformed (AttributeError"),
    ({"__dlpack__": lambda *_, **__: 5}, "cannot be had through DLPack: ValueError: __dlpack__() returned int"),
    ({"__dlpack__": lambda *_, **__: np.datetime_data}, "cannot be had through DLPack: ValueError"),
    ({"__dlpack__": fail}, "cannot be had through DLPack: KeyError: 'lost'"),
    ({"__dlpack__": None}, "cannot be had through DLPack: TypeError"),
]
REFUSED = [
    (odd(__array_interface__=property(gone)), TypeError, "malformed (RuntimeError: gone)"),
    (None, TypeError, "is None: tile code cannot test for it"),
    ("mean", TypeError, "is a string"),
    (Color.RED, TypeError, "enum member"),
    (1j, TypeError, "complex"),
    ({"a": 1}, TypeError, "is a dict"),
    ([], TypeError, "empty list"),
    ([1.0, 2.0], TypeError, "is not an array; a list argument holds arrays"),
    (object(), TypeError, "of type object"),
    (len, TypeError, "of type builtin_function_or_method"),
    (copy, TypeError, "is a kernel, which ct.launch starts"),
    (run_copy, TypeError, "is a function"),
    (np.zeros(N, np.complex64), TypeError, "complex64, which tile code does not have"),
    (np.zeros(N, object), TypeError, "object"),
    (np.zeros(N, "M8[s]"), TypeError, "datetime64[s], which tile code does not have; pass x.view('int64')"),
    (np.array(["a"] * N), TypeError, "make it an array of numbers"),
    (np.zeros(N, [("x", "f4"), ("y", "i2")]), TypeError, "pass one of its fields"),
    (np.zeros(N, ml_dtypes.int4), TypeError, "int4, which tile code does not have; convert it with x.astype"),
    (np.zeros(N, ">f4"), ValueError, "byte order '>'"),
    (np.frombuffer(bytes(4 * N + 1), np.float32, N, 1), ValueError, "multiple of its element size"),
    (np.zeros(N, [("x", "f4"), ("y", "i2")])["x"], ValueError, "stride of 6 bytes along axis 0"),
    (np.ma.masked_array(np.zeros(N, np.float32), True), TypeError, "masked array"),
    (WithInterface(np.zeros(N, np.float32), mask=np.zeros(N, bool)), TypeError, "mask"),
    (at_nowhere(), TypeError, "ndarray with elements but without memory"),
    ([np.zeros(N, np.float32), at_nowhere()], TypeError, "without memory: its address is 0"),
    *((WithInterface(np.zeros(N, np.float32), **c), e, w) for c, e, w in BAD_INTERFACES),
    *((odd(**attributes), TypeError, words) for attributes, words in ODD),
    (2**31, OverflowError, "annotate the parameter with ct.ScalarInt64"),
    (np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 31,), (0,)), OverflowError, "ct.IndexedWithInt64"),
]
MARKS_READ_ONLY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # before, NumPy does not export read-only arrays
if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    REFUSED.append((np.array(["a"] * N, np.dtypes.StringDType()), TypeError, "StringDType"))


@pytest.mark.parametrize("value, error, words", REFUSED, ids=[words[:24] for _, _, words in REFUSED])
def test_refused_arguments_are_named(value: Any, error: type[Exception], words: str) -> None:
    target = np.full(N, 5.0, np.float32)
    with pytest.raises(error) as caught:
        run_copy(value, target)
    assert words in str(caught.value)
    assert "argument 'source" in str(caught.value) and "of copy()" in str(caught.value)
    np.testing.assert_array_equal(target, 5.0)


@pytest.mark.parametrize(
    "start, words", [("torch.qint8", "x.int_repr()"), ("torch.complex32", "torch.view_as_real(x)")]
)
def test_what_is_said_of_a_torch_dtype_is_something_that_tensors_have(start: str, words: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, start.removeprefix("torch."))
    source = torch._empty_affine_quantized([N], scale=1.0, dtype=dtype) if "q" in start else torch.zeros(N, dtype=dtype)
    with pytest.raises(TypeError) as caught:
        run_copy(source, np.zeros(N, np.float32))
    assert words in str(caught.value) and "astype" not in str(caught.value)


def test_read_only_arrays_can_be_read_but_not_written(backend: str) -> None:
    source, target = numbers(), np.zeros(N, np.float32)
    source.flags.writeable = False
    run_copy(source, target)
    target.flags.writeable = False
    for wrap in (lambda a: a, WithInterface, WithDLPack)[: 3 if MARKS_READ_ONLY else 2]:
        with pytest.raises(
            ValueError, match=r"argument 'target' of copy\(\) is read-only, but the kernel stores to it"
        ):
            run_copy(source, wrap(target))
    np.testing.assert_array_equal(target, numbers())


@pytest.mark.parametrize("repeated", [0, 8])
def test_what_repeated_launches_refuse(backend: str, repeated: int) -> None:
    """Arrays that are like those of the launches before, but for their memory or for who may write to it."""
    source, target = numbers(), np.zeros(N, np.float32)
    read_only = np.zeros(N, np.float32)
    read_only.flags.writeable = False
    for wrap in (lambda a: a, WithInterface, lambda a: [a], WithDLPack)[: 4 if MARKS_READ_ONLY else 3]:
        launch = run_copy_first if isinstance(wrap(target), list) else run_copy
        target[:] = 0
        for _ in range(repeated):
            launch(source, wrap(target))
        np.testing.assert_array_equal(target, numbers() if repeated else 0)
        with pytest.raises(ValueError, match=r"argument 'target(\[0\])?' of \w+\(\) is read-only"):
            launch(source, wrap(read_only))
        with pytest.raises(TypeError, match=r"argument 'source' of \w+\(\) is a ndarray .* without memory"):
            launch(at_nowhere(), wrap(target))
        launch(read_only, wrap(target))
        np.testing.assert_array_equal(target, 0)
    assert not read_only.any()


def test_stand_ins_of_torch_are_refused(backend: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    fake_mode = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode
    wrapper = importlib.import_module("torch.testing._internal.two_tensor").TwoTensor
    real, target = torch.ones(N), torch.zeros(N)
    emptied = torch.ones(N)
    emptied.untyped_storage().resize_(0)
    with fake_mode():
        fake = torch.ones(N)
    refused = [emptied, fake, wrapper(real, real), torch._to_functional_tensor(real), torch._efficientzerotensor(N)]
    for repeated in (0, 8):
        for _ in range(repeated):
            run_copy(real, target)
        for bad in refused:
            for arguments in ((bad, target), (real, bad)):
                with pytest.raises(
                    TypeError, match=r"argument '(source|target)' of copy\(\) is a .*memory|wraps other"
                ):
                    run_copy(*arguments)
    seen: list[str] = []

    def launched(x: Any) -> Any:
        with pytest.raises(TypeError, match=r"argument 'source' of copy\(\) is a tensor without memory") as caught:
            run_copy(x, target)
        seen.append(str(caught.value))
        return x.sum()

    torch.vmap(launched)(torch.ones(2, N))
    torch.func.grad(launched)(real)
    assert len(seen) == 2 and "torch.vmap" in seen[0]
    run_copy(torch.zeros(0), torch.zeros(0))


def test_arrays_of_jax_can_be_read_but_not_written(backend: str) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        source, target = jax.numpy.arange(float(N)), np.zeros(N, np.float32)
        immutable = jax.numpy.zeros(N)
    for _ in range(8):
        run_copy(source, target)
        with pytest.raises(ValueError, match=r"argument 'target' of copy\(\) is read-only"):
            run_copy(source, immutable)
        with pytest.raises(ValueError, match=r"argument 'target\[0\]' of copy_first\(\) is read-only"):
            run_copy_first(source, [immutable])
    np.testing.assert_array_equal(target, np.arange(N))
    assert not np.asarray(immutable).any()
    with pytest.raises(TypeError, match=r"argument 'source' of copy\(\) is a \w+Tracer"):
        jax.jit(lambda x: run_copy(x, target))(source)


class OnGpu:
    """What a GPU library would pass, at an address that nobody may touch."""

    __cuda_array_interface__ = {  # noqa: RUF012 - the protocol wants a dict
        "shape": (N,),
        "typestr": "<f4",
        "data": (0x7F0000000000, False),
        "version": 3,
    }


@pytest.mark.skipif(why_not() is None, reason="the driver of this machine knows that there is no memory at the address")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_gpu_arrays_need_a_gpu_backend(backend: str) -> None:
    with pytest.raises(ValueError, match=r"argument 'source' of copy\(\) is in the memory of a device \(cuda\)"):
        ct.launch(None, (1,), copy, (OnGpu(), OnGpu()), backend=backend)
    with pytest.raises(ValueError, match="different devices: 'source' on cuda:0, 'target' on cpu"):
        ct.launch(None, (1,), copy, (OnGpu(), numbers()), backend=backend)


def test_tensors_of_amd_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.Tensor, "device", torch.device("cuda:0"))  # so PyTorch calls them
    with pytest.raises(ValueError, match=r"device \(rocm\) that no backend can use yet: .*inspect --target gfx942"):
        run_copy(torch.zeros(N), torch.zeros(N))


def test_gpu_arrays_choose_the_backend_of_gpus() -> None:
    name = default_backend("cuda")
    assert name is not None
    if usable_or_none(name) is not None:
        pytest.skip("this machine has a GPU, on which the address of these arrays would be used")
    with pytest.raises(RuntimeError, match=f"the backend '{name}' cannot be used here"):
        ct.launch(None, (1,), copy, (OnGpu(), OnGpu()))


def usable_or_none(name: str) -> object:
    try:
        return usable(name)
    except RuntimeError:
        return None


@pytest.mark.filterwarnings("ignore")
def test_nested_tensors_are_refused_by_repeated_launches(backend: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    source, target = torch.ones(N), torch.zeros(N)
    for _ in range(8):
        run_copy(source, target)
        with pytest.raises(TypeError, match=r"argument 'source' of copy\(\) is a"):
            run_copy(torch.nested.nested_tensor([torch.ones(N)]), target)
    assert target.tolist() == source.tolist()
