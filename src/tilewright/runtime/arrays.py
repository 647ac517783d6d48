"""Which objects are arrays, and how each kind says what it is.

Describing an array happens at every launch, so it only collects: the address goes to the numbers of the launch, and
everything else into a *part* of the key under which launches are remembered. A part is ``(kind, *facts)``;
``LAYOUTS[kind](place, *facts)`` checks the facts and returns the layout, for keys not met before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.backends.base import MultiDevice, get_backend
from tilewright.runtime import dlpack
from tilewright.runtime.layout import Layout, Place, contiguous_strides, layout
from tilewright.runtime.numpy_memory import address_of

Part = tuple[Any, ...]


class Flat:
    """What one launch collects besides its key: run-time numbers, in order, and objects that own borrowed memory."""

    __slots__ = ("numbers", "owners")

    def __init__(self) -> None:
        self.numbers: list[Any] = []
        self.owners: list[Any] = []


Describe = Callable[[Any, Flat], Part]


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
        return _describe_torch
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, getattr(cupy, "ndarray", ())):
        return _describe_cupy
    if isinstance(array, (type, np.generic)):
        return None
    for attribute, describe in (
        ("__cuda_array_interface__", describe_cuda_interface),
        ("__array_interface__", describe_interface),
        ("__dlpack__", describe_dlpack),
    ):
        if hasattr(array, attribute):
            return describe
    return None


def describe_numpy(array: np.ndarray[Any, Any], flat: Flat) -> Part:
    address = address_of(array)
    flat.numbers.append(address)
    return "numpy", array.dtype, array.shape, array.strides, address & 15, array.flags.writeable


def _numpy(
    place: Place, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], misalignment: int, writable: bool
) -> Layout:
    return layout(place, dtype, shape, strides, misalignment, byte_strides=True, writable=writable)


def _describe_cupy(array: Any, flat: Flat) -> Part:
    address = array.data.ptr
    flat.numbers.append(address)
    return "cupy", array.dtype, array.shape, array.strides, address & 15, array.data.device_id


def _cupy(
    place: Place, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], misalignment: int, device: int
) -> Layout:
    return layout(place, dtype, shape, strides, misalignment, byte_strides=True, device="cuda", device_index=device)


def _describe_torch(tensor: Any, flat: Flat) -> Part:
    try:
        address = tensor.data_ptr()
        flat.numbers.append(address)
        return "torch", tensor.dtype, tensor.shape, tensor.stride(), address & 15, tensor.device, tensor.is_neg()
    except RuntimeError:  # only strided tensors have an address and strides
        return "odd tensor", tensor.layout


def _torch(
    place: Place,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    misalignment: int,
    device: Any,
    negated: bool,
) -> Layout:
    if negated:
        raise TypeError(f"{place} is a view that negates its elements; pass x.resolve_neg()")
    kind, index = device.type, device.index or 0
    if kind == "cuda" and sys.modules["torch"].version.hip is not None:  # what PyTorch calls AMD's
        kind = "rocm"
    return layout(place, dtype, shape, strides, misalignment, byte_strides=False, device=kind, device_index=index)


def _odd_tensor(place: Place, kind: Any) -> Layout:
    raise TypeError(f"{place} is a tensor of layout {kind}; tile code needs a strided one, such as x.to_dense()")


def describe_interface(array: Any, flat: Flat) -> Part:
    return _interface_part(array.__array_interface__, "cpu", flat)


def describe_cuda_interface(array: Any, flat: Flat) -> Part:
    part = _interface_part(array.__cuda_array_interface__, "cuda", flat)
    if part[0] != "interface":
        return part
    # The protocol does not tell the device. CuPy, JAX and others do; of other arrays the driver knows it.
    index = getattr(getattr(array, "device", None), "id", None)
    if not isinstance(index, int):
        address = flat.numbers[-1]
        index = _gpus().device_of(address) if address else 0
    return ("stray interface", address) if index is None else (*part, index)


def several_gpus() -> bool:
    """Whether the address of an array decides which GPU it is on."""
    return _gpus().device_count() > 1


def _gpus() -> MultiDevice:
    engine: Any = get_backend("triton")
    return engine


def _interface_part(interface: dict[str, Any], device: str, flat: Flat) -> Part:
    data = interface.get("data")
    if not isinstance(data, tuple) or interface.get("mask") is not None:
        return ("odd interface",)
    address, read_only = data
    flat.numbers.append(address)
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    strides = None if strides is None else tuple(strides)
    return "interface", interface["typestr"], shape, strides, address & 15, bool(read_only), device


def _interface(
    place: Place,
    typestr: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    misalignment: int,
    read_only: bool,
    device: str,
    index: int = 0,
) -> Layout:
    # The protocol has no bfloat16, so libraries send it as two bytes of no particular type.
    dtype = np.dtype(ml_dtypes.bfloat16) if typestr[1:] == "V2" else np.dtype(typestr)
    if strides is None:
        strides = contiguous_strides(shape, dtype.itemsize)
    return layout(
        place,
        dtype,
        shape,
        strides,
        misalignment,
        byte_strides=True,
        writable=not read_only,
        device=device,
        device_index=index,
    )


def _stray_interface(place: Place, address: int) -> Layout:
    raise ValueError(
        f"{place} has the address {address:#x}, which its __cuda_array_interface__ says is GPU memory; the driver "
        "knows of none there"
    )


def _odd_interface(place: Place) -> Layout:
    raise TypeError(f"{place} exposes an array interface with a mask or without an address; pass np.asarray(x)")


def describe_dlpack(array: Any, flat: Flat) -> Part:
    found = dlpack.read(array)
    flat.owners.append(found.capsule)
    flat.numbers.append(found.address)
    place = found.device, found.index
    return "dlpack", found.dtype, found.shape, found.strides, found.address & 15, found.writable, *place


def _dlpack(
    place: Place,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    misalignment: int,
    writable: bool,
    device: str,
    index: int,
) -> Layout:
    return layout(
        place,
        dtype,
        shape,
        strides,
        misalignment,
        byte_strides=False,
        writable=writable,
        device=device,
        device_index=index,
    )


LAYOUTS: dict[str, Callable[..., Layout]] = {
    "numpy": _numpy,
    "cupy": _cupy,
    "torch": _torch,
    "odd tensor": _odd_tensor,
    "interface": _interface,
    "odd interface": _odd_interface,
    "stray interface": _stray_interface,
    "dlpack": _dlpack,
}
