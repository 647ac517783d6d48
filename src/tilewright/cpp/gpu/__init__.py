"""SIMT kernels of C++ programs on GPUs."""
