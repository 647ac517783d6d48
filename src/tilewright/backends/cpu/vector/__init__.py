"""Element arithmetic of the CPU back end: elementwise operations as LLVM instructions on vectors or scalars."""

from tilewright.backends.cpu.vector.dispatch import ELEMENTWISE_OPS, VectorEmitter
from tilewright.backends.cpu.vector.features import HostFeatures
from tilewright.backends.cpu.vector.types import constant, register_type, storage_type

__all__ = ["ELEMENTWISE_OPS", "HostFeatures", "VectorEmitter", "constant", "register_type", "storage_type"]
