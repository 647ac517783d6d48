"""How kernel parameters are annotated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from tilewright.ir.dtypes import DType, int32, int64
from tilewright.language.suggestions import explains_arguments
from tilewright.records import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True)
class ConstantAnnotation:
    """Marks a parameter whose value is embedded in the code: what ``Constant`` is for type checkers.

    >>> Annotated[int, ct.ConstantAnnotation()] == ct.Constant[int]
    True
    """


if TYPE_CHECKING:
    Constant = Annotated[_T, ConstantAnnotation()]
else:

    class Constant:
        """``Constant`` or ``Constant[T]``: the argument's value is embedded in the code.

        Every distinct value compiles the kernel anew. Applies through tuples.

        >>> @ct.kernel
        ... def fill(out, TILE: ct.Constant[int], value: ct.Constant):
        ...     ct.store(out, (ct.bid(0),), ct.full((TILE,), value, ct.float32))
        >>> out = np.zeros(4, np.float32)
        >>> ct.launch(None, (2,), fill, (out, 2, 0.5))
        >>> out
        array([0.5, 0.5, 0.5, 0.5], dtype=float32)
        """

        __metadata__ = (ConstantAnnotation(),)

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[item, ConstantAnnotation()]


__all__ = [
    "ArrayAnnotation", "Constant", "ConstantAnnotation", "IndexedWithInt64", "ListAnnotation", "Scalar",
    "ScalarInt64",
]  # fmt: skip


@explains_arguments
@dataclass(frozen=True)
class ArrayAnnotation:
    """What to specialise an array parameter on.

    ``index_dtype`` is int32 or int64; ``static_shape_dims`` and ``static_stride_dims`` name axes whose extents become
    constants in the kernel (negative axes count from the end). ValueError and TypeError for anything else.

    >>> @ct.kernel
    ... def widths(x: Annotated[Any, ct.ArrayAnnotation(static_shape_dims=(-1,))], out):
    ...     ct.static_assert(x.shape[1] == 8)  # a constant: the kernel is compiled anew for other widths
    ...     ct.store(out, (0,), ct.full((1,), x.shape[1], ct.int32))
    >>> out = np.zeros(1, np.int32)
    >>> ct.launch(None, (1,), widths, (np.zeros((2, 8)), out))
    >>> out
    array([8], dtype=int32)
    """

    index_dtype: DType = int32
    static_shape_dims: tuple[int, ...] = ()
    static_stride_dims: tuple[int, ...] = ()

    def __init__(
        self,
        *,
        index_dtype: DType = int32,
        static_shape_dims: tuple[int, ...] = (),
        static_stride_dims: tuple[int, ...] = (),
    ) -> None:
        if index_dtype not in (int32, int64):
            raise ValueError(f"index_dtype is {index_dtype}; it must be int32 or int64")
        for name, dims in (("static_shape_dims", static_shape_dims), ("static_stride_dims", static_stride_dims)):
            if not isinstance(dims, tuple) or not all(isinstance(d, int) and not isinstance(d, bool) for d in dims):
                raise TypeError(f"{name} must be a tuple of ints, not {dims!r}")
        object.__setattr__(self, "index_dtype", index_dtype)
        object.__setattr__(self, "static_shape_dims", static_shape_dims)
        object.__setattr__(self, "static_stride_dims", static_stride_dims)


@dataclass(frozen=True)
class ScalarAnnotation:
    """The dtype of an integer parameter."""

    dtype: DType


@explains_arguments
@dataclass(frozen=True)
class ListAnnotation:
    """A parameter that is a list of arrays, each described by ``element``.

    ``element`` is an ``ArrayAnnotation`` or an ``Annotated`` type that holds exactly one; TypeError otherwise.

    >>> @ct.kernel
    ... def add_all(xs: Annotated[list, ct.ListAnnotation(element=ct.ArrayAnnotation())], out):
    ...     total = ct.zeros((4,), ct.float64)
    ...     for i in range(len(xs)):
    ...         total += ct.load(xs[i], (0,), (4,))
    ...     ct.store(out, (0,), total)
    >>> out = np.zeros(4)
    >>> ct.launch(None, (1,), add_all, ([np.ones(4), np.arange(4.0)], out))
    >>> out
    array([1., 2., 3., 4.])
    """

    element: Any

    def __init__(self, *, element: Any) -> None:
        found = (
            [element]
            if isinstance(element, ArrayAnnotation)
            else [m for m in getattr(element, "__metadata__", ()) if isinstance(m, ArrayAnnotation)]
        )
        if len(found) != 1:
            raise TypeError(f"element must be an ArrayAnnotation or an Annotated type with one, not {element!r}")
        object.__setattr__(self, "element", found[0])


# An array whose shape and strides are int64, for arrays of more than 2**31 - 1 elements along an axis.
IndexedWithInt64 = Annotated[Any, ArrayAnnotation(index_dtype=int64)]
# An int argument passed as int64.
ScalarInt64 = Annotated[int, ScalarAnnotation(int64)]
# What a scalar argument can be.
Scalar = Union[bool, int, float]
