"""Backends: each turns an ``ir.Function`` into something that runs blocks."""
