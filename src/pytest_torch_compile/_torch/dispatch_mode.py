"""Base classes for dispatch modes, which see each op that runs in eager.

This module uses ``torch.utils._python_dispatch.TorchDispatchMode``, ``torch._ops.HigherOrderOperator`` and its
``py_impl``, and ``_higher_order_ops``, which are the same in torch 2.6 to 2.15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._ops import HigherOrderOperator, _higher_order_ops
from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):
    """A base class for dispatch modes under which higher-order ops such as ``flex_attention`` and ``cond`` can run. The
    mode does not see the ops inside a higher-order op.
    """

    supports_higher_order_operators = True

    def __enter__(self) -> Any:
        # Older torch versions, for example 2.8, do not read the attribute above.
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
            for op in _higher_order_ops.values():
                if type(self) not in op.python_key_table:
                    op.py_impl(type(self))(_as_any_op(op))
        return super().__enter__()


def _as_any_op(op: HigherOrderOperator) -> Callable[..., Any]:
    """Return a function that shows a higher-order op to a mode in the same way as any other op."""

    def run(mode: TorchDispatchMode, *args: Any, **kwargs: Any) -> Any:
        return mode.__torch_dispatch__(op, (), args, kwargs)

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
