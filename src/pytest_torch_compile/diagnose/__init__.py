"""Diagnosis, on failure and only then: the stage at fault, the smallest module, and the advice that was tried."""

from __future__ import annotations

from collections.abc import Callable

from .. import settings
from ..events import doing
from ..findings import CompileReport, CompileUsageError
from .smallest import smallest_module
from .stage import stage
from .subject import OutOfTime, Remake, Subject
from .trials import tried_advice

Step = Callable[[Subject], list[str]]
__all__ = ["STEPS", "Remake", "diagnosis"]

STEPS: dict[str, dict[str, Step]] = {
    "off": {},
    "auto": {"the stage at fault": stage, "advice": tried_advice},
    "full": {"the stage at fault": stage, "the smallest module": smallest_module, "advice": tried_advice},
}
SECONDS = {"off": 0.0, "auto": 30.0, "full": 600.0}


def diagnosis(report: CompileReport, remake: Remake, level: str | None = None) -> list[str]:
    """Lines for the message of a failed check, as ``level`` or ``--compile-diagnose`` asks for them.

    Raises:
        CompileUsageError: there is no such level.
    """
    level = level or settings.current.diagnose
    if level not in STEPS:
        raise CompileUsageError(f"diagnose={level!r}: it is one of {', '.join(STEPS)}")
    subject = Subject(report, remake, SECONDS[level])
    if not subject.kinds:
        return []
    lines: list[str] = []
    for what, step in STEPS[level].items():
        with doing(f"looking for {what}"):
            try:
                lines += step(subject)
            except OutOfTime:
                return [*lines, f"no time was left to look for {what}: --compile-diagnose=full takes more"]
            except Exception as error:  # a diagnosis must never hide the failure that it explains
                lines.append(f"{what} could not be looked for: {type(error).__name__}: {error}".splitlines()[0])
    return lines
