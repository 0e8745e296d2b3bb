"""Build a deployment artifact from the first of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import advice
from .._torch import deployment
from .._torch.error_text import error_summary, usage_error
from .._torch.machine_faults import machine_fault
from .._torch.object_text import text_of_error
from .._torch.sandbox import Sandbox, kept_rng, seed_everything
from .._torch.user_lines import error_location
from ..check.expected_exceptions import require_expected
from ..events import doing
from ..findings import CompileUsageError, Finding
from ..legs.calls import Call
from ..legs.eager import Eager, eager_run
from ..legs.targets import DynamicDims, argument_names, mark_dynamic
from ..legs.work import Work
from ..legs.world import World


@dataclass(frozen=True)
class Artifact:
    """A deployment artifact. ``work`` contains the target and the calls, and ``via`` is the kind of artifact.
    ``options`` are Inductor options, and ``prepare`` is a function that is called before the artifact is loaded.
    """

    work: Work
    via: str
    file: Path
    options: dict[str, Any] | None = None
    prepare: Callable[[], Any] | None = None


def unsupported(via: str) -> list[Finding]:
    """Return a finding if this torch version cannot build artifacts of the kind ``via``.

    Raises:
        CompileUsageError: If there is no such kind.
    """
    if via not in deployment.ARTIFACT_KINDS:
        raise CompileUsageError(f"via={via!r} is unknown; choose one of: {', '.join(deployment.ARTIFACT_KINDS)}")
    missing = deployment.unavailable(via)
    return [Finding("not-observable", missing, hint=advice.SKIP_ON_THIS_TORCH)] if missing else []


def eager_results(work: Work, box: Sandbox) -> Eager:
    """Run all calls eagerly, because the artifact must raise in the same calls as eager.

    Raises:
        CompileUsageError: If the first call raises an exception, so that no artifact can be built from this call, or if
            a call does not raise an exception that it is expected to raise.
    """
    eager = eager_run(work, box, beyond_errors=True)
    if (error := eager.records[0].error) is not None:
        said = text_of_error(error)
        raise usage_error(
            f"call 1, from which the artifact is built, raises an exception in eager: {said}", error
        ) from None
    for call, record in zip(work.calls, eager.records, strict=True):
        require_expected(call, record.number, record.error)
    return eager


def build(artifact: Artifact, world: World) -> list[Finding]:
    """Build the artifact, and return a finding if it cannot be built."""
    try:
        with doing("building the artifact"):
            _build(artifact, world)
    except CompileUsageError:
        raise
    except Exception as error:
        if machine_fault(error, compiling=True):
            raise
        message = f"the artifact cannot be built: {type(error).__name__}"
        return [Finding("compile-error", message, error_location(error), error_summary(error))]
    return []


def _build(artifact: Artifact, world: World) -> None:
    work, via, file = artifact.work, artifact.via, artifact.file
    first, names = work.calls[0], argument_names(work.target)
    file.parent.mkdir(parents=True, exist_ok=True)
    if work.dynamic_dims is not None and via != "precompile":
        # Mark the dimensions only to reject arguments that are not tensors. The marks are then removed, because
        # ``torch.export`` sets different marks, and the two kinds of marks must not be combined.
        with world.in_force(world.snapshot.new_leg()):
            mark_dynamic(first, _unnamed(work.dynamic_dims), names)
    with ExitStack() as stack, kept_rng(), world.in_force(world.snapshot.new_leg()):
        seed_everything(work.seed)  # the actions may draw random numbers
        for action in first.actions:
            action(work.target)
        if work.dynamic_dims is not None and via == "precompile":
            mark_dynamic(first, work.dynamic_dims, names)
        for factory in first.contexts:
            stack.enter_context(factory())
        dims = _dims(first, work.dynamic_dims or {}, names)
        deployment.build(via, work.target, first.args, first.kwargs, dims, artifact.options, file)


def _unnamed(dynamic_dims: DynamicDims) -> DynamicDims:
    """Return the same dimensions without their names and bounds. ``torch.export`` supports named dimensions in all
    torch versions, but ``mark_dynamic`` does not.
    """
    if not isinstance(dynamic_dims, Mapping):
        return dynamic_dims  # ``mark_dynamic`` rejects it
    return {key: dict.fromkeys(dims) if isinstance(dims, Mapping) else dims for key, dims in dynamic_dims.items()}


def _dims(call: Call, dynamic_dims: DynamicDims, names: Sequence[str]) -> deployment.Dims:
    """Return the dynamic dimensions (as non-negative indices) with their bounds or names, for each positional argument
    (keyed by its position) and keyword argument (keyed by its name).
    """
    by_argument = {}
    for key, dims in dynamic_dims.items():
        argument = names.index(key) if isinstance(key, str) and key not in call.kwargs else key
        tensor = call.kwargs[argument] if isinstance(argument, str) else call.args[argument]
        limits = dims if isinstance(dims, Mapping) else dict.fromkeys((dims,) if isinstance(dims, int) else dims)
        by_argument[argument] = {dim % tensor.ndim: limit for dim, limit in limits.items()}
    return by_argument
