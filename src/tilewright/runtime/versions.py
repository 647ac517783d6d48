"""Version counters of PyTorch's tensors: a launch increments those of the tensors that it writes.

Autograd compares the version of a tensor that it kept for the backward pass with that of the forward pass, and raises
RuntimeError where something has written to the tensor between the two.
"""

from __future__ import annotations

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
    if not _tensors(args, written):
        return None
    if any(len(path) > 1 or type(args[path[0]]) is list for path in written):
        return lambda given: note_writes(given, written)
    torch = sys.modules["torch"]
    increment = torch.autograd.graph.increment_version  # soonest for one tensor
    changed = [index for (index,) in written if isinstance(args[index], torch.Tensor)]

    def note(given: Sequence[Any]) -> None:
        for index in changed:
            increment(given[index])

    return note


def noting_writes(run: Callable[[], None], args: Sequence[Any], written: Sequence[Path]) -> Callable[[], None]:
    """``run``, with ``note_writes`` after it where it writes to tensors."""
    tensors = _tensors(args, written)
    if not tensors:
        return run
    increment = sys.modules["torch"].autograd.graph.increment_version

    def run_and_note() -> None:
        run()
        for tensor in tensors:
            increment(tensor)

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
