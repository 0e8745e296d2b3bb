"""Read the failures of a test run. The cause of a failure is taken from the test's checks or from the traceback.

A cause consists of data that is the same in all affected tests and torch versions. Examples are the category and
location of a graph break, the guard of a recompile, the torch.compile stage that causes a wrong result, and the type
and location of an exception.
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
    """Where to look first for the cause of a failure; the value is shown to users."""

    OWN_CODE = "own code"
    DYNAMO = "dynamo"
    AOT_AUTOGRAD = "AOTAutograd"
    INDUCTOR = "Inductor"
    CUSTOM_OP = "custom op"
    NUMERICS = "numerics"


@dataclass(frozen=True)
class Cause:
    """The common cause of a group of failures. ``what``, ``where`` and ``op`` distinguish causes of the same ``kind``.

    Because the diagnosis of a wrong result has a time limit, a run may lack details that another run contains.
    ``may_be`` does not compare missing details.
    """

    kind: str
    what: str
    where: str = ""
    op: str = ""

    def __str__(self) -> str:
        op, where = f", {self.op}" if self.op else "", f" at {self.where}" if self.where else ""
        return f"{self.kind}: {self.what}{op}{where}"

    def may_be(self, other: Cause) -> bool:
        """Return whether this cause and ``other`` may be the same. Parts that are unknown in either cause are not
        compared.
        """
        whats, others = {self.what, other.what} - {UNKNOWN_STAGE}, [{self.where, other.where}, {self.op, other.op}]
        return self.kind == other.kind and all(len(values - {""}) < 2 for values in (whats, *others))


@dataclass(frozen=True)
class Failure:
    """One failure of one test. ``text`` describes the failure, and ``rerun`` is the command that reproduces it.

    ``reproduction`` is the path of a standalone script, if one was requested and could be written. ``expected`` is true
    if the test is marked as a known failure.
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
    """The result of one test: its outcome (``passed``, ``failed`` or ``skipped``), its duration, and its failures.

    An expected failure (``xfail``) also has the outcome ``failed``.
    """

    outcome: str
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()

    @property
    def causes(self) -> frozenset[Cause]:
        """The causes of the test's failures."""
        return frozenset(failure.cause for failure in self.failures)


def runs_of(reports: Iterable[Mapping[str, Any]]) -> dict[str, Result]:
    """Return the results of a run, keyed by test id, from pytest's reports on the setup, call and teardown of each
    test. The results also contain an entry for each file that cannot be collected.

    If a test has checks, its reports include the observations of these checks.
    """
    runs: dict[str, Result] = {}
    for report in reports:
        test = str(report["nodeid"])
        before = runs.get(test, Result("passed"))
        outcome, failures = before.outcome, before.failures
        expected = report["outcome"] == "skipped" and "wasxfail" in report
        # A test that passed despite a strict ``xfail`` marker is reported as failed.
        unexpected = ("[XPASS(strict)]", NO_LONGER_FAILS)
        if expected or (report["outcome"] == "failed" and not str(report["longrepr"]).startswith(unexpected)):
            own = [replace(failure, expected=expected) for failure in _failures(test, report)]
            outcome, failures = "failed", (*failures, *own)
        elif report["outcome"] == "skipped" and outcome == "passed":
            outcome = "skipped"
        runs[test] = Result(outcome, before.seconds + float(report.get("duration", 0.0)), failures)
    return runs


def _failures(test: str, report: Mapping[str, Any]) -> list[Failure]:
    observed = report.get("torch_compile") or {"checks": (), "timings": ()}
    shown = report["longrepr"]
    raised = str((shown.get("reprcrash") or {}).get("message", "")) if isinstance(shown, Mapping) else ""
    # If the test ended with an exception other than a failed check, its failed checks were expected by the test.
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
    """Return the cause of a finding, with details from its check: the break, the guard, the error or the stage."""
    kind, where = str(finding["kind"]), portable_place(finding["location"])
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
# The parts of torch that may raise an exception, identified by their folders. Folders of operators are not listed,
# because operators also run user code.
_OF_FOLDER = {
    "torch/_dynamo": Route.DYNAMO,
    "torch/_functorch": Route.AOT_AUTOGRAD,
    "torch/_inductor": Route.INDUCTOR,
    "torch/_library": Route.CUSTOM_OP,
}


def route_of(finding: Mapping[str, Any], check: Mapping[str, Any]) -> Route:
    """Return where to look first for the cause of a finding. If the first failing stage of ``torch.compile`` is known,
    the stage determines the result; otherwise, the kind of finding does.
    """
    stage = (check.get("fault") or {}).get("stage", "")
    if stage and finding["kind"] in (*get_args(WrongResult), "compile-error"):
        return _OF_STAGE[stage]
    if finding["kind"] in _OF_KIND:
        return _OF_KIND[finding["kind"]]
    if finding["kind"] == "compile-error" and not finding["location"]:
        return _by_files(finding["evidence"], otherwise=Route.DYNAMO)
    return _by_files(f"{finding['evidence']}\n{portable_place(finding['location'])}")


def portable_place(location: Mapping[str, Any] | None) -> str:
    """Return a location that does not depend on the environment or the line number: ``models/vit.py in forward``."""
    if not location:
        return ""
    file = re.sub(r"^.*/(?:site-packages|dist-packages|python3\.\d+)/", "", location["file"].replace("\\", "/"))
    return f"{file} in {location['function']}" if location.get("function") else file


def portable(text: str) -> str:
    """Shorten the paths of installed files in a text, so that they do not contain folders of this machine."""
    return re.sub(r"(?:[A-Za-z]:)?[^\s:'\"]*/(?:site-packages|dist-packages|python3\.\d+)/", "", text)


def _of_traceback(test: str, shown: Any) -> Failure:
    """Return a failure that does not come from a check, identified by its exception and the traceback's last location.

    ``shown`` is pytest's serialized representation of the exception.
    """
    crash: Mapping[str, Any] = {}
    entries: list[Any] = []
    if isinstance(shown, Mapping):
        crash = shown.get("reprcrash") or {}
        entries = (shown.get("reprtraceback") or {}).get("reprentries", [])
    text = "\n".join(line for entry in entries for line in entry["data"].get("lines") or ())
    text = portable(text or str(shown))
    # pytest marks the lines of an error. In a chain of exceptions, the last error is the final one.
    marked = re.findall(r"^E +(\S.*)$", text, re.MULTILINE)
    named = [line for line in marked if re.match(r"[A-Za-z_][\w.]*: ", line)]
    plain = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    message = str(crash.get("message") or (named[-1:] or marked[:1] or plain[-1:])[0])
    places = [entry["data"].get("reprfileloc") or {} for entry in entries]
    files = [str(place["path"]) for place in places if "path" in place]
    where = portable_place({"file": files[-1]}) if files else ""
    if re.match(r"worker '\w+' crashed while running", message):
        ended = "the test terminated its process"
        return Failure(test, Cause("crash", ended, test.partition("::")[0]), Route.OWN_CODE, ended, text)
    error = re.match(r"([A-Za-z_][\w.]*)(?:: |\Z)", message)
    kind = error[1].rpartition(".")[2] if error else "AssertionError" if message.startswith("assert ") else "error"
    what = _normalised(message[error.end() :] if error else message)
    return Failure(test, Cause(kind, what, where), _by_files("\n".join(files)), message, text)


def _by_files(text: str, otherwise: Route = Route.OWN_CODE) -> Route:
    """Return the part of torch that raised the exception: the part that contains the innermost torch file in the
    traceback. If the traceback contains no such file, return ``otherwise``.
    """
    last = {folder: text.rfind(folder) for folder in _OF_FOLDER}
    folder = max(last, key=lambda name: last[name])
    return _OF_FOLDER[folder] if last[folder] >= 0 else otherwise


def _normalised(text: str) -> str:
    """Return the first line of a text, with addresses and numbers replaced and absolute folders removed, so that the
    result does not vary between runs.
    """
    line: str = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", line)
    line = re.sub(r"(?<![\w.])/\S*/", "", line)
    return re.sub(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)\b", "N", line)[:200]
