"""What a launch makes sure of a kernel's parameters is said to be so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import SHORT_ROWS
from tilewright.ir.ops.memory import AssumeBounded
from tilewright.transforms.base import InPlacePass


@dataclass(frozen=True)
class BoundParameters(InPlacePass):
    """Says that each of these ``parameters`` is at most ``most``."""

    most: int
    parameters: tuple[int, ...]
    name: ClassVar[str] = "bound-parameters"

    def change(self, function: Function) -> bool:
        b = Builder.before(function.body.ops[0])
        for i in self.parameters:
            arg = function.body.args[i]
            users = list(arg.users)
            known = b.emit(AssumeBounded, arg, upper=self.most)
            for user in users:
                for k, v in enumerate(user.operands):
                    if v is arg:
                        user.set_operand(k, known)
        function.hints[SHORT_ROWS] = self.most
        return True
