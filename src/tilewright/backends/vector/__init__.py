"""Element arithmetic of the CPU backend: elementwise operations as LLVM instructions on vectors or scalars.

``types`` says how values are held, ``dispatch`` maps op names to formulas. The formulas are written over ``value``,
a small expression language: ``arith``, ``integer``, ``logic`` and ``convert`` for what is exact (with ``directed``
rounding, ``remainder`` and the transformations of ``exact``), ``functions`` and the modules it names for the rest.
Nothing here knows loops or memory.
"""

from tilewright.backends.vector.dispatch import ELEMENTWISE_OPS, VectorEmitter
from tilewright.backends.vector.features import HostFeatures
from tilewright.backends.vector.types import constant, register_type, storage_type

__all__ = ["ELEMENTWISE_OPS", "HostFeatures", "VectorEmitter", "constant", "register_type", "storage_type"]
