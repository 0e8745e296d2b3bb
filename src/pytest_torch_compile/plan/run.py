"""Run the calls on fake tensors in the planning process, and record the compiled graphs."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .._torch import planning
from .._torch.error_text import error_summary
from .._torch.planning.blocks import blocks_of
from .._torch.planning.choices import choices_of, fixed_options
from .._torch.planning.fake import CardMode, tensors_made_in
from .._torch.planning.generated import Generator
from .._torch.reset import reset_dynamo
from .._torch.support import is_compiler_error
from .._torch.trace import TraceObserver, error_location
from .._torch.trace_log import not_captured
from .._torch.warning_filters import calm
from ..check.describe import call_row, located
from ..check.expected_exceptions import without_expected
from ..check.leg_errors import error_findings
from ..findings import CallReport, Finding
from ..fresh.worker import raised_by
from ..legs.calls import Call
from ..legs.compiling import Compiling
from ..legs.targets import argument_names, modules_of
from ..numerics import flatten
from ..observation import Observation
from .cards import Card
from .records import PlannedGraph
from .source import Kernel, launches

Loss = Callable[[Any], torch.Tensor]
_READS_A_VALUE = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")


@dataclass(frozen=True)
class Work:
    """How to run the calls."""

    compiling: Compiling
    train: bool | Loss
    optimizer: Callable[[Any], torch.optim.Optimizer] | None


@dataclass
class Planned:
    """The answer of the process."""

    seen: Observation = field(default_factory=Observation)
    rows: list[CallReport] = field(default_factory=list)
    graphs: list[PlannedGraph] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    raised: bool = False
    peak_memory: int = 0
    cudagraphs: int = 0
    assumed: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)


def planned(payloads: Sequence[bytes], card: Card) -> list[Planned]:
    """Plan packed targets for the card in turn. The process cannot be used for anything else afterwards."""
    assumed: list[str] = []
    answers = []
    with calm(), not_captured():
        generator = planning.put_all(card, assumed.append)
        for payload in payloads:
            mode = CardMode()
            with tensors_made_in(mode):
                target, (calls, work), _ = pickle.loads(payload)
            answers.append(_run_calls(generator, mode, target, calls, work))
            answers[-1].assumed = list(dict.fromkeys(assumed))
            assumed.clear()
            generator.clear()
            reset_dynamo()
    return answers


def _run_calls(generator: Generator, mode: CardMode, target: Any, calls: Sequence[Call], work: Work) -> Planned:
    """Run the calls, and describe the compiled graphs."""
    answer, observer, expected = Planned(), TraceObserver(), dict[int, BaseException]()
    compiling = work.compiling
    modules = [part for module in modules_of(target).values() for part in module.modules()]
    answer.fixed = choices_of(compiling.mode, compiling.options, modules)
    compiling = replace(compiling, mode=None, options=fixed_options(compiling.mode, compiling.options))
    with observer, mode:
        compiled = compiling(target)
        own = (parameter for part in modules for parameter in part.parameters(recurse=False))
        parameters = [parameter for parameter in dict.fromkeys(own) if parameter.requires_grad]
        optimizer = work.optimizer(parameters) if work.optimizer else None
        for index, call in enumerate(calls):
            observer.call = generator.call = index + 1
            try:
                _run(compiled, target, call, work, optimizer, parameters)
            except Exception as error:
                if isinstance(error, call.exceptions):
                    expected[index + 1] = error
                else:
                    answer.raised, answer.findings = True, _findings(error, index + 1)
            answer.rows.append(call_row(index, call, observer.seen, argument_names(target), raised=answer.raised))
            if answer.raised:
                break
    located(observer.seen, target)
    answer.seen = without_expected(observer.seen, expected)
    answer.peak_memory, answer.cudagraphs = mode.memory.peak, generator.cudagraphs
    for graph in generator.graphs:
        known = {name: Kernel(source, blocks_of(name, source)) for name, source in graph.kernels.items()}
        kernels, libraries = launches(graph.source, graph.stacks, known)
        answer.graphs.append(
            PlannedGraph(graph.source, graph.backward, kernels, libraries, graph.bytes_moved, tuple(graph.runs))
        )
    return answer


def _run(
    compiled: Callable[..., Any],
    target: Any,
    call: Call,
    work: Work,
    optimizer: torch.optim.Optimizer | None,
    parameters: Sequence[torch.nn.Parameter],
) -> None:
    for action in call.actions:
        action(target)
    for parameter in parameters:
        parameter.grad = None
    with ExitStack() as stack:
        for factory in call.contexts:
            stack.enter_context(factory())
        if not work.train:
            stack.enter_context(torch.no_grad())
        output = compiled(*call.args, **call.kwargs)
    if callable(work.train):
        work.train(output).backward()
    elif work.train:
        tensors = [tensor for tensor in flatten(output).tensors.values() if tensor.requires_grad]
        torch.autograd.backward(tensors, [torch.ones_like(tensor) for tensor in tensors])
    if optimizer is not None:
        optimizer.step()


def _findings(error: Exception, number: int) -> list[Finding]:
    """The findings for an exception: the host needs a value, the compiler failed, or the code raised it."""
    name, place = type(error).__name__, error_location(error) or raised_by(error).location
    if name in _READS_A_VALUE:
        message = "the host waits for a value that the GPU computes, so the plan ends here"
        return [Finding("host-sync", message, place, error_summary(error), calls=(number,))]
    if is_compiler_error(error):
        return error_findings(error)
    message = f"the call raises {name}"
    return [Finding("exception", message, place, error_summary(error), calls=(number,))]
