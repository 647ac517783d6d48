"""C++ programs with a ``main`` and tile kernels, run on the backends: ``tilewright run program.cu``.

``build`` compiles the host part of a program to a shared object in which kernels are stubs (``stubs``); ``program``
loads it and calls ``main``, with the functions of ``cuda_runtime`` for the CUDA runtime, over the memory of ``memory``.
"""
