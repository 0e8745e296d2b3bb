"""Load an artifact in a fresh process, and run the calls with it."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from .. import advice
from .._torch import deployment
from .._torch.sandbox import seed_everything
from .._torch.trace import TraceObserver
from ..events import doing
from ..findings import Finding
from ..legs.calls import Call
from ..numerics import flatten
from ..observation import Graph
from ..ranks.rank import Raised
from .building import Artifact
from .process import run_fresh
from .worker import raised_by


@dataclass
class Answer:
    """The result of one call to the artifact: the output and the arguments (which the call may have modified), or the
    exception that the call raised (``refused``).
    """

    output: Any = None
    arguments: Any = None
    refused: Raised | None = None


@dataclass
class Answers:
    """The result of the fresh process: an ``Answer`` for each call or, if the artifact could not be loaded, the
    exception (``refused``). ``graphs`` lists the graphs that were compiled in the fresh process.
    """

    calls: list[Answer] = field(default_factory=list)
    load_seconds: float = 0.0
    refused: Raised | None = None
    graphs: list[Graph] = field(default_factory=list)


def answers_of(artifact: Artifact, outputs: Iterable[Any], seconds: float) -> Answers | Finding:
    """Load the artifact in a fresh process, and return its results; if there are none, return a finding. ``outputs``
    are the outputs of the eager run.
    """
    work, via, file = artifact.work, artifact.via, artifact.file.resolve()
    # A precompiled artifact contains only code and needs the model; the other kinds must work without the model.
    sent = work.target if via == "precompile" else None
    # The fresh process must import the modules that define the classes of the model's outputs, as a caller of the
    # artifact would, so that the classes are registered with torch's pytree.
    kinds = {node.kind for output in outputs for node in flatten(output).nodes.values()}
    classes = tuple(sorted((kind for kind in kinds if kind.__module__ != "builtins"), key=str))
    with doing("running the artifact in a fresh process"):
        ended = run_fresh(answers, via, file, sent, work.calls, artifact.prepare, classes, work.seed, seconds=seconds)
    failed, raised = ended.failure("the fresh process", "failed: {}"), ended.raised
    if failed is None and (raised := ended.value.refused) is not None:
        message = f"the artifact cannot be loaded in a fresh process: {raised.type}"
        failed = Finding("exception", message, raised.location, raised.text)
    if failed is None:
        answered: Answers = ended.value
        return answered
    hints = [advice.PREPARE] if raised is not None and raised.type != "CompileUsageError" else []
    if via == "aot_inductor" and deployment.has_own_cpp_library(file):
        # The build does not reject this artifact, because some torch versions can load it.
        hints.insert(0, advice.OWN_CPP_LIBRARY)
    return replace(failed, hint="; or ".join(hints))


def answers(
    via: str,
    file: Path,
    model: torch.nn.Module | None,
    calls: Sequence[Call],
    prepare: Callable[[], Any] | None,
    imports: object,
    seed: int,
) -> Answers:
    """In the fresh process, load the artifact and run the calls. The actions of the calls are applied to ``model``, if
    the artifact needs it. ``imports`` contains the classes of the outputs.
    ``imports`` is not used: it is passed only because unpickling these classes imports the modules that define them.
    """
    if prepare is not None:
        prepare()
    if model is not None:
        _define_in_main(model)
    result = Answers()
    with TraceObserver() as observer:  # the parent process has already verified that the observer works
        started = time.perf_counter()
        try:
            runnable = deployment.load(via, file, model)
        except Exception as error:
            result.refused = raised_by(error)
            return result
        result.load_seconds = time.perf_counter() - started
        for number, call in enumerate(calls, 1):
            observer.call = number
            if model is not None:
                seed_everything(seed)  # the actions may draw random numbers
                for action in call.actions:
                    action(model)
            result.calls.append(_copied(_answer(runnable, call)))
    result.graphs = [graph for graph in observer.seen.graphs if graph.ops]
    return result


def _define_in_main(model: torch.nn.Module) -> None:
    """Add the classes of the model that a script defines, and the globals of their methods, to this process's main
    module. A precompiled artifact refers to them by name, but this process does not run the script.
    """
    main = sys.modules["__main__"]
    for kind in {kind for module in model.modules() for kind in type(module).__mro__ if kind.__module__ == "__main__"}:
        methods = [method for method in vars(kind).values() if isinstance(method, FunctionType)]
        for definitions in ({kind.__name__: kind}, *(method.__globals__ for method in methods)):
            for name, value in definitions.items():
                if not hasattr(main, name):
                    setattr(main, name, value)


def _answer(runnable: Callable[..., Any], call: Call) -> Answer:
    answer = Answer(arguments=(call.args, dict(call.kwargs)))
    try:
        with ExitStack() as stack:
            for factory in call.contexts:
                stack.enter_context(factory())
            answer.output = runnable(*call.args, **call.kwargs)
    except Exception as error:
        answer.refused = raised_by(error)
    return answer


def _copied(answer: Answer) -> Answer:
    """Return a copy, because later calls may write to the memory of the tensors. Tensors that share memory still share
    memory in the copy.
    """
    buffer = io.BytesIO()
    torch.save((answer.output, answer.arguments), buffer)
    buffer.seek(0)
    output, arguments = torch.load(buffer, weights_only=False)
    return Answer(output, arguments, answer.refused)
