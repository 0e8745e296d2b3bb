"""Shared by the model suites: table entries, and the test cases of an entry."""

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
    """A known failure and its conditions. It is strict, so that a fix is noticed.

    ``kind`` is the kind of its findings; ``torch`` a version specifier; ``test`` is "inference" or "training";
    ``device`` the type of the device it fails on, where it is not all; ``needs`` the release of a library that it fails
    with, "transformers<5.23".
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
    """Whether the release of a library that is installed fits ``name<version``."""
    wanted = Requirement(requirement)
    return wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)


@dataclass(frozen=True)
class Model:
    """One real model in a small configuration.

    ``inputs`` takes a size for each name in ``sizes`` and returns the arguments of ``forward``. ``targets`` adds what
    only training passes, and ``loss`` picks the loss from the output; without it, backward runs through every output.
    ``dynamic`` names the dimensions that vary. ``only``, ``inductor`` and ``quick`` list cases such as
    "training-fp32": the ones that exist, that run in Inductor, and that belong to the quick slice; the others run in
    ``light``.
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
    """One model in one dtype, for inference or training: what a test checks.

    Inference in fp32 marks nothing: all sizes change from call to call, and the first change may cost one recompile.
    Training in fp32 repeats one size: the second step may cost none. In bf16 the varying dimensions are marked
    dynamic, and no change may cost any; training changes its batch only, and once, as tracing it takes long.
    """

    model: Model
    test: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.test}-{self.dtype}"

    @property
    def backend(self) -> str:
        """Inductor where the table says so; elsewhere the same passes without code generation, which takes seconds."""
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
        """One call for each step of the sizes, which all change at once."""
        steps = zip(*self.model.sizes.values(), strict=True)
        return [self._call(dict(zip(self.model.sizes, step, strict=True))) for step in steps]

    def _batches(self) -> list[Call]:
        """One call for each batch size, the other sizes as they are first."""
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
    """The parameters of one test: each model in each dtype, with its marks."""
    found = [Case(model, test, dtype) for model in models for dtype in DTYPES]
    return [_parameter(case) for case in found if not case.model.only or case.name in case.model.only]


def _parameter(case: Case) -> Any:
    marks = [known.mark() for known in case.model.known if known.speaks_of(case)]
    if case.name in case.model.quick:
        marks.append(pytest.mark.quick)
    if case.model.slow:
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=f"{case.model.name}-{case.dtype}", marks=marks)
