"""Values that a loop carries from one iteration to the next.

The entry value of a variable is its template: the parts that are IR values are carried, everything else in it must
stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.frontend.python.merge import (
    common_type,
    concrete,
    fields_of,
    fits,
    fixed_alike,
    generalized,
    same,
    with_fields,
)
from tilewright.frontend.python.values import Array, ArrayList, Tile, TiledView
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Value


def spread(value: Any) -> list[Value]:
    """The IR values in ``value``, in a fixed order."""
    if isinstance(value, Value):
        return [value]
    if isinstance(value, Tile):
        return [value.value]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in spread(item)]
    names = fields_of(value)
    return [leaf for name in names or () for leaf in spread(getattr(value, name))]


def rebuild(template: Any, leaves: Iterator[Value]) -> Any:
    """``template`` with its IR values replaced by the next ones of ``leaves``."""
    if isinstance(template, Value):
        return next(leaves)
    if isinstance(template, Tile):
        return Tile(next(leaves))
    if type(template) is tuple:
        return tuple(rebuild(item, leaves) for item in template)
    names = fields_of(template)
    if not names or not spread(template):
        return template
    return with_fields(template, {name: rebuild(getattr(template, name), leaves) for name in names})


def fit(template: Any, value: Any, block: Block, builder: Builder) -> list[Value] | None:
    """The IR values of ``value`` where ``template`` has its own, or None when the two differ in kind or type."""
    if isinstance(template, Value):
        return [value] if isinstance(value, Value) and value.type == template.type else None
    if isinstance(template, Tile):
        if isinstance(value, Tile):
            return [value.value] if value.value.type == template.value.type else None
        if isinstance(value, (bool, int, float)) and fits(value, template.value.tile):
            return [concrete(value, block, template.value.tile, builder)]
        return None
    if type(template) is tuple:
        if type(value) is not tuple or len(value) != len(template):
            return None
        parts = [fit(a, b, block, builder) for a, b in zip(template, value)]
        return None if None in parts else [leaf for part in parts for leaf in part or ()]
    names = fields_of(template)
    if isinstance(template, Array) and not (isinstance(value, Array) and _covers(template, value)):
        return None
    if isinstance(template, ArrayList) and isinstance(value, ArrayList):
        lists = generalized([template, value], (), builder)
        if lists is None or lists[0].element != template.element:
            return None
    if isinstance(template, TiledView) and isinstance(value, TiledView) and value.view.type != template.view.type:
        trial = Block()
        views = generalized([template, value], [trial, block], builder)
        trial.clear()
        if views is None or views[1].view.type != template.view.type:
            return None
        value = views[1]
    if names and type(value) is type(template):
        parts = [fit(getattr(template, n), getattr(value, n), block, builder) for n in names]
        return None if None in parts else [leaf for part in parts for leaf in part or ()]
    return [] if same(template, value) else None


def _covers(template: Array, value: Array) -> bool:
    """Whether what is static in ``template`` holds for ``value``."""
    facts = zip(template.static_shape + template.static_strides, value.static_shape + value.static_strides)
    same_type = (template.dtype, template.ndim, template.index_dtype) == (value.dtype, value.ndim, value.index_dtype)
    return same_type and all(t is None or t == v for t, v in facts)


def loosen(template: Any, values: list[Any], block: Block, builder: Builder) -> Any:
    """``template`` with the numbers and extents in it that ``values`` disagree on made scalars of run time."""
    if isinstance(template, (Array, TiledView, ArrayList)) and all(type(v) is type(template) for v in values):
        found = generalized([template, *values], [block] * (1 + len(values)), builder)
        return template if found is None else found[0]
    if isinstance(template, (bool, int, float)):
        if all(same(template, v) for v in values) or not all(isinstance(v, (Tile, bool, int, float)) for v in values):
            return template
        wanted = common_type([template, *values])
        return template if wanted is None or wanted.rank else Tile(concrete(template, block, wanted, builder))
    if type(template) is tuple:
        if not all(type(v) is tuple and len(v) == len(template) for v in values):
            return template
        return tuple(loosen(item, [v[i] for v in values], block, builder) for i, item in enumerate(template))
    names = fields_of(template)
    if not names or not all(type(v) is type(template) for v in values) or not fixed_alike([template, *values]):
        return template
    return with_fields(
        template, {n: loosen(getattr(template, n), [getattr(v, n) for v in values], block, builder) for n in names}
    )
