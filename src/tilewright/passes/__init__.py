"""Passes over Tile IR: each takes a function and returns an equivalent one."""
