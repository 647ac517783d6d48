"""TTIR, the input of the Triton compiler, from Tile IR."""
