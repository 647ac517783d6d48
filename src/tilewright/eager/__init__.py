"""Tile code that Python itself runs: eager tiles in a session, and kernels in a debugger.

There is one definition of every operation, the builders of the Python front end. Here they emit into a builder that
evaluates each op at once by the reference backend.
"""

from tilewright.eager.backend import BACKEND
from tilewright.eager.operations import call, call_function

__all__ = ["BACKEND", "call", "call_function"]
