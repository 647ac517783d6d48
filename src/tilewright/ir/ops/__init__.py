"""The op set of Tile IR. Importing this package declares every op; ``opdef.OPS`` is the table by name."""

from tilewright.ir.ops import arith, control, floats, gpu, linear, loops, memory, shape

__all__ = ["arith", "control", "floats", "gpu", "linear", "loops", "memory", "shape"]
