"""The registry of backends, and the records of what they can do."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.backends import registry
from tilewright.backends.base import Capabilities
from tilewright.backends.registry import backend_names, default_backend, exporters, get_backend, register_backend


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaders", dict(registry._loaders))
    monkeypatch.setattr(registry, "_defaults", dict(registry._defaults))


def test_backends_load_when_they_are_asked_for(own_registry: None) -> None:
    loaded: list[str] = []
    names = backend_names()

    def load() -> Any:
        loaded.append("abacus")
        return "the abacus"

    register_backend("abacus", load, default_for="beads")
    assert backend_names() == (*names, "abacus") and default_backend("beads") == "abacus" and not loaded
    assert get_backend("abacus") == "the abacus" and loaded == ["abacus"]
    register_backend("abacus", lambda: "another one")  # type: ignore[arg-type, return-value]
    assert get_backend("abacus") == "another one" and backend_names() == (*names, "abacus")


def test_unknown_names_and_devices() -> None:
    with pytest.raises(ValueError, match="unknown backend 'abacus'; choose one of reference, cpu, "):
        get_backend("abacus")
    assert default_backend("beads") is None and default_backend("cpu") == "cpu" and default_backend("cuda") == "gpu"


@pytest.mark.parametrize("name", backend_names())
def test_every_backend_declares_what_it_can_do(name: str) -> None:
    backend = get_backend(name)
    able = backend.capabilities
    assert backend.name == name and isinstance(able, Capabilities)
    assert able.direct_launch or not able.variants  # a variant is chosen in a launch without buffers
    assert (backend.device == "cpu") == (able.devices is None)  # memory of its own
    assert (backend.device == "cpu") == (able.elapsed is None)  # launches return before they have ended
    if able.run_source is None and not able.finds_undefined_behavior and name != "reference":
        assert able.serialization is not None


def test_the_default_backend_of_a_device_exports_for_it() -> None:
    found = exporters()
    assert set(found) == {f for name in backend_names() for f in get_backend(name).capabilities.exports}
    for device, output_format in (("cpu", "shared_library"), ("cuda", "cubin")):
        name = default_backend(device)
        assert name is not None and get_backend(name).capabilities.exports[output_format] is found[output_format]
