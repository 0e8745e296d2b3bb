"""What failed in one run of the tests, each failure with its cause: from its checks, or else its traceback.

A cause is made of data that is the same in every test that it breaks, and on every torch that has it: the category and
the place of a graph break, the guard of a recompile, the stage of a wrong result, the type and place of an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args

from ..findings import WrongResult
from ..report.failure_text import headline

UNKNOWN_STAGE = "unknown stage"


class Route(Enum):
    """Who has to look at a failure; the value is what people read."""

    OWN_CODE = "own code"
    DYNAMO = "dynamo"
    AOT_AUTOGRAD = "AOTAutograd"
    INDUCTOR = "Inductor"
    CUSTOM_OP = "custom op"
    NUMERICS = "numerics"


@dataclass(frozen=True)
class Cause:
    """What failures of one group have in common. ``what`` and ``where`` name it within its kind."""

    kind: str
    what: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}" + (f" at {self.where}" if self.where else "")

    def may_be(self, other: Cause) -> bool:
        """Whether both are the same cause, or would be if the stage of both were known."""
        unknown = UNKNOWN_STAGE in (self.what, other.what)
        return self == other or (unknown and self.kind == other.kind)


@dataclass(frozen=True)
class Failure:
    """One failure of one test. ``text`` is what was seen of it; ``rerun`` the command that shows it again.

    ``reproduction`` is the path of a file that shows it without the test, where one was asked for and could be written.
    """

    test: str
    cause: Cause
    route: Route
    message: str
    text: str = ""
    hint: str = ""
    diagnosis: tuple[str, ...] = ()
    rerun: str = ""
    reproduction: str = ""


@dataclass(frozen=True)
class Result:
    """How one test ended: ``passed``, ``failed`` or ``skipped``, the seconds it took, and why it failed."""

    outcome: str
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()

    @property
    def causes(self) -> frozenset[Cause]:
        """The causes of its failures."""
        return frozenset(failure.cause for failure in self.failures)


def runs_of(reports: Iterable[Mapping[str, Any]]) -> dict[str, Result]:
    """Every test of a run by its id, from what pytest reported of each phase; a file that cannot be collected is one.

    A report has what the checks of its test observed, where there were any.
    """
    runs: dict[str, Result] = {}
    for report in reports:
        test = str(report["nodeid"])
        before = runs.get(test, Result("passed"))
        outcome, failures = before.outcome, before.failures
        if report["outcome"] == "failed":
            outcome, failures = "failed", (*failures, *_failures(test, report))
        elif report["outcome"] == "skipped" and outcome == "passed":
            outcome = "skipped"
        runs[test] = Result(outcome, before.seconds + float(report.get("duration", 0.0)), failures)
    return runs


def _failures(test: str, report: Mapping[str, Any]) -> list[Failure]:
    observed = report.get("torch_compile") or {"checks": (), "timings": ()}
    return list(_of_checks(test, observed)) or [_of_traceback(test, report["longrepr"])]


def _of_checks(test: str, observed: Mapping[str, Any]) -> Iterator[Failure]:
    for check in observed["checks"]:
        for finding in check["findings"]:
            yield Failure(
                test,
                cause_of(finding, check),
                route_of(finding, check),
                headline(finding),
                finding["evidence"],
                finding["hint"],
                tuple(check["diagnosis"]),
                check["rerun"],
                (check.get("reproduction") or {}).get("path", ""),
            )
    for timing in observed["timings"]:
        if timing["outcome"] == "regressed":
            worse = [exact["quantity"] for exact in timing["exact"] if exact["worse"]]
            times = [change["metric"] for change in timing["changes"] if change["effect"] > 0]
            cause = Cause("slowdown", ", ".join(worse or times) or "time")
            yield Failure(test, cause, Route.INDUCTOR, timing["summary"])


def cause_of(finding: Mapping[str, Any], check: Mapping[str, Any]) -> Cause:
    """The cause of a finding, of which its check knows more: the break, the guard, the error, the stage."""
    kind, where = str(finding["kind"]), place_of(finding["location"])
    fault = check.get("fault") or {}
    if kind == "graph-break":
        breaks = [one for one in check["graph_breaks"] if one["location"] == finding["location"]]
        return Cause(kind, breaks[0]["category"] if breaks else _normalised(finding["evidence"]), where)
    if kind == "recompile":
        guards = [one["guards"][0] for one in check["recompiles"] if one["guards"]]
        return Cause(kind, ", ".join(sorted({guard["cause"] for guard in guards})) or "unknown guard", where)
    if kind == "eager-fallback":
        fallbacks = [one for one in check["fallbacks"] if one["location"] == finding["location"]]
        reasons = {f"{one['why']}, {one.get('cause') or _normalised(one['detail'])}" for one in fallbacks}
        return Cause(kind, ", ".join(sorted(reasons)) or _normalised(finding["evidence"]), where)
    if kind == "compile-error":
        return Cause(kind, _normalised(finding["evidence"]), where)
    if kind in get_args(WrongResult):
        stage, module = fault.get("stage") or UNKNOWN_STAGE, fault.get("module_type", "")
        return Cause(kind, f"{stage}, {fault['op']}" if fault.get("op") else stage, module)
    return Cause(kind, _normalised(finding["evidence"] or finding["message"]), where)


_OF_STAGE = {
    "eager": Route.DYNAMO,
    "aot_eager": Route.AOT_AUTOGRAD,
    "aot_eager_decomp_partition": Route.AOT_AUTOGRAD,
    "inductor": Route.INDUCTOR,
}
_OF_KIND = {
    "custom-op": Route.CUSTOM_OP,
    **dict.fromkeys(("graph-break", "recompile", "nothing-compiled", "eager-fallback"), Route.DYNAMO),
    **dict.fromkeys(("cudagraph-skip", "cache-miss", "structure", "memory", "slowdown"), Route.INDUCTOR),
    **dict.fromkeys(("numerics", "gradient"), Route.NUMERICS),
}
# Of torch's files, innermost first: whose code raised. Its operators run user code too, so they say nothing.
_OF_FOLDER = {
    "torch/_dynamo": Route.DYNAMO,
    "torch/_functorch": Route.AOT_AUTOGRAD,
    "torch/_inductor": Route.INDUCTOR,
    "torch/_library": Route.CUSTOM_OP,
}


def route_of(finding: Mapping[str, Any], check: Mapping[str, Any]) -> Route:
    """Who has to look: by the stage that first goes wrong where that is known, else by the kind of finding."""
    stage = (check.get("fault") or {}).get("stage", "")
    if stage and finding["kind"] in (*get_args(WrongResult), "compile-error"):
        return _OF_STAGE[stage]
    if finding["kind"] in _OF_KIND:
        return _OF_KIND[finding["kind"]]
    return _by_files(f"{finding['evidence']}\n{place_of(finding['location'])}")


def place_of(location: Mapping[str, Any] | None) -> str:
    """A place that is the same in two environments, and after an edit above it: ``models/vit.py in forward``."""
    if not location:
        return ""
    file = re.sub(r"^.*/site-packages/|^.*/dist-packages/", "", location["file"].replace("\\", "/"))
    return f"{file} in {location['function']}" if location.get("function") else file


def _of_traceback(test: str, shown: Any) -> Failure:
    """A failure that no check reported: known by its exception, and by the innermost place of the traceback.

    ``shown`` is what pytest has of the exception, in the form in which it sends it between processes.
    """
    crash: Mapping[str, Any] = {}
    entries: list[Any] = []
    if isinstance(shown, Mapping):
        crash = shown.get("reprcrash") or {}
        entries = (shown.get("reprtraceback") or {}).get("reprentries", [])
    text = "\n".join(line for entry in entries for line in entry["data"].get("lines") or ()) or str(shown)
    message = str(crash.get("message") or _last_line(text))
    places = [entry["data"].get("reprfileloc") or {} for entry in entries]
    files = [str(place["path"]) for place in places if "path" in place]
    error, _, rest = message.partition(": ")
    kind, rest = (error.rpartition(".")[2], rest) if error.isidentifier() or "." in error else ("failure", message)
    where = place_of({"file": files[-1]}) if files else ""
    return Failure(test, Cause(kind, _normalised(rest), where), _by_files("\n".join(files)), message, text)


def _last_line(text: str) -> str:
    return ([line for line in text.splitlines() if line.strip()] or ["no message"])[-1].removeprefix("E").strip()


def _by_files(text: str) -> Route:
    """The part of torch whose file is named last: a traceback ends where it was raised."""
    last = {folder: text.rfind(folder) for folder in _OF_FOLDER}
    folder = max(last, key=lambda name: last[name])
    return _OF_FOLDER[folder] if last[folder] >= 0 else Route.OWN_CODE


def _normalised(text: str) -> str:
    """The first line without what differs from run to run: addresses, numbers, temporary paths."""
    line: str = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", line)
    line = re.sub(r"(?<![\w.])/\S*/", "", line)
    return re.sub(r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", "N", line)[:200]
