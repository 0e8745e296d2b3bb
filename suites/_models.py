"""Table entries and their test cases, shared by the model suites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement

from pytest_torch_compile import settings, sizes
from pytest_torch_compile.legs.calls import Call

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LIGHT_BACKEND = "aot_eager_decomp_partition"


@dataclass(frozen=True)
class Known:
    """A known failure and its conditions. The test fails if it passes unexpectedly, so that a fix is noticed.

    ``kind`` is the expected kind of finding, ``torch`` is a version specifier, and ``test`` is "inference" or
    "training". ``device`` is the type of device on which it fails, if it does not fail on all devices. ``needs`` is the
    library release with which it fails, such as "transformers<5.23".
    """

    reason: str
    kind: str | Sequence[str]
    torch: str | None = None
    test: str = ""
    dtype: str = ""
    device: str = ""
    needs: str = ""

    def speaks_of(self, case: Case) -> bool:
        here = torch.device(settings.current.device or "cpu").type
        of_case = self.test in ("", case.test) and self.dtype in ("", case.dtype)
        return of_case and self.device in ("", here) and (not self.needs or installed(self.needs))

    def mark(self) -> pytest.MarkDecorator:
        return pytest.mark.compile_known_failure(self.reason, kind=self.kind, torch=self.torch)


def installed(requirement: str) -> bool:
    """Whether the installed release of a library matches ``name<version``."""
    wanted = Requirement(requirement)
    return wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)


@dataclass(frozen=True)
class Model:
    """One real model in a small configuration.

    ``inputs`` accepts a size for each name in ``sizes`` and returns the arguments of ``forward``. ``targets`` adds
    arguments that are passed only in training, and ``loss`` extracts the loss from the output; if it is not set,
    backward runs through every output. ``dynamic`` contains the dimensions that vary. ``only``, ``inductor`` and
    ``quick`` list cases such as "training-fp32": the cases that exist, the cases that run in Inductor, and the cases
    that belong to the quick tests. All other cases run in the backend ``light``.
    """

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[..., dict[str, Any]]
    sizes: Mapping[str, Sequence[int]]
    dynamic: Mapping[str, Any]
    targets: Callable[..., dict[str, Any]] | None = None
    loss: Callable[[Any], torch.Tensor] | None = None
    only: Sequence[str] = ()
    inductor: Sequence[str] = ()
    light: str = LIGHT_BACKEND
    quick: Sequence[str] = ()
    slow: bool = False
    known: Sequence[Known] = field(default=())


@dataclass(frozen=True)
class Case:
    """One test case: a model in one dtype, for inference or training.

    Inference in fp32 does not mark any dimensions: all sizes change from call to call, and the first change may cause
    one recompile. Training in fp32 repeats one size, and the second step must not recompile. In bf16, the dimensions
    that vary are marked as dynamic, and no change may cause a recompile. Training changes only the batch size, and only
    once, because tracing it takes a long time.
    """

    model: Model
    test: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.test}-{self.dtype}"

    @property
    def backend(self) -> str:
        """Inductor if the table requests it. Otherwise, a backend that runs Inductor's passes without code generation,
        which takes seconds, or another fast backend from the table.
        """
        return "inductor" if self.name in self.model.inductor else self.model.light

    def target(self) -> torch.nn.Module:
        """The model, in the mode and dtype of the case."""
        return self.model.make().to(DTYPES[self.dtype]).train(self.test == "training")

    def calls(self) -> list[Call]:
        if self.test == "training":
            return self._repeated() if self.dtype == "fp32" else self._batches()[:2]
        return [call.under(torch.no_grad) for call in self._varied()]

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"train": self.model.loss or True} if self.test == "training" else {}
        if self.dtype == "fp32":
            return {**options, "max_recompiles": int(self.test == "inference")}
        given = self.calls()[0].kwargs
        dims = {name: dims for name, dims in self.model.dynamic.items() if name in given}
        return {**options, "dynamic_dims": dims if self.test == "inference" else dict.fromkeys(dims, 0)}

    def _varied(self) -> list[Call]:
        """One call for each step of the sizes; all sizes change at the same time."""
        steps = zip(*self.model.sizes.values(), strict=True)
        return [self._call(dict(zip(self.model.sizes, step, strict=True))) for step in steps]

    def _batches(self) -> list[Call]:
        """One call for each batch size; all other sizes keep their first value."""
        return [self._call(self._first() | {"batch": batch}) for batch in self.model.sizes["batch"]]

    def _repeated(self) -> list[Call]:
        return [self._call(self._first()), self._call(self._first())]

    def _first(self) -> dict[str, int]:
        return {name: values[0] for name, values in self.model.sizes.items()}

    def _call(self, size: dict[str, int]) -> Call:
        return sizes(self._inputs, **{name: [value] for name, value in size.items()})[0]

    def _inputs(self, **size: int) -> dict[str, Any]:
        given = self.model.inputs(**size)
        if self.test == "training" and self.model.targets is not None:
            given |= self.model.targets(**size)
        return torch.utils._pytree.tree_map(self._cast, given)

    def _cast(self, leaf: Any) -> Any:
        floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.to(DTYPES[self.dtype]) if floating else leaf


def cases(models: Sequence[Model], test: str) -> list[Any]:
    """The parameters of one test: each model in each dtype, with its markers."""
    found = [Case(model, test, dtype) for model in models for dtype in DTYPES]
    return [_parameter(case) for case in found if not case.model.only or case.name in case.model.only]


def _parameter(case: Case) -> Any:
    marks = [known.mark() for known in case.model.known if known.speaks_of(case)]
    if case.name in case.model.quick:
        marks.append(pytest.mark.quick)
    if case.model.slow:
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=f"{case.model.name}-{case.dtype}", marks=marks)
