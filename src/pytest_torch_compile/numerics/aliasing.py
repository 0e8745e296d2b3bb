"""Compare memory sharing in eager and in compiled code: which outputs share memory with arguments, parameters, buffers
or other outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from .._torch.tensor_state import without_subclass

Sharing = dict[tuple[str, str], int]
"""Maps each (output, other tensor) pair that shares a storage to the offset between their first elements."""


def storage_key(tensor: torch.Tensor) -> tuple[str, int] | None:
    """Return a key that identifies a tensor's storage, or None for a tensor without a storage."""
    tensor = without_subclass(tensor)
    if tensor.numel() == 0 or tensor.layout is not torch.strided or tensor.is_nested or tensor.device.type == "meta":
        return None
    try:
        pointer = tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # a wrapper subclass has no memory
        return None
    return (str(tensor.device), pointer) if pointer else None


def sharing(outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> Sharing:
    """Map each (output, other tensor) pair that shares a storage to the offset between their first elements."""
    holders: dict[tuple[str, int], list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in others.items():
        key = storage_key(tensor)
        if key is not None:
            holders.setdefault(key, []).append((name, tensor))
    pairs: Sharing = {}
    for name, tensor in outputs.items():
        key = storage_key(tensor)
        if key is None:
            continue
        for other, holder in holders.get(key, []):
            offsets = [without_subclass(one).storage_offset() for one in (tensor, holder)]
            pairs[name, other] = offsets[0] - offsets[1]
        holders.setdefault(key, []).append((name, tensor))
    return pairs


def aliasing_differences(
    eager: Mapping[tuple[str, str], int], compiled: Mapping[tuple[str, str], int]
) -> Iterator[tuple[str, str]]:
    """Yield an output and a message for each pair that shares memory in only one run (eager or compiled), or at
    different offsets in the two runs.
    """
    for name, other in dict.fromkeys([*eager, *compiled]):
        here, there = eager.get((name, other)), compiled.get((name, other))
        if there is None:
            yield name, f"{name} shares memory with {other} in eager, but not in compiled code"
        elif here is None:
            yield name, f"{name} shares memory with {other} in compiled code, but not in eager"
        elif here != there:
            yield name, f"{name} starts at offset {here} from {other} in eager, but at offset {there} in compiled code"
