"""Arguments of kernels, as command lines describe them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tilewright.cli.errors import UsageError
from tilewright.frontend.cpp.llvm_module import split_parameters
from tilewright.ir.dtypes import ALL_DTYPES, DType, int64
from tilewright.ir.semantics import evaluate
from tilewright.language.dtypes import to_dtype
from tilewright.system.sizes import parse_size

SPECIFICATIONS = """\
argument specifications:
  f32[1024,1024]     a row-major array; f32[] has rank 0, and f32[16M] 16 times 1024 times 1024 elements
  i32, f64, ...      a number known at run time
  128, 0.5, 4K, true this number; a constant where the kernel says ct.Constant
  ct.float32, ...    this dtype, for a ct.Constant
  (f32[8],128)       a tuple
"""
# tf32 and e5m3fnu arrays have no dtype of their own in host memory.
_DTYPES: dict[str, DType] = {
    name: d for d in ALL_DTYPES if d.short not in ("tf32", "f8e5m3fnu") for name in (d.short, d.name)
}
_ARRAY = re.compile(r"(\w+)\[([\w,]*)\]")


def parse_argument(text: str) -> Any:
    """The argument that a specification stands for. UsageError when it is none."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        return tuple(map(parse_argument, split_parameters(text[1:-1])))
    if text.startswith("ct."):
        found = next((d for d in ALL_DTYPES if d.name == text.removeprefix("ct.")), None)
        if found is None:
            raise UsageError(f"{text!r} is no dtype; write one such as ct.float32")
        return found
    if text in _DTYPES:
        return _DTYPES[text].storage.type(0)
    array = _ARRAY.fullmatch(text)
    if array is not None and array[1] in _DTYPES:
        try:
            shape = [parse_size(n) for n in array[2].split(",") if n]
        except ValueError:
            raise UsageError(f"{text!r} is no argument; write an array such as f32[1024,64] or f32[16M]") from None
        try:
            return np.empty(shape, _DTYPES[array[1]].storage)
        except (MemoryError, ValueError) as e:
            raise UsageError(f"{text}: {e}") from None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for convert in (int, float, parse_size):
        try:
            return convert(text)
        except ValueError:
            continue
    raise UsageError(f"{text!r} is no argument; write an array such as f32[1024,64], a dtype such as i32, or a number")


def filled(argument: Any) -> Any:
    """Arrays with numbers that tell elements apart."""
    if isinstance(argument, tuple):
        return tuple(map(filled, argument))
    dtype = to_dtype(argument.dtype) if isinstance(argument, np.ndarray) else None
    if dtype is not None:
        numbers = np.arange(argument.size, dtype=np.int64)
        argument.reshape(-1)[:] = evaluate("cast", int64, {"dtype": dtype}, [numbers])
    return argument


def parse_index(text: str, option: str, default: int) -> tuple[int, int, int]:
    """Up to three numbers with commas between them, and ``default`` for the others. UsageError for anything else."""
    parts = text.split(",")
    try:
        if len(parts) > 3 or "." in text:
            raise ValueError
        x, y, z = (*map(parse_size, parts), default, default)[:3]
    except ValueError:
        raise UsageError(f"--{option} {text}: write up to three numbers, such as 3,0,0 or 4K") from None
    return x, y, z
