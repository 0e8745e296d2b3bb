"""``check_compile``: compare a compiled target with its eager run, and check its graph breaks and recompiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import settings
from .._torch import support
from .._torch.compiled import uncompiled
from .._torch.sandbox import ONE_AT_A_TIME
from ..budget import Budget, as_budget
from ..findings import CompileReport
from ..legs.calls import as_calls
from ..legs.check_record import Check
from ..legs.compiling import Compiling
from ..legs.keywords import Keywords, clear_keywords, keyword_options
from ..legs.targets import DynamicDims
from ..legs.work import Loss, OptimizerFactory, Work
from ..numerics.tolerances import Tolerances, require_tolerances
from . import acceptance
from .pipeline import run_check


@clear_keywords("calls")
def check_compile(
    target: Callable[..., Any],
    /,
    *args: Any,
    calls: Iterable[Any] | None = None,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
    compile: Callable[[Any], Any] | None = None,
    dynamic_dims: DynamicDims | None = None,
    train: bool | Loss = False,
    optimizer: OptimizerFactory | None = None,
    steps: int = 1,
    max_graph_breaks: int | Mapping[str, int] | None = None,
    max_recompiles: int | Mapping[str, int] | None = None,
    accepted_breaks: Iterable[str] | None = None,
    budget: Budget | None = None,
    tolerances: Tolerances | None = None,
    seed: int = 0,
    warm: bool = False,
    warmup: int | None = None,
    custom_ops: bool = False,
    snapshots: str | None = None,
    diagnose: str | None = None,
    **kwargs: Any,
) -> CompileReport:
    """Compile ``target``, compare its results with eager results, and raise if anything is wrong.

    The eager run and the compiled run both use the original target and inputs, and both start from the same state and
    random seed. The changes that a run makes are undone after the run. The check covers outputs, in-place changes,
    aliasing, gradients, exceptions, graph breaks, recompiles, eager fallback, and whether anything was compiled at all.

    Checks in several threads run one after another. After a check, the model, inputs, random state, grad mode and
    torch's configuration are restored. Dynamo's cache entries for code other than the target are restored too.

    Args:
        target: A module, function, bound method or other callable. If the target is already compiled with
            ``torch.compile``, its uncompiled original is checked, with the options of this call.
        *args: The arguments of a single call, or ``call(...)`` objects, if ``calls`` is not set.
        calls: The call sequence. Each item is a ``call(...)``, a tuple of positional arguments, a dict of keyword
            arguments, or a single argument.
        fullgraph: Passed to ``torch.compile``. Defaults to True, unless graph breaks are allowed, a call is expected to
            raise, or ``compile`` is set.
        dynamic: Passed to ``torch.compile``.
        backend: Passed to ``torch.compile``. Defaults to ``--compile-backend``, or to Inductor.
        mode: Passed to ``torch.compile``.
        options: Passed to ``torch.compile``.
        recompile_limit: Passed to ``torch.compile``. Like ``isolate_recompiles`` and ``dynamic_shapes``, this option
            can be used only if the torch version supports it.
        isolate_recompiles: Passed to ``torch.compile``. If True, torch stores the graphs of this compilation separately
            from the graphs of other compilations of the same code, and counts the recompiles separately.
        dynamic_shapes: Passed to ``torch.compile``: unbacked or shared sizes, in torch's format (``shapes_spec`` on
            torch 2.13).
        compile: A function ``target -> compiled target`` that is called instead of ``torch.compile``. The preceding
            options of ``torch.compile`` are not passed to this function, so the function must set them itself.
        dynamic_dims: Dimensions to mark as dynamic, by argument name or position: ``{"x": 0}``, ``{0: {1: (2, 512)}}``.
            A string in place of the range marks the dimension as unbacked, and marks all dimensions with the same
            string as equal in size: ``{"x": {0: "batch"}}``.
        train: If True, run backward from every output that requires grad, with random gradients. Alternatively, a
            callable that computes the loss from the output.
        optimizer: A function that creates an optimizer from the parameters. Parameters and buffers are compared after
            the optimizer steps.
        steps: The number of optimizer steps in each call.
        max_graph_breaks: The number of allowed graph breaks (default 0). Alternatively, a dict of limits by torch
            version, ``{"<2.8": 2, ">=2.8": 0}``, or by the package whose code caused the graph break,
            ``{"mypackage": 0, "*": 3}``.
        max_recompiles: The number of allowed recompiles (default 0). Alternatively, a dict of limits by torch version.
        accepted_breaks: Fingerprints of graph breaks that do not count toward ``max_graph_breaks``.
        budget: Limits on counted quantities, ``Budget(max_kernels=4, max_syncs=0)``. If ``max_graph_breaks``,
            ``max_recompiles`` or ``accepted_breaks`` is set, even to 0, the option overrides the corresponding limit in
            ``budget``.
        tolerances: How close compiled results must be to eager results. The default is the rule in
            ``docs/numerics.md``, or bitwise equality with ``options={"numerics": "strict"}``.
        seed: The random seed at the start of each run.
        warm: If True, every graph must come from the compile cache; a graph that must be compiled is a ``cache-miss``
            finding.
        warmup: The number of warm-up calls at the start, in which compilation is allowed within the budget. Later calls
            must not compile anything.
        custom_ops: If True, run ``torch.library.opcheck`` on each ``torch.library`` op that the eager run calls, with
            the inputs that the op receives. A failed opcheck test is a ``custom-op`` finding. Gradients are tested only
            with ``train=True``.
        snapshots: Where to keep copies of the caller's tensors: ``"device"`` or ``"host"``. By default, the copies are
            kept on the host if the device does not have enough memory for both the copies and the float64 run, or if
            the check includes training and the copies exceed 1 GiB. If the copies of CPU tensors exceed 1 GiB in
            training, they are kept in a temporary file.
        diagnose: How thoroughly to diagnose a failure: ``off``, ``auto`` or ``full``. Defaults to
            ``--compile-diagnose``.
        **kwargs: Keyword arguments of the single call. A keyword that is both an option of this function and an
            argument of the target is rejected; use ``calls=[call(x, mode="bicubic")]``.

    Returns:
        The report, which contains all observations.

    Raises:
        CompileCheckFailed: If there are findings. The exception has ``.report`` and ``.findings``.
        CompileUsageError: If the check was called incorrectly, or the target raises an exception in eager.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    require_tolerances("tolerances", tolerances)
    declared = as_budget(budget, max_graph_breaks, max_recompiles, accepted_breaks).on(support.torch_version())
    budget = acceptance.with_accepted(declared)
    sequence = as_calls(args, kwargs, calls)
    if fullgraph is None:
        # With fullgraph, torch refuses to trace a function that raises an exception.
        allows_breaks = any(budget.breaks_by_package.values()) or bool(budget.accepted_breaks)
        fullgraph = compile is None and not allows_breaks and not any(one.exceptions for one in sequence)
    # Only Inductor has a compile cache, so --compile-fast does not change the backend of a warm start.
    usual = settings.current.backend if warm else settings.current.check_backend
    newer = {"recompile_limit": recompile_limit, "isolate_recompiles": isolate_recompiles}
    compiling = Compiling(
        backend=usual if backend is None else backend,
        mode=mode,
        options=options,
        dynamic=dynamic,
        fullgraph=fullgraph,
        wrapper=compile,
        more={**newer, "dynamic_shapes": dynamic_shapes},
    )
    work = Work(
        uncompiled(target),
        sequence,
        train=optimizer is not None if train is False else train,
        optimizer=optimizer,
        steps=steps,
        seed=seed,
        dynamic_dims=dynamic_dims,
        warmup=warmup,
        snapshots=snapshots,
    )
    is_faster = backend is None and compile is None and usual != settings.current.backend
    check = Check(
        work,
        compiling,
        declared=declared,
        budget=budget,
        tolerances=tolerances or (Tolerances(rtol=0, atol=0) if compiling.is_strict else Tolerances()),
        warm=warm,
        custom_ops=custom_ops,
        diagnose=diagnose,
        faster_backend=str(usual) if is_faster else "",
    )
    with ONE_AT_A_TIME:
        return run_check(check)


KEYWORDS = Keywords("check_compile", keyword_options(check_compile), "calls")
