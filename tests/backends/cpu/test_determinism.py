"""The code of a function is the same each time: nothing depends on where its IR lies in memory."""

from __future__ import annotations

import pytest
from support.kernel_runs import arguments, generated

from tilewright.backends.cpu.compiler import host, lower, optimize
from tilewright.ir.rewrite import clone_function


@pytest.mark.parametrize("seed", [0, 10])
def test_copies_of_a_function_have_the_same_code(seed: int) -> None:
    kernel = generated(seed)
    signature, backend = kernel.kernel().described(arguments(kernel)[0], "cpu")
    function = kernel.kernel().specialize(signature, backend).function
    copies = [clone_function(function) for _ in range(6)]  # all alive, so at addresses of their own
    assert len({lower(optimize(copy), host()).text for copy in copies}) == 1
