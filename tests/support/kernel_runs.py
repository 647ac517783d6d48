"""Runs generated kernels on a backend and on the reference, which must agree in every byte around the arrays, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from backends.cpu.comparison import owner
from support.attention_generator import AttentionGenerator
from support.in_place_generator import InPlaceGenerator
from support.kernel_arrays import NumpyArray
from support.kernel_generator import GeneratedKernel, KernelGenerator
from support.loop_generator import LoopGenerator
from support.product_generator import ProductGenerator, ProductKernel
from support.rare_generator import RareGenerator

import tilewright as ct

GENERATORS: dict[str, Callable[[int], Any]] = {
    "kernels": lambda seed: KernelGenerator(seed).make(),
    "products": lambda seed: ProductGenerator(seed).make(),
    "rare": lambda seed: RareGenerator(seed).make(),
    "in_place": lambda seed: InPlaceGenerator(seed).make(),
    "loops": lambda seed: LoopGenerator(seed).make(),
    "attention": lambda seed: AttentionGenerator(seed).make(),
}


def seeds(count: int, start: int = 0) -> Sequence[int]:
    """``count`` seeds, or those that the environment asks for: TILEWRIGHT_TEST_SEEDS=start:count."""
    chosen = os.environ.get("TILEWRIGHT_TEST_SEEDS")
    if chosen:
        start, count = (int(n) for n in chosen.split(":"))
    return range(start, start + count)


def generated(seed: int, kind: str = "kernels") -> GeneratedKernel:
    """The kernel of the seed. It is printed, so that pytest shows it where a test fails."""
    kernel: GeneratedKernel = GENERATORS[kind](seed)
    print(kernel)
    return kernel


def generated_product(seed: int) -> ProductKernel:
    """That of the seed of the kernels that only multiply, printed as well."""
    kernel = generated(seed, "products")
    assert isinstance(kernel, ProductKernel)
    return kernel


def arguments(kernel: GeneratedKernel) -> tuple[tuple[Any, ...], dict[str, NumpyArray]]:
    """What to launch the kernel with, in memory of its own, and that memory."""
    memory: dict[str, NumpyArray] = {}

    def copied(name: str, view: NumpyArray) -> NumpyArray:
        whole = owner(view)
        memory[name] = _copy(whole)
        offset = view.ctypes.data - whole.ctypes.data
        return np.ndarray(view.shape, view.dtype, memory[name].view(np.uint8).data, offset, view.strides)

    values: list[Any] = []
    for name, value in kernel.parameters:
        if isinstance(value, list):
            values.append([copied(f"{name}[{i}]", view) for i, view in enumerate(value)])
        else:
            values.append(value if isinstance(value, int) else copied(name, value))
    return tuple(values), memory


def _copy(whole: NumpyArray) -> NumpyArray:
    """A copy at an address that is the same modulo 256, which a compiler may have used."""
    room = np.zeros(whole.nbytes + 256, np.uint8)
    first = (whole.ctypes.data - room.ctypes.data) % 256
    found: NumpyArray = room[first : first + whole.nbytes].view(whole.dtype).reshape(whole.shape)
    found[...] = whole
    return found


def outcome(kernel: GeneratedKernel, backend: str) -> dict[str, NumpyArray]:
    """The memory of all arrays after a launch."""
    values, memory = arguments(kernel)
    ct.launch(None, kernel.grid, kernel.kernel(), values, backend=backend)
    return memory


def compare(kernel: GeneratedKernel, backend: str) -> None:
    """Assert that ``backend`` leaves the memory as the reference does. Zeros of either sign are equal."""
    assert_same(outcome(kernel, backend), outcome(kernel, "reference"))


def check_product(kernel: ProductKernel, backend: str) -> None:
    """Assert that a launch writes what NumPy says, and nothing else."""
    values, wanted = arguments(kernel)
    values[[name for name, _ in kernel.parameters].index("out")][...] = kernel.wanted
    assert_same(outcome(kernel, backend), wanted)


def assert_same(memory: dict[str, NumpyArray], wanted: dict[str, NumpyArray]) -> None:
    """Assert that two launches left the same in the memory around their arrays."""
    places = {name: np.flatnonzero(found != wanted[name]) for name, found in memory.items()}
    wrong = {name: of for name, of in places.items() if of.size}
    if wrong:
        name, of = next(iter(wrong.items()))
        others = ", ".join(f"{other} in {found.size}" for other, found in wrong.items() if other != name)
        raise AssertionError(
            f"{name}: {of.size} of {memory[name].size} elements differ, of memory from {of[0]} to {of[-1]}: the first is "
            f"{memory[name].flat[of[0]]} instead of {wanted[name].flat[of[0]]}{others and f'; so do {others}'}"
        )


def violations(kernel: GeneratedKernel) -> str:
    """What the sanitizer reports; nothing is right."""
    with ct.sanitize() as report:
        ct.launch(None, kernel.grid, kernel.kernel(), arguments(kernel)[0])
    return report.render() if report.violations else ""
