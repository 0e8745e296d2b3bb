"""A process that has imported torch and forks: a forked process starts in milliseconds, and importing torch with its
compiler takes seconds.

The server imports modules of torch and of this package only, creates no tensors and never initialises a device, so
each forked process is as good as a new one. It is replaced when the environment changes, because torch reads many
variables while it is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Variables that are read whenever they are needed, so a forked process can have its own values.
_READ_LATE = ("PYTHONPATH", "PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PWD")


class ForkedProcess:
    """A forked process, with those methods of ``subprocess.Popen`` that are needed. It ends with this process."""

    def __init__(self, pid: int, server: socket.socket, alive: int, done: Callable[[], None]) -> None:
        self.pid = pid
        self._server, self._alive, self._done = server, alive, done
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or the negative number of a signal.

        Raises:
            subprocess.TimeoutExpired: after ``timeout`` seconds.
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
    """The server of this process, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started_in = -1
        self._environment: Mapping[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = socket.socket()

    def fork(self, folder: Path, preload: Sequence[str], variables: Mapping[str, str]) -> ForkedProcess | None:
        """Fork a process that runs the job in the folder. Returns None while another forked process is running."""
        if not self._lock.acquire(blocking=False):
            return None
        process = None
        try:
            with contextlib.suppress(OSError):
                self._ensure({name: value for name, value in variables.items() if name not in _READ_LATE})
                late = {name: variables[name] for name in _READ_LATE if name in variables}
                process = self._request({"folder": str(folder), "preload": [*preload], "late": late})
            return process
        finally:
            if process is None:
                self.stop()
                self._lock.release()

    def _request(self, request: Mapping[str, object]) -> ForkedProcess | None:
        end_of_child, alive = os.pipe()
        self._socket.settimeout(None)
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

    def _ensure(self, environment: Mapping[str, str]) -> None:
        here = os.getpid()  # a server is not shared with a process that this one forks
        running = self._process is not None and self._process.poll() is None
        if running and self._started_in == here and self._environment == environment:
            return
        if self._started_in == here:
            self.stop()
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(its.fileno())],
                env={**environment, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        self._socket, self._environment, self._started_in = ours, dict(environment), here

    def stop(self) -> None:
        """End the server, which exits when its socket is closed."""
        self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _line(connection: socket.socket) -> bytes:
    """The next line, which is empty if the other side has ended."""
    line = b""
    with contextlib.suppress(ConnectionError):
        while not line.endswith(b"\n") and (byte := connection.recv(1)):
            line += byte
    return line


def serve(connection: socket.socket) -> Path | None:
    """Fork a process for each request until the other side ends. In a forked process, returns the folder of its job."""
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
            # Python 3.12 and newer warn about the threads of numpy's BLAS, which is prepared for a fork.
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
    """Give the forked process its own session, environment, folder, output and random numbers."""
    os.setsid()
    folder = Path(str(request["folder"]))
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for here, there in ((alive, 0), (log, 1), (log, 2)):
        os.dup2(here, there)
    late = request["late"]
    assert isinstance(late, dict)
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
        os._exit(0)  # at once, instead of freeing each module of torch
    from .worker import main

    main(place)
