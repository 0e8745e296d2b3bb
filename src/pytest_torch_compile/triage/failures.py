"""What failed in one run of the tests, each failure with its cause: from its checks, or else its traceback.

A cause is made of data that is the same in every test that it breaks, and on every torch that has it: the category and
the place of a graph break, the guard of a recompile, the stage of a wrong result, the type and place of an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, get_args

from ..findings import NO_LONGER_FAILS, CompileCheckFailed, WrongResult
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
    """What failures of one group have in common. ``what``, ``where`` and ``op`` name it within its kind.

    A diagnosis has a time limit, so that of a wrong result less may be known in one run than in the next.
    """

    kind: str
    what: str
    where: str = ""
    op: str = ""

    def __str__(self) -> str:
        op, where = f", {self.op}" if self.op else "", f" at {self.where}" if self.where else ""
        return f"{self.kind}: {self.what}{op}{where}"

    def may_be(self, other: Cause) -> bool:
        """Whether both are the same cause as far as it is known of both."""
        whats, others = {self.what, other.what} - {UNKNOWN_STAGE}, [{self.where, other.where}, {self.op, other.op}]
        return self.kind == other.kind and all(len(values - {""}) < 2 for values in (whats, *others))


@dataclass(frozen=True)
class Failure:
    """One failure of one test. ``text`` is what was seen of it; ``rerun`` the command that shows it again.

    ``reproduction`` is the path of a file that shows it without the test, where one was asked for and could be written.
    ``expected``: a marker of its test says that it fails.
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
    expected: bool = False


@dataclass(frozen=True)
class Result:
    """How one test ended: ``passed``, ``failed`` or ``skipped``, the seconds it took, and why it failed.

    A failure that was expected (``xfail``) is one too.
    """

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
        expected = report["outcome"] == "skipped" and "wasxfail" in report
        if expected or (report["outcome"] == "failed" and not _is_unexpected_pass(report)):
            own = [replace(failure, expected=expected) for failure in _failures(test, report)]
            outcome, failures = "failed", (*failures, *own)
        elif report["outcome"] == "skipped" and outcome == "passed":
            outcome = "skipped"
        runs[test] = Result(outcome, before.seconds + float(report.get("duration", 0.0)), failures)
    return runs


def _is_unexpected_pass(report: Mapping[str, Any]) -> bool:
    """Whether a test fails only because it passes, against what its marker says."""
    return str(report["longrepr"]).startswith(("[XPASS(strict)]", NO_LONGER_FAILS))


def _failures(test: str, report: Mapping[str, Any]) -> list[Failure]:
    observed = report.get("torch_compile") or {"checks": (), "timings": ()}
    shown = report["longrepr"]
    raised = str((shown.get("reprcrash") or {}).get("message", "")) if isinstance(shown, Mapping) else ""
    # A check may have failed as its test expected it to, before something else went wrong.
    of_check = not raised or CompileCheckFailed.__name__ in raised.partition("\n")[0]
    return (list(_of_checks(test, observed)) if of_check else []) or [_of_traceback(test, shown)]


def _of_checks(test: str, observed: Mapping[str, Any]) -> Iterator[Failure]:
    for check in observed["checks"]:
        reproduction = check.get("reproduction") or {}
        for number, finding in enumerate(check["findings"]):
            yield Failure(
                test,
                cause_of(finding, check),
                route_of(finding, check),
                headline(finding),
                portable(finding["evidence"]),
                finding["hint"],
                tuple(check["diagnosis"]),
                check["rerun"],
                reproduction["path"] if reproduction.get("finding") == number else "",
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
        here = [one["category"] for one in check["graph_breaks"] if one["location"] == finding["location"]]
        own = [category for category in here if category in finding["message"]] or here
        return Cause(kind, own[0] if own else _normalised(finding["evidence"]), where)
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
        return Cause(kind, fault.get("stage") or UNKNOWN_STAGE, fault.get("module_type", ""), fault.get("op", ""))
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
    **dict.fromkeys(("numerics", "gradient", "metadata", "mutation", "state", "aliasing"), Route.NUMERICS),
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
    if finding["kind"] == "compile-error" and not finding["location"]:
        return _by_files(finding["evidence"], otherwise=Route.DYNAMO)
    return _by_files(f"{finding['evidence']}\n{place_of(finding['location'])}")


def place_of(location: Mapping[str, Any] | None) -> str:
    """A place that is the same in two environments, and after an edit above it: ``models/vit.py in forward``."""
    if not location:
        return ""
    file = re.sub(r"^.*/(?:site-packages|dist-packages|python3\.\d+)/", "", location["file"].replace("\\", "/"))
    return f"{file} in {location['function']}" if location.get("function") else file


def portable(text: str) -> str:
    """A text in which installed files stand without the folders of this machine, to be read by others."""
    return re.sub(r"(?:[A-Za-z]:)?[^\s:'\"]*/(?:site-packages|dist-packages|python3\.\d+)/", "", text)


def _of_traceback(test: str, shown: Any) -> Failure:
    """A failure that no check reported: known by its exception, and by the innermost place of the traceback.

    ``shown`` is what pytest has of the exception, in the form in which it sends it between processes.
    """
    crash: Mapping[str, Any] = {}
    entries: list[Any] = []
    if isinstance(shown, Mapping):
        crash = shown.get("reprcrash") or {}
        entries = (shown.get("reprtraceback") or {}).get("reprentries", [])
    text = "\n".join(line for entry in entries for line in entry["data"].get("lines") or ())
    text = portable(text or str(shown))
    message = str(crash.get("message") or _last_line(text))
    places = [entry["data"].get("reprfileloc") or {} for entry in entries]
    files = [str(place["path"]) for place in places if "path" in place]
    where = place_of({"file": files[-1]}) if files else ""
    if re.match(r"worker '\w+' crashed while running", message):
        ended = "the test ended its process"
        return Failure(test, Cause("crash", ended, test.partition("::")[0]), Route.OWN_CODE, ended, text)
    error = re.match(r"([A-Za-z_][\w.]*)(?:: |\Z)", message)
    kind = error[1].rpartition(".")[2] if error else "AssertionError" if message.startswith("assert ") else "error"
    what = _normalised(message[error.end() :] if error else message)
    return Failure(test, Cause(kind, what, where), _by_files("\n".join(files)), message, text)


def _last_line(text: str) -> str:
    """What pytest marks as the error, the last of a chain; else the last line."""
    marked = re.findall(r"^E +(\S.*)$", text, re.MULTILINE)
    named = [line for line in marked if re.match(r"[A-Za-z_][\w.]*: ", line)]
    plain = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    return str((named[-1:] or marked[:1] or plain[-1:])[0])


def _by_files(text: str, otherwise: Route = Route.OWN_CODE) -> Route:
    """The part of torch whose file is named last: a traceback ends where it was raised."""
    last = {folder: text.rfind(folder) for folder in _OF_FOLDER}
    folder = max(last, key=lambda name: last[name])
    return _OF_FOLDER[folder] if last[folder] >= 0 else otherwise


def _normalised(text: str) -> str:
    """The first line without what differs from run to run: addresses, numbers, temporary paths."""
    line: str = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", line)
    line = re.sub(r"(?<![\w.])/\S*/", "", line)
    return re.sub(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)\b", "N", line)[:200]
