"""Which objects are arrays, and how each kind says what it is.

Describing an array happens at every launch, so it only collects: the address goes to the numbers of the launch, and
everything else into its *key*, a part of the key under which launches are remembered. It is ``(kind, *facts)``;
``LAYOUTS[kind](ref, *facts)`` checks the facts and returns the layout, for keys not met before.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from tilewright.backends.base import Devices
from tilewright.backends.registry import default_backend, get_backend
from tilewright.runtime import dlpack
from tilewright.runtime.layout import ArgumentRef, Layout, contiguous_strides, layout
from tilewright.runtime.numpy_memory import address_of

ArgumentKey = tuple[Any, ...]
INTERFACE, CUDA_INTERFACE = "__array_interface__", "__cuda_array_interface__"
INTERFACE_DEVICES = {INTERFACE: "cpu", CUDA_INTERFACE: "cuda"}  # programs that run without a GPU have both on the CPU


class RuntimeValues:
    """What one launch collects besides its key: run-time numbers, in order, and objects that own borrowed memory."""

    __slots__ = ("numbers", "owners")

    def __init__(self) -> None:
        self.numbers: list[Any] = []
        self.owners: list[Any] = []


Describe = Callable[[Any, RuntimeValues], ArgumentKey]


class AbstractAddress(int):
    """The number of an abstract array, in place of an address."""


class AbstractArray:
    """An array without elements, to compile launches for arrays like it: row-major where ``strides`` say so, in the
    memory of the device ``device`` of this ``index``. ``number`` tells it from others. ``strides`` count elements."""

    __slots__ = ("address", "device", "dtype", "index", "misalignment", "shape", "strides")

    def __init__(
        self,
        number: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...],
        device: str,
        index: int,
        misalignment: int = 0,
    ) -> None:
        self.misalignment = misalignment
        self.address = AbstractAddress(number)
        self.shape, self.dtype, self.strides, self.device, self.index = shape, dtype, strides, device, index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _elements(self, *_: object, **__: object) -> NoReturn:
        """There are none."""
        raise TypeError(
            "the function of an operator runs for shapes and dtypes alone: its arrays have no elements, and no views; "
            "have the kernel look at them, or the program that calls the operator"
        )

    __array__ = __getitem__ = __iter__ = __setitem__ = _elements


def abstract_array(number: int, shape: Sequence[int], dtype: Any, device: str = "cpu", index: int = 0) -> AbstractArray:
    """A contiguous array, aligned to 16 bytes, that a launch calls the ``number``-th one."""
    return AbstractArray(number, tuple(shape), np.dtype(dtype), contiguous_strides(tuple(shape)), device, index)


def _describe_abstract(array: AbstractArray, runtime: RuntimeValues) -> ArgumentKey:
    runtime.numbers.append(array.address)
    return "dlpack", array.dtype, array.shape, array.strides, array.misalignment, True, array.device, array.index


def is_masked(array: Any) -> bool:
    """Whether ``array`` is a NumPy masked array; asking NumPy would import numpy.ma."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, masked.MaskedArray)


def array_describer(array: Any) -> Describe | None:
    """How to describe arguments of the type of ``array``; None when it is no array."""
    if isinstance(array, np.ndarray):
        return None if is_masked(array) else describe_numpy
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if type(array).__name__ == "FakeTensor":  # it warns when asked for its address
            return _describe_absent
        return _describe_wrapper if hasattr(type(array), "__tensor_flatten__") else describe_torch
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, getattr(cupy, "ndarray", ())):
        return describe_cupy
    if isinstance(array, AbstractArray):
        return _describe_abstract
    if isinstance(array, (type, np.generic)):
        return None
    for attribute, describe in (
        (CUDA_INTERFACE, describe_cuda_interface),
        (INTERFACE, describe_interface),
        ("__dlpack__", describe_dlpack),
    ):
        if _has(array, attribute):
            return describe
    return None


def _has(array: Any, attribute: str) -> bool:
    try:
        return hasattr(array, attribute)
    except Exception:  # noqa: BLE001 - it is there and fails, which describing the array will say
        return True


# Classes of arrays that other code relies on not to change, though what they export does not say so.
_IMMUTABLE = (("jax", "Array"), ("tensorflow", "Tensor"), ("pyarrow", "Array"))


def _is_immutable(array: Any) -> bool:
    for module, name in _IMMUTABLE:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(array, getattr(loaded, name, ())):
            return True
    return False


def _is_empty(shape: Any) -> bool:
    """Whether an array has no element, and so needs no memory. Extents may be symbols, which refuse to be compared."""
    return any(type(n) is int and n == 0 for n in shape)


def _unusable(fault: str, error: type[Exception] = TypeError) -> ArgumentKey:
    """The key of an array that kernels cannot take."""
    return "unusable", error, fault


def _refuse(ref: ArgumentRef, error: type[Exception], fault: str) -> Layout:
    raise error(f"{ref} {fault}")


def _describe_absent(array: Any, runtime: RuntimeValues) -> ArgumentKey:
    return _unusable(
        f"is a {type(array).__name__} with elements but without memory: its address is 0. Programs that are traced or "
        "compiled have such stand-ins (FakeTensor, functional tensors); wrappers keep their elements in other arrays. "
        "Pass an array that holds its elements"
    )


def describe_numpy(array: np.ndarray[Any, Any], runtime: RuntimeValues) -> ArgumentKey:
    address = address_of(array)
    if not address and array.size:
        return _describe_absent(array, runtime)
    runtime.numbers.append(address)
    return "numpy", array.dtype, array.shape, array.strides, address & 15, array.flags.writeable


def describe_cupy(array: Any, runtime: RuntimeValues) -> ArgumentKey:
    address = array.data.ptr
    if not address and not _is_empty(array.shape):
        return _describe_absent(array, runtime)
    runtime.numbers.append(address)
    return "cupy", array.dtype, array.shape, array.strides, address & 15, True, "cuda", array.data.device_id


def describe_torch(tensor: Any, runtime: RuntimeValues) -> ArgumentKey:
    try:
        address = tensor.data_ptr()
        if not address and tensor.device.type != "meta" and not _is_empty(tensor.shape):
            return _describe_absent(tensor, runtime)
        runtime.numbers.append(address)
        inference = sys.modules["torch"].is_inference_mode_enabled() if tensor.is_inference() else None
        facts = tensor.dtype, tensor.shape, tensor.stride(), address & 15, tensor.device, tensor.is_neg(), inference
        return "torch", *facts
    except RuntimeError:  # only strided tensors have an address and strides
        if str(tensor.layout) != "torch.strided":
            return _unusable(
                f"is a tensor of layout {tensor.layout}; tile code needs a strided one, such as x.to_dense()"
            )
        return _unusable(
            "is a tensor without memory of its own: transformations such as torch.vmap, torch.func.grad and "
            "torch.export hand out such stand-ins. Launch the kernel outside of them, or in an operator that is "
            "registered with torch.library. Of a nested tensor, pass the parts"
        )


def _describe_wrapper(tensor: Any, runtime: RuntimeValues) -> ArgumentKey:
    return _unusable(
        f"is a {type(tensor).__name__}, which wraps other tensors and has no elements of its own; pass those, such as "
        "x.to_local() of a DTensor"
    )


def _torch(
    ref: ArgumentRef,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    misalignment: int,
    device: Any,
    negated: bool,
    inference: bool | None,
) -> Layout:
    """``inference``, of a tensor made in inference mode: whether that mode is on."""
    if negated:
        raise TypeError(f"{ref} is a view that negates its elements; pass x.resolve_neg()")
    kind, index = device.type, device.index or 0
    if kind == "cuda" and sys.modules["torch"].version.hip is not None:  # what PyTorch calls AMD's
        kind = "rocm"
    facts = misalignment, inference is not False, kind, index, inference is False
    return layout(ref, dtype, shape, strides, *facts, byte_strides=False)


def describe_interface(array: Any, runtime: RuntimeValues) -> ArgumentKey:
    return _interface_key(array, INTERFACE, runtime)


def describe_cuda_interface(array: Any, runtime: RuntimeValues) -> ArgumentKey:
    key = _interface_key(array, CUDA_INTERFACE, runtime)
    if key[0] != "interface" or key[-1] == "cpu":
        return key
    # The protocol does not tell the device. CuPy, JAX and others do; of other arrays the driver knows it.
    index = getattr(getattr(array, "device", None), "id", None)
    if not isinstance(index, int):
        address = runtime.numbers[-1]
        gpus = _gpus()
        index = gpus.index_of(address) if address and gpus is not None else 0
    if index is not None:
        return *key, index
    return _unusable(
        f"has the address {address:#x}, which its __cuda_array_interface__ says is GPU memory; the driver knows of "
        "none there",
        ValueError,
    )


def several_gpus() -> bool:
    """Whether the address of an array decides which GPU it is on."""
    gpus = _gpus()
    return gpus is not None and gpus.count() > 1


def _gpus() -> Devices | None:
    name = default_backend("cuda")
    return None if name is None else get_backend(name).capabilities.devices


def _interface_key(array: Any, name: str, runtime: RuntimeValues) -> ArgumentKey:
    try:
        interface = getattr(array, name)
        data = interface.get("data")
        if type(interface) is not dict or data is None or interface.get("mask") is not None:
            return _odd_interface("with a mask, or without an address")
        address, read_only = data
        address, typestr = operator.index(address), interface["typestr"]
        shape, strides = tuple(map(operator.index, interface["shape"])), interface.get("strides")
        strides = None if strides is None else tuple(map(operator.index, strides))
    except Exception as e:  # noqa: BLE001 - whatever the code of another library raises
        return _odd_interface(f"that is malformed ({type(e).__name__}: {e})")
    fits = strides is None or len(strides) == len(shape)
    if not fits or not isinstance(typestr, str) or not 0 <= address < 1 << 64:
        return _odd_interface(f"that is malformed ({typestr!r}, address {address:#x}, {shape}, {strides})")
    if not address and not _is_empty(shape):
        return _describe_absent(array, runtime)
    runtime.numbers.append(address)
    writable = not read_only and not _is_immutable(array)
    return "interface", typestr, shape, strides, address & 15, writable, INTERFACE_DEVICES[name]


def _odd_interface(fault: str) -> ArgumentKey:
    return _unusable(f"exposes an array interface {fault}; pass np.asarray(x)")


def _interface(
    ref: ArgumentRef,
    typestr: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    misalignment: int,
    writable: bool,
    device: str,
    index: int = 0,
) -> Layout:
    try:
        # The protocol has no bfloat16, so libraries send it as two bytes of no particular type.
        dtype = np.dtype(ml_dtypes.bfloat16) if typestr[1:] == "V2" else np.dtype(typestr)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{ref} exposes an array interface with the typestr {typestr!r}: {e}") from None
    if strides is None:
        strides = contiguous_strides(shape, dtype.itemsize)
    return layout(ref, dtype, shape, strides, misalignment, writable, device, index, byte_strides=True)


def describe_dlpack(array: Any, runtime: RuntimeValues) -> ArgumentKey:
    try:
        found = dlpack.read(array)
    except Exception as e:  # noqa: BLE001 - whatever the code of another library raises
        kind = type(array).__name__
        if kind.endswith("JaxprTracer"):
            return _unusable(f"is a {kind}, not an array: JAX traces the function; call an operator there, see ct.op")
        fault = f"{type(e).__name__}: {e}".split("\n")[0]
        return _unusable(f"is a {kind} that cannot be had through DLPack: {fault}")
    if not found.address and not _is_empty(found.shape):
        return _describe_absent(array, runtime)
    runtime.owners.append(found.capsule)
    runtime.numbers.append(found.address)
    writable = found.writable and not _is_immutable(array)
    where = found.device, found.index
    return "dlpack", found.dtype, found.shape, found.strides, found.address & 15, writable, *where


_with_byte_strides = functools.partial(layout, byte_strides=True)
LAYOUTS: dict[str, Callable[..., Layout]] = {
    "numpy": _with_byte_strides,
    "cupy": _with_byte_strides,
    "torch": _torch,
    "interface": _interface,
    "dlpack": functools.partial(layout, byte_strides=False),
    "unusable": _refuse,
}
