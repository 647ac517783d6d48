"""From a Tile IR function to an LLVM module."""
