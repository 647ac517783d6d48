"""Loads and launches GPU kernels through the CUDA driver, whichever backend compiled them."""
