"""C++ programs with a ``main`` and tile kernels, run on the backends: ``tilewright run program.cu``.

``build`` compiles the host part of each file to an object in which kernels are stubs (``stubs``, ``simt``), and links
these with the CUDA runtime in ``cpp/runtime``; ``program`` loads the result, calls ``main``, and runs the tile kernels
that the runtime is asked for.
"""
