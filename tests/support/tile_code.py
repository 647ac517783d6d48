"""Runs a function of tiles in a kernel and compares what it returns, dtype and shape included."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct


def evaluate(function: Callable[..., Any], like: Any, *args: Any, load: bool = True) -> Any:
    """What ``function(*args)`` returns in a kernel: an array as ``like``, or a tuple of them as the tuple ``like``.

    With ``load``, arrays among ``args`` become tiles of their whole shape. The dtype and the shape of each result must
    be those of ``like``; a strict or loose constant counts as a scalar.
    """
    wanted = tuple(np.asarray(one) for one in (like if isinstance(like, tuple) else (like,)))
    shapes = tuple(w.shape for w in wanted)
    outs = tuple(np.zeros(w.shape or 1, w.dtype) for w in wanted)
    loaded = tuple(a.shape if load and isinstance(a, np.ndarray) else None for a in args)
    single = not isinstance(like, tuple)
    firsts = tuple((0,) * out.ndim for out in outs)
    origins = tuple((0,) * a.ndim if isinstance(a, np.ndarray) else None for a in args)

    @ct.kernel
    def probe(outs, args):
        given = tuple(
            args[i] if loaded[i] is None else ct.load(args[i], origins[i], loaded[i])
            for i in ct.static_iter(range(len(loaded)))
        )
        results = (function(*given),) if single else function(*given)
        ct.static_assert(len(results) == len(outs))
        for i in ct.static_iter(range(len(outs))):
            result, out = results[i], outs[i]
            ct.static_assert(result.dtype == out.dtype, f"{result.dtype} instead of {out.dtype}")
            ct.static_assert(result.shape == shapes[i], f"{result.shape} instead of {shapes[i]}")
            ct.store(out, firsts[i], result)

    ct.launch(None, (1,), probe, (outs, args))
    found = tuple(o.reshape(w.shape) for o, w in zip(outs, wanted))
    return found[0] if single else found


def gives(function: Callable[..., Any], expected: Any, *args: Any, load: bool = True) -> None:
    """Assert that ``function(*args)`` is ``expected`` in a kernel, bit for bit but for the kind of NaN."""
    found = evaluate(function, expected, *args, load=load)
    pairs = zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]
    for have, want in pairs:
        have, want = np.asarray(have), np.asarray(want)
        if have.dtype.kind not in "biu":  # NumPy compares neither signed zeros nor the NaN of other packages
            np.testing.assert_array_equal(np.signbit(have)[have == 0], np.signbit(want)[have == 0])
            have, want = have.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(have, want)


def refuses(
    function: Callable[..., Any], error: type[ct.TileError], *args: Any, match: str | None = None, load: bool = True
) -> ct.TileError:
    """Assert that a kernel with ``function(*args)`` does not compile, with exactly the class ``error``."""
    loaded = tuple(a.shape if load and isinstance(a, np.ndarray) else None for a in args)
    origins = tuple((0,) * a.ndim if isinstance(a, np.ndarray) else None for a in args)

    @ct.kernel
    def probe(args):
        given = tuple(
            args[i] if loaded[i] is None else ct.load(args[i], origins[i], loaded[i])
            for i in ct.static_iter(range(len(loaded)))
        )
        function(*given)

    with pytest.raises(ct.TileError, match=match) as caught, ct.use_backend("reference"):
        ct.launch(None, (1,), probe, (args,))
    assert type(caught.value) is error, caught.value
    assert caught.value.loc is not None
    return caught.value


def traced(body: str, names: dict[str, Any], signature: str = "n") -> Callable[..., Any]:
    """A function with this body and these global names, whose source can be read."""
    text = f"def body({signature}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    filename = f"<tile code {len(linecache.cache)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope = dict(names)
    exec(compile(text, filename, "exec"), scope)
    return scope["body"]


def refused(*cases: Callable[..., Any], error: type[ct.TileError] = ct.TileTypeError) -> Any:
    """Parametrizes a test over functions ``bad`` that raise ``error``."""
    return pytest.mark.parametrize(("error", "bad"), [(error, c) for c in cases], ids=range(len(cases)))
