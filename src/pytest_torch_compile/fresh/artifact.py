"""``check_artifact``: build a deployment artifact, load it in a fresh process, and compare its results with eager."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .. import advice
from .._torch import canary, deployment, support
from .._torch.error_text import error_summary, usage_error
from .._torch.machine_faults import machine_fault
from .._torch.sandbox import kept_rng, sandbox
from .._torch.trace import error_location
from ..check.conclude import conclude
from ..check.describe import rerun_command, target_name
from ..check.judge import merged_over_calls, not_observable
from ..check.leg_errors import machine_faults_named
from ..check.requirements import require_values
from ..disk import TemporaryFolder
from ..events import doing
from ..findings import CompileReport, CompileUsageError, Finding
from ..legs.calls import Call, as_calls
from ..legs.eager import Eager, eager_run
from ..legs.leg import Work, World
from ..legs.targets import DynamicDims, argument_names, mark_dynamic
from ..numerics import CallRecord, Tolerances, flatten
from ..numerics.tolerances import require_tolerances
from .against_eager import compared_with_eager, compiled_after_loading, row
from .answers import Answers, answers
from .process import Ended, run_fresh


@dataclass
class ArtifactReport(CompileReport):
    """The result of ``check_artifact``. ``via`` is the kind of artifact, ``bytes`` its size, ``build_seconds`` the time
    to build it in this process, and ``load_seconds`` the time to load it in the fresh process.
    """

    via: str = ""
    bytes: int = 0
    build_seconds: float = 0.0
    load_seconds: float = 0.0


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
        *args: The arguments of a single call, if ``calls`` is not set.
        calls: The calls; the artifact is built from the first call. If a later call raises an exception in eager, the
            artifact must raise an exception in that call as well.
        via: ``"aot_inductor"`` (an AOTInductor package), ``"export"`` (``torch.export.save``) or ``"precompile"``
            (``aot_compile`` of the compiled model; torch 2.11 and newer).
        dynamic_dims: The dimensions whose sizes vary, as in ``check_compile``.
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
        CompileUsageError: If the check is not possible, for example because the first call raises an exception in eager
            or the target is not a module.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    if not isinstance(model, torch.nn.Module):
        raise CompileUsageError(
            f"the target is {model!r}, but an artifact can be built only from a module: wrap the target in a module"
        )
    if via not in deployment.WAYS:
        raise CompileUsageError(f"via={via!r} is unknown; choose one of: {', '.join(deployment.WAYS)}")
    require_tolerances("tolerances", tolerances)
    given = [call.under(torch.no_grad) for call in as_calls(args, {}, calls)]
    require_values(model, given)
    work = Work(model, given, seed=seed, dynamic_dims=dynamic_dims)
    device = next((str(tensor.device) for tensor in model.parameters()), "cpu")
    report = ArtifactReport(
        target_name(model), "artifact", via, str(torch.__version__), device, via=via, rerun=rerun_command()
    )
    if missing := deployment.unavailable(via):
        report.findings = [Finding("not-observable", missing, hint=advice.SKIP_ON_THIS_TORCH)]
    else:
        with TemporaryFolder("torch-compile-artifact-") as folder, machine_faults_named(), sandbox() as box:
            file = Path(path) if path is not None else folder / "artifact.pt2"
            eager = eager_run(work, box, beyond_errors=True)  # in these calls, the artifact must raise as well
            _require_that_eager_runs(eager.records[0])
            _examine(report, work, eager, file, options, prepare, timeout, tolerances or Tolerances())
    return conclude(report)


def _require_that_eager_runs(first: CallRecord) -> None:
    if first.error is not None:
        said = f"{type(first.error).__name__}: {first.error}"
        text = f"call 1, from which the artifact is built, raises an exception in eager: {said}"
        raise usage_error(text, first.error) from None


def _examine(
    report: ArtifactReport,
    work: Work,
    eager: Eager,
    file: Path,
    options: dict[str, Any] | None,
    prepare: Callable[[], Any] | None,
    timeout: float,
    tolerances: Tolerances,
) -> None:
    """Build the artifact, load it, compare its results with the eager results, and add the findings to the report."""
    started = time.perf_counter()
    try:
        with doing("building the artifact"):
            _build(report.via, work, file, options, eager.leg.world)
    except CompileUsageError:
        raise
    except Exception as error:
        if machine_fault(error, compiling=True):
            raise
        message = f"the artifact cannot be built: {type(error).__name__}"
        report.findings = [Finding("compile-error", message, error_location(error), error_summary(error))]
        return
    report.build_seconds, report.bytes = time.perf_counter() - started, file.stat().st_size
    # A precompiled artifact contains only code and needs the model; the other kinds must work without the model.
    with doing("running the artifact in a fresh process"):
        sent = work.target if report.via == "precompile" else None
        imports = _classes(record.output for record in eager.records)
        ended = run_fresh(
            answers, report.via, file.resolve(), sent, work.calls, prepare, imports, work.seed, seconds=timeout
        )
    if failed := _without_answers(ended):
        if report.via == "aot_inductor" and deployment.has_own_cpp_library(file):
            # The build does not reject this artifact, because some torch versions can load it.
            failed = replace(failed, hint="; or ".join(filter(None, [advice.OWN_CPP_LIBRARY, failed.hint])))
        report.findings = [failed]
        return
    found: Answers = ended.value
    report.observation = canary.observer().seen
    report.load_seconds = found.load_seconds
    comparisons = [
        compared_with_eager(report.via, work, index, eager, answer, tolerances)
        for index, answer in enumerate(found.calls)
    ]
    report.findings = merged_over_calls(finding for one in comparisons for finding in one.findings)
    report.findings += compiled_after_loading(found.graphs) + not_observable(report.observation.undecided)
    report.calls = [row(work, index, eager.records[index], answer) for index, answer in enumerate(found.calls)]
    report.remarks.append(
        f"artifact: {report.bytes / 1e6:.2f} MB, built in {report.build_seconds:.1f} s, "
        f"loaded in {report.load_seconds:.2f} s"
    )


def _build(via: str, work: Work, file: Path, options: dict[str, Any] | None, world: World) -> None:
    first, names = work.calls[0], argument_names(work.target)
    file.parent.mkdir(parents=True, exist_ok=True)
    if work.dynamic_dims is not None and via != "precompile":
        # Mark the dimensions only to reject arguments that are not tensors. The marks are then removed, because
        # ``torch.export`` sets different marks, and the two kinds of marks must not be combined.
        with world.in_force(world.snapshot.new_leg()):
            mark_dynamic(first, work.dynamic_dims, names)
    with ExitStack() as stack, kept_rng(), world.in_force(world.snapshot.new_leg()):
        if work.dynamic_dims is not None and via == "precompile":
            mark_dynamic(first, work.dynamic_dims, names)
        for factory in first.contexts:
            stack.enter_context(factory())
        dims = _dims(first, work.dynamic_dims, names)
        deployment.build(via, work.target, first.args, first.kwargs, dims, options, file)


def _dims(call: Call, dynamic_dims: DynamicDims | None, names: Sequence[str]) -> dict[str, dict[int, Any]]:
    """Return the dynamic dimensions (as non-negative indices) and their bounds, keyed by argument name."""
    arguments = dict(zip(names, call.args, strict=False)) | dict(call.kwargs)
    by_name = {}
    for key, dims in (dynamic_dims or {}).items():
        name = names[key] if isinstance(key, int) else key
        bounds = dims if isinstance(dims, dict) else dict.fromkeys((dims,) if isinstance(dims, int) else dims)
        by_name[name] = {dim % arguments[name].ndim: limits for dim, limits in bounds.items()}
    return by_name


def _without_answers(ended: Ended) -> Finding | None:
    """Return a finding if the fresh process returned no call results; otherwise, return None."""
    if ended.without_answer:
        return Finding("exception", f"the fresh process {ended.without_answer}", evidence=ended.log)
    raised, what = ended.raised, "the fresh process failed"
    if raised is None:
        raised, what = ended.value.refused, "the artifact cannot be loaded in a fresh process"
    if raised is None:
        return None
    hint = advice.PREPARE if raised.type != "CompileUsageError" else ""
    return Finding("exception", f"{what}: {raised.type}", raised.location, raised.text, hint)


def _classes(outputs: Iterable[Any]) -> tuple[type, ...]:
    """Return the classes of the model's outputs. The fresh process must import the modules that define these classes,
    as a caller of the artifact would, so that the classes are registered with torch's pytree.
    """
    kinds = {node.kind for output in outputs for node in flatten(output).nodes.values()}
    return tuple(sorted((kind for kind in kinds if kind.__module__ != "builtins"), key=str))
