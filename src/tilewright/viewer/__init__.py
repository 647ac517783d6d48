"""Shows what kernels did to memory: a recorder of sanitized launches, and a page in which to step through them."""

from tilewright.viewer.page import render
from tilewright.viewer.progress import RecordingProgress
from tilewright.viewer.recorder import Recorder
from tilewright.viewer.view import View, view

__all__ = ["Recorder", "RecordingProgress", "View", "render", "view"]
