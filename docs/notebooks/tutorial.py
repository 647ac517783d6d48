# %% [markdown]
# # A first notebook
#
# A kernel, its pictures, a mistake, and what a kernel becomes. It needs NumPy and no GPU.

# %%
import numpy as np

import tilewright as ct

# %% [markdown]
# ## Tiles, without a kernel
#
# A *tile* is a small array of static shape. Every operation on tiles works in a cell of its own:

# %%
x = ct.arange(8, dtype=ct.int32)
x * 2 + 1

# %%
ct.sum(x.reshape((2, 4)), axis=1)

# %% [markdown]
# ## A kernel
#
# One call of a kernel is a *block*, and `ct.bid(0)` is its number. This one normalizes a row. What lies outside of the
# row is loaded as minus infinity, so that it adds nothing to the sum:


# %%
@ct.kernel
def softmax(x, out, TILE: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, TILE), padding_mode=ct.PaddingMode.NEG_INF)
    e = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(out, (row, 0), e / ct.sum(e, axis=1, keepdims=True))


# %% [markdown]
# A launch names the stream (None on a CPU), the grid of blocks, the kernel, and one argument for each parameter:

# %%
x = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
out = np.empty_like(x)
ct.launch(None, (64,), softmax, (x, out, 1024))

expected = np.exp(x - x.max(axis=1, keepdims=True))
expected /= expected.sum(axis=1, keepdims=True)
np.testing.assert_allclose(out, expected, rtol=1e-5)

# %% [markdown]
# ## What it became
#
# A kernel shows what has been compiled, and on what that is keyed; each stage is folded below, from Tile IR to
# assembly:

# %%
softmax

# %% [markdown]
# ## What it does to memory
#
# `ct.view` records a run. Move the slider, or point at an element to see which block touched it, and when:

# %%
small, result = x[:4, :12].copy(), np.empty((4, 12), np.float32)
ct.view(lambda: ct.launch(None, (4,), softmax, (small, result, 16)), title="softmax of four rows")

# %% [markdown]
# ## A mistake
#
# A mistake is found when the kernel is compiled, before any block runs. The message has the place and the remedy:


# %%
@ct.kernel
def wrong(x, out, TILE: ct.Constant[int]):
    ct.store(out, (0, 0), ct.load(x, (ct.bid(0),), (1, TILE)))


# %% tags=["raises-exception"]
ct.launch(None, (64,), wrong, (x, out, 1024))

# %% [markdown]
# ## A loop: the product of matrices
#
# A block computes one tile of the result, and walks along the common axis. What sticks out of an array is loaded as
# zero, and is not stored:


# %%
@ct.kernel
def matmul(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(a, 1, (T, T))):
        left = ct.load(a, (i, k), (T, T), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (T, T), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (i, j), total)


a, b = x[:, :70].copy(), x[:, 100:].T[:70].copy()
c = np.empty((64, 64), np.float32)
ct.launch(None, (ct.cdiv(64, 32), ct.cdiv(64, 32)), matmul, (a, b, c, 32))
np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)

# %% [markdown]
# ## The same by the book
#
# The reference backend computes every operation as its definition says, with NumPy. It is the oracle of all others:

# %%
by_the_book = np.empty_like(c)
with ct.use_backend("reference"):
    ct.launch(None, (ct.cdiv(64, 32), ct.cdiv(64, 32)), matmul, (a, b, by_the_book, 32))
np.testing.assert_allclose(c, by_the_book, rtol=1e-4, atol=1e-4)
