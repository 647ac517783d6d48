"""What the language leaves to the compiler: warps, depth of pipelines, registers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """``num_stages`` is how many iterations of a loop have their loads in flight, ``maxnreg`` a limit of registers;
    with ``tensor_memory`` MMA ops have their accumulators there, where there is any."""

    num_warps: int = 4
    num_stages: int = 3
    maxnreg: int | None = None
    tensor_memory: bool = True

    def checked(self) -> Options:
        """ValueError for what no GPU has."""
        if self.num_warps not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"num_warps is {self.num_warps}; it must be 1, 2, 4, 8, 16 or 32")
        if not 1 <= self.num_stages <= 8:
            raise ValueError(f"num_stages is {self.num_stages}; it must be from 1 to 8")
        if self.maxnreg is not None and not 24 <= self.maxnreg <= 255:
            raise ValueError(f"maxnreg is {self.maxnreg}; it must be from 24 to 255")
        return self
