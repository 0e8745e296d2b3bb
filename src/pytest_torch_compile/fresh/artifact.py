"""``check_artifact``: build a deployment artifact, load it in a fresh process, and compare its results with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .._torch import support
from .._torch.compiled import uncompiled
from .._torch.sandbox import sandbox, seed_everything
from ..check.conclude import conclude
from ..check.describe import device_name, rerun_command, target_name
from ..check.leg_errors import machine_faults_named
from ..check.requirements import require_module, require_values
from ..disk import TemporaryFolder
from ..findings import CompileUsageError
from ..legs.calls import Call, as_calls
from ..legs.targets import DynamicDims
from ..legs.work import Work
from ..numerics.tolerances import Tolerances, require_tolerances
from .against_eager import ArtifactReport, compare_with_eager
from .building import Artifact, eager_results, unsupported


def check_artifact(
    model: torch.nn.Module,
    /,
    *args: Any,
    calls: Iterable[Any] | None = None,
    via: str = "aot_inductor",
    dynamic_dims: DynamicDims | None = None,
    options: dict[str, Any] | None = None,
    tolerances: Tolerances | None = None,
    prepare: Callable[[], Any] | None = None,
    path: str | Path | None = None,
    timeout: float = 600.0,
    seed: int = 0,
) -> ArtifactReport:
    """Build an artifact from the first call, load it in a fresh process, and compare its results with the eager results
    for every call.

    The artifact's results must match the eager results by the rule that ``check_compile`` uses, including in calls
    whose shapes differ from those of the first call. If a call raises in eager, the artifact must raise too. Nothing
    may be compiled while the artifact is loaded or called. Gradients are not checked: the artifact and the eager run
    both use ``torch.no_grad``. Internal state such as buffers is checked only through its effect on later outputs.

    Args:
        model: The module to deploy, already in the mode (train or eval) that is used in deployment.
        *args: The arguments of a single call, or ``call(...)`` objects, if ``calls`` is not set.
        calls: The calls; the artifact is built from the first call, after its ``before(...)``. If a later call raises
            an exception in eager, the artifact must raise an exception in that call as well. Later calls may use
            ``before(...)`` only with ``"precompile"``, because other artifacts do not use the model.
        via: ``"aot_inductor"`` (an AOTInductor package), ``"export"`` (``torch.export.save``) or ``"precompile"``
            (``aot_compile`` of the compiled model; torch 2.11 and newer).
        dynamic_dims: The dimensions whose sizes vary, as in ``check_compile``. For ``"export"`` and
            ``"aot_inductor"``, a dimension with a name becomes a ``torch.export.Dim``, which the code must not fix to
            one size.
        options: Inductor options, for ``"aot_inductor"`` and ``"precompile"``.
        tolerances: How close the artifact's results must be to the eager results.
        prepare: A function that registers custom ops, for example. It is called before the artifact is loaded.
        path: The path at which the artifact is saved. By default, the artifact is removed after the check.
        timeout: The time limit for the fresh process, in seconds.
        seed: The random seed, which is set before each call.

    Returns:
        The report, which contains the artifact's size, build time and load time.

    Raises:
        CompileCheckFailed: If there are findings. The exception has the attributes ``report`` and ``findings``.
        CompileUsageError: If the check is not possible, for example because the first call raises an exception in
            eager, a call with ``raises(...)`` does not, or the target is not a module.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    model = uncompiled(model)
    require_module(model)
    missing = unsupported(via)
    require_tolerances("tolerances", tolerances)
    given = [_under_conditions(call, seed) for call in as_calls(args, {}, calls)]
    require_values(model, given)
    _require_actions_that_apply(via, given)
    work = Work(model, given, seed=seed, dynamic_dims=dynamic_dims)
    report = ArtifactReport(
        target_name(model),
        "artifact",
        via,
        str(torch.__version__),
        device_name(model, given[0]),
        via=via,
        rerun=rerun_command(),
    )
    if missing:
        report.findings = missing
    else:
        with TemporaryFolder("torch-compile-artifact-") as folder, machine_faults_named(), sandbox() as box:
            artifact = Artifact(
                work, via, Path(path) if path is not None else folder / "artifact.pt2", options, prepare
            )
            eager = eager_results(work, box)
            compare_with_eager(report, artifact, eager, timeout, tolerances or Tolerances())
    return conclude(report)


@dataclass(frozen=True)
class _Seeded(AbstractContextManager[None]):
    """Sets the random seed when the ``with`` block is entered."""

    seed: int

    def __enter__(self) -> None:
        seed_everything(self.seed)

    def __exit__(self, *_: object) -> None:
        """Keep the random state as it is."""


def _under_conditions(call: Call, seed: int) -> Call:
    """Return the call with the seed and the grad mode that apply in eager, in the build and in the fresh process."""
    return replace(call, contexts=(partial(_Seeded, seed), *call.contexts, torch.no_grad))


def _require_actions_that_apply(via: str, calls: Sequence[Call]) -> None:
    """Reject actions that change the model after the artifact is built.

    Raises:
        CompileUsageError: If a later call has an action, and the artifact does not use the model.
    """
    later = next((number for number, call in enumerate(calls, 1) if number > 1 and call.actions), None)
    if later is not None and via != "precompile":
        raise CompileUsageError(
            f"call {later} has before(...), but the artifact is built from call 1 and does not contain later changes "
            "of the model: use before(...) only in call 1, or write a separate check for each state of the model"
        )
