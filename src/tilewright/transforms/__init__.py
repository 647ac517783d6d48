"""Passes over Tile IR: rewritings of functions."""
