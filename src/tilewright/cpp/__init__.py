"""Tile C++ from Python: ``ct.cpp.compile("kernels.cu").kernel("scale<float, 128>")`` gives a kernel to launch.

The front end ``tilewright.frontend.cpp`` and the C++ compiler load and run only for what is not in the disk cache.
"""

from tilewright.cpp.module import Kernel, Module, compile

__all__ = ["Kernel", "Module", "compile"]
