"""Runs functions of tiles on whole arrays, as users do: in a kernel, launched on a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.irbuild import KernelBuilder, run

import tilewright as ct
from tilewright.backends.registry import get_backend
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType

BACKENDS = ("reference", "cpu")
_TILE = 1 << 14

Formula = Callable[..., Any]  # of tiles, giving a tile


def _kernel(formulas: tuple[Formula, ...]) -> Any:
    @ct.kernel
    def elementwise(inputs, outputs, TILE: ct.Constant[int]):
        i = ct.bid(0)
        tiles = tuple(ct.load(x, (i,), (TILE,)) for x in ct.static_iter(inputs))
        for k in ct.static_iter(range(len(outputs))):
            ct.store(outputs[k], (i,), formulas[k](*tiles))

    return elementwise


def apply(backend: str, formulas: Sequence[Formula], inputs: Sequence[np.ndarray], dtypes: Sequence[Any]) -> list[Any]:
    """The results of ``formulas`` on flat ``inputs`` of one length, as arrays of the NumPy ``dtypes``."""
    size = inputs[0].size
    outputs = tuple(np.zeros(size, dtype) for dtype in dtypes)
    tile = min(_TILE, 1 << (size - 1).bit_length())
    with ct.use_backend(backend):
        ct.launch(None, (ct.cdiv(size, tile),), _kernel(tuple(formulas)), (tuple(inputs), outputs, tile))
    return list(outputs)


def ir_apply(backend: str, op: type[Op], inputs: Sequence[np.ndarray], dtype: DType, **attributes: Any) -> Any:
    """The elementwise ``op`` on flat ``inputs`` of one length and ``dtype``: what the Python language has no name for."""
    size = inputs[0].size
    tile = min(_TILE, 1 << (size - 1).bit_length())
    k = KernelBuilder()
    sources = [k.array(f"x{i}", dtype, 1) for i in range(len(inputs))]
    out = k.array("out", dtype, 1)
    operands = [k.load_tile(s, (tile,), [k.bid(0)]) for s in sources]
    k.store_tile(out, k.emit(op, *operands, **attributes), [k.bid(0)])
    result = np.zeros(size, dtype.storage)
    run(
        get_backend(backend),
        k.function(),
        (-(-size // tile),),
        out=result,
        **{f"x{i}": x for i, x in enumerate(inputs)},
    )
    return result
