"""Report a file that could not be written, with a red line in the summary and a nonzero exit status.

No test is marked as failed, and the rest of the summary is still shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ..baselines.files import BaselineError
from ..report.safe_text import terminal


def say(reporter: pytest.TerminalReporter, line: str) -> None:
    """Show a line in red, and set the exit status of an otherwise successful run to 1."""
    reporter.write_line(terminal(line), red=True)
    if reporter._session is not None:
        fail(reporter._session)


def fail(session: pytest.Session) -> None:
    """Set the exit status of an otherwise successful run to 1."""
    if int(session.exitstatus) in (0, 5):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@contextmanager
def saying(reporter: pytest.TerminalReporter, what: str) -> Iterator[None]:
    """If the ``with`` block raises an error, report it as a line of the summary, and continue with the summary."""
    try:
        yield
    except Exception as error:
        say(reporter, f"{what}: {reason(error)}")


def reason(error: Exception) -> str:
    """Describe an error in one line: the message of an ``OSError``, or the type and message of any other error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    kind = "" if isinstance(error, BaselineError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"
