"""``CompileSuite``: the same checks for many models, as a mixin for pytest or unittest classes."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch

from .. import settings
from ..findings import CompileUsageError
from ..legs.calls import Call, as_call
from ..legs.converted import on_device
from ..numerics import flatten
from .check_compile import KEYWORDS, check_compile

OF_TRAINING = ("train", "optimizer", "steps")


class CompileSuite:
    """A mixin with tests for inference, for training, and for a sequence of shapes. A subclass defines ``make_model``
    and ``make_inputs``.

    Example::

        class TestEncoder(CompileSuite):
            shapes = [(1, 64), (2, 64), (4, 128)]

            def make_model(self): return Encoder()
            def make_inputs(self, shape): return torch.randn(*shape, 16)

    Each item of ``shapes`` is an argument for ``make_inputs``, or a complete call (``sizes(...)`` creates a list of
    calls). ``options`` are passed to ``check_compile``. ``max_recompiles`` limits the total number of recompiles over
    all ``shapes``. If ``max_recompiles`` is None, the limit in the ``budget`` option applies. If ``budget`` sets no
    limit either, one recompile is allowed for each dimension whose size changes, because automatic dynamic shapes cause
    this recompile. The options ``train``, ``optimizer`` and ``steps`` apply only to the training test, and
    ``trains = False`` skips this test. The marker ``torch_compile`` and the fixture
    ``compile_options`` do not apply to the tests of a suite.
    """

    shapes: ClassVar[Sequence[Any]] = ()
    options: ClassVar[dict[str, Any]] = {}
    max_recompiles: ClassVar[int | None] = None
    trains: ClassVar[bool] = True

    def make_model(self) -> Any:
        """Return the module or function to check; called once for each check."""
        raise CompileUsageError(
            f"{type(self).__name__} must define make_model(self), which returns the module to check"
        )

    def make_inputs(self, shape: Any) -> Any:
        """Create the inputs for one entry of ``shapes``: a call, a tuple, a dict, or a single argument."""
        raise CompileUsageError(
            f"{type(self).__name__} must define make_inputs(self, shape), which returns the inputs of one call"
        )

    def test_compile_inference(self) -> None:
        """Check that a call with gradients turned off matches eager and has no graph breaks."""
        self._check(self._calls()[:1], grad=False)

    def test_compile_training(self) -> None:
        """Check that a call and its backward pass match eager in outputs, gradients and buffers, and have no graph
        breaks.
        """
        if not self.trains:
            raise unittest.SkipTest("the suite sets trains = False")
        self._check(self._calls()[:1], train=True)

    def test_compile_shapes(self) -> None:
        """Check that one call for each shape, in order, causes at most ``max_recompiles`` recompiles in total."""
        if isinstance(self.shapes, Sequence) and len(self.shapes) < 2:
            raise unittest.SkipTest("fewer than two shapes")
        calls = self._calls()
        allowed, budget = self.max_recompiles, self.options.get("budget")
        if allowed is None and (budget is None or not budget.max_recompiles):
            allowed = changing_dimensions(calls)
        self._check(calls, grad=False, max_recompiles=allowed)

    def _calls(self) -> list[Call]:
        if not isinstance(self.shapes, Sequence):
            raise CompileUsageError(
                f"{type(self).__name__}.shapes is a {type(self.shapes).__name__}; use a list, for example [(1, 64)]"
            )
        if not self.shapes:
            raise CompileUsageError(
                f"{type(self).__name__}.shapes is empty: add at least one shape, for example [(1, 64)]"
            )
        return [s if isinstance(s, Call) else as_call(self.make_inputs(s)).named(str(s)) for s in self.shapes]

    def _check(self, calls: list[Call], *, grad: bool = True, **options: Any) -> None:
        known = replace(KEYWORDS, options=KEYWORDS.options - {"calls"})
        known.require_known(self.options, f"{type(self).__name__}.options")
        target = self.make_model()
        chosen = {name: value for name, value in self.options.items() if grad or name not in OF_TRAINING}
        with on_device(target, calls, settings.current.device) as there:
            with torch.set_grad_enabled(grad and torch.is_grad_enabled()):
                check_compile(target, calls=there, **{**options, **chosen})


def changing_dimensions(calls: Sequence[Call]) -> int:
    """For each input, count the dimensions that change between calls, and return the largest count."""
    shapes: dict[str, list[torch.Size]] = {}
    for call in calls:
        for path, tensor in flatten((call.args, dict(call.kwargs)), "input").tensors.items():
            shapes.setdefault(path, []).append(tensor.shape)
    return max((sum(len(set(sizes)) > 1 for sizes in zip(*seen, strict=False)) for seen in shapes.values()), default=0)
