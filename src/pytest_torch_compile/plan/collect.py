"""Run a target's calls on fake tensors in the planning process, and collect the graphs that Inductor compiles."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress

import torch

from .._torch import planning
from .._torch.object_text import text_of_error
from .._torch.planning.fake import CardMode, tensors_made_in
from .._torch.planning.generated import Generator
from .._torch.planning.valued import ValuedMode
from .._torch.reset import reset_dynamo
from .._torch.trace import TraceObserver
from .._torch.warning_filters import calm
from ..check.describe import call_row, located
from ..check.expected_exceptions import without_expected
from ..numerics import CallRecord
from .cards import Card
from .fake_leg import FakeLeg
from .graphs import Planned, add_graphs
from .plan_findings import error_findings_of_call


def planned(payloads: Sequence[tuple[bytes, bool]], card: Card) -> list[Planned]:
    """Create plans for pickled targets, one after another, for one GPU. Each payload is paired with a flag: if the flag
    is true, the generated code also computes values.

    Afterwards, this process cannot be used for anything else.
    """
    assumed: list[str] = []
    answers = []
    with calm():
        generator = planning.put_all(card, assumed.append)
        for payload, values in payloads:
            mode = ValuedMode() if values else CardMode()
            answers.append(_run_calls(generator, mode, _unpacked(payload, mode)))
            if values:
                answers[-1].values.eager, unknown = _eager(payload)
                answers[-1].values.unknown += unknown
            answers[-1].assumed = list(dict.fromkeys(assumed))
            # These objects collect for every target, so they are emptied before the next one.
            assumed.clear()
            generator.clear()
            reset_dynamo()
    return answers


def _unpacked(payload: bytes, mode: CardMode) -> FakeLeg:
    with tensors_made_in(mode):
        target, (calls, options), _ = pickle.loads(payload)
    return FakeLeg(mode, target, calls, options)


def _eager(payload: bytes) -> tuple[list[CallRecord], list[str]]:
    """Run the calls in eager mode, on fake CUDA tensors with values on the CPU. Return the records of the calls, and
    the reasons why values are unknown.
    """
    mode = ValuedMode()
    leg = _unpacked(payload, mode)
    with mode, torch.compiler.set_stance("force_eager"):
        leg.start(compiled=False)
        for index in range(len(leg.calls)):
            try:
                leg.run(index)
            except Exception as error:
                mode.unknown.append(f"call {index + 1} in eager code: {text_of_error(error)}")
                break
    return leg.records, mode.unknown


def _run_calls(generator: Generator, mode: CardMode, leg: FakeLeg) -> Planned:
    """Run the calls with the compiled target, and return its compiled graphs, findings and peak memory."""
    answer, observer, expected = Planned(fixed=leg.fixed()), TraceObserver(), dict[int, BaseException]()
    if isinstance(mode, ValuedMode):
        generator.launch = lambda name, source, arguments: mode.launch(
            name, leg.options.changed(name, source), arguments
        )
    with observer, mode:
        leg.start(compiled=True)
        for index, call in enumerate(leg.calls):
            observer.call = generator.call = index + 1
            try:
                if (error := leg.run(index)) is not None:
                    expected[index + 1] = error
            except Exception as error:
                answer.raised, answer.findings = True, error_findings_of_call(error, index + 1)
            answer.rows.append(call_row(index, call, observer.seen, leg.target, raised=answer.raised))
            if answer.raised:
                break
    if leg.options.optimizer is not None and leg.recorder is None and not answer.raised:
        _run_again(generator, mode, leg)
    if isinstance(mode, ValuedMode):
        answer.values.planned, answer.values.unknown, answer.values.faults = leg.records, mode.unknown, mode.faults
        generator.launch = None
    located(observer.seen, leg.target)
    answer.seen = without_expected(observer.seen, expected)
    answer.peak_memory, answer.cudagraphs = mode.memory.peak, generator.cudagraphs
    add_graphs(answer, generator, leg.options)
    return answer


def _run_again(generator: Generator, mode: CardMode, leg: FakeLeg) -> None:
    """Run the calls a second time, and update only the peak memory. The optimizer creates its state in its first step,
    so the state and the activations are in memory together only in later calls.
    """
    graphs, cudagraphs, generator.call = len(generator.graphs), generator.cudagraphs, 0
    with mode, suppress(Exception):
        for index in range(len(leg.calls)):
            leg.run(index)
    del generator.graphs[graphs:]
    generator.cudagraphs = cudagraphs
    for graph in generator.graphs:
        graph.runs = [number for number in graph.runs if number]
