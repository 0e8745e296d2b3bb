"""End the session on SIGTERM in the same way as on Ctrl-C: finished tests are reported, and temporary files are
removed.

Python handles a signal only when it next runs Python code, so code that hangs in C can be terminated only by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from . import usage

# `timeout` and some CI runners send a signal to the process and then to its group; both signals count as one request.
ONE_REQUEST_SECONDS = 0.5
MESSAGE = "the process was terminated (SIGTERM)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Handle SIGTERM from the first test that uses the plugin. A pytest-xdist worker ends with its controller."""
    if usage.uses_plugin(item) and not hasattr(item.config, "workerinput"):
        end_in_order(item.config)
    return (yield)


def end_in_order(config: pytest.Config) -> None:
    """Handle SIGTERM until the session ends, unless another handler is installed. A second SIGTERM terminates the
    process at once.
    """
    if not nobody_handles_it():
        return
    owner, asked = os.getpid(), 0.0

    def end(number: int, _: Any) -> None:
        nonlocal asked
        if asked and time.monotonic() - asked < ONE_REQUEST_SECONDS:
            return
        if asked or os.getpid() != owner:  # a second signal, or this process was forked by a test
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        asked = time.monotonic()
        # If the tested code catches the exception, the session ends after this test.
        if session := config.pluginmanager.get_plugin("session"):
            session.shouldstop = MESSAGE
        # Raise KeyboardInterrupt, as for Ctrl-C, because the compiler catches every Exception, including the exception
        # of pytest.exit(), and continues.
        raise KeyboardInterrupt(MESSAGE)

    def restore() -> None:
        # Another handler may have been installed since.
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, end)
    config.add_cleanup(restore)


def nobody_handles_it() -> bool:
    """Return whether SIGTERM has its default action, and this thread can install a handler."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
