"""What the model suites share: an entry of their tables, and the cases that an entry makes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from pytest_torch_compile import sizes

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LIGHT_BACKEND = "aot_eager_decomp_partition"


@dataclass(frozen=True)
class Known:
    """A check that is known to fail, and on what: strict, so that a fixed one is noticed.

    ``kind`` is the kind of its findings; ``torch`` a version specifier; ``test`` is "inference" or "training".
    """

    reason: str
    kind: str | Sequence[str]
    torch: str | None = None
    test: str = ""
    dtype: str = ""

    def speaks_of(self, test: str, dtype: str) -> bool:
        return self.test in ("", test) and self.dtype in ("", dtype)

    def mark(self) -> pytest.MarkDecorator:
        return pytest.mark.compile_known_failure(self.reason, kind=self.kind, torch=self.torch)


@dataclass(frozen=True)
class Model:
    """One real model in a small configuration.

    ``inputs`` takes a size for each name in ``sizes`` and returns the arguments of ``forward``; the check calls the
    model with every combination. ``targets`` adds what only training passes, and ``loss`` picks the loss from the
    output; without it, backward runs through every output. ``dynamic`` names the dimensions that vary. ``recompiles``
    is what the sequence may cost when nothing is marked: by default one for each size that varies, since automatic
    dynamic shapes make a dimension dynamic when it first changes.
    """

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[..., dict[str, Any]]
    sizes: Mapping[str, Sequence[int]]
    dynamic: Mapping[str, Any]
    targets: Callable[..., dict[str, Any]] | None = None
    loss: Callable[[Any], torch.Tensor] | None = None
    recompiles: int | None = None
    inductor: Sequence[str] = ("inference-fp32",)
    quick: Sequence[str] = ()
    slow: bool = False
    known: Sequence[Known] = field(default=())


@dataclass(frozen=True)
class Case:
    """One model in one dtype, for inference or training: what a test checks."""

    model: Model
    test: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.model.name}-{self.dtype}"

    @property
    def backend(self) -> str:
        """Inductor where the table says so; elsewhere a backend without code generation, which is 5 times faster."""
        return "inductor" if f"{self.test}-{self.dtype}" in self.model.inductor else LIGHT_BACKEND

    def target(self) -> torch.nn.Module:
        """The model, in the mode and dtype of the case."""
        return self.model.make().to(DTYPES[self.dtype]).train(self.test == "training")

    def calls(self) -> list[Any]:
        """The call sequence: every combination of the model's sizes."""
        calls = sizes(self._inputs, **self.model.sizes)
        return calls if self.test == "training" else [call.under(torch.no_grad) for call in calls]

    def options(self) -> dict[str, Any]:
        """What the sequence may cost: nothing in bf16, where the dimensions are marked; the automatic recompiles else."""
        train = {"train": self.model.loss or True} if self.test == "training" else {}
        if self.dtype == "bf16":
            return {**train, "dynamic_dims": self.model.dynamic}
        varying = sum(len(values) > 1 for values in self.model.sizes.values())
        return {**train, "max_recompiles": varying if self.model.recompiles is None else self.model.recompiles}

    def _inputs(self, **size: int) -> dict[str, Any]:
        given = self.model.inputs(**size)
        if self.test == "training" and self.model.targets is not None:
            given |= self.model.targets(**size)
        return torch.utils._pytree.tree_map(self._cast, given)

    def _cast(self, leaf: Any) -> Any:
        floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.to(DTYPES[self.dtype]) if floating else leaf


def cases(models: Sequence[Model], test: str) -> list[Any]:
    """The parameters of one test: each model in each dtype, with its marks."""
    return [_parameter(Case(model, test, dtype)) for model in models for dtype in DTYPES]


def _parameter(case: Case) -> Any:
    marks = [known.mark() for known in case.model.known if known.speaks_of(case.test, case.dtype)]
    if f"{case.test}-{case.dtype}" in case.model.quick:
        marks.append(pytest.mark.quick)
    if case.model.slow:
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=case.name, marks=marks)
