"""Fake tensors that have values: each operator also runs on real tensors on the CPU, and so do generated kernels.

So the generated code receives CUDA tensors, as in every plan, and its results can be compared with eager results.
Uninitialized memory is filled with NaN or large integers. Operators that exist only for CUDA, or that round differently
on a CPU, are computed by their substitutes in ``_SUBSTITUTES``. An operator that has neither a CPU version nor a
substitute is reported as not observable.

This module uses ``OpOverload._schema`` and the private torch names that ``fake.py`` uses. All these names were checked
with torch 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._pytree import tree_flatten, tree_map

from .block import NotInterpreted
from .fake import CardMode, Shape
from .interpret import Interpreted
from .pointer import poison

_CPU = torch.device("cpu")


class ValuedMode(CardMode):
    """The mode in which generated code runs on fake CUDA tensors and also computes values on the CPU. ``unknown`` lists
    the operators and kernels that could not be computed, with reasons.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unknown: list[str] = []
        self.faults: list[tuple[str, str]] = []  # (kernel name, fault) pairs
        self._values: dict[int, torch.Tensor] = {}
        self._kernels: dict[tuple[str, str], Interpreted] = {}

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] = {}) -> Any:
        """Run an operator on fake tensors, and then on their values."""
        outermost = not self._depth
        result = super().dispatch(func, types, args, kwargs)
        if outermost and self._has_values(args, kwargs):
            self._compute(func, args, kwargs, result)
        return result

    def _has_values(self, args: Any, kwargs: Any) -> bool:
        """Return whether all tensors in the arguments have values. Tensors that the compiler uses for tracing have no
        values.
        """
        return all(valued(leaf) for leaf in tree_flatten((args, dict(kwargs)))[0] if isinstance(leaf, torch.Tensor))

    def _compute(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        inputs, options = tree_map(_on_cpu, (args, dict(kwargs)))
        try:
            substitute = _SUBSTITUTES.get(str(func))
            values = substitute(func, inputs, options) if substitute else func(*inputs, **options)
        except Exception as error:
            self._not_known(str(func), error)
            return
        made, found = tree_flatten(result)[0], tree_flatten(values)[0]
        storages = {t.untyped_storage()._cdata for t in tree_flatten((inputs, options))[0] if _is_tensor(t)}
        for tensor, value in zip(made, found, strict=False):
            if isinstance(tensor, FakeTensor) and _is_tensor(value) and not hasattr(tensor, "value"):
                new = value.untyped_storage()._cdata not in storages
                if new and str(func).startswith(("aten.empty", "aten.new_empty")):
                    poison(value)
                if substitute is _norm:
                    value = value.to(tensor.dtype)
                if not value.numel():  # such as the statistics of batch norm in eval mode, which nothing reads
                    value = value.new_empty(tensor.shape, dtype=tensor.dtype)
                    poison(value)
                value = _laid_out(value, tensor) if new else value
                if substitute is _attention and value.shape != tensor.shape:
                    value = value.new_zeros(tensor.shape)  # the kernel's backward recomputes this value
                if value.shape != tensor.shape or value.dtype != tensor.dtype:
                    self._not_known(
                        str(func),
                        NotInterpreted(f"the CPU result has shape {tuple(value.shape)} and dtype {value.dtype}"),
                    )
                else:
                    _keep(tensor, value)

    def _not_known(self, what: str, error: BaseException) -> None:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        if (text := f"{what}: {line}") not in self.unknown:
            self.unknown.append(text)

    def tensor(self, shape: Shape) -> torch.Tensor:
        """Return a fake tensor that matches the description, with the values in the description, if any."""
        made = super().tensor(shape)
        if shape.values is None:
            return made
        if shape.storage not in self._values:
            content = bytearray(shape.values) or bytearray(1)  # ``frombuffer`` does not accept an empty buffer
            self._values[shape.storage] = torch.frombuffer(content, dtype=torch.uint8).clone()
        value = torch.empty(0, dtype=shape.dtype, device="cpu")
        _keep(made, value.set_(self._values[shape.storage].untyped_storage(), shape.offset, shape.size, shape.stride))
        return made

    def forget_storages(self) -> None:
        """Release the storages, so that each storage is freed together with the last tensor that uses it."""
        super().forget_storages()
        self._values.clear()

    def launch(self, name: str, source: str, arguments: Sequence[Any]) -> None:
        """Run a generated kernel on the values of its arguments, and record its faults."""
        try:
            if not all(valued(one) for one in arguments if isinstance(one, torch.Tensor)):
                raise NotInterpreted("the values of an argument are not known")
            kernel = self._kernels.setdefault((name, source), Interpreted(name, source))
            with outside(), torch.no_grad():
                faults = kernel.run([value_of(one) if isinstance(one, torch.Tensor) else one for one in arguments])
        except Exception as error:
            self._not_known(f"kernel {name}", error)
        else:
            self.faults += [(name, fault) for fault in faults if (name, fault) not in self.faults]


def outside() -> AbstractContextManager[Any]:
    """Inside the ``with`` block, make operators compute values instead of creating fake tensors."""
    context: AbstractContextManager[Any] = unset_fake_temporarily()
    return context


def valued(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has values: it is a real tensor, or a fake tensor whose values were computed."""
    return not isinstance(tensor, FakeTensor) or hasattr(tensor, "value")


def value_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values, on the CPU."""
    value: torch.Tensor = getattr(tensor, "value", tensor)
    return value


def _keep(tensor: Any, value: torch.Tensor) -> None:
    tensor.value = value


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _on_cpu(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return value_of(leaf).detach()
    return _CPU if isinstance(leaf, torch.device) else leaf


def _laid_out(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return ``value`` with the strides of ``like``, which has the layout that the result has on the GPU."""
    if value.shape != like.shape and value.numel() == like.numel():
        value = value.reshape(like.shape)  # the statistics of a normalization have another shape on the CPU
    if value.stride() == like.stride() or value.layout is not torch.strided or value.shape != like.shape:
        return value
    return torch.empty_strided(value.shape, like.stride(), dtype=value.dtype, device="cpu").copy_(value)


def _dropout(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute dropout with the random numbers that eager code on the CPU draws."""
    given = _named(func, args, kwargs)
    values, rate = given["input"], given["p"]
    if given["train"] is False or rate == 0:
        return values, torch.ones_like(values, dtype=torch.bool)
    noise = torch.empty_like(values).bernoulli_(1 - rate)
    return values * (noise / (1 - rate) if rate < 1 else noise), noise.bool()


def _convolution(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute a convolution, and add the bias afterwards. With cuDNN, torch adds the bias to the rounded result."""
    given = _named(func, args, kwargs)
    bias, given["bias"] = given["bias"], None
    result = func(*given.values())
    return result if bias is None else result + bias.reshape(-1, *[1] * (result.dim() - 2))


def _norm(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute a normalization and its statistics in float32, as on a GPU. Update running statistics in place."""
    given = _named(func, args, kwargs)
    wide = tree_map(lambda leaf: leaf.float() if _is_tensor(leaf) and leaf.dtype.itemsize == 2 else leaf, given)
    results = func(*wide.values())
    if given.get("training"):
        for name in ("running_mean", "running_var"):
            if given[name] is not None:
                given[name].copy_(wide[name])
    return results


def _rms_norm_backward(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute the gradients of RMS normalization in float32. torch implements this operator only for GPUs."""
    given = _named(func, args, kwargs)
    gradient, rstd, weight = _wide(given["grad_out"]), _wide(given["rstd"]), given["weight"]
    normalized = _wide(given["input"]) * rstd
    of_normalized = gradient if weight is None else gradient * _wide(weight)
    dims = tuple(range(-len(given["normalized_shape"]), 0))
    mean = (of_normalized * normalized).mean(dims, keepdim=True)
    of_input = ((of_normalized - normalized * mean) * rstd).to(given["input"].dtype)
    return of_input, None if weight is None else (gradient * normalized).sum_to_size(weight.shape).to(weight.dtype)


def _batch_norm_backward(func: Any, args: Any, kwargs: Any) -> Any:
    given = _named(func, args, kwargs)
    names = ("grad_output", "input", "weight", "running_mean", "running_var", "save_mean", "save_var")
    of_native = torch.ops.aten.native_batch_norm_backward.default
    return of_native(*[given[name] for name in names], True, given["epsilon"], [True, True, True])


def _attention(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute fused attention in float32, including the logsumexp of the scores, which backward needs."""
    given = _named(func, args, kwargs)
    weights, logsumexp, value = _weights(given)
    output = (weights @ value).to(given["query"].dtype)
    # The kernels give the output the memory layout of the query.
    if given["query"].shape[-1] == output.shape[-1] and given["query"].stride(1) < given["query"].stride(2):
        output = output.transpose(1, 2).contiguous().transpose(1, 2)
    zero = torch.zeros((), dtype=torch.int64, device="cpu")
    if "efficient" in str(func):
        return output, logsumexp, zero, zero
    return output, logsumexp, None, None, 0, 0, torch.zeros(2, dtype=torch.int64, device="cpu"), zero, zero


def _attention_backward(func: Any, args: Any, kwargs: Any) -> Any:
    given = _named(func, args, kwargs)
    weights, _, value = _weights(given)
    query, key = _wide(given["query"]), _wide(_repeated(given["key"], given["query"]))
    gradient = _wide(given.get("grad_out_", given.get("grad_out")))
    of_value = weights.transpose(-1, -2) @ gradient
    of_weights = gradient @ value.transpose(-1, -2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    scale = _scale(given)
    of_query, of_key = of_scores @ key * scale, of_scores.transpose(-1, -2) @ query * scale
    found = [of_query, _summed(of_key, given["key"]), _summed(of_value, given["value"])]
    results = [one.to(given["query"].dtype) for one in found]
    if "efficient" not in str(func):
        return tuple(results)
    bias = given.get("attn_bias")
    return *results, None if bias is None else of_scores.sum_to_size(bias.shape).to(bias.dtype)


def _weights(given: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the attention weights, the logsumexp of the scores, and the value tensor. The value tensor is repeated
    for every query head.
    """
    if given.get("dropout_p"):
        raise NotInterpreted("random numbers inside a fused attention kernel")
    query, key, value = given["query"], given["key"], given["value"]
    scores = _wide(query) @ _wide(_repeated(key, query)).transpose(-1, -2) * _scale(given)
    if given.get("is_causal"):
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cpu").triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    if given.get("attn_bias") is not None:
        scores = scores + given["attn_bias"]
    return scores.softmax(-1), scores.logsumexp(-1), _wide(_repeated(value, query))


def _scale(given: Mapping[str, Any]) -> float:
    scale = given.get("scale")
    return float(given["query"].shape[-1] ** -0.5 if scale is None else scale)


def _wide(tensor: Any) -> torch.Tensor:
    wide: torch.Tensor = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide


def _repeated(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1)


def _summed(gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return gradient.unflatten(1, (like.shape[1], -1)).sum(2)


def _named(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operator's arguments by name, in the order of its parameters, including default values."""
    schema = func._schema.arguments
    given = dict(zip((one.name for one in schema), args, strict=False)) | dict(kwargs)
    return {one.name: given.get(one.name, one.default_value) for one in schema}


_KERNELS = ("cudnn", "flash", "efficient")
_SUBSTITUTES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "aten.native_dropout.default": _dropout,
    "aten.convolution.default": _convolution,
    # torch's operator on a CPU supports only floating-point dtypes.
    "aten.histc.default": lambda func, args, kwargs: func(args[0].double(), *args[1:], **kwargs).to(args[0].dtype),
    **{
        f"aten.native_{kind}_norm{way}.default": _norm
        for kind in ("layer", "group", "batch")
        for way in ("", "_backward")
    },
    "aten._fused_rms_norm_backward.default": _rms_norm_backward,
    # cuDNN's operator also returns memory that it reserves for the backward pass.
    "aten.cudnn_batch_norm.default": lambda func, args, kwargs: (
        *torch.ops.aten.native_batch_norm.default(*_named(func, args, kwargs).values()),
        torch.empty(0, dtype=torch.uint8, device="cpu"),
    ),
    "aten.cudnn_batch_norm_backward.default": _batch_norm_backward,
    **{f"aten._scaled_dot_product_{kernel}_attention.default": _attention for kernel in _KERNELS},
    **{f"aten._scaled_dot_product_{kernel}_attention_backward.default": _attention_backward for kernel in _KERNELS},
}
