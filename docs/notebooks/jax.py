# %% [markdown]
# # Operators in JAX
#
# JAX's arrays are immutable, so that a kernel cannot store to them. An operator allocates its outputs, and runs inside
# of `jax.jit`, `jax.grad` and `jax.vmap`. It needs `jax`; no GPU.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import tilewright as ct

# %% [markdown]
# ## A kernel and its operator
#
# The declaration is that of the notebook on PyTorch; the same operator works in both, and on NumPy arrays.


# %%
@ct.kernel
def cubed_kernel(x, out, factor: float, TILE: ct.Constant[int]):
    i = ct.bid(0)
    values = ct.load(x, (i,), (TILE,))
    ct.store(out, (i,), values * values * values * factor)


@ct.op("notebook::cubed", "n -> n", sharded="n")
def cubed(stream, x, out, factor: float = 1.0):
    """factor times the third power of x."""
    ct.launch(stream, (ct.cdiv(x.shape[0], 256),), cubed_kernel, (x, out, factor, 256))


@cubed.gradient
def cubed_gradient(x, grad_out, factor):
    return 3 * factor * x * x * grad_out


x = jnp.linspace(-2, 2, 1000)
cubed(x, 2.0)[::250]

# %% [markdown]
# ## Inside of a compiled function
#
# A call becomes a call of XLA's foreign function interface, handled by machine code made for these shapes. No Python
# runs:


# %%
@jax.jit
def smooth(x):
    return jnp.tanh(cubed(x, 0.5)) + 1


np.testing.assert_allclose(smooth(x), jnp.tanh(0.5 * x**3) + 1, rtol=1e-5)
[line.strip()[:100] for line in jax.jit(smooth).lower(x).as_text().splitlines() if "custom_call" in line]

# %% [markdown]
# ## Gradients

# %%
gradient = jax.jit(jax.grad(lambda x: smooth(x).sum()))(x)
expected = jax.grad(lambda x: (jnp.tanh(0.5 * x**3) + 1).sum())(x)
np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
gradient[::250]

# %% [markdown]
# Forward mode needs a rule of its own, which names the tangents of the inputs that it takes. Both modes work around
# each other:


# %%
@cubed.jvp
def cubed_tangent(x, tangent_x, factor):
    return 3 * factor * x * x * tangent_x


jax.hessian(lambda x: cubed(x).sum())(jnp.arange(1.0, 4.0))

# %% [markdown]
# ## Mapped over rows
#
# The dimension is in `sharded`: its parts are independent, so that a batch becomes part of it, in one launch.

# %%
rows = jnp.stack([x, x + 1, x + 2])
np.testing.assert_allclose(jax.vmap(cubed)(rows), rows**3, rtol=1e-5, atol=1e-6)
jax.vmap(cubed)(rows).shape
