"""Analyses of Tile IR. None of them changes what it analyses."""
