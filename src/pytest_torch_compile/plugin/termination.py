"""SIGTERM ends the session as Ctrl-C does: what ran is reported, and what is temporary is removed.

Python hears of a signal when it next runs a line of Python: code that hangs in C is ended by SIGKILL
only.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

# `timeout` and some runners signal the process and then its whole group: that is one request to end.
ONE_REQUEST_SECONDS = 0.5
MESSAGE = "the process was asked to end (SIGTERM)"


def end_in_order(config: pytest.Config) -> None:
    """Do so until the session ends, where nobody else handles the signal. A later signal ends the process at once."""
    if not nobody_handles_it():
        return
    owner, asked = os.getpid(), 0.0

    def end(number: int, _: Any) -> None:
        nonlocal asked
        if asked and time.monotonic() - asked < ONE_REQUEST_SECONDS:
            return
        if asked or os.getpid() != owner:  # asked again, or a process that a test forked, and that has no session
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        asked = time.monotonic()
        # Code under test may catch what is raised here: then the session ends after this test.
        if session := config.pluginmanager.get_plugin("session"):
            session.shouldstop = MESSAGE
        # As Ctrl-C does. The compiler catches every Exception, such as that of pytest.exit(), and goes on without it.
        raise KeyboardInterrupt(MESSAGE)

    signal.signal(signal.SIGTERM, end)
    config.add_cleanup(lambda: _restore(end))


def nobody_handles_it() -> bool:
    """Whether this thread may handle SIGTERM, and nobody else does."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _restore(handler: Any) -> None:
    if signal.getsignal(signal.SIGTERM) is handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
