"""The loops of ``benchmarks/cpu.py`` in Numba, as its users write them: parallel, without fast-math."""

from __future__ import annotations

import math

import numpy as np
from numba import get_num_threads, njit, prange

_parallel = njit(parallel=True, cache=False)


@_parallel
def copy(x, out):
    for i in prange(x.size):
        out[i] = x[i]
    return out


@_parallel
def add(x, y, out):
    for i in prange(x.size):
        out[i] = x[i] + y[i]
    return out


@_parallel
def scale_add(x, y, out, factor):
    for i in prange(x.size):
        out[i] = x[i] * factor + y[i]
    return out


@_parallel
def transpose(x, out):
    side = 32
    for i in prange(x.shape[0] // side):
        for j in range(x.shape[1] // side):
            for a in range(side):
                for b in range(side):
                    out[j * side + a, i * side + b] = x[i * side + b, j * side + a]
    return out


@_parallel
def softmax(x, out):
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


@_parallel
def layer_norm(x, weight, bias, out, epsilon):
    n = np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        mean = np.sum(x[i]) / n
        square = np.float32(0)
        for j in range(x.shape[1]):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        scale = np.float32(1 / math.sqrt(square / n + epsilon))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]
    return out


@_parallel
def rms_norm(x, weight, out, epsilon):
    n = np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        square = np.float32(0)
        for j in range(x.shape[1]):
            square += x[i, j] * x[i, j]
        scale = np.float32(1 / math.sqrt(square / n + epsilon))
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * scale * weight[j]
    return out


@_parallel
def row_sum(x, out):
    for i in prange(x.shape[0]):
        out[i] = np.sum(x[i])
    return out


@_parallel
def row_max(x, out):
    for i in prange(x.shape[0]):
        out[i] = np.max(x[i])
    return out


@_parallel
def row_argmax(x, out):
    for i in prange(x.shape[0]):
        out[i] = np.argmax(x[i])
    return out


@_parallel
def row_cumsum(x, out):
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total
    return out


@_parallel
def total(x, parts):
    size = x.size // parts.size
    for i in prange(parts.size):
        parts[i] = np.sum(x[i * size : (i + 1) * size])
    return np.sum(parts)


@_parallel
def largest(x, parts):
    size = x.size // parts.size
    for i in prange(parts.size):
        parts[i] = np.max(x[i * size : (i + 1) * size])
    return np.max(parts)


@_parallel
def argmax(x, parts, places):
    size = x.size // parts.size
    for i in prange(parts.size):
        places[i] = i * size + np.argmax(x[i * size : (i + 1) * size])
        parts[i] = x[places[i]]
    return places[np.argmax(parts)]


@_parallel
def cumsum(x, out, parts):
    size = x.size // parts.size
    for i in prange(parts.size):
        parts[i] = np.sum(x[i * size : (i + 1) * size])
    for i in prange(parts.size):
        running = np.float32(0)
        for j in range(i):
            running += parts[j]
        for j in range(i * size, (i + 1) * size):
            running += x[j]
            out[j] = running
    return out


@_parallel
def gather_rows(table, rows, out):
    for i in prange(rows.size):
        out[i] = table[rows[i]]
    return out


@_parallel
def histogram(values, bins):
    threads = get_num_threads()
    counts = np.zeros((threads, bins), np.int32)
    size = (values.size + threads - 1) // threads
    for t in prange(threads):
        for i in range(t * size, min(values.size, (t + 1) * size)):
            counts[t, values[i]] += 1
    return counts.sum(axis=0)


@_parallel
def exp(x, out):
    for i in prange(x.size):
        out[i] = math.exp(x[i])
    return out


@_parallel
def tanh(x, out):
    for i in prange(x.size):
        out[i] = math.tanh(x[i])
    return out


@_parallel
def sin(x, out):
    for i in prange(x.size):
        out[i] = math.sin(x[i])
    return out


@_parallel
def power(x, y, out):
    for i in prange(x.size):
        out[i] = x[i] ** y[i]
    return out


@_parallel
def box_blur(x, out):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            total = np.float32(0)
            for a in range(max(i - 1, 0), min(i + 2, x.shape[0])):
                for b in range(max(j - 1, 0), min(j + 2, x.shape[1])):
                    total += x[a, b]
            out[i, j] = total / 9
    return out
