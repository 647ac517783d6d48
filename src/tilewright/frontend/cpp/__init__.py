"""Tile C++: a real compiler turns the source and our headers into LLVM IR, and this package turns that into Tile IR."""
