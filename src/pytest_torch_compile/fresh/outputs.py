"""Copy the values that a call returned, so that they can be compared with the values of another call."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import torch

from .._torch.float_types import is_packed
from .._torch.machine_faults import machine_fault
from .._torch.trees import inner_tensors, is_traceable_wrapper_subclass, waited
from ..numerics import flatten
from ..numerics.containers import as_tensor

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


@dataclass
class Values:
    """Copies of the values in an output, by path. ``leaves`` contains tensors (strided or sparse), numbers and other
    values that can be compared. ``containers`` describes the containers, and ``others`` contains the types of the
    values that cannot be compared.
    """

    leaves: dict[str, Any] = field(default_factory=dict)
    containers: dict[str, tuple[str, str]] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The paths of all containers and values."""
        return [*self.containers, *self.leaves, *self.others]

    def __contains__(self, path: str) -> bool:
        return path in self.containers or path in self.leaves or path in self.others

    def add(self, path: str, value: Any) -> None:
        """Add a value that is not a container."""
        if type(value) in _PLAIN:
            self.leaves[path] = value
        elif isinstance(value, torch.Tensor):
            self._add_tensor(path, value)
        elif type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            self._add_array(path, value)
        else:
            self._add_object(path, value)

    def _add_array(self, path: str, array: Any) -> None:
        # torch has no tensors of strings and dates, for example.
        tensor = as_tensor(array) if array.ndim else None
        if tensor is None:
            self._add_object(path, array.tolist())
        else:
            self.leaves[path] = tensor

    def _add_tensor(self, path: str, tensor: torch.Tensor) -> None:
        tensor = waited(tensor)
        kind = type(tensor).__name__
        if tensor.is_nested:
            parts = tensor.unbind()
            self.containers[path] = f"nested {kind}", f"length {len(parts)}"
            for index, part in enumerate(parts):
                self._add_tensor(f"{path}[{index}]", part)
        elif is_traceable_wrapper_subclass(tensor):
            self.containers[path] = kind, "wrapped tensors"
            for name, inner in inner_tensors(tensor).items():
                self._add_tensor(f"{path}.{name}", inner)
        elif tensor.device.type == "meta":
            self.others[path] = "a tensor on the meta device"
        else:
            try:
                self.leaves[path] = _copied(tensor)
            except Exception as error:  # a tensor subclass may raise any exception
                if machine_fault(error, compiling=False):
                    raise
                self.others[path] = kind

    def _add_object(self, path: str, value: Any) -> None:
        # The copy shows that the object can be sent to this process from a fresh process.
        try:
            copy = pickle.loads(pickle.dumps(value))
            comparable = type(copy) is type(value) and bool(copy == value)
        except Exception:  # the object's class may raise any exception
            comparable = False
        if comparable:
            self.leaves[path] = copy
        else:
            self.others[path] = type(value).__name__


def values_of(output: Any) -> Values:
    """Return copies of the values in an output."""
    values = Values()
    for path, node in flatten(output).nodes.items():
        if node.is_leaf:
            values.add(path, node.value)
        else:
            values.containers[path] = node.kind.__qualname__, node.shape
    return values


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if type(tensor) is not torch.Tensor:
        tensor = tensor.as_subclass(torch.Tensor)
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.is_mkldnn:
        return tensor.to_dense()
    if tensor.layout is not torch.strided:
        return tensor.clone()
    if is_packed(tensor.dtype):
        tensor = tensor.view(torch.uint8)
    return tensor.resolve_conj().resolve_neg().clone()
