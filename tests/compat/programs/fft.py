"""A Fourier transform as three small matrix products with twiddle factors between them."""

import math

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


def complex_product(ar, ai, br, bi):
    zero = ct.zeros((ar.shape[0], br.shape[1]), ct.float32)
    real = ct.mma(ar, br, zero) - ct.mma(ai, bi, zero)
    imaginary = ct.mma(ar, bi, zero) + ct.mma(ai, br, zero)
    return real, imaginary


@ct.kernel
def fft_kernel(x, y, W1, W2, T, N1: ConstInt, N2: ConstInt):
    """x and y hold (batch, n, 2); the last axis is (real, imaginary)."""
    batch = ct.bid(0)
    tile = ct.load(x, index=(batch, 0, 0), shape=(1, N1 * N2, 2)).reshape((N1, N2, 2))
    re = ct.reshape(ct.extract(tile, (0, 0, 0), shape=(N1, N2, 1)), (N1, N2))
    im = ct.reshape(ct.extract(tile, (0, 0, 1), shape=(N1, N2, 1)), (N1, N2))
    w1 = ct.load(W1, (0, 0, 0), (2, N1, N1))
    w2 = ct.load(W2, (0, 0, 0), (2, N2, N2))
    t = ct.load(T, (0, 0, 0), (2, N1, N2))
    part = lambda z, i, rows, columns: z.extract((i, 0, 0), (1, rows, columns)).reshape((rows, columns))
    re, im = complex_product(part(w1, 0, N1, N1), part(w1, 1, N1, N1), re, im)
    tr, ti = part(t, 0, N1, N2), part(t, 1, N1, N2)
    re, im = re * tr - im * ti, re * ti + im * tr
    re, im = complex_product(re, im, part(w2, 0, N2, N2), part(w2, 1, N2, N2))
    out = ct.cat((ct.transpose(re)[:, :, None], ct.transpose(im)[:, :, None]), axis=-1)
    ct.store(y, (batch, 0, 0), out.reshape((1, N1 * N2, 2)))


def dft(n):
    k = torch.arange(n, dtype=torch.float64)
    angle = -2 * math.pi * torch.outer(k, k) / n
    return torch.stack([angle.cos(), angle.sin()]).float().to("cuda")


def fft(x, n1, n2):
    angle = -2 * math.pi * torch.outer(torch.arange(n1), torch.arange(n2)).double() / (n1 * n2)
    twiddles = torch.stack([angle.cos(), angle.sin()]).float().to("cuda")
    y = torch.empty_like(torch.view_as_real(x))
    args = (torch.view_as_real(x).contiguous(), y, dft(n1), dft(n2), twiddles, n1, n2)
    ct.launch(torch.cuda.current_stream(), (x.shape[0], 1, 1), fft_kernel, args)
    return torch.view_as_complex(y)


for n1, n2 in ((8, 8), (16, 4)):
    x = torch.randn(3, n1 * n2, dtype=torch.complex64, device="cuda")
    torch.testing.assert_close(fft(x, n1, n2), torch.fft.fft(x), atol=1e-4, rtol=1e-4)
print("fft: ok")
