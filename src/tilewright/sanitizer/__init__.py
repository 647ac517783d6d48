"""Finds undefined behaviour: runs kernels on the reference backend and watches every operation.

Importing this package is cheap; the backend itself, in ``backend``, loads with the first sanitized launch.
"""

from tilewright.sanitizer.categories import CATEGORIES, Category
from tilewright.sanitizer.events import Access, AccessColumn, AccessTable, EventSink, Launch, TableSink
from tilewright.sanitizer.report import ElementReference, Related, Report, UndefinedBehaviorError, Violation
from tilewright.sanitizer.session import sanitize

__all__ = [
    "CATEGORIES",
    "Access",
    "AccessColumn",
    "AccessTable",
    "Category",
    "ElementReference",
    "EventSink",
    "Launch",
    "Related",
    "Report",
    "TableSink",
    "UndefinedBehaviorError",
    "Violation",
    "sanitize",
]
