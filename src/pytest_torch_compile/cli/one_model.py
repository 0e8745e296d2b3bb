"""``pytest-torch-compile diagnose``: check a model that has no tests."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..disk import write_atomically
from ..events import doing, sign_of_life
from ..report.document import clean
from ..report.failure_text import count
from ..report.safe_text import json_text, terminal
from .cost import cost_lines, measured
from .factory import Example, FactoryError, load
from .model_page import show, text_of_test

if TYPE_CHECKING:
    from ..findings import CompileReport
    from ..legs.calls import Call


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options to its parser."""
    returns = "returns a model, (model, inputs) or {'model': model, 'inputs': inputs}"
    parser.add_argument("factory", metavar="package.module:factory", help=f"a function or class that {returns}")
    parser.add_argument(
        "--inputs",
        default="",
        metavar="package.module:make_inputs",
        help="a function that returns the inputs: a tensor, a tuple of arguments, a dict of "
        "keyword arguments, call(...), or a list of these for several calls",
    )
    parser.add_argument(
        "--input",
        action="append",
        nargs="+",
        type=_shape,
        metavar="SHAPE",
        help="call the model with random inputs of these shapes, with one shape for each argument (for example, "
        "2,3,224,224); repeat the option to add calls",
    )
    parser.add_argument(
        "--calls",
        type=_number,
        metavar="N",
        help="number of calls (default: one for each element of the list of inputs, but at least 2)",
    )
    parser.add_argument("--train", action="store_true", help="also check the backward pass")
    parser.add_argument("--backend", default="inductor", help="backend of torch.compile (default: inductor)")
    parser.add_argument("--mode", help="mode of torch.compile, such as reduce-overhead")
    parser.add_argument("--dynamic", action="store_true", help="compile with dynamic=True")
    parser.add_argument(
        "--device", help="device to move the model and inputs to, such as cuda (default: do not move them)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(",") if size)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a shape; pass sizes such as 2,3,224,224") from None


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid number of calls; it must be 1 or more")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Check the model, measure its cost and print the page. Returns 0 if there are no findings, 1 if there are
    findings, and 2 if the check is not possible.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        return _refused(f"torch cannot be imported: {error}")
    from ..findings import CompileUsageError

    try:
        with redirect_stdout(sys.stderr):  # output of the user's code is not part of the page
            example = load(options.factory, options.inputs, options.input or (), options.calls)
        with sign_of_life(_say, options.factory), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            report, cost = _looked_at(example, options)
    except (FactoryError, CompileUsageError) as error:
        return _refused(str(error))
    _print(report, cost, example, options)
    return int(bool(report.findings))


def _say(line: str) -> None:
    print(terminal(line), file=sys.stderr, flush=True)


@contextmanager
def _step(what: str) -> Iterator[None]:
    _say(f"{what} ...")
    with doing(what):
        yield


def _refused(why: str) -> int:
    _say(f"error: {why}")
    return 2


def _looked_at(example: Example, options: argparse.Namespace) -> tuple[CompileReport, list[str]]:
    """Return the check's report with a full diagnosis, and the lines about compile time and speed."""
    from ..legs.calls import as_calls
    from ..legs.converted import on_device

    with on_device(example.model, as_calls((), {}, example.items), options.device) as calls:
        with _step(f"compiling and checking {count(len(calls), 'call')} of {options.factory}"):
            report = _checked(example.model, calls, _chosen(options))
        if any(finding.kind == "compile-error" for finding in report.findings):
            return report, ["not measured, because the model does not compile"]
        with _step("measuring the cost"):
            return report, _cost(example.model, calls[0], _chosen(options))


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "train": options.train,
        "backend": options.backend,
        "mode": options.mode,
        "dynamic": options.dynamic or None,
    }


def _checked(model: Any, calls: list[Call], chosen: dict[str, Any]) -> CompileReport:
    from ..check.check_compile import check_compile
    from ..findings import CompileCheckFailed, CompileCheckWarning

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileCheckWarning)  # the page lists results that were not compared
            return check_compile(model, calls=calls, diagnose="full", **chosen)
    except CompileCheckFailed as failed:
        assert failed.report is not None
        return failed.report


def _cost(model: Any, call: Call, chosen: dict[str, Any]) -> list[str]:
    if call.contexts or call.actions or call.exceptions:
        return [
            (
                "not measured: the first call changes state, runs in a context manager, or is expected to raise an "
                "exception"
            )
        ]
    try:
        return cost_lines(measured(model, call, chosen), chosen["backend"])
    except Exception as error:
        return [f"not measured: {type(error).__name__}: {error}".splitlines()[0]]


def _print(report: CompileReport, cost: list[str], example: Example, options: argparse.Namespace) -> None:
    from rich.console import Console

    test = text_of_test(
        example, {**_chosen(options), "backend": None if options.backend == "inductor" else options.backend}
    )
    show(Console(highlight=False, soft_wrap=True), report, cost, test)
    if options.json:
        print(terminal(f"\nwritten: {write_atomically(options.json, json_text(clean(report.to_dict())))}"))
