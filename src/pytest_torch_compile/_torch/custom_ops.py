"""Observe custom ops during the eager run, and record copies of their arguments.

Below autograd, every op is visible, including ops called from C++. But whether a gradient was needed is visible only
above autograd, where Python calls the op. So ops are observed both above and below autograd.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch.utils._python_dispatch.TorchDispatchMode``, ``torch.utils._pytree``, ``torch._ops.OpOverload`` and
``OpOverloadPacket``, ``torch._C._jit_resolve_packet``, ``torch._C._dispatch_has_kernel_for_dispatch_key``,
``torch._C._functorch.is_functorch_wrapped_tensor``,
``torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack``; the namespaces of torch's own ops.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..observation import Location
from .dispatch_mode import DispatchMode
from .stuck import frames_of, place_of
from .user_lines import OWN_FOLDER, below_own

# Namespaces of torch's own ops, on all supported versions.
TORCHS_OWN = frozenset({
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_inductor_test", "_native", "_native_aot",
    "_quantized", "_test", "aten", "c10d", "c10d_functional", "coor", "debug_mode_ops", "debugprims", "export",
    "flex_gemm", "flex_lib", "fsdp", "inductor", "inductor_prims", "mempool", "mkl", "mkldnn", "mkldnn_prepacked",
    "onednn", "onnx", "onnx_symbolic", "prepacked", "prim", "prims", "profiler", "quantization", "quantized",
    "quantized_decomposed", "rngprims", "sparse", "static_runtime", "streams", "symm_mem",
})  # fmt: skip
# Maximum number of distinct inputs recorded per op. A model calls an op with few distinct inputs; a loop may use many.
SAMPLES = 8
_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass
class Sample:
    """One call of an op: copies of the arguments, taken before the op ran, and whether a gradient was needed.

    ``wanted`` is true if gradients were enabled and an input required a gradient. ``reached`` is true if backward
    reached an output. ``reached`` is None (unknown) if no output requires a gradient or the op was not called from
    Python.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    call: int
    location: Location | None
    requiring: frozenset[int]
    wanted: bool
    floating_output: bool = False
    reached: bool | None = None

    def arguments(self, *, gradients: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return fresh copies of the arguments. If ``gradients`` is true, the copy of a tensor that requires a gradient
        also requires a gradient.
        """
        leaves, spec = pytree.tree_flatten(_copied((self.args, self.kwargs)))
        if gradients:
            for position in self.requiring:
                leaves[position].requires_grad_()
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return args, kwargs

    def described(self) -> str:
        """Return a short description of the arguments, such as ``float32[2, 3], 0.5``."""
        return ", ".join(
            f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
            if isinstance(leaf, torch.Tensor)
            else repr(leaf)
            for leaf in pytree.tree_leaves((self.args, self.kwargs))
        )


class CustomOps:
    """The custom ops that ran inside the ``with`` block of ``watching``. ``samples`` maps each op to its recorded
    calls, and ``left_out`` maps each op to the number of distinct inputs that were not recorded.

    ``subclasses`` contains the ops that received tensor subclasses (such as DTensor), which opcheck does not support.
    """

    def __init__(self) -> None:
        self.samples: dict[Any, list[Sample]] = {}
        self.left_out: Counter[Any] = Counter()
        self.subclasses: set[Any] = set()
        self.call = 0
        self._by_key: dict[Any, Sample | None] = {}
        self._calling: list[Any] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe the ops that run inside the ``with`` block."""
        with _CallsFromPython(self), _BelowAutograd(self):
            yield

    def run(self, op: Any, call: Callable[[], Any], args: Any, kwargs: Any, *, from_python: bool) -> Any:
        """Run one call of an op, and record the call."""
        if not from_python and op in self._calling:
            return call()  # already recorded above autograd
        if any(map(_is_of_transform, pytree.tree_leaves((args, kwargs)))):
            return call()  # the transform, such as vmap, calls the op again with ordinary tensors
        sample = self._note(op, args, kwargs)
        self._calling.append(op)
        try:
            result = call()
        finally:
            self._calling.pop()
        if sample is not None:
            _note_result(sample, result, from_python)
        return result

    def _note(self, op: Any, args: Any, kwargs: Any) -> Sample | None:
        leaves = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and type(leaf) not in _PLAIN for leaf in leaves):
            self.subclasses.add(op)
            return None
        recording = torch.is_grad_enabled()
        described: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                strides = leaf.stride() if leaf.layout is torch.strided else ()
                described.append((leaf.shape, strides, leaf.dtype, leaf.device, leaf.layout, leaf.requires_grad))
            else:
                described.append((type(leaf), repr(leaf)))
        key = (op, recording, tuple(described))
        if key not in self._by_key:
            samples = self.samples.setdefault(op, [])
            if len(samples) < SAMPLES:
                requiring = frozenset(
                    n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
                )
                own_args, own_kwargs = _copied((args, kwargs))
                wanted = recording and bool(requiring)
                samples.append(Sample(op, own_args, own_kwargs, self.call, _call_site(), requiring, wanted))
                self._by_key[key] = samples[-1]
            else:
                self._by_key[key] = None
                self.left_out[op] += 1
        return self._by_key[key]


def _is_of_transform(value: Any) -> bool:
    """Return whether a value is a tensor of a ``torch.func`` transform, which cannot be copied."""
    return isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value)


def has_formula(op: Any, device: str) -> bool:
    """Return whether a backward formula is registered for the op. The result is also True for an op that is composed of
    ops with backward formulas.
    """
    keys = (f"Autograd{device.upper()}", "Autograd", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys)


def wrong_stride(sample: Sample) -> str:
    """Return a message if an output of the op and the corresponding output of its fake implementation have different
    strides; otherwise, return an empty string. With torch 2.6, opcheck does not report this difference on the CPU.

    If a fake implementation fails or returns outputs of different shapes, opcheck itself reports the problem.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    args, kwargs = sample.arguments(gradients=False)
    real = pytree.tree_leaves(sample.op(*args, **kwargs))
    with FakeTensorMode(shape_env=ShapeEnv()) as mode, torch.no_grad():
        fakes = pytree.tree_map(
            lambda leaf: mode.from_tensor(leaf, static_shapes=True) if isinstance(leaf, torch.Tensor) else leaf,
            (sample.args, sample.kwargs),
        )
        try:
            fake = pytree.tree_leaves(sample.op(*fakes[0], **fakes[1]))
        except Exception:
            return ""
    for one, other in zip(real, fake, strict=False):
        if not isinstance(one, torch.Tensor) or one.layout is not torch.strided or one.numel() == 0:
            continue
        # As text, because the sizes of the fake output may be symbols.
        if list(map(str, one.shape)) != list(map(str, other.shape)):
            continue
        # The stride of a dimension of size 1 is never used.
        significant = [dim for dim, size in enumerate(one.shape) if size > 1]
        if any(one.stride(dim) != other.stride(dim) for dim in significant):
            return (
                f"the op's output has strides {tuple(one.stride())}, but the fake implementation's output has "
                f"strides {tuple(other.stride())}"
            )
    return ""


class _CallsFromPython(TorchFunctionMode):
    def __init__(self, ops: CustomOps) -> None:
        super().__init__()
        self._ops = ops

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        op = _custom_op(func, args, kwargs)
        if op is None:
            return func(*args, **kwargs)
        return self._ops.run(op, lambda: func(*args, **kwargs), args, kwargs, from_python=True)


class _BelowAutograd(DispatchMode):
    def __init__(self, ops: CustomOps) -> None:
        super().__init__()
        self._ops = ops

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if _custom_op(func, args, kwargs) is None:
            return func(*args, **kwargs)
        return self._ops.run(func, lambda: func(*args, **kwargs), args, kwargs, from_python=False)


def _custom_op(func: Any, args: Any, kwargs: Any) -> Any:
    """Return the called overload of a custom op, or None for any other function."""
    if isinstance(func, torch._ops.OpOverload):
        return None if func.namespace in TORCHS_OWN else func
    if not isinstance(func, torch._ops.OpOverloadPacket):
        return None
    name = func._qualified_op_name
    if name.split("::")[0] in TORCHS_OWN:
        return None
    overload = torch._C._jit_resolve_packet(name, *args, **kwargs)
    return getattr(func, overload or "default")


def _note_result(sample: Sample, result: Any, from_python: bool) -> None:
    outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    sample.floating_output = any(output.is_floating_point() or output.is_complex() for output in outputs)
    for output in outputs if from_python and sample.wanted else ():
        if output.requires_grad:
            sample.reached = sample.reached or False
            output.register_hook(lambda gradient: setattr(sample, "reached", True))


def _copied(structure: Any) -> Any:
    """Copy tensors, preserving strides and shared memory; the copies do not require gradients."""
    memo: dict[int, Any] = {}
    with temporarily_clear_interpreter_stack():  # within a torch.func transform, a copy would belong to the transform
        return pytree.tree_map(
            lambda leaf: copy.deepcopy(leaf.detach(), memo) if isinstance(leaf, torch.Tensor) else leaf, structure
        )


def _call_site() -> Location | None:
    frames = frames_of(sys._getframe(1))
    while frames and frames[-1].file.startswith(OWN_FOLDER):
        frames.pop()
    return place_of(below_own(frames))


def is_opaque(value: Any) -> bool:
    """Return whether a value is a custom op or a ``torch.library.Library``. Such a value can be recreated only by
    running the statements that created it.
    """
    return type(value).__module__.startswith(("torch._library", "torch.library", "torch._ops"))
