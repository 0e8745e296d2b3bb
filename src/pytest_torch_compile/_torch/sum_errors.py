"""How large the rounding errors are that matrix products, convolutions, sums and normalizations make when they sum.

The error of a sum depends on the size of its terms. If the terms cancel, the error may be larger than the sum: the
gradient of a bias before a batch normalization, for example, consists of rounding errors only.

This module uses the schemas of torch's ops, which are the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

# A sum of n terms that are added one after the other has an error of about this many eps, times the root of n, times
# the size that it would have if its terms had random signs: each addition rounds by 0.21 eps (root mean square), and
# the partial sums grow with the root of their length. Measured 0.13 to 0.15 for Inductor's convolutions and sums of
# columns on a CPU, and 0.15 for convolutions and Triton's products on an H100. Eager is often more exact.
SUM_EPS = 0.15
# The same for a sum over the last dimension, which is computed in parallel. Measured 0.04 to 0.05 for Inductor's sums
# of rows on a CPU.
ROW_EPS = 0.05
# Terms with the same sign and size round in the same direction. For 2,048 such terms, the error of Inductor's sum on a
# CPU was 19 eps of the sum, 2.8 times the error above. With 3, 16 of 120 correct training checks of a pooled
# classifier failed; with 5, none did.
SAME_SIGN = 5.0
# A sum whose terms have random signs is rarely larger than this multiple of the root of the sum of their squares.
RANDOM_SIGNS = 2.0
# Longer sums are computed in parts: Inductor's sums of 262,144 elements have an error of 19 eps.
LONGEST_SUM = 2.0**14
# The smallest error, in eps.
LEAST = 1.0
# Rows of a convolution's result that are shorter than this are too short to estimate a mean square.
SHORTEST_ROW = 8

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


def error_of_sum(func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> torch.Tensor | None:
    """Return the size of the rounding error of each element of an op's result, in multiples of eps, or None if the op
    does not sum. The shape can be broadcast to the shape of the result.
    """
    name = func.overloadpacket.__name__
    if name in PRODUCTS:
        terms = args[name in ("addmm", "baddbmm")].shape[-1]
        return _eps_of_sum(terms) * _expected_sizes(result)
    if name == "convolution":
        return _eps_of_sum(_products(args[0], result, args[1], args[6], result)) * _expected_sizes(result)
    if name == "convolution_backward" and result.dim() > 1:
        return _eps_of_sum(_products(args[1], args[0], args[2], args[7], result)) * _expected_sizes(result)
    if name == "convolution_backward":  # the gradient of the bias
        return _error_over(args[0], [dim for dim in range(args[0].dim()) if dim != 1]).reshape(result.shape)
    if name in ("sum", "mean") and args[0].is_floating_point() and result.numel():
        terms = args[0].numel() / result.numel()
        squares = func(args[0].square(), *args[1:], **kwargs) / (terms if name == "mean" else 1)
        keeps_last = args[0].shape[-1:] == result.shape[-1:]
        return _eps_of_sum(terms, SUM_EPS if keeps_last else ROW_EPS) * torch.maximum(squares.sqrt(), result.abs())
    norm = _normalization(name, args)
    if norm is not None and norm.gradient is not None and result.dim() < norm.gradient.dim():  # of the weight and bias
        norms = torch.linalg.vector_norm(norm.gradient, dim=norm.summed).reshape(result.shape)
        return _error(norm.gradient.numel() / max(result.numel(), 1), norms, result)
    return None


def shared_errors(func: Any, args: Any, result: torch.Tensor) -> list[torch.Tensor]:
    """Return errors of a normalization's output, or of its input's gradient, in multiples of eps. All elements that
    share a mean and a variance also share their errors. The list is empty for other ops and results.

    For each returned tensor, multiply the elements with one random number for each group, and add them to the result.
    Dimensions in which the elements of a group lie have size 1 in ``shape_of_groups``.
    """
    norm = _normalization(func.overloadpacket.__name__, args)
    if norm is None or result.shape != norm.inputs.shape or not result.numel():
        return []
    scale = _rms(result, norm.shared)
    if norm.gradient is None:
        return [scale, result]
    # The gradient is computed from two sums over each group: of the output's gradient, and of its products with the
    # normalized input.
    deviation = norm.inputs - norm.inputs.mean(norm.shared, keepdim=True)
    normalized = deviation / _rms(deviation, norm.shared)
    terms = norm.gradient.numel() / scale.numel()
    unit = scale / _rms(norm.gradient, norm.shared) / terms
    return [
        unit * _error_over(norm.gradient, norm.shared),
        unit * _error_over(norm.gradient * normalized, norm.shared) * normalized,
    ]


def shape_of_groups(func: Any, args: Any) -> list[int]:
    """Return the shape of the random numbers for ``shared_errors``."""
    norm = _normalization(func.overloadpacket.__name__, args)
    if norm is None:
        return []
    return [1 if dim in norm.shared else size for dim, size in enumerate(norm.inputs.shape)]


@dataclass(frozen=True)
class _Normalization:
    """The input of a normalization, and in its backward pass the gradient of its output.

    Elements in the dimensions ``shared`` have a common mean and variance. The gradients of the weight and the bias are
    sums over the dimensions ``summed``.
    """

    inputs: torch.Tensor
    gradient: torch.Tensor | None
    shared: list[int]
    summed: list[int]


def _normalization(name: str, args: Any) -> _Normalization | None:
    backward = name.endswith("norm_backward")
    kind = next((kind for kind in ("batch_norm", "layer_norm", "group_norm") if kind in name), "")
    if not kind or not (backward or "backward" not in name):
        return None
    first, second = args[:2]
    gradient, inputs = (second, first) if name.startswith(("cudnn", "miopen")) else (first, second)
    if not backward:
        gradient, inputs = None, first
    dims = list(range(inputs.dim()))
    if kind == "layer_norm":
        normalized = len(args[2 if backward else 1])
        return _Normalization(inputs, gradient, dims[-normalized:], dims[:-normalized])
    others = [dim for dim in dims if dim != 1]
    # The groups of a group normalization lie in one sample.
    return _Normalization(inputs, gradient, others if kind == "batch_norm" else dims[1:], others)


def _error_over(terms: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """Return the error of the sum over ``dims``, in eps, for each element that remains. The dimensions are kept."""
    total = terms.sum(dims, keepdim=True)
    return _error(terms.numel() / max(total.numel(), 1), torch.linalg.vector_norm(terms, dim=dims, keepdim=True), total)


def _error(terms: float, norms: torch.Tensor, totals: torch.Tensor) -> torch.Tensor:
    """Return the error of sums of ``terms`` terms, in eps. ``norms`` are the roots of the sums of the squared terms."""
    same_sign = SAME_SIGN * (totals.abs() - RANDOM_SIGNS * norms)
    return _eps_of_sum(terms) * torch.maximum(norms, same_sign)


def _rms(values: torch.Tensor, dims: list[int]) -> torch.Tensor:
    return values.square().mean(dims, keepdim=True).sqrt()


def _eps_of_sum(terms: float, eps: float = SUM_EPS) -> float:
    return max(LEAST, eps * math.sqrt(min(terms, LONGEST_SUM)))


def _products(
    inputs: torch.Tensor, output: torch.Tensor, weight: torch.Tensor, transposed: bool, result: torch.Tensor
) -> float:
    """Return the number of products of a convolution that are summed for each element of one of its results."""
    products = (inputs if transposed else output).numel() * weight.numel() / max(weight.shape[0], 1)
    return float(products / max(result.numel(), 1))


def _expected_sizes(sums: torch.Tensor) -> torch.Tensor:
    """Return the size that each sum of a matrix product or convolution would have if its terms had random signs. The
    size is estimated from the mean squares of the sum's row and column.
    """
    squares = sums.square()
    # In an activation, a row is a channel, unless it is too short to estimate a mean square.
    has_long_rows = sums.dim() > 2 and sums[0, 0].numel() >= SHORTEST_ROW
    matrices = squares.flatten(2 if has_long_rows else 1)
    if 1 in matrices.shape[-2:]:
        return squares.mean().sqrt()
    rows, columns = matrices.mean(-1, keepdim=True), matrices.mean(-2, keepdim=True)
    return (rows / rows.mean(-2, keepdim=True) * columns).sqrt_().reshape(sums.shape)
