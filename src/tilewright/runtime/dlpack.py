"""Reading DLPack capsules: any dtype, without a copy, without consuming the capsule."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.records import dataclass
from tilewright.runtime.layout import contiguous_strides

# (type code of the DLPack header, bits) -> NumPy dtype.
_DTYPES: dict[tuple[int, int], Any] = {
    **{(0, bits): np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(1, bits): np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(2, bits): np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    (4, 16): np.dtype(ml_dtypes.bfloat16),
    (6, 8): np.dtype(np.bool_),
    (10, 8): np.dtype(ml_dtypes.float8_e4m3fn),
    (12, 8): np.dtype(ml_dtypes.float8_e5m2),
    (14, 8): np.dtype(ml_dtypes.float8_e8m0fnu),
}
# Device type of the DLPack header -> the device whose memory it is, host memory that a GPU can reach being the host's.
_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "rocm", 11: "cpu", 13: "cuda"}
READ_ONLY = 1  # a flag
MAX_VERSION = (1, 1)
VERSIONED, UNVERSIONED, EXCHANGE = b"dltensor_versioned", b"dltensor", b"dlpack_exchange_api"


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p),
        ("import", ctypes.c_void_p),
        ("fill", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid.restype = ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer.restype = ctypes.c_void_p


@dataclass(frozen=True)
class Imported:
    """What a capsule describes; the memory is valid while ``capsule`` lives. ``strides`` count elements."""

    capsule: Any
    address: int
    dtype: Any  # a NumPy dtype, or text for one that NumPy lacks
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    device: str
    index: int


def export(array: Any) -> tuple[Any, bool]:
    """A capsule with the memory of ``array``, and whether that knows of the versions of DLPack. BufferError when it
    refuses to be exported."""
    try:
        return array.__dlpack__(max_version=MAX_VERSION), True
    except TypeError:  # it was written before DLPack had versions
        return array.__dlpack__(), False


def header(capsule: Any) -> tuple[bytes, Tensor, bool]:
    """The name of ``capsule``, what it says of an array, and whether that may be written. ValueError for no capsule, or
    one of another version."""
    if _is_valid(capsule, VERSIONED):
        versioned = Versioned.from_address(_pointer(capsule, VERSIONED))
        if versioned.major != MAX_VERSION[0]:
            raise ValueError(f"it is of version {versioned.major}.{versioned.minor}; {MAX_VERSION[0]} is known")
        return VERSIONED, versioned.tensor, not versioned.flags & READ_ONLY
    if not _is_valid(capsule, UNVERSIONED):
        raise ValueError(f"__dlpack__() returned {type(capsule).__name__}, which is no fresh capsule")
    return UNVERSIONED, Tensor.from_address(_pointer(capsule, UNVERSIONED)), True


def read(array: Any) -> Imported:
    """The memory of ``array``. BufferError when it refuses to be exported, and what else its ``__dlpack__`` raises."""
    capsule, _ = export(array)
    _, tensor, writable = header(capsule)
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else contiguous_strides(shape)
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        dtype = f"<DLPack type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes>"
    address = (tensor.data or 0) + tensor.byte_offset
    device = _DEVICES.get(tensor.device_type, f"DLPack device type {tensor.device_type}")
    return Imported(capsule, address, dtype, shape, strides, writable, device, tensor.device_id)


def exchange(kind: type) -> int | None:
    """The function ``int fill(PyObject *array, DLTensor *)`` of arrays of the class ``kind``, which says in a few
    nanoseconds what ``read`` does; None where the class has none."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if not _is_valid(capsule, EXCHANGE):
        return None
    api = Exchange.from_address(_pointer(capsule, EXCHANGE))
    found: int | None = api.fill if api.major == MAX_VERSION[0] else None
    return found


def filled(fill: int, array: Any) -> Tensor | None:
    """What ``fill`` says of ``array``, as long as that lives and keeps its shape; None where it refuses."""
    tensor = Tensor()
    try:
        ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))(fill)(array, tensor)
    except (BufferError, RuntimeError):
        return None
    return tensor
