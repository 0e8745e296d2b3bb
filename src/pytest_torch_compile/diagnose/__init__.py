"""Diagnose failed checks: find the stage of torch.compile at fault, the smallest module that fails, and fixes that
work in a trial run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .. import settings
from .._torch.object_text import text_of_error
from ..events import doing
from ..findings import CompileReport, CompileUsageError
from .break_advice import break_advice
from .inductor_parts import part_of_inductor
from .mode_advice import mode_advice
from .recompile_advice import recompile_advice
from .smallest import smallest_module
from .stage import stage
from .subject import MORE_TIME, OutOfTime, RepeatableCheck, Subject

Step = Callable[[Subject], Iterable[str]]
__all__ = ["STEPS", "RepeatableCheck", "diagnosis"]

_STAGE: dict[str, Step] = {"the stage at fault": stage}
_ADVICE: dict[str, Step] = {
    "fixes for recompiles": recompile_advice,
    "fixes for graph breaks": break_advice,
}
_SLOW: dict[str, Step] = {"a better mode": mode_advice, "the Inductor op and option": part_of_inductor}
STEPS: dict[str, dict[str, Step]] = {
    "off": {},
    # Because time is limited, steps without code generation come first.
    "auto": {**_ADVICE, **_STAGE, **_SLOW},
    "full": {**_STAGE, "the smallest module": smallest_module, **_ADVICE, **_SLOW},
}
SECONDS = {"off": 0.0, "auto": 60.0, "full": 600.0}
CHECKS = 2  # with auto, the diagnosis takes at most this multiple of the check's time
LEAST = 3.0  # with auto, the diagnosis may take this many seconds even if the check is very short


def diagnosis(report: CompileReport, remake: RepeatableCheck) -> list[str]:
    """Return the diagnosis of a failed check, as lines for the failure message.

    Raises:
        CompileUsageError: If the level is unknown.
    """
    level = remake.check.diagnose or settings.current.diagnose
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
        with doing(f"searching for {what}"):
            try:
                for line in step(subject):  # one by one, to keep lines found before the time limit
                    lines.append(line)
            except OutOfTime:  # a later step may need less time
                left_out.append(what)
            except Exception as error:  # an error in a diagnosis must never hide the failure
                said = text_of_error(error).splitlines()[0]
                lines.append(f"the search for {what} failed: {said}")
    if left_out:
        lines.append(f"{subject.ended} before it could search for {', '.join(left_out)}: {MORE_TIME}")
    return lines
