"""Kernels without their source, for processes that cannot import it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.frontend.signature import Signature
from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule


class TracedKernel(Launchable):
    """What a kernel is for arguments that ``signature`` describes: its IR as text. It can be pickled."""

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[ArgumentRef, Rule]],
        signature: Signature,
        text: str,
        hints: Mapping[str, Any],
        options: dict[str, dict[str, Any]],
    ) -> None:
        super().__init__()
        self.name, self.hints, self.options = name, hints, options
        self._parameters, self._described, self._text = list(parameters), signature, text

    @classmethod
    def of(cls, kernel: Launchable, args: tuple[Any, ...]) -> TracedKernel:
        """``kernel`` for ``args``. TileError where it is wrong."""
        signature, _ = kernel.described(args, None)
        text = print_function(kernel.trace(signature), locations=True)
        return cls(kernel.name, kernel.parameters, signature, text, dict(kernel.hints), kernel.options)

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.name, self._parameters, self._described, self._text, dict(self.hints), self.options
        return TracedKernel, state

    def trace(self, signature: Signature) -> Function:
        """The IR. ValueError for other arguments than those that it was traced for."""
        if signature != self._described:
            raise ValueError(f"{self.name}() was traced for {self._described}, not for {signature}")
        return parse_function(self._text)
