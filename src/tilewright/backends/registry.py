"""Which backends there are. The composition root registers them; each loads when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.base import Backend, Exporter
from tilewright.ir.core import Function
from tilewright.records import NamedTuple


class KernelClass(NamedTuple):
    """Kernels, by a ``name`` for people, that ``backend`` takes; ``holds`` says whether a function is one of them.

    It gets the function as the front end made it, and the backend that has them otherwise, for the device or target.
    """

    name: str
    backend: str
    holds: Callable[[Function, Backend], bool]


_loaders: dict[str, Callable[[], Backend]] = {}
_defaults: dict[str, str] = {}
_classes: dict[str, list[KernelClass]] = {}


def register_backend(name: str, load: Callable[[], Backend], *, default_for: str | None = None) -> None:
    """Let ``load`` give the backend ``name``, which takes the place of one that had this name.

    ``default_for`` is the type of device (``"cpu"``, ``"cuda"``) whose arrays it runs launches on when nobody asks for
    another backend.
    """
    _loaders[name] = load
    if default_for is not None:
        _defaults[default_for] = name


def backend_names() -> tuple[str, ...]:
    """Every backend that exists, usable here or not."""
    return tuple(_loaders)


def get_backend(name: str) -> Backend:
    """The backend called ``name``. ValueError when there is none; ImportError when it needs what is not installed."""
    if name not in _loaders:
        raise ValueError(f"unknown backend {name!r}; choose one of {', '.join(_loaders)}")
    return _loaders[name]()


def default_backend(device: str) -> str | None:
    """The name of the backend for arrays in the memory of ``device``; None where none can use them."""
    return _defaults.get(device)


def register_class(kernels: KernelClass, *, instead_of: str) -> None:
    """Let the backend of ``kernels`` take those that the default backend ``instead_of`` would run otherwise, when
    nobody asks for a backend."""
    _classes.setdefault(instead_of, []).append(kernels)


def classes_of(backend: str) -> Sequence[KernelClass]:
    """The kernels that others take in place of the default backend ``backend``; the first class that holds counts."""
    return _classes.get(backend, ())


def exporters() -> dict[str, Exporter]:
    """What writes kernels to files, by the format. Of several for one format the last counts."""
    return {f: write for name in _loaders for f, write in get_backend(name).capabilities.exports.items()}
