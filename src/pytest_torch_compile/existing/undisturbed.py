"""Isolate a test from a check that runs in the middle of the test.

The package ``legs`` restores the objects that each run of a check changes. This module handles everything else: it
isolates warnings, output, logs and alarms, and prevents the checked code from changing files, starting processes and
opening connections.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from .._torch.callers import COMPILERS

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LASTING = frozenset({
    "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chdir",
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.kill",
    "subprocess.Popen", "socket.connect", "socket.bind", "socket.sendto", "urllib.Request", "shutil.copyfile",
    "shutil.move", "shutil.rmtree", "tempfile.mkstemp", "tempfile.mkdtemp", "sqlite3.connect",
})  # fmt: skip
_OWN = __name__.partition(".")[0]


class SideEffect(BaseException):
    """Raised when the checked code is about to change something that cannot be restored. ``SideEffect`` is derived
    directly from ``BaseException``, so that ``except Exception`` in the checked code does not catch it.
    """


class _Guard:
    """The audit hook that raises ``SideEffect``. Python cannot remove an audit hook, so this hook does nothing while no
    check runs.
    """

    def __init__(self) -> None:
        self.thread: int | None = None
        self.installed = False

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.thread is None or threading.get_ident() != self.thread:
            return
        if event == "open":
            path, _, flags = args
            if not isinstance(flags, int) or not flags & _WRITES or path == os.devnull:
                return
        elif event not in _LASTING:
            return
        if not _is_compiling():
            raise SideEffect("the call writes a file" if event == "open" else f"the call uses {event}")


_guard = _Guard()


def _is_compiling() -> bool:
    """Return whether the innermost frame outside the standard library belongs to a compiler, to this plugin or to the
    import system.
    """
    frame = sys._getframe(2)  # frames 0 and 1 are this function and the audit hook
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        root = name.partition(".")[0]
        if frame.f_code.co_filename.startswith("<frozen importlib") or f"{name}.".startswith(
            tuple(f"{one}." for one in COMPILERS)
        ):
            return True
        if root == _OWN and name != __name__:
            return True
        if root not in sys.stdlib_module_names and name != __name__:
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return True


@contextmanager
def without_side_effects() -> Iterator[None]:
    """Inside the ``with`` block, raise ``SideEffect`` when code tries to write a file, start a process or open a
    connection.
    """
    if not _guard.installed:
        sys.addaudithook(_guard.hear)
        _guard.installed = True
    before, _guard.thread = _guard.thread, threading.get_ident()
    try:
        yield
    finally:
        _guard.thread = before


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the ``with`` block's warnings, output and logs from reaching the test, pause any alarm that the test has
    set, and raise ``SideEffect`` if the block tries to change something that cannot be restored.
    """
    with ExitStack() as stack:
        stack.enter_context(_paused_alarm())
        stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("ignore")
        stack.enter_context(redirect_stdout(io.StringIO()))
        stack.enter_context(redirect_stderr(io.StringIO()))
        stack.enter_context(_silent_logs())
        stack.enter_context(without_side_effects())
        yield


@contextmanager
def _paused_alarm() -> Iterator[None]:
    """Pause the test's SIGALRM timer inside the ``with`` block; afterwards, the timer continues with its remaining
    time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def _reject(record: logging.LogRecord) -> bool:
    return False


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Inside the ``with`` block, silence all log handlers except the handlers of torch's loggers, because the plugin
    reads torch's trace log.
    """
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    handlers = [
        handler
        for logger in loggers
        if isinstance(logger, logging.Logger) and not logger.name.startswith("torch")
        for handler in logger.handlers
    ]
    unique = list({id(handler): handler for handler in handlers}.values())
    for handler in unique:
        handler.addFilter(_reject)
    try:
        yield
    finally:
        for handler in unique:
            handler.removeFilter(_reject)
