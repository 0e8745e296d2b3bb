"""Run a target's calls on fake tensors in the planning process, and collect the graphs that Inductor compiles."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .._torch import planning
from .._torch.error_text import error_summary
from .._torch.planning.block_sizes import blocks_of
from .._torch.planning.choices import choices_of, fall_back_to_operators, fixed_options
from .._torch.planning.fake import CardMode, tensors_made_in
from .._torch.planning.generated import Generator
from .._torch.planning.ptxas import Build, built
from .._torch.planning.valued import ValuedMode
from .._torch.reset import reset_dynamo
from .._torch.sandbox import seed_everything
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
from ..legs.targets import DynamicDims, argument_names, mark_dynamic, modules_of
from ..numerics import CallRecord, flatten
from ..observation import Observation
from .cards import Card
from .recorder import SEED, Recorder, Values
from .records import PlannedGraph, PlannedKernel
from .source import Kernel, launches, lines_of_ops

Loss = Callable[[Any], torch.Tensor]
_READS_A_VALUE = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")


@dataclass(frozen=True)
class Work:
    """The options for running the calls. If ``compiled`` is true, the generated kernels are also compiled for the GPU.

    ``dynamic_dims`` specifies the dimensions to mark as dynamic, as in ``check_compile``. ``change`` is used only by
    the plugin's tests. The function ``change`` receives a kernel's name and source, and returns the source to use
    instead.
    """

    compiling: Compiling
    train: bool | Loss
    optimizer: Callable[[Any], torch.optim.Optimizer] | None
    change: Callable[[str, str], str] | None = None
    compiled: bool = False
    dynamic_dims: DynamicDims | None = None


@dataclass
class Planned:
    """The result of the planning process for one target."""

    seen: Observation = field(default_factory=Observation)
    rows: list[CallReport] = field(default_factory=list)
    graphs: list[PlannedGraph] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    raised: bool = False
    peak_memory: int = 0
    cudagraphs: int = 0
    assumed: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    values: Values = field(default_factory=Values)


def planned(payloads: Sequence[tuple[bytes, bool]], card: Card) -> list[Planned]:
    """Create plans for pickled targets, one after another, for one GPU. Each payload is paired with a flag: if the flag
    is true, the generated code also computes values.

    Afterwards, this process cannot be used for anything else.
    """
    assumed: list[str] = []
    answers = []
    with calm(), not_captured():
        generator = planning.put_all(card, assumed.append)
        for payload, values in payloads:
            mode = ValuedMode() if values else CardMode()
            target, calls, work = _unpacked(payload, mode)
            answers.append(_run_calls(generator, mode, target, calls, work))
            if values:
                answers[-1].values.eager, unknown = _eager(payload)
                answers[-1].values.unknown += unknown
            answers[-1].assumed = list(dict.fromkeys(assumed))
            assumed.clear()
            generator.clear()
            reset_dynamo()
    return answers


def _unpacked(payload: bytes, mode: CardMode) -> tuple[Any, Sequence[Call], Work]:
    with tensors_made_in(mode):
        target, (calls, work), _ = pickle.loads(payload)
    return target, calls, work


def _eager(payload: bytes) -> tuple[list[CallRecord], list[str]]:
    """Run the calls in eager mode, on fake CUDA tensors with values on the CPU. Return the records of the calls, and
    the reasons why values are unknown.
    """
    mode = ValuedMode()
    target, calls, work = _unpacked(payload, mode)
    recorder = Recorder(mode, target)
    parameters = _parameters(target)
    seed_everything(SEED)
    with mode, torch.compiler.set_stance("force_eager"):
        optimizer = work.optimizer(parameters) if work.optimizer else None
        for index, call in enumerate(calls):
            try:
                _run(target, target, call, work, optimizer, parameters, recorder, index)
            except Exception as error:
                if not isinstance(error, call.exceptions):
                    mode.unknown.append(f"call {index + 1} in eager code: {type(error).__name__}: {error}")
                    break
                recorder.records.pop()
    return recorder.records, mode.unknown


def _parameters(target: Any) -> list[torch.nn.Parameter]:
    """Return the target's parameters that require a gradient."""
    modules = (part for module in modules_of(target).values() for part in module.modules())
    own = (parameter for part in modules for parameter in part.parameters(recurse=False))
    return [parameter for parameter in dict.fromkeys(own) if parameter.requires_grad]


def _build(name: str, source: str, work: Work) -> Build | None:
    if not work.compiled:
        return None
    return built(name, work.change(name, source) if work.change else source)


def _not_compiled(kernel: PlannedKernel, error: str) -> Finding:
    message = f"kernel {kernel.name} ({', '.join(kernel.fuses)}) does not compile for the GPU"
    return Finding("compile-error", message, kernel.location, error[:2000], subject=kernel.name)


def _launching(mode: ValuedMode, work: Work) -> Callable[[str, str, Sequence[Any]], None]:
    def launch(name: str, source: str, arguments: Sequence[Any]) -> None:
        mode.launch(name, work.change(name, source) if work.change else source, arguments)

    return launch


def _run_calls(generator: Generator, mode: CardMode, target: Any, calls: Sequence[Call], work: Work) -> Planned:
    """Run the calls of a target, and return its compiled graphs, findings and peak memory."""
    answer, observer, expected = Planned(), TraceObserver(), dict[int, BaseException]()
    compiling = work.compiling
    modules = [part for module in modules_of(target).values() for part in module.modules()]
    answer.fixed = choices_of(compiling.mode, compiling.options, modules)
    compiling = replace(compiling, mode=None, options=fixed_options(compiling.mode, compiling.options))
    recorder = Recorder(mode, target) if isinstance(mode, ValuedMode) else None
    if isinstance(mode, ValuedMode):
        generator.launch = _launching(mode, work)
        answer.fixed.append(
            "with values=True, eager operators draw the random numbers, as in check_compile (fallback_random)"
        )
    fall_back_to_operators(on=recorder is not None)
    seed_everything(SEED)
    with observer, mode:
        compiled = compiling(target)
        parameters = _parameters(target)
        optimizer = work.optimizer(parameters) if work.optimizer else None
        for index, call in enumerate(calls):
            observer.call = generator.call = index + 1
            if work.dynamic_dims:
                mark_dynamic(call, work.dynamic_dims, argument_names(target))
            try:
                _run(compiled, target, call, work, optimizer, parameters, recorder, index)
            except Exception as error:
                if isinstance(error, call.exceptions):
                    expected[index + 1] = error
                    if recorder is not None:
                        recorder.records.pop()
                else:
                    answer.raised, answer.findings = True, _findings(error, index + 1)
            answer.rows.append(call_row(index, call, observer.seen, target, raised=answer.raised))
            if answer.raised:
                break
    if optimizer is not None and recorder is None and not answer.raised:
        _run_again(
            generator, mode, lambda call: _run(compiled, target, call, work, optimizer, parameters, None, 0), calls
        )
    if isinstance(mode, ValuedMode) and recorder is not None:
        answer.values = Values([], recorder.records, mode.unknown, mode.faults)
        generator.launch = None
    located(observer.seen, target)
    answer.seen = without_expected(observer.seen, expected)
    answer.peak_memory, answer.cudagraphs = mode.memory.peak, generator.cudagraphs
    for graph in generator.graphs:
        known = {
            name: Kernel(source, blocks_of(name, source), _build(name, source, work))
            for name, source in graph.kernels.items()
        }
        kernels, libraries = launches(graph.source, graph.stacks, known)
        lines, runs = lines_of_ops(graph.ops), tuple(graph.runs)
        answer.graphs.append(
            PlannedGraph(graph.source, graph.backward, kernels, libraries, graph.bytes_moved, runs, lines, graph.flops)
        )
        errors = {name: kernel.build.error for name, kernel in known.items() if kernel.build and kernel.build.error}
        answer.findings += [_not_compiled(one, errors[one.name]) for one in kernels if one.name in errors]
    return answer


def _run_again(generator: Generator, mode: CardMode, run: Callable[[Call], None], calls: Sequence[Call]) -> None:
    """Run the calls a second time, and update only the peak memory. The optimizer creates its state in its first step,
    so the state and the activations are in memory together only in later calls.
    """
    graphs, cudagraphs, generator.call = len(generator.graphs), generator.cudagraphs, 0
    with mode, suppress(Exception):
        for call in calls:
            run(call)
    del generator.graphs[graphs:]
    generator.cudagraphs = cudagraphs
    for graph in generator.graphs:
        graph.runs = [number for number in graph.runs if number]


def _run(
    compiled: Callable[..., Any],
    target: Any,
    call: Call,
    work: Work,
    optimizer: torch.optim.Optimizer | None,
    parameters: Sequence[torch.nn.Parameter],
    recorder: Recorder | None,
    index: int,
) -> None:
    for action in call.actions:
        action(target)
    for parameter in parameters:
        parameter.grad = None
    if recorder is not None:
        recorder.before(call)
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
        tensors = list({id(tensor): tensor for tensor in tensors}.values())
        torch.autograd.backward(
            tensors, recorder.cotangents(tensors, index) if recorder else [*map(torch.ones_like, tensors)]
        )
    if optimizer is not None:
        optimizer.step()
    if recorder is not None:
        recorder.after(call, output)


def _findings(error: Exception, number: int) -> list[Finding]:
    """Return the findings for an exception, which has one of three causes: the host needs a value from the GPU, the
    compiler failed, or the code under test raised the exception.
    """
    name, place = type(error).__name__, error_location(error) or raised_by(error).location
    if name in _READS_A_VALUE:
        message = "the host needs a value that the GPU computes, so the plan ends here"
        return [Finding("host-sync", message, place, error_summary(error), calls=(number,))]
    if is_compiler_error(error):
        return error_findings(error)
    message = f"the call raises {name}"
    return [Finding("exception", message, place, error_summary(error), calls=(number,))]
