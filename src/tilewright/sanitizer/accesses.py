"""Loads, stores and atomics under observation: bounds, definedness, races and events, then the access itself.

Each function does one memory operation and returns its result and the undefined elements of that. Elements whose access
would be wrong are reported and left out, so that a launch goes on without harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, AtomicView, Load, LoadView, Store, StoreView
from tilewright.sanitizer.observation import Outcome
from tilewright.sanitizer.pointer_accesses import atomic_cas, atomic_rmw, load, store
from tilewright.sanitizer.undefined import Marks
from tilewright.sanitizer.view_accesses import load_view, store_view

ACCESSES: dict[type[Op], Callable[[Any, Any, list[Any], Marks], Outcome]] = {
    LoadView: load_view,
    StoreView: store_view,
    AtomicView: store_view,
    Load: load,
    Store: store,
    AtomicRmw: atomic_rmw,
    AtomicCas: atomic_cas,
}
