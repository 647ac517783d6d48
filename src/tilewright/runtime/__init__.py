"""Kernel objects and their launch: arguments, specialisation, caches, choice of the backend."""
