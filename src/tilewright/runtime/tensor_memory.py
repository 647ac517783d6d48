"""The dispatch keys of PyTorch's tensors, read from memory: they tell whether a tensor is negated, and whether it was
made in inference mode, for which each launch would call PyTorch twice for each tensor."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from typing import Any

from tilewright.records import NamedTuple

_WORDS = 24  # of a TensorImpl, which has that many in all versions that have the exchange API of DLPack


class DispatchKeys(NamedTuple):
    """Where an object has the address of its tensor and that has its keys, in bytes; which bit the keys of negated
    tensors have, and which those lack that were made in inference mode."""

    tensor: int
    keys: int
    negated: int
    inference: int

    def of(self, tensor: Any) -> int:
        """The keys of ``tensor``."""
        return _words(_words(id(tensor) + self.tensor, 1)[0] + self.keys, 1)[0]


@functools.cache
def dispatch_keys() -> DispatchKeys | None:
    """As tensors of several kinds show them, and all in the same place; None where that is not so."""
    torch = sys.modules["torch"]
    try:
        with torch.inference_mode(False):
            plain = torch.zeros(2, device="cpu")
            samples = [plain, torch._neg_view(plain), torch.zeros(2, dtype=torch.complex64, device="cpu").conj()]
        with torch.inference_mode():
            samples.append(torch.zeros(2, device="cpu"))
        keys = [torch._C._dispatch_keys(tensor).raw_repr() for tensor in samples]
        size = torch.Tensor.__basicsize__ // 8
        tensor = _place([_words(id(t), size) for t in samples], [t._cdata for t in samples])
        place = _place([_words(t._cdata, _WORDS) for t in samples], keys)
    except (AttributeError, RuntimeError, TypeError):
        return None
    negated, inference = keys[0] ^ keys[1], keys[0] & ~keys[3]
    known = type(plain) is torch.Tensor and negated.bit_count() == 1 and inference and not keys[0] & negated
    return DispatchKeys(8 * tensor, 8 * place, negated, inference) if known and tensor and place else None


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _place(memories: Sequence[Sequence[int]], wanted: Sequence[int]) -> int:
    """The only place at which each of the memories has what is wanted; 0 where there is none, or are several."""
    columns = [i for i, column in enumerate(zip(*memories)) if list(column) == wanted]
    return columns[0] if len(columns) == 1 else 0
