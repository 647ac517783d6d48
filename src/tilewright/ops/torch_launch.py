"""The operator of PyTorch that launches any kernel. Importing this module imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tilewright.ir.dtypes import ALL_DTYPES
from tilewright.language.dtypes import to_dtype
from tilewright.ops import torch_floats
from tilewright.ops.traced_launch import KERNELS, OPERATORS
from tilewright.runtime.launch import launch

_SCHEMA = (
    "launch(int kernel, SymInt[] grid, str layout, Tensor(a!)[] written, Tensor[] read, SymInt[] integers, "
    "float[] floats, Tensor[] held, str[] dtypes, str backend) -> ()"
)
_DTYPES = {d.name: d for d in ALL_DTYPES}
_LIBRARIES: list[torch.library.Library] = []  # which live as long as the process


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of NumPy for one of PyTorch, such as ``"torch.float32"``. TypeError where kernels have none."""
    found = to_dtype(getattr(torch, name.removeprefix("torch.")))
    if found is None:
        raise TypeError(f"kernels take no arrays of the dtype {name}")
    return np.dtype(found.storage)


def register() -> None:
    """Register the operator ``tilewright::launch``, once."""
    if _LIBRARIES:
        return
    library = torch.library.Library("tilewright", "FRAGMENT")
    library.define(_SCHEMA, tags=torch_floats.TAGS)
    library.impl("launch", lambda *args: _launch(None, *args), "CPU")
    library.impl("launch", lambda *args: _launch(torch.cuda.current_stream(_device(args)), *args), "CUDA")
    torch.library.register_fake("tilewright::launch", lambda *args: None, lib=library)
    _LIBRARIES.append(library)
    OPERATORS.update(
        launch=torch.ops.tilewright.launch.default, varies=torch_floats.varies, hold=torch_floats.in_tensor
    )


def _device(args: tuple[Any, ...]) -> Any:
    written, read = args[3:5]
    return (written or read)[0].device


def _launch(
    stream: Any,
    kernel: int,
    grid: list[int],
    layout: str,
    written: list[torch.Tensor],
    read: list[torch.Tensor],
    integers: list[int],
    floats: list[float],
    held: list[torch.Tensor],
    dtypes: list[str],
    backend: str,
) -> None:
    """The launch of which ``layout`` has a letter for each argument, telling the list that it is the next of.

    ``held`` are floats in tensors, see ``torch_floats``.
    """
    left: dict[str, Any] = {"w": iter(written), "r": iter(read), "f": iter(floats), "h": map(float, held)}
    left["d"] = (_DTYPES[d] for d in dtypes)
    numbers = iter(integers)
    args = tuple(
        bool(next(numbers)) if kind == "b" else next(numbers) if kind == "i" else next(left[kind]) for kind in layout
    )
    found = KERNELS.get(kernel)
    if found is None:
        raise RuntimeError(
            "this program launches a kernel of the process that traced it, by ct.launch; declare an operator with "
            "ct.op, which other processes know by its name"
        )
    launch(stream, tuple(grid), found, args, backend=backend or None)
