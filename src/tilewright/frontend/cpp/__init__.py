"""Tile C++: a real compiler turns the source and our headers into LLVM IR, and this package turns that into Tile IR.

The way of a kernel: ``source`` rewrites hints and blanks SIMT code; ``toolchain`` runs Clang over it with the headers
in ``include``, where a tile is an opaque handle and each operation a call of an intrinsic with constant arguments;
``optimize`` inlines everything and keeps loops as written; ``llvm_text`` reads the result; ``structure`` turns its
control flow into ``for``, ``loop`` and ``if``, while ``intrinsics`` and ``scalars`` give each instruction its op.
``module`` is the interface.
"""
