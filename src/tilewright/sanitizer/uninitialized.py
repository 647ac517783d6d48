"""Elements of ``np.empty`` and ``torch.empty`` that nobody wrote.

While a session is on, new memory from these functions is filled with a pattern of 64-bit words. Whatever the host or a
kernel writes removes it, so that words which still hold it when a launch begins were never written; that a program
writes this number by itself is as likely as guessing a 64-bit key. Nothing else has to be followed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.system.imports import once_imported

Array = np.ndarray[Any, Any]
_WORD = 8
_PATTERN = np.uint64(0xB5C69A7E4D83F12B)
_BYTES = np.array([_PATTERN]).view(np.uint8)
_NAMES = ("empty", "empty_like")
_OF_TORCH = (*_NAMES, "empty_strided")


class _Marking:
    """Whether memory is being marked, and whether any was."""

    sessions = 0
    paused = 0
    used = False


@contextmanager
def marked_memory() -> Iterator[None]:
    """A context in which the functions that give uninitialized memory mark it."""
    _Marking.sessions += 1
    try:
        with ExitStack() as undo:

            def patch(owner: Any, names: Sequence[str], mark: Callable[[Any], None]) -> None:
                for name in names:
                    original = getattr(owner, name)
                    undo.callback(setattr, owner, name, original)
                    setattr(owner, name, _marking(original, mark))

            def patch_torch(torch: Any) -> None:
                patch(torch, _OF_TORCH, _mark_tensor)
                patch(torch.Tensor, ("new_empty",), _mark_tensor)

            if _Marking.sessions == 1:
                patch(np, _NAMES, _mark)
                undo.enter_context(once_imported("torch", patch_torch))
            yield
    finally:
        _Marking.sessions -= 1


@contextmanager
def unmarked_memory() -> Iterator[None]:
    """A context, that of a launch, in which memory is for the sanitizer's own use."""
    _Marking.paused += 1
    try:
        yield
    finally:
        _Marking.paused -= 1


def _marking(original: Callable[..., Any], mark: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        memory = original(*args, **kwargs)
        if not _Marking.paused:
            mark(memory)
        return memory

    return make


def _mark(array: Any) -> None:
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufV" and not array.dtype.hasobject:
        flat = array.reshape(-1, order="A").view(np.uint8)
        if flat.size and np.shares_memory(flat, array):
            whole = flat.size // _WORD * _WORD
            flat[:whole].reshape(-1, _WORD)[:] = _BYTES
            _Marking.used = True


def _mark_tensor(tensor: Any) -> None:
    if tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.numel():
        bytes_ = tensor.detach().view(-1).view(sys.modules["torch"].uint8)
        whole = bytes_.numel() // _WORD * _WORD
        try:
            memory = bytes_[:whole].numpy()
        except RuntimeError:  # what traced and transformed programs have instead of tensors has no memory
            return
        memory.reshape(-1, _WORD)[:] = _BYTES
        _Marking.used = True


def uninitialized_elements(buffer: Buffer, memory: Array) -> Array | None:
    """One flag per element of a buffer with the bytes ``memory``, or None when all were written."""
    first = -buffer.low % _WORD
    count = (memory.size - first) // _WORD
    if not _Marking.used or count <= 0:
        return None
    marked = memory[first : first + count * _WORD].view(np.uint64) == _PATTERN
    if not marked.any():
        return None
    flags = np.zeros(memory.size, bool)
    flags[first : first + count * _WORD] = np.repeat(marked, _WORD)
    size = buffer.dtype.bytes
    return np.asarray(flags[: memory.size // size * size].reshape(-1, size).all(axis=1))
