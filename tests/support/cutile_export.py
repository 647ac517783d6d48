"""Writes the CUDA Tile IR of ``cutile_kernels`` by cuTile Python, where ``cuda.tile`` is installed:

python -m support.cutile_export tests/tileir/data/cutile [13.3 13.4]
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
from support.cutile_kernels import cases

import tilewright as ct

_VERSIONS = ("13.3", "13.4")
_ROOT = Path(__file__).parents[2]


def _in_cutile(function: types.FunctionType, made: dict[int, dict[str, Any]], nv: Any) -> types.FunctionType:
    """The function with ``ct`` being cuTile Python, there and in the functions that it calls."""
    known = made.get(id(function.__globals__))
    if known is None:
        known = made[id(function.__globals__)] = dict(function.__globals__)
        for name, value in function.__globals__.items():
            if value is ct:
                known[name] = nv
            elif isinstance(value, types.FunctionType) and value.__globals__ is function.__globals__:
                known[name] = _in_cutile(value, made, nv)
    found = types.FunctionType(function.__code__, known, function.__name__, function.__defaults__)
    found.__qualname__, found.__module__ = function.__qualname__, function.__module__
    return found


def _constraint(value: Any, constant: bool, nv: Any, compilation: Any) -> Any:
    if constant:
        return compilation.ConstantConstraint(value)
    if isinstance(value, (int, float)):
        return compilation.ScalarConstraint(nv.int32 if isinstance(value, int) else nv.float32)
    assert isinstance(value, np.ndarray)
    return compilation.ArrayConstraint(
        getattr(nv, str(value.dtype)),
        value.ndim,
        index_dtype=nv.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[*[None] * (value.ndim - 1), 1],
    )


def _without_paths(data: bytes, packages: Path) -> bytes:
    """The file without the folders of this machine: the paths in it keep their lengths."""
    for folder, name in ((_ROOT, b"/repository"), (packages, b"/packages")):
        path = str(folder).encode()
        data = data.replace(path, name.rjust(len(path), b"/")[: len(path)])
    return data


def main() -> None:
    folder, versions = Path(sys.argv[1]), sys.argv[2:] or _VERSIONS
    nv, compilation = importlib.import_module("cuda.tile"), importlib.import_module("cuda.tile.compilation")
    convention = compilation.CallingConvention.cutile_python_v1()
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[int, dict[str, Any]] = {}
    for number, case in enumerate(cases()):
        version = versions[number % len(versions)]
        constants = [rule.constant for _, rule in case.kernel.parameters]
        constraints = [_constraint(v, c, nv, compilation) for v, c in zip(case.arguments(), constants)]
        signature = compilation.KernelSignature(constraints, convention, case.name)
        kernel = nv.kernel(_in_cutile(case.kernel.function, made, nv))
        target = "sm_100" if version < "13.3" else None
        path = folder / f"{case.name}_{version}.tilebc"
        compilation.export_kernel(
            kernel, [signature], str(path), gpu_code=target, output_format="tileir_bytecode", bytecode_version=version
        )
        path.write_bytes(_without_paths(path.read_bytes(), Path(nv.__file__).parents[2]))


if __name__ == "__main__":
    main()
