"""Mistakes of the person at the terminal."""

from __future__ import annotations


class UsageError(Exception):
    """What was typed cannot be done; the message says why and what to type instead."""
