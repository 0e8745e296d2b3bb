"""Diagnosis, on failure and only then: the stage at fault, the smallest module, and the advice that was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .. import settings
from ..events import doing
from ..findings import CompileReport, CompileUsageError
from .break_advice import break_advice
from .inductor_parts import part_of_inductor
from .mode_advice import mode_advice
from .recompile_advice import recompile_advice
from .smallest import smallest_module
from .stage import stage
from .subject import MORE_TIME, OutOfTime, Remake, Subject

Step = Callable[[Subject], Iterable[str]]
__all__ = ["STEPS", "Remake", "diagnosis"]

_STAGE: dict[str, Step] = {"the stage at fault": stage}
_ADVICE: dict[str, Step] = {
    "advice against recompiles": recompile_advice,
    "advice against graph breaks": break_advice,
}
_DEARER: dict[str, Step] = {"a mode that helps": mode_advice, "the part of Inductor": part_of_inductor}
STEPS: dict[str, dict[str, Step]] = {
    "off": {},
    # Time is short, so what runs without code generation comes first.
    "auto": {**_ADVICE, **_STAGE, **_DEARER},
    "full": {**_STAGE, "the smallest module": smallest_module, **_ADVICE, **_DEARER},
}
SECONDS = {"off": 0.0, "auto": 60.0, "full": 600.0}
CHECKS = 2  # auto takes at most this many times what the check took,
LEAST = 3.0  # and these seconds where that is less, or a check of a tenth of a second would get no advice


def diagnosis(report: CompileReport, remake: Remake, level: str | None = None) -> list[str]:
    """Lines for the message of a failed check, as ``level`` or ``--compile-diagnose`` asks for them.

    Raises:
        CompileUsageError: there is no such level.
    """
    level = level or settings.current.diagnose
    if level not in STEPS:
        raise CompileUsageError(f"diagnose={level!r}: choose one of {', '.join(STEPS)}")
    seconds = SECONDS[level]
    if level == "auto":
        seconds = min(seconds, max(LEAST, CHECKS * remake.seconds))
    subject = Subject(report, remake, seconds)
    if not subject.kinds:
        return []
    lines, left_out = list[str](), list[str]()
    for what, step in STEPS[level].items():
        with doing(f"looking for {what}"):
            try:
                for line in step(subject):  # one by one: those before the time is over are kept
                    lines.append(line)
            except OutOfTime:  # a later step may still have time enough
                left_out.append(what)
            except Exception as error:  # a diagnosis must never hide the failure that it explains
                lines.append(f"{what} could not be looked for: {type(error).__name__}: {error}".splitlines()[0])
    if left_out:
        lines.append(f"no time was left to look for {', '.join(left_out)}: {MORE_TIME}")
    return lines
