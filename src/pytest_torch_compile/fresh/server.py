"""A server process that imports torch once and forks a process for each request. A forked process starts in
milliseconds, whereas a new process would take seconds to import torch and its compiler.

The server imports only torch, this package and the modules to preload. The server creates no tensors and never
initializes a device, so a forked process behaves like a new process. If environment variables change, the server is
replaced, because torch reads many environment variables at import.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Environment variables that are read at each use rather than at import, so each forked process can have different
# values. Tests often set HOME to a temporary folder.
_READ_LATE = re.compile("PYTHONPATH|PYTEST_.*|TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR|PWD|HOME|USERPROFILE")


class ForkedProcess:
    """A process that the server forked. Like ``subprocess.Popen``, the class has the attribute ``pid`` and the method
    ``wait``. The forked process exits when the process that requested it exits.
    """

    def __init__(self, pid: int, server: socket.socket, alive: int, done: Callable[[], None]) -> None:
        self.pid = pid
        self._server, self._alive, self._done = server, alive, done
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the forked process to exit. Return the process's exit code, or the negative number of the signal
        that terminated the process.

        Raises:
            subprocess.TimeoutExpired: If the process has not exited after ``timeout`` seconds.
        """
        if self._code is None:
            self._server.settimeout(timeout)
            try:
                self._code = int(_line(self._server) or -signal.SIGKILL)
            except TimeoutError:
                raise subprocess.TimeoutExpired("fork", timeout or 0) from None
            os.close(self._alive)
            self._done()
        return self._code


class _Server:
    """The server that forks processes for this process. It is started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started_in = -1
        self._environment: Mapping[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = socket.socket()

    def fork(
        self, folder: Path, preload: Sequence[str], variables: Mapping[str, str], seconds: float
    ) -> ForkedProcess | None:
        """Fork a process that runs the job in ``folder``. Return None if another forked process is still running, or if
        the server is not ready within ``seconds``.
        """
        if not self._lock.acquire(blocking=False):
            return None
        process = None
        try:
            with contextlib.suppress(OSError):
                self._ensure(variables)
                late = {name: value for name, value in variables.items() if _READ_LATE.fullmatch(name)}
                process = self._request({"folder": str(folder), "preload": [*preload], "late": late}, seconds)
            return process
        finally:
            if process is None:
                self.stop()
                self._lock.release()

    def _request(self, request: Mapping[str, object], seconds: float) -> ForkedProcess | None:
        end_of_child, alive = os.pipe()
        self._socket.settimeout(seconds)
        try:
            message = json.dumps({**request, "cwd": os.getcwd()}).encode()
            socket.send_fds(self._socket, [message], [end_of_child])
            if answer := _line(self._socket):
                return ForkedProcess(int(answer), self._socket, alive, self._lock.release)
        except BaseException:
            os.close(alive)
            raise
        finally:
            os.close(end_of_child)
        os.close(alive)
        return None

    def _ensure(self, variables: Mapping[str, str]) -> None:
        environment = {name: value for name, value in variables.items() if not _READ_LATE.fullmatch(name)}
        here = os.getpid()  # if this process is forked, the child must not use its parent's server
        running = self._process is not None and self._process.poll() is None
        if running and self._started_in == here and self._environment == environment:
            return
        if self._started_in == here:
            self.stop()
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(its.fileno())],
                env={**variables, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        self._socket, self._environment, self._started_in = ours, environment, here

    def stop(self) -> None:
        """Close the socket and terminate the server."""
        self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _line(connection: socket.socket) -> bytes:
    """Return the next line from the connection, or no bytes if the process at the other end has exited."""
    line = b""
    with contextlib.suppress(ConnectionError):
        while not line.endswith(b"\n") and (byte := connection.recv(1)):
            line += byte
    return line


def serve(connection: socket.socket) -> Path | None:
    """Fork a process for each request. In each forked process, return the folder of its job. In the server, return None
    when the process at the other end of the connection exits.
    """
    import torch  # noqa: F401

    from . import worker  # noqa: F401

    while True:
        message, files, _, _ = socket.recv_fds(connection, 1 << 20, 1)
        if not message:
            return None
        request = json.loads(message)
        for module in request["preload"]:
            importlib.import_module(module)
        with warnings.catch_warnings():
            # Python 3.12 and newer warn about the fork because numpy's BLAS has threads, but this BLAS supports
            # forking.
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            connection.close()
            return _forked(request, files[0])
        os.close(files[0])
        connection.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _forked(request: Mapping[str, object], alive: int) -> Path:
    """In the forked process, set up a new session, environment, working folder, output and random state."""
    os.setsid()
    folder = Path(str(request["folder"]))
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for here, there in ((alive, 0), (log, 1), (log, 2)):
        os.dup2(here, there)
    late = request["late"]
    assert isinstance(late, dict)
    for name in filter(_READ_LATE.fullmatch, [*os.environ]):
        del os.environ[name]
    os.environ.update(late)
    os.chdir(str(request["cwd"]))
    sys.path[:] = late["PYTHONPATH"].split(os.pathsep)
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    return folder


server = _Server()

if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as its_socket:
        place = serve(its_socket)
    if place is None:
        os._exit(0)  # exits at once, instead of freeing each of torch's modules
    from .worker import main

    main(place)
