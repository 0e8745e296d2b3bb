"""The last stage of every check: tell the listeners, and raise if there are findings."""

from __future__ import annotations

import sys
import warnings
from typing import TypeVar

from ..events import announce
from ..findings import CompileCheckFailed, CompileCheckWarning, CompileReport
from ..report.failure_text import failure_text, not_compared_text

Report = TypeVar("Report", bound=CompileReport)


def conclude(report: Report) -> Report:
    """Write the report's text unless it has one, notify the listeners, and return the report.

    Raises:
        CompileCheckFailed: If the report has findings.
    """
    __tracebackhide__ = True
    report.text = report.text or failure_text(report)
    announce(report)
    if not_compared := report.numerics.not_compared:
        warning = CompileCheckWarning(not_compared_text(report.target, not_compared))
        # The warning is shown at the line that called this package, however many of its functions are in between.
        package, level, frame = __package__.partition(".")[0], 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
            level, frame = level + 1, frame.f_back
        warnings.warn(warning, stacklevel=level)
    if report.findings:
        raise CompileCheckFailed(report.text, report, report.findings)
    return report
