"""Shows what kernels did to memory: a recorder of sanitized launches, and a page in which to step through them."""

from tilewright.view.page import render
from tilewright.view.recorder import Recorder

__all__ = ["Recorder", "render"]
