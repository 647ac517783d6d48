"""Version counters of PyTorch's tensors: a launch increments those of the tensors that it writes.

Autograd compares the version of a tensor that it kept for the backward pass with that of the forward pass, and raises
RuntimeError where something has written to the tensor between the two.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

Path = tuple[int, ...]  # to an argument: its index, then those in the tuples that it is in


@functools.cache
def incrementer() -> Callable[[Sequence[Any]], object]:
    """What increments the versions of tensors: the function of C in ``torch.autograd.graph.increment_version``, where
    it is found, as what Python does around it takes longer."""
    torch = sys.modules["torch"]
    found = getattr(torch._C, "_increment_version", torch.autograd.graph.increment_version)
    return cast("Callable[[Sequence[Any]], object]", found)


def note_writes(args: Sequence[Any], written: Sequence[Path]) -> None:
    """Increment the versions of the tensors among the arguments that ``written`` leads to, lists included."""
    tensors = _tensors(args, written)
    if tensors:
        incrementer()(tensors)


def noting_writes(run: Callable[[], None], args: Sequence[Any], written: Sequence[Path]) -> Callable[[], None]:
    """``run``, with ``note_writes`` after it where it writes to tensors, as what takes attributes."""
    tensors = _tensors(args, written)
    if not tensors:
        return functools.partial(run)
    increment = incrementer()

    def run_and_note() -> None:
        run()
        increment(tensors)

    return run_and_note


def _tensors(args: Sequence[Any], written: Sequence[Path]) -> list[Any]:
    """The tensors among what ``written`` leads to, each entry of a list by itself."""
    torch = sys.modules.get("torch")
    found: list[Any] = []
    for path in written if torch is not None else ():
        value: Any = args
        for index in path:
            value = value[index]
        found += value if type(value) is list else (value,)
    return [value for value in found if torch is not None and isinstance(value, torch.Tensor)]
