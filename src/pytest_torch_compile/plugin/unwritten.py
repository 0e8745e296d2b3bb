"""A file that was asked for and could not be written: a red line in the summary, and a run that is no success.

No test failed, so none is blamed. The rest of the summary is shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ..baselines.files import BaselineError
from ..report.safe_text import terminal


def say(reporter: pytest.TerminalReporter, line: str) -> None:
    """Show the line, and let a run that would have ended well end with exit status 1."""
    reporter.write_line(terminal(line), red=True)
    if reporter._session is not None:
        fail(reporter._session)


def fail(session: pytest.Session) -> None:
    """Let a run that would have ended well end with exit status 1."""
    if int(session.exitstatus) in (0, 5):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@contextmanager
def saying(reporter: pytest.TerminalReporter, what: str) -> Iterator[None]:
    """Whatever goes wrong in the body is such a line: what else the summary has to show is not lost."""
    try:
        yield
    except Exception as error:
        say(reporter, f"{what}: {reason(error)}")


def reason(error: Exception) -> str:
    """An error on one line: of the system its own words, of others their kind too."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    kind = "" if isinstance(error, BaselineError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"
