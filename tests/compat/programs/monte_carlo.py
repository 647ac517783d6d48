"""NumPy only: an integral by random points, a heat equation with halos, and a game of life on bytes."""

import cuda.tile as ct
import numpy as np

ConstInt = ct.Constant[int]


@ct.kernel
def estimate_pi(hits, seed: ct.ScalarInt64, rounds, TILE: ConstInt):
    state = (ct.arange(TILE, dtype=ct.int64) + ct.bid(0) * TILE + seed).astype(ct.uint64)
    inside = ct.zeros((TILE,), ct.int64)
    for _ in range(rounds):
        state = state * ct.uint64(6364136223846793005) + ct.uint64(1442695040888963407)
        x = (state >> 40).astype(ct.float32) / (1 << 24)
        state = state * ct.uint64(6364136223846793005) + ct.uint64(1442695040888963407)
        y = (state >> 40).astype(ct.float32) / (1 << 24)
        inside += (x * x + y * y < 1).astype(ct.int64)
    ct.atomic_add(hits, 0, ct.sum(inside))


@ct.kernel
def heat(u, v, alpha: float, T: ConstInt):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    here, left, right = ct.gather(u, i), ct.gather(u, i - 1), ct.gather(u, i + 1)
    ct.scatter(v, i, here + alpha * (left - 2 * here + right))


@ct.kernel
def life(board, after, TM: ConstInt, TN: ConstInt):
    rows = ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32)[:, None]
    columns = ct.bid(1) * TN + ct.arange(TN, dtype=ct.int32)[None, :]
    neighbours = ct.zeros((TM, TN), ct.uint8)
    for dy in ct.static_iter((-1, 0, 1)):
        for dx in ct.static_iter((-1, 0, 1)):
            if dx != 0 or dy != 0:
                neighbours += ct.gather(board, (rows + dy, columns + dx))
    alive = ct.gather(board, (rows, columns))
    ct.scatter(after, (rows, columns), (neighbours == 3) | ((neighbours == 2) & (alive != 0)))


hits = np.zeros(1, np.int64)
ct.launch(0, (8,), estimate_pi, (hits, 1 << 35, 50, 128))
assert abs(4 * hits[0] / (8 * 50 * 128) - np.pi) < 0.05
u = np.zeros(100, np.float32)
u[50] = 1
v, want = np.zeros_like(u), u.copy()
for _ in range(10):
    ct.launch(0, (4,), heat, (u, v, 0.25, 32))
    u, v = v, u
    padded = np.pad(want, 1)
    want = want + np.float32(0.25) * (padded[:-2] - 2 * want + padded[2:])
np.testing.assert_allclose(u, want, atol=1e-6)
board = np.zeros((20, 20), np.uint8)
board[[1, 2, 3, 3, 3], [2, 3, 1, 2, 3]] = 1  # a glider
after = np.zeros_like(board)
for _ in range(4):
    ct.launch(0, (3, 2), life, (board, after, 8, 16))
    board, after = after, board
assert board.sum() == 5 and (board[[2, 3, 4, 4, 4], [3, 4, 2, 3, 4]] == 1).all()
print("monte carlo: ok")
