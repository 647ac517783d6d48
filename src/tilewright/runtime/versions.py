"""Version counters of PyTorch's tensors: a launch increments those of the tensors that it writes.

Autograd compares the version of a tensor that it kept for the backward pass with that of the forward pass, and raises
RuntimeError where something has written to the tensor between the two.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

Path = tuple[int, ...]  # to an argument: its index, then those in the tuples that it is in


def note_writes(args: Sequence[Any], written: Sequence[Path]) -> None:
    """Increment the versions of the tensors among the arguments that ``written`` leads to, lists included."""
    tensors = _tensors(args, written)
    if tensors:
        sys.modules["torch"].autograd.graph.increment_version(tensors)


def noter_of_writes(args: Sequence[Any], written: Sequence[Path]) -> Callable[[Sequence[Any]], None] | None:
    """``note_writes`` for the arguments of launches like that with ``args``, which takes few of them apart again; None
    where they write to no tensors."""
    tensors = _tensors(args, written)
    if not tensors:
        return None
    increment = sys.modules["torch"].autograd.graph.increment_version  # of a tensor, or of all in a list or tuple
    top = [path[0] for path in written if len(path) == 1]
    if len(top) == len(written) and len(tensors) == len(_entries(args, written)):
        if len(top) == 1:
            (index,) = top
            return lambda given: increment(given[index])
        if not any(type(args[index]) is list for index in top):
            chosen = operator.itemgetter(*top)
            return lambda given: increment(chosen(given))
    return lambda given: note_writes(given, written)


def noting_writes(run: Callable[[], None], args: Sequence[Any], written: Sequence[Path]) -> Callable[[], None]:
    """``run``, with ``note_writes`` after it where it writes to tensors."""
    if not _tensors(args, written):
        return run

    def run_and_note() -> None:
        run()
        note_writes(args, written)

    return run_and_note


def _tensors(args: Sequence[Any], written: Sequence[Path]) -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None or not written:
        return []
    return [value for value in _entries(args, written) if isinstance(value, torch.Tensor)]


def _entries(args: Sequence[Any], written: Sequence[Path]) -> list[Any]:
    """What ``written`` leads to, each entry of a list by itself."""
    found: list[Any] = []
    for path in written:
        value: Any = args
        for index in path:
            value = value[index]
        found += value if type(value) is list else (value,)
    return found
