"""The arrangement of an array in memory, and the facts about it that kernels are specialised on."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tilewright.frontend.signature import ArraySpec
from tilewright.ir.dtypes import DType
from tilewright.language.annotations import ArrayAnnotation
from tilewright.language.dtypes import to_dtype
from tilewright.records import dataclass

ALIGNMENT = 16  # the divisor of addresses and strides (bytes) and of extents (elements) that code is specialised on


@dataclass(frozen=True)
class ArgumentRef:
    """The argument that an error is about."""

    kernel: str
    argument: str

    def item(self, index: int) -> ArgumentRef:
        return ArgumentRef(self.kernel, f"{self.argument}[{index}]")

    def __str__(self) -> str:
        return f"argument '{self.argument}' of {self.kernel}()"


@dataclass(frozen=True)
class Layout:
    """An array apart from its address, of which ``misalignment`` holds the remainder by ``ALIGNMENT``.

    ``strides`` count elements. ``device`` is the type of device whose memory it is: ``"cpu"``, ``"cuda"``, ...;
    ``device_index`` tells GPUs apart.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    misalignment: int
    writable: bool = True
    device: str = "cpu"
    device_index: int = 0
    inference: bool = False  # whether PyTorch does not let it be written for that it was made in inference mode

    def extent(self) -> tuple[int, int]:
        """The bytes that the array covers, as offsets from its address."""
        if 0 in self.shape:
            return 0, 0
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides)]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
        return low * self.dtype.bytes, (high + 1) * self.dtype.bytes

    def may_overlap_itself(self) -> bool:
        """Whether two elements may share memory: not if each stride is beyond all that the smaller ones span.

        As in the original, an axis of stride 0 counts whatever its extent is.
        """
        span = 1
        for stride, extent in sorted((abs(s), n) for s, n in zip(self.strides, self.shape)):
            if stride < span:
                return True
            span = stride * extent
        return False


def layout(
    ref: ArgumentRef,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    misalignment: int,
    writable: bool = True,
    device: str = "cpu",
    device_index: int = 0,
    inference: bool = False,
    *,
    byte_strides: bool,
) -> Layout:
    """The layout of the array at ``ref``. TypeError or ValueError when kernels cannot use it."""
    known = to_dtype(dtype)
    if known is None:
        raise TypeError(f"{ref} has the dtype {dtype}, which tile code does not have{_dtype_advice(dtype)}")
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        raise ValueError(f"{ref} has the byte order {dtype.byteorder!r}; convert it with x.astype({known.name!r})")
    for axis, extent in enumerate(shape):
        if extent < 0:
            raise TypeError(f"{ref} says that its extent along axis {axis} is {extent}")
    if misalignment % known.bytes:
        raise ValueError(f"{ref} does not start at a multiple of its element size ({known.bytes}); copy it first")
    if byte_strides:
        for axis, stride in enumerate(strides):
            if stride % known.bytes:
                raise ValueError(
                    f"{ref} has a stride of {stride} bytes along axis {axis}, which is no multiple of its element "
                    f"size, {known.bytes} bytes (a field of a structured array?); copy it first"
                )
        strides = tuple(stride // known.bytes for stride in strides)
    return Layout(known, tuple(shape), strides, misalignment, writable, device, device_index, inference)


# What to do with an array of a dtype that tile code does not have, by the start of torch's name or NumPy's kind.
_TORCH_ADVICE = {
    "torch.complex": "pass torch.view_as_real(x), whose last axis has the real and imaginary parts",
    "torch.q": "pass x.int_repr(), which holds the integers, or x.dequantize()",
    "torch.": "convert it with x.to(...)",
}
_KIND_ADVICE = {
    "c": "pass the real and imaginary parts as two arrays, x.view(float) being one way",
    "O": "make it an array of numbers",
    "U": "make it an array of numbers",
    "S": "make it an array of numbers",
    "M": "pass x.view('int64')",
    "m": "pass x.view('int64')",
    "V": "pass one of its fields, such as x['field'].copy()",
}


def _dtype_advice(dtype: Any) -> str:
    for start, advice in _TORCH_ADVICE.items():
        if str(dtype).startswith(start):
            return f"; {advice}"
    kind = "" if getattr(dtype, "fields", ()) is None and dtype.kind == "V" else getattr(dtype, "kind", "")
    return f"; {_KIND_ADVICE.get(kind, 'convert it with x.astype(...)')}"  # numbers of ml_dtypes are of kind V


def contiguous_strides(shape: tuple[int, ...], unit: int = 1) -> tuple[int, ...]:
    """The strides of a row-major array whose elements are ``unit`` apart."""
    return tuple(unit * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def array_spec(ref: ArgumentRef, found: Layout, annotation: ArrayAnnotation) -> ArraySpec:
    """What a kernel is specialised on for an array of this layout.

    OverflowError when an extent or stride does not fit the index dtype; TypeError when a static axis does not exist.
    """
    index = annotation.index_dtype
    for what, numbers in (("extent", found.shape), ("stride", found.strides)):
        for axis, number in enumerate(numbers):
            if not index.min <= number <= index.max:
                raise OverflowError(
                    f"{ref} has the {what} {number} along axis {axis}, which does not fit in {index.name}; "
                    "annotate the parameter with ct.IndexedWithInt64"
                )
    constant_shape = _axes(ref, "static_shape_dims", annotation.static_shape_dims, len(found.shape))
    constant_strides = _axes(ref, "static_stride_dims", annotation.static_stride_dims, len(found.shape))
    shape = tuple(
        n if axis in constant_shape or (n == 1 and not constant_shape) else None for axis, n in enumerate(found.shape)
    )
    strides = tuple(
        s if axis in constant_strides or (s == 1 and not constant_strides) else None
        for axis, s in enumerate(found.strides)
    )
    return ArraySpec(
        found.dtype,
        shape,
        strides,
        index,
        constant_shape,
        constant_strides,
        base_divisible=1 if found.misalignment else ALIGNMENT,
        shape_divisible=tuple(
            _divisor(n, divisors_of("shape", found.dtype, stride)) for n, stride in zip(found.shape, strides)
        ),
        strides_divisible=tuple(
            _divisor(n, divisors_of("stride", found.dtype, stride)) for n, stride in zip(found.strides, strides)
        ),
    )


def _divisor(number: int, divisors: tuple[int, ...]) -> int:
    """The first of ``divisors`` that divides ``number``, else 1."""
    return next((d for d in divisors if number % d == 0), 1)


@functools.cache
def divisors_of(role: str, dtype: DType, stride: int | None) -> tuple[int, ...]:
    """The divisors, powers of two, that code is specialised on, the greatest first: of the extent or the stride, as
    ``role`` says, of an axis that is known to have this stride.

    Backends that move 16 bytes have to know that rows and pitches are multiples of these. Rows of 16-bit elements that
    start inside a sector (32 bytes) of a GPU's cache are better read by 2-CTA clusters.
    """
    unit = max(1, ALIGNMENT // dtype.bytes)
    if role == "stride":
        return (2 * unit, unit) if dtype.bytes == 2 else (unit,)
    return (ALIGNMENT, unit) if stride == 1 else (ALIGNMENT,)


def _axes(ref: ArgumentRef, option: str, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(f"{ref}: {option} names axis {axis}, but the array has rank {rank}")
    if len({axis % rank for axis in axes}) < len(axes):
        raise ValueError(f"{ref}: {option} is {axes}, which names an axis twice")
    return tuple(sorted({axis % rank for axis in axes}))
