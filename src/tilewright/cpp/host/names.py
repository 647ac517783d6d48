"""How the functions, tables and metadata of a split SIMT kernel are called."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.cpp.host.fission import Split, names_in
from tilewright.cpp.host.strides import COUNTS

# No iteration is peeled off, as that of a lane which a condition leaves out: what is left is no multiple of a vector.
_WHOLE = '!{!"llvm.loop.peeled.count", i32 7}'  # as many as LLVM ever does


@dataclass(frozen=True)
class Names:
    """How the functions, tables and metadata of the kernel ``symbol`` are called; ``first`` is the first number of
    metadata that is free."""

    symbol: str
    block: str
    first: int

    def region(self, k: int) -> str:
        return f'"tw.region{k}.{self.symbol}"'

    def asked(self, k: int) -> str:
        return f'"tw.asked{k}.{self.symbol}"'

    def some(self, k: int) -> str:
        return f'"tw.some{k}.{self.symbol}"'

    def dense(self, k: int) -> str:
        return f'"tw.dense{k}.{self.symbol}"'

    def even(self, k: int) -> str:
        return f'"tw.even{k}.{self.symbol}"'

    def permuted(self, k: int) -> str:
        return f'"tw.permuted{k}.{self.symbol}"'

    def run(self, k: int) -> str:
        return f'"tw.run{k}.{self.symbol}"'

    @property
    def together(self) -> str:
        return f'"tw.together.{self.symbol}"'

    def table(self, name: str) -> str:
        return f'"tw.{name}.{self.symbol}"'

    def loop(self, k: int) -> str:
        return f"!{self.first + 2 * k + 1}"

    def group(self, k: int) -> str:
        return f"!{self.first + 2 * k + 2}"

    @property
    def whole(self) -> str:
        """What says of a loop that it is to be unrolled."""
        return f"!{self.first}"

    def metadata(self, kernel: Split) -> list[str]:
        """The lines that say so. Loops over the threads of a block, but those that stride, do one vector at a time:
        several loads behind each other, and then several stores, keep processors from loading ahead."""
        lines = [f'{self.whole} = distinct !{{{self.whole}, !{{!"llvm.loop.unroll.full"}}}}']
        for k, region in enumerate(kernel.regions):
            strides = any(name.startswith(COUNTS) for name in names_in(region))
            once = "" if kernel.by_warps or strides else ', !{!"llvm.loop.interleave.count", i32 1}'
            access = f'!{{!"llvm.loop.parallel_accesses", {self.group(k)}}}'
            lines += [f"{self.loop(k)} = distinct !{{{self.loop(k)}, {access}, {_WHOLE}{once}}}"]
            lines += [f"{self.group(k)} = distinct !{{}}"]
        return lines
