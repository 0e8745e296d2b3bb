"""Compare the metadata of tensors, and split tensors into strided parts whose values can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .._torch.float_types import is_packed
from .._torch.tensor_state import without_subclass
from .._torch.trees import inner_tensors, is_traceable_wrapper_subclass, waited
from ..findings import CompileUsageError

PADDING_BYTES = 128  # Inductor pads rows to multiples of at most this many bytes
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
_QUANTISED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)


@dataclass(frozen=True)
class MetadataDifference:
    """A metadata field of a tensor that differs between eager and compiled code."""

    what: str
    eager: Any
    compiled: Any

    def __str__(self) -> str:
        return f"{self.what}: eager {self.eager}, compiled {self.compiled}"


def metadata_differences(
    eager: torch.Tensor, compiled: torch.Tensor, *, strides: bool = True, requires_grad: bool = True
) -> list[MetadataDifference]:
    """Return the metadata differences, such as ``dtype: eager torch.float32, compiled torch.float16``."""
    kind = MetadataDifference("type", type(eager).__name__, type(compiled).__name__)
    gradient = MetadataDifference("requires_grad", eager.requires_grad, compiled.requires_grad)
    eager, compiled = without_subclass(eager), without_subclass(compiled)
    checked = [
        kind,
        MetadataDifference("shape", _shape(eager), _shape(compiled)),
        MetadataDifference("dtype", eager.dtype, compiled.dtype),
        MetadataDifference("device", eager.device, compiled.device),
        MetadataDifference("layout", eager.layout, compiled.layout),
    ]
    if requires_grad:
        checked.append(gradient)
    if strides and is_dense(eager) and _shape(eager) == _shape(compiled) and compiled.layout is torch.strided:
        # The stride of a dimension with one element is arbitrary.
        sized = [dim for dim, size in enumerate(eager.shape) if size > 1] if eager.numel() else []
        same = all(eager.stride(dim) == compiled.stride(dim) for dim in sized)
        if not same and not (compiled.device.type != "cpu" and rows_are_padded(eager, compiled)):
            checked.append(MetadataDifference("strides", tuple(eager.stride()), tuple(compiled.stride())))
    return [difference for difference in checked if difference.eager != difference.compiled]


def part_differences(eager: torch.Tensor, compiled: torch.Tensor, path: str) -> dict[str, list[MetadataDifference]]:
    """Return the differences in shape and dtype between the strided tensors that contain the values of two sparse,
    nested or quantized tensors, or of two wrappers, by path. Values can be compared only between tensors of the same
    shape and dtype.
    """
    is_single = eager.layout is torch.strided and not (eager.is_nested or eager.is_quantized)
    if eager is compiled or (is_single and not is_traceable_wrapper_subclass(eager)):
        return {}
    parts, others = plain_tensors(eager, path), plain_tensors(compiled, path)
    found: dict[str, list[MetadataDifference]] = {}
    for name in {**parts, **others}:
        sides = parts.get(name), others.get(name)
        for what in ("shape", "dtype"):
            left, right = ("missing" if part is None else getattr(part, what) for part in sides)
            if left != right and name not in found:
                shown = [tuple(value) if isinstance(value, torch.Size) else value for value in (left, right)]
                found[name] = [MetadataDifference(what, *shown)]
    return found


def _shape(tensor: torch.Tensor) -> tuple[int, ...] | str:
    return f"nested, {tensor.dim()} dimensions" if tensor.is_nested else tuple(tensor.shape)


def rows_are_padded(eager: torch.Tensor, compiled: torch.Tensor) -> bool:
    """Return whether ``compiled`` has the strides of ``eager``, apart from padding at the end of rows.

    On accelerators, Inductor pads the rows of matrix products. Inductor guarantees only the order of an output's
    strides, not their values.
    """
    expected, slack = 1, 0
    for dim in sorted((d for d in range(eager.dim()) if eager.shape[d] > 1), key=eager.stride):
        stride = compiled.stride(dim)
        if not expected <= stride <= expected + slack:
            return False
        expected, slack = stride * compiled.shape[dim], PADDING_BYTES // compiled.element_size()
    return True


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements are stored without gaps, for some order of the dimensions."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return False
    expected = 1
    for stride, size in sorted(
        (tensor.stride(d), tensor.shape[d]) for d in range(tensor.dim()) if tensor.shape[d] != 1
    ):
        if stride != expected:
            return False
        expected *= size
    return True


def plain_tensors(tensor: torch.Tensor, path: str) -> dict[str, torch.Tensor]:
    """Return the strided tensors that contain the values: several for sparse, nested and quantized tensors, and for
    wrapper subclasses.

    Raises:
        CompileUsageError: If a tensor has a layout that cannot be compared.
    """
    tensor = without_subclass(waited(tensor))
    if is_traceable_wrapper_subclass(tensor) and not tensor.is_nested:
        return {
            name: part
            for attribute, inner in inner_tensors(tensor).items()
            for name, part in plain_tensors(inner, f"{path}.{attribute}").items()
        }
    if tensor.device.type == "meta":
        return {}
    # Call unbind() before detach(), because torch cannot unbind a detached nested tensor that was created in inference
    # mode.
    if tensor.is_nested:
        parts: dict[str, torch.Tensor] = {}
        for index, part in enumerate(tensor.unbind()):
            parts.update(plain_tensors(part, f"{path}[{index}]"))
        return parts
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()  # otherwise, the values of one index may be split into several entries
        return {f"{path}.indices()": tensor.indices(), f"{path}.values()": tensor.values()}
    if tensor.layout in _COMPRESSED:
        by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
        outer, inner = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
        return {f"{path}.{name}()": getattr(tensor, name)() for name in (outer, inner, "values")}
    if tensor.layout is not torch.strided:
        if hasattr(tensor, "is_mkldnn") and tensor.is_mkldnn:
            return {path: tensor.to_dense()}
        raise CompileUsageError(f"{path} has layout {tensor.layout}, which cannot be compared; return a dense tensor")
    if tensor.dtype in _QUANTISED:
        return _quantised(tensor, path)
    if is_packed(tensor.dtype):
        return {f"{path}.view(torch.uint8)": tensor.view(torch.uint8)}
    # A lazily conjugated or negated tensor contains its original values and a flag.
    return {path: tensor.resolve_conj().resolve_neg()}


def _quantised(tensor: torch.Tensor, path: str) -> dict[str, torch.Tensor]:
    parts = {f"{path}.int_repr()": tensor.int_repr()}
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        parts[f"{path}.q_scale()"] = torch.tensor(tensor.q_scale(), dtype=torch.float64, device="cpu")
        parts[f"{path}.q_zero_point()"] = torch.tensor(tensor.q_zero_point(), device="cpu")
    else:
        parts[f"{path}.q_per_channel_axis()"] = torch.tensor(tensor.q_per_channel_axis(), device="cpu")
        parts[f"{path}.q_per_channel_scales()"] = tensor.q_per_channel_scales()
        parts[f"{path}.q_per_channel_zero_points()"] = tensor.q_per_channel_zero_points()
    return parts
