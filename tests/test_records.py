"""Classes of ``tilewright.records`` are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import re
import sys
import textwrap
import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tilewright import records

CLASSES = '''
from __future__ import annotations
import functools
from dataclasses import field
from typing import Any, ClassVar

@dataclass
class Empty:
    """Nothing."""

@dataclass
class Plain:
    put: int  # names that the code of methods has for its own
    unset: list[int] = field(default_factory=list)
    other: Any = "f0"
    self_: ClassVar[int] = 3

@dataclass
class Derived(Plain):
    put: int = 5
    last: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.last["put"] = self.put

@dataclass(frozen=True)
class Frozen:
    first: int
    second: tuple[int, ...] = (1, 2)

    @functools.cached_property
    def total(self) -> int:
        return self.first + sum(self.second)

@dataclass(frozen=True)
class FrozenChild(Frozen):
    third: Any = field(default=None, compare=False)

class Undecorated(Frozen):
    pass

@dataclass(frozen=True)
class Both:
    one: int
    hidden: int = field(default=7, repr=False)
    three: list[int] = field(default_factory=list)

@dataclass(eq=False)
class Identical:
    one: int

@dataclass(eq=False, repr=False)
class Shown:
    one: int

    def __repr__(self) -> str:
        return "shown"

@dataclass(frozen=True)
class Own:
    one: float

    def __hash__(self) -> int:
        return 4

    def __eq__(self, other: object) -> bool:
        return True

@dataclass
class Init:
    one: int

    def __init__(self, twice: int) -> None:
        self.one = 2 * twice

class Pair(NamedTuple):
    """Two."""

    left: int
    right: Any = "f1"

    def swapped(self) -> Pair:
        return Pair(self.right, self.left)

class Nothing(NamedTuple):
    pass

class Child(Pair):
    pass
'''
# What a class does, as text: ``module`` has the classes.
USES = """
Empty()
Empty() == Empty()
Plain(1)
Plain(1).unset is Plain(1).unset
Plain(1) == Plain(1)
Plain(1) == Plain(2)
Plain(1) == Derived(1)
Plain()
Plain(1, [2], 3, 4)
Plain(1, put=2)
Plain(1, third=2)
hash(Plain(1))
Derived()
Derived(unset=[1], put=2).last
Derived(last=1)
Frozen(1)
hash(Frozen(1)) == hash((1, (1, 2)))
Frozen(1).total
Frozen(1, (3,)) == Frozen(1, second=(3,))
setattr(Frozen(1), "first", 2)
setattr(Frozen(1), "more", 2)
delattr(Frozen(1), "first")
setattr(Undecorated(1), "more", 2)
setattr(Undecorated(1), "first", 2)
delattr(Undecorated(1), "more")
FrozenChild(1, third=3) == FrozenChild(1, third=4)
FrozenChild(1)
setattr(FrozenChild(1), "first", 2)
Both(1, three=2)
Both(1, 2)
Both(1, 8) == Both(1, 9)
Both(1).three is Both(1).three
Identical(1) == Identical(1)
Shown(1)
hash(Own(1.0))
Own(1.0) == Own(2.0)
Init(3)
replace(Frozen(1), second=(9,))
replace(Both(1, 3), one=2)
replace(Plain(1), none=2)
asdict(Derived(1, [2]))
fields(Derived)[-1].name
Derived.__match_args__
Both.__match_args__
is_dataclass(Frozen)
[Frozen.__dataclass_params__.frozen, Derived.__dataclass_params__.frozen]
[(f.name, f.type, f.init, f.repr, f.compare) for f in fields(Both)]
dataclass(frozen=True)(type("More", (Frozen,), {"__annotations__": {"more": "int"}}))(1, (2,), 3)
dataclass(frozen=True)(type("More", (Frozen,), {"__annotations__": {"more": "int"}, "more": 3}))(1, (2,))
Pair(1)
Pair(1, 2).swapped()
Pair(right=1, left=2)
Pair()
Pair(1, 2, 3)
Pair(1, middle=3)
Pair(1) == (1, "f1")
Pair(1)._replace(left=3)
Pair._make([4, 5])
Pair(1)._asdict()
Pair._fields
Pair._field_defaults
Pair.__match_args__
Pair.left
setattr(Pair(1), "left", 2)
setattr(Pair(1), "more", 2)
isinstance(Pair(1), tuple)
Pair(3)[0]
Nothing()
len(Nothing())
Child(1)
setattr(Child(1), "more", 2)
""".strip().splitlines()


@functools.cache
def classes(source: ModuleType) -> dict[str, Any]:
    """The classes, made by ``source``."""
    made = ModuleType("made_by_" + source.__name__.rpartition(".")[2])
    sys.modules[made.__name__] = made
    tuples = records if source is records else typing
    vars(made).update(dataclass=source.dataclass, NamedTuple=tuples.NamedTuple)
    exec(compile(textwrap.dedent(CLASSES), "classes", "exec", dont_inherit=True), vars(made))
    names = {name: getattr(dataclasses, name) for name in ("asdict", "fields", "is_dataclass", "replace")}
    return {**vars(made), **names}


def outcome(use: Callable[[], Any]) -> str:
    try:
        found = repr(use())
    except (TypeError, AttributeError, ValueError) as e:
        if isinstance(e, dataclasses.FrozenInstanceError) or "positional argument" in str(e):
            return f"{type(e).__name__}: {e}"
        return type(e).__name__
    return found


@pytest.mark.parametrize("use", USES)
def test_a_class_is_used_as_that_of_the_standard_library(use: str) -> None:
    ours, theirs = (outcome(lambda: eval(use, classes(source))) for source in (records, dataclasses))  # noqa: B023
    assert ours == theirs


@pytest.mark.parametrize("name", ["Plain", "Derived", "Frozen", "FrozenChild", "Both", "Pair", "Nothing"])
def test_the_signature_is_that_of_the_standard_library(name: str) -> None:
    def parameters(cls: Any) -> list[tuple[str, Any, Any, bool]]:
        found = inspect.signature(cls).parameters.values()
        kinds = [re.sub(r"ForwardRef\('(.*)'\)", r"\1", str(p.annotation)) for p in found]
        return [(p.name, p.kind, kind, p.default is p.empty) for p, kind in zip(found, kinds)]

    assert parameters(classes(records)[name]) == parameters(classes(dataclasses)[name])


@pytest.mark.parametrize("value", ["Plain(1, [2])", "Frozen(1)", "Both(1, 3)", "Pair(1)", "Child(1, 2)"])
def test_values_are_pickled_and_copied(value: str) -> None:
    known = eval(value, classes(records))
    for again in (pickle.loads(pickle.dumps(known)), copy.copy(known), copy.deepcopy(known)):
        assert type(again) is type(known)
        assert again == known


def test_methods_that_have_their_code_in_common_are_apart() -> None:
    made = classes(records)
    first, second = made["Frozen"](1, (5,)), made["Pair"](1, 5)
    assert (first.first, first.second, second.left, second.right) == (1, (5,), 1, 5)
    assert made["Frozen"].__init__.__code__.co_varnames[1:] == ("first", "second")
