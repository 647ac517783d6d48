"""Lines of the source in LLVM IR: what profilers and debuggers show beside machine code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tilewright.ir.core import Function, Op

I32 = ir.IntType(32)


class SourceLines:
    """Debug info of a function that has nothing but the lines of the source."""

    def __init__(self, module: ir.Module, kernel: ir.Function, function: Function, emission: str) -> None:
        self._module = module
        self._file = module.add_debug_info("DIFile", {"filename": function.loc.file, "directory": ""})
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_Python"),
                "file": self._file,
                "producer": "tilewright",
                "isOptimized": True,
                "runtimeVersion": 0,
                "emissionKind": ir.DIToken(emission),
            },
            is_distinct=True,
        )
        kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([])})
        self._scope = module.add_debug_info(
            "DISubprogram",
            {
                "name": function.name,
                "file": self._file,
                "line": function.loc.line,
                "type": kind,
                "isDefinition": True,
                "unit": unit,
                "scopeLine": function.loc.line,
            },
            is_distinct=True,
        )
        kernel.set_metadata("dbg", self._scope)
        module.add_named_metadata("llvm.dbg.cu", unit)
        if "llvm.module.flags" not in module.namedmetadata:
            flag = [ir.Constant(I32, 2), "Debug Info Version", ir.Constant(I32, 3)]
            module.add_named_metadata("llvm.module.flags", module.add_metadata(flag))
        self._function = function
        self._locations: dict[int, ir.DIValue] = {}  # by line
        self._found: dict[int, ir.DIValue] = {}  # by the identity of locations of ``function``

    def locate(self, builder: ir.IRBuilder, op: Op | None) -> None:
        """Instructions from here on are of the line of ``op``: for inlined code, of the call in the kernel's file."""
        loc = self._function.loc if op is None else op.loc
        found = self._found.get(id(loc))
        if found is None:
            line = next((at.line for at in loc.chain() if at.file == self._function.loc.file), self._function.loc.line)
            if line not in self._locations:
                where = {"line": line, "column": 1, "scope": self._scope}
                self._locations[line] = self._module.add_debug_info("DILocation", where)
            found = self._found[id(loc)] = self._locations[line]
        builder.debug_metadata = found

    @contextmanager
    def of(self, op: Op, builders: Sequence[ir.IRBuilder]) -> Iterator[None]:
        """In this context, what ``builders`` emit is of the line of ``op``."""
        before = [builder.debug_metadata for builder in builders]
        for builder in builders:
            self.locate(builder, op)
        yield
        for builder, metadata in zip(builders, before):
            builder.debug_metadata = metadata
