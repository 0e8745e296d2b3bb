"""SIGTERM ends the session as Ctrl-C does: what ran is reported, and what is temporary is removed.

Python hears of a signal when it next runs a line of Python: code that hangs in C is ended by SIGKILL
only.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

STATUS = 128 + signal.SIGTERM


def end_in_order(config: pytest.Config) -> None:
    """Do so until the session ends, where nobody else handles the signal."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    owner = os.getpid()

    def end(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != owner:  # a process that a test forked, and that has no session
            os.kill(os.getpid(), number)
        pytest.exit("the process was asked to end (SIGTERM)", returncode=STATUS)

    signal.signal(signal.SIGTERM, end)
    config.add_cleanup(lambda: _restore(end))


def _restore(handler: Any) -> None:
    if signal.getsignal(signal.SIGTERM) is handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
