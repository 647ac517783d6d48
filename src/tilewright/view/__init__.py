"""Shows what kernels did to memory: a recorder of sanitized launches, and a page in which to step through them."""

from tilewright.view.page import render
from tilewright.view.progress import RecordingProgress
from tilewright.view.recorder import Recorder
from tilewright.view.view import View, view

__all__ = ["Recorder", "RecordingProgress", "View", "render", "view"]
