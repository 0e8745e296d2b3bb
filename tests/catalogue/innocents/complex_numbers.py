"""Complex tensors through a Fourier transform."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    spectrum = torch.fft.rfft(x)
    return spectrum * spectrum.conj(), torch.fft.irfft(spectrum, n=x.shape[-1])


def check(**options):
    return check_compile(target, torch.randn(2, 16), backend="aot_eager", **options)
