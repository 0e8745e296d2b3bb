"""How large the rounding errors are that matrix products, convolutions, sums and normalizations make when they sum,
for results in fp32 and fp64.

The error of a sum depends on the size of its terms. If the terms cancel, the error may be larger than the sum: the
gradient of a bias before a batch normalization, for example, consists of rounding errors only.

This module uses the schemas of torch's ops, which are the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .dispatch_mode import name_in_torch
from .support import AVERAGES_IN_PARTS

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
# On a CPU, Inductor adds the elements of a batch normalization's channel to its mean one after the other, if the
# channels are innermost in memory, as after a convolution. The error of the mean is about 0.13 eps of the mean, times
# the root of the number of elements: each step rounds by 0.21 eps, and the errors shrink by 1 / sqrt(3) while elements
# are added. Measured 8 eps for 4,096 elements, and 0.5 if the channels are not innermost. The constant is larger than
# 0.13, because a few channels may dominate the error of a whole network.
MEAN_EPS = 0.2
# Since torch 2.8, more elements are averaged in parts of this many elements.
MEAN_PART = 2.0**12
# The smallest error, in eps.
LEAST = 1.0
# Rows of a convolution's result that are shorter than this are too short to estimate a mean square.
SHORTEST_ROW = 8

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
_NORMALIZATIONS = ("batch_norm", "instance_norm", "layer_norm", "group_norm")
_STATISTICS = ("running_mean", "running_var")
# These batch normalizations receive the statistics that they use, and have no argument that says so.
_IN_EVAL = ("_native_batch_norm_legit_no_training", "_batch_norm_no_update", "batch_norm_elemt")


@dataclass(frozen=True)
class RoundingErrors:
    """The size of the rounding errors in an op's result, in multiples of eps.

    Each element has an ``independent`` error: the product of these tensors, which can be broadcast to the shape of the
    result. There are none if the op does not sum.

    All elements of a group have the ``shared`` errors in common: for each of these tensors, one random number for each
    group is multiplied with the tensor and added to the result. ``groups`` is the shape of the random numbers. Its size
    is 1 in the dimensions in which the elements of a group lie.
    """

    independent: Sequence[torch.Tensor] = ()
    shared: Sequence[torch.Tensor] = ()
    groups: Sequence[int] = ()


def errors_of(func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> RoundingErrors:
    """Return the rounding errors of one of an op's results."""
    name = name_in_torch(func)
    if not result.numel():
        return RoundingErrors()
    if name in PRODUCTS:
        first = 1 if name in ("addmm", "baddbmm") else 0  # their first argument is added to the product
        return RoundingErrors(_expected_sizes(result, args[first].shape[-1]))
    if name == "convolution":
        return RoundingErrors(_expected_sizes(result, _products(args[0], result, args[1], args[6], result)))
    if name == "convolution_backward" and result.dim() > 1:
        return RoundingErrors(_expected_sizes(result, _products(args[1], args[0], args[2], args[7], result)))
    if name == "convolution_backward":  # the gradient of the bias
        over = [dim for dim in range(args[0].dim()) if dim != 1]
        return RoundingErrors([_error_over(args[0], over).reshape(result.shape)])
    if name in ("sum", "mean") and args[0].is_floating_point():
        terms = args[0].numel() / result.numel()
        squares = func(args[0].square(), *args[1:], **kwargs) / (terms if name == "mean" else 1)
        keeps_last = args[0].shape[-1:] == result.shape[-1:]
        size = torch.maximum(squares.sqrt(), result.abs())
        return RoundingErrors([_eps_of_sum(terms, SUM_EPS if keeps_last else ROW_EPS) * size])
    norm = _normalization(func, args, kwargs)
    if norm is None:
        return RoundingErrors()
    if result is norm.options.get("running_mean"):
        return RoundingErrors([_error_of_running_mean(norm, result)])
    if result.shape == norm.inputs.shape:
        groups = [1 if dim in norm.shared else size for dim, size in enumerate(result.shape)]
        return RoundingErrors((), _shared_errors(norm, result), groups)
    if norm.gradient is not None and result.dim() < norm.gradient.dim():  # the gradients of the weight and the bias
        norms = _norms(norm.gradient, norm.summed).reshape(result.shape)
        return RoundingErrors([_error(norm.gradient.numel() / result.numel(), norms, result)])
    return RoundingErrors()


def updated_statistics(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Return the running statistics to which an op writes. Most batch normalizations do not return them."""
    norm = _normalization(func, args, kwargs)
    if norm is None or norm.gradient is not None or not norm.sums_inputs or "functional" in name_in_torch(func):
        return []
    return [value for name in _STATISTICS if isinstance(value := norm.options.get(name), torch.Tensor)]


@dataclass(frozen=True)
class _Normalization:
    """The input of a normalization, and in its backward pass the gradient of its output.

    Elements in the dimensions ``shared`` have a common mean and variance; in a group normalization, these are the
    dimensions of a sample, which has ``groups`` means and variances. The gradients of the weight and the bias are sums
    over the dimensions ``summed``. ``options`` contains the op's arguments by name. ``sums_inputs`` is false if the op
    uses statistics that it receives in place of the mean and the variance of its input.
    """

    kind: str
    inputs: torch.Tensor
    gradient: torch.Tensor | None
    shared: list[int]
    summed: list[int]
    groups: int
    options: Mapping[str, Any]
    sums_inputs: bool


def _normalization(func: Any, args: Any, kwargs: Any) -> _Normalization | None:
    name = name_in_torch(func)
    backward = name.endswith("norm_backward")
    kind = next((kind for kind in _NORMALIZATIONS if kind in name), "")
    if not kind or not (backward or "backward" not in name):
        return None
    options = _arguments(func, args, kwargs)
    inputs, gradient = options.get("input"), options.get("grad_out", options.get("grad_output"))
    if not isinstance(inputs, torch.Tensor) or not inputs.numel():
        return None
    given = (options[word] for word in ("training", "train", "use_input_stats") if word in options)
    dims = list(range(inputs.dim()))
    others = [dim for dim in dims if dim != 1]
    first = len(dims) - len(options.get("normalized_shape", ()))
    shared, summed = {
        "batch_norm": (others, others),
        "instance_norm": (dims[2:], others),
        "group_norm": (dims[1:], others),
        "layer_norm": (dims[first:], dims[:first]),
    }[kind]
    groups = options.get("group", options.get("num_groups", 1))
    sums_inputs = bool(next(given, name not in _IN_EVAL))
    return _Normalization(kind, inputs, gradient, shared, summed, groups, options, sums_inputs)


def _arguments(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return an op's arguments by name. A caller may leave out arguments that have a default."""
    defaults = {given.name: given.default_value for given in func._schema.arguments if given.has_default_value()}
    named = zip((given.name for given in func._schema.arguments), args, strict=False)
    return {**defaults, **dict(named), **kwargs}


def _weight(norm: _Normalization) -> torch.Tensor:
    """Return the absolute weight of a normalization, in a shape that can be broadcast to the shape of its input."""
    weight = norm.options.get("weight")
    if weight is None:
        return norm.inputs.new_ones(())
    return weight.abs() if norm.kind == "layer_norm" else weight.abs().view(-1, *[1] * (norm.inputs.dim() - 2))


def _shared_errors(norm: _Normalization, result: torch.Tensor) -> list[torch.Tensor]:
    """Return the errors of a normalization's output, or of its input's gradient. All elements that share a mean and a
    variance also share their errors.
    """
    scale = _rms(result, norm.shared)
    if norm.gradient is None:
        return [torch.maximum(scale, _error_of_mean(norm)) if norm.sums_inputs else scale, result]
    if not norm.sums_inputs:
        return [result]
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


def _error_of_mean(norm: _Normalization) -> torch.Tensor:
    """Return the error of the output that is caused by the error of the mean, in eps. It is large in relation to the
    output if the mean is much larger than the deviation.
    """
    inputs, dims = norm.inputs, norm.shared
    if norm.groups > 1:
        inputs = inputs.unflatten(1, (norm.groups, -1))
        dims = list(range(2, inputs.dim()))
    mean = inputs.mean(dims, keepdim=True)
    variance = (inputs - mean).square().mean(dims, keepdim=True)
    deviation = (variance + norm.options.get("eps", norm.options.get("epsilon"))).sqrt()
    # Elements that are all equal are averaged without an error.
    largest = variance.sqrt() / torch.finfo(mean.dtype).eps
    error = torch.minimum(_eps_of_mean(norm) * mean.abs(), largest) / deviation
    if norm.groups > 1:  # the same error for all channels of a group
        error = error.expand(-1, -1, inputs.shape[2], *error.shape[3:]).flatten(1, 2)
    return error * _weight(norm)


def _error_of_running_mean(norm: _Normalization, running: torch.Tensor) -> torch.Tensor:
    share = norm.options.get("momentum", norm.options.get("exponential_average_factor", 1.0))
    mean = norm.inputs.mean(norm.summed).reshape(running.shape).to(running.dtype)
    return torch.maximum(running.abs(), _eps_of_mean(norm) * share * mean.abs())


def _eps_of_mean(norm: _Normalization) -> float:
    """Return the error of the mean of a normalization's input, in eps of the mean."""
    if norm.kind not in ("batch_norm", "instance_norm") or not norm.inputs.is_cpu:
        return LEAST
    terms = math.prod(norm.inputs.shape[dim] for dim in norm.shared)
    part: float = min(terms, MEAN_PART) if AVERAGES_IN_PARTS else terms
    return max(LEAST, MEAN_EPS * part / math.sqrt(terms))


def _error_over(terms: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """Return the error of the sum over ``dims``, in eps, for each element that remains. The dimensions are kept."""
    total = terms.sum(dims, keepdim=True)
    return _error(terms.numel() / total.numel(), _norms(terms, dims), total)


def _error(terms: float, norms: torch.Tensor, totals: torch.Tensor) -> torch.Tensor:
    """Return the error of sums of ``terms`` terms, in eps. ``norms`` are the roots of the sums of the squared terms."""
    same_sign = SAME_SIGN * (totals.abs() - RANDOM_SIGNS * norms)
    return _eps_of_sum(terms) * torch.maximum(norms, same_sign)


def _rms(values: torch.Tensor, dims: list[int]) -> torch.Tensor:
    return values.square().mean(dims, keepdim=True).sqrt_()


def _norms(values: torch.Tensor, dims: list[int]) -> torch.Tensor:
    # On a CPU, this is ten times faster than vector_norm over dimensions other than the last.
    return values.square().sum(dims, keepdim=True).sqrt_()


def _eps_of_sum(terms: float, eps: float = SUM_EPS) -> float:
    return max(LEAST, eps * math.sqrt(min(terms, LONGEST_SUM)))


def _products(
    inputs: torch.Tensor, output: torch.Tensor, weight: torch.Tensor, transposed: bool, result: torch.Tensor
) -> float:
    """Return the number of products of a convolution that are summed for each element of one of its results."""
    products = (inputs if transposed else output).numel() * weight.numel() / max(weight.shape[0], 1)
    return float(products / max(result.numel(), 1))


def _expected_sizes(sums: torch.Tensor, terms: float) -> list[torch.Tensor]:
    """Return factors of the error of each sum of a matrix product or convolution, in eps: the error of ``terms`` terms
    with random signs. Their size is estimated from the root mean squares of the sum's row and column.
    """
    # In an activation, a row is a channel, unless it is too short to estimate a mean square.
    has_long_rows = sums.dim() > 2 and sums[0, 0].numel() >= SHORTEST_ROW
    column_dim = 1 if has_long_rows else 0
    row_dims = list(range(column_dim + 1, sums.dim()))
    squares = sums.square()
    if 1 in (sums.shape[column_dim], sums[0].numel()):
        return [_eps_of_sum(terms) * squares.mean().sqrt()]
    rows, columns = squares.mean(row_dims, keepdim=True), squares.mean(column_dim, keepdim=True)
    scale = _eps_of_sum(terms) / rows.mean(column_dim, keepdim=True).sqrt_()
    return [rows.sqrt_() * scale, columns.sqrt_()]
