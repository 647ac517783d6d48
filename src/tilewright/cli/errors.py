"""How commands end: their exit statuses, and the errors that stand for them."""

from __future__ import annotations

FINE, FINDINGS, MISUSE, FAILED = range(4)
STATUSES = """\
exit status: 0 fine, 1 something was found (a violation, a wrong result), 2 misuse of the command, 3 the program failed;
a program that ends itself keeps its own"""


class UsageError(Exception):
    """What was typed cannot be done; the message says why and what to type instead. The status is ``MISUSE``."""


class Failure(Exception):
    """What was typed makes sense, and could not be carried out. The status is ``FAILED``."""
