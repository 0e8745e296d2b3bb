"""Base classes for dispatch modes, which see each op that runs in eager.

This module uses ``torch.utils._python_dispatch.TorchDispatchMode``, ``torch._ops.HigherOrderOperator`` and its
``py_impl``, ``_higher_order_ops``, ``OpOverload._op_dk``, ``torch._C._dispatch_has_kernel_for_dispatch_key`` and
``tree_leaves`` of ``torch.utils._pytree``, which are the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator, _higher_order_ops
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class DispatchMode(TorchDispatchMode):
    """A base class for dispatch modes, which implement ``call``. Higher-order ops such as ``flex_attention`` and
    ``cond`` can run in these modes, but the modes do not see the ops inside a higher-order op.

    Outside of inference mode, torch decomposes ops such as ``linear`` before a mode sees them. In inference mode, this
    class decomposes them, so the modes always see the same ops.
    """

    supports_higher_order_operators = True

    def __enter__(self) -> Any:
        # Older torch versions, for example 2.8, do not read the attribute above.
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
            for op in _higher_order_ops.values():
                if type(self) not in op.python_key_table:
                    op.py_impl(type(self))(_as_any_op(op))
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_inference_mode_enabled() or not _is_decomposed(func, args, kwargs):
            return self.call(func, args, kwargs)
        TorchDispatchMode.__enter__(self)
        try:
            # Not func.decompose, which may use an implementation in Python that draws other random numbers.
            return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an op and return its result."""
        raise NotImplementedError


def _is_decomposed(op: Any, args: Any, kwargs: Any) -> bool:
    """Return whether torch decomposes an op outside of inference mode. Nested tensors have implementations of ops that
    are decomposed for other tensors.
    """
    if not name_in_torch(op) or is_higher_order(op):
        return False
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if any(tensor.is_nested for tensor in tensors):
        return False
    return _is_composite(op, tensors[0].device.type.upper() if tensors else "CPU")


@functools.cache
def _is_composite(op: Any, device: str) -> bool:
    """Return whether an op is implemented by calls of other ops, and has no implementation for this type of device."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(op.name(), "CompositeImplicitAutograd") and not has_kernel(op.name(), device)


def _as_any_op(op: HigherOrderOperator) -> Callable[..., Any]:
    """Return a function that shows a higher-order op to a mode in the same way as any other op."""

    def run(mode: DispatchMode, *args: Any, **kwargs: Any) -> Any:
        return mode.call(op, args, kwargs)

    return run


class PausableMode(DispatchMode):
    """A base class for dispatch modes that leave every op unchanged while ``is_paused`` is true."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the mode inside the ``with`` block, for ops that prepare the model's inputs."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False


def is_higher_order(op: Any) -> bool:
    """Return whether an op calls functions, like ``flex_attention`` and ``cond``. Such an op has no schema."""
    return isinstance(op, HigherOrderOperator)


def name_in_torch(op: Any) -> str:
    """Return the name of an op of torch, or an empty string for a custom op, which may have the same name as an op of
    torch but other arguments.
    """
    if is_higher_order(op):
        return str(op.__name__)
    return str(op.overloadpacket.__name__) if op.namespace == "aten" else ""
