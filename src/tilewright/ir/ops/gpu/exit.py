"""The end of a CTA before that of its program."""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.opdef import GPU_OPS, Effect, define
from tilewright.ir.types import Type


@define("gpu.exit", effect=Effect.OUTPUT, table=GPU_OPS)
class Exit(Op):
    """The CTA ends: all of its threads come here, and nothing after it runs."""

    def infer(self) -> tuple[Type, ...]:
        return ()
