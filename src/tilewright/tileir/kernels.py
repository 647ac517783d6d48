"""Kernels of CUDA Tile IR files, which are launched like those written in Python."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.frontend.signature import PointerSpec, Signature
from tilewright.ir.core import Function
from tilewright.ir.types import TileType
from tilewright.runtime.alignment import with_alignment
from tilewright.runtime.arrays import ArgumentKey, RuntimeValues
from tilewright.runtime.launch_plan import LaunchPlan
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule
from tilewright.tileir import module as form
from tilewright.tileir.bytecode import MAGIC, read
from tilewright.tileir.errors import BytecodeError, TileIRError
from tilewright.tileir.fatbinary import bytecode_images, is_fat_binary
from tilewright.tileir.importer import Memory, import_entry
from tilewright.tileir.text import parse_module, print_module


def load(source: str | bytes | os.PathLike[str]) -> Module:
    """The module in the file ``source``, or in these bytes: bytecode of version 13.1 to 13.5 (``.tilebc``,
    ``.tileirbc``), text as ``tileirdisasm`` prints it (``.mlir``), or an object or a fat binary of nvcc with bytecode.

    Its kernels are launched as any other: ``load("kernels.tilebc").kernel("add")``.

    FileNotFoundError when there is no such file; TileError, with the byte or the line, for one that is damaged.
    """
    if isinstance(source, bytes):
        return Module(source, "<bytes>")
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return Module(path.read_bytes(), str(path))


def flattened(*arguments: Any) -> tuple[Any, ...]:
    """Arguments as the entries of cuTile Python take them: an array becomes itself, its extents, and its strides in
    elements; a list or tuple of arguments its entries; a number stays."""
    found: list[Any] = []
    for argument in arguments:
        if isinstance(argument, (tuple, list)):
            found += flattened(*argument)
        elif hasattr(argument, "shape") and argument.ndim:
            found += [argument, *map(int, argument.shape), *_strides(argument)]
        else:
            found.append(argument)
    return tuple(found)


def _strides(array: Any) -> list[int]:
    """Strides in elements."""
    if callable(getattr(array, "stride", None)):  # a tensor of PyTorch
        return list(map(int, array.stride()))
    return [int(s) // array.dtype.itemsize for s in array.strides]


def modules_of(data: bytes, file: str) -> list[form.Module]:
    """The modules in the contents of a file: one, or those of a fat binary. TileIRError for what is none."""
    if is_fat_binary(data):
        images = bytecode_images(data, file)
        if not images:
            raise TileIRError(f"{file} holds no CUDA Tile IR: nvcc writes it with --enable-tile")
        return [read(image, file) for image in images]
    if data.startswith(MAGIC[:1]):
        return [read(data, file)]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    if not text.strip():
        raise BytecodeError(0, "the magic of Tile IR bytecode, a fat binary, or text", file)
    return [parse_module(text, file)]


class Module:
    """Kernels of a file: made by ``tilewright.tileir.load``. ``kernels`` names them, in order."""

    def __init__(self, data: bytes, file: str) -> None:
        self._data, self._file = data, file
        self._entries: dict[str, tuple[form.Module, form.Entry]] = {}
        for module in modules_of(data, file):
            names = [entry.name for entry in module.entries]
            if len(set(names)) < len(names):
                again = next(name for i, name in enumerate(names) if name in names[:i])
                raise TileIRError(f"{file} has several kernels of one name in a module: {again}")
            for entry in module.entries:
                self._entries.setdefault(entry.name, (module, entry))
        self._globals: dict[tuple[int, str], np.ndarray[Any, Any]] = {}
        self._found: dict[str, Kernel] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(self._entries)

    @property
    def modules(self) -> list[form.Module]:
        """The modules of the file, as Tile IR."""
        return list({id(module): module for module, _ in self._entries.values()}.values())

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel called ``name``, or the only one. KeyError, naming all, when there is none; TileError where
        our IR lacks what it does."""
        if name is None and len(self._entries) == 1:
            (name,) = self._entries
        if name not in self._entries:
            which = "one kernel that is meant without a name" if name is None else f"kernel {name}"
            raise KeyError(f"{self._file} has no {which}; it has: {', '.join(self._entries) or 'none'}")
        assert name is not None
        if name not in self._found:
            module, entry = self._entries[name]
            self._found[name] = Kernel(self, module, entry)
        return self._found[name]

    def text(self, kernel: str | None = None) -> str:
        """The text form, as ``tileirdisasm`` prints it, of all kernels or of one. KeyError when there is none."""
        if kernel is None:
            return "".join(map(print_module, self.modules))
        module, entry = self._entries[kernel]
        return print_module(replace(module, entries=[entry]))

    def memory(self, module: form.Module, wanted: Memory) -> np.ndarray[Any, Any]:
        """What a kernel takes from its module: a global, the same for every launch, or fresh memory for one launch."""
        dtype = wanted.type.pointee.storage
        if not wanted.shared:
            return np.empty(wanted.count, dtype)
        key = id(module), wanted.name
        if key not in self._globals:
            data = np.frombuffer(wanted.data or b"", dtype).copy()
            data.flags.writeable = any(g.name == wanted.name and not g.constant for g in module.globals)
            self._globals[key] = data
        return self._globals[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return _module, (self._data, self._file)

    def __repr__(self) -> str:
        return f"<CUDA Tile IR module {self._file}: {', '.join(self._entries) or 'no kernels'}>"


class Kernel(Launchable):
    """A kernel in CUDA Tile IR, to be launched by ``ct.launch``.

    Pointers take arrays, of which the kernel gets the address of the first element, or None; numbers take Python and
    NumPy numbers. Integers have no sign in Tile IR, so pointers to them take arrays of signed and unsigned ones.
    """

    def __init__(self, owner: Module, module: form.Module, entry: form.Entry) -> None:
        super().__init__()
        self.owner, self.entry = owner, entry
        self._module = module
        self.name = self.__name__ = entry.name
        imported = import_entry(module, entry)
        self.function, self._memory = imported.function, imported.memory
        self.hints = self.function.hints
        self.own_parameters: int = len(entry.body.args)  # without the memory that it takes from its module
        self._parameters = [  # those of the entry, then the memory that it takes from its module
            (ArgumentRef(self.name, param.argument), Rule(declared=value.tile.dtype, signless=True))
            for param, value in zip(self.function.params, self.function.body.args)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.owner, self.name, self.options)

    def trace(self, signature: Signature) -> Function:
        """The IR, with the alignment of the arrays stated."""
        return self._imported(signature, checked=False)

    def trace_checked(self, signature: Signature) -> Function:
        """The IR that also states what Tile IR leaves undefined."""
        return self._imported(signature, checked=True)

    def _imported(self, signature: Signature, *, checked: bool) -> Function:
        types = [_type(value.tile, spec) for value, spec in zip(self.function.body.args, signature.arguments)]
        return with_alignment(import_entry(self._module, self.entry, types, checked=checked).function, signature)

    def _complete(self, args: Any) -> Any:
        """The arguments of a launch, and the memory that the kernel takes from its module."""
        if type(args) is not tuple or len(args) != self.own_parameters:
            if type(args) is tuple and len(flattened(*args)) == self.own_parameters:
                raise TypeError(
                    f"{self.name}() takes an array as a pointer, its extents and its strides, "
                    "as cuTile Python writes them: launch it with tilewright.tileir.flattened(*arguments)"
                )
            if self._memory and type(args) is tuple:
                raise TypeError(f"{self.name}() takes {self.own_parameters} arguments, of which {len(args)} are given")
            return args
        if not self._memory:
            return args
        devices = {getattr(getattr(a, "device", None), "type", "") for a in args}
        if "cuda" in devices or any(hasattr(a, "__cuda_array_interface__") for a in args):
            raise TileIRError(
                f"{self.name} uses memory of its module ({self._memory[0].name}), which is in host memory: "
                "run it on arrays in host memory"
            )
        return *args, *(self.owner.memory(self._module, m) for m in self._memory)

    def plan_for(self, args: Any, backend: str | None, runtime: RuntimeValues) -> LaunchPlan:
        return super().plan_for(self._complete(args), backend, runtime)

    def record(self, plan: LaunchPlan, args: Any, backend: str | None, runtime: RuntimeValues) -> None:
        if not self._memory:  # for which machine code would look among the arguments of the launch
            super().record(plan, args, backend, runtime)

    def _argument_keys(self, args: Any, runtime: RuntimeValues) -> list[ArgumentKey]:
        complete = type(args) is tuple and len(args) == len(self._parameters)
        return super()._argument_keys(args if complete else self._complete(args), runtime)

    def __repr__(self) -> str:
        types = ", ".join(str(value.type) for value in self.entry.body.args)
        return f"<CUDA Tile IR kernel {self.name}({types})>"


def _type(declared: TileType, spec: Any) -> TileType:
    """The type of a parameter for an argument: that of the array, whose integers may be unsigned."""
    if isinstance(spec, PointerSpec) and spec.dtype is not None and declared.is_pointer:
        return TileType(type(declared.dtype)(spec.dtype))  # type: ignore[call-arg]
    return declared


@functools.lru_cache(maxsize=64)
def _module(data: bytes, file: str) -> Module:
    """The module of what was pickled: of kernels of one module, the same."""
    return Module(data, file)


def _restored(owner: Module, name: str, options: dict[str, dict[str, Any]]) -> Kernel:
    return owner.kernel(name).with_options(options)
