"""What the language leaves to the compiler: warps, depth of pipelines, registers."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Options:
    """``num_stages`` is how many iterations of a loop have their loads in flight; ``hinted`` says that the hint
    ``occupancy`` asks for the limit ``maxnreg``; without ``newest_mma`` there are neither MMA ops in tensor memory nor
    of warp groups."""

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    hinted: bool = False
    newest_mma: bool = True  # where there are any

    def unlimited(self) -> Options:
        """These options with as many registers as there are."""
        return replace(self, maxnreg=None, hinted=False)

    def checked(self) -> Options:
        """ValueError for what no GPU has."""
        if self.num_warps not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"num_warps is {self.num_warps}; it must be 1, 2, 4, 8, 16 or 32")
        if not 1 <= self.num_stages <= 8:
            raise ValueError(f"num_stages is {self.num_stages}; it must be from 1 to 8")
        if self.maxnreg is not None and not 24 <= self.maxnreg <= 255:
            raise ValueError(f"maxnreg is {self.maxnreg}; it must be from 24 to 255")
        return self
