"""Start the worker repeatedly until every case has a result. A crash or a timeout is the result of one case, and does
not affect others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import store

POLL_SECONDS = 0.2


class SweepError(RuntimeError):
    """Raised if the worker cannot run at all; the message contains the end of its output."""


@dataclass
class Drive:
    """One sweep in one environment. Two arguments are appended to ``command``: the JSON document with the results, and
    the file for events.

    ``limit`` is the time limit for one case in seconds, and ``budget`` the limit for all cases. The next sweep runs the
    cases that are left.
    """

    path: Path
    command: Sequence[str]
    limit: float
    budget: float = float("inf")
    say: Callable[[str], None] = print
    _document: store.Document = field(default_factory=dict)
    _current: str = ""
    _since: float = 0.0
    _start: float = field(default_factory=time.monotonic)

    def run(self) -> store.Document:
        """Run until every case has a result.

        Raises:
            SweepError: If the worker ended before it started a case.
        """
        while not self._spent() and not self._one_worker():
            pass
        return self._document

    def _one_worker(self) -> bool:
        """Start the worker and follow it to its end. Returns True if no cases are left."""
        self._current, self._since = "", time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
            events, output = Path(folder) / "events.jsonl", Path(folder) / "output.txt"
            events.touch()
            with output.open("w", encoding="utf-8") as stream:
                process = subprocess.Popen(
                    [*self.command, str(self.path), str(events)],
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                try:
                    why = self._follow(process, events)
                finally:
                    end(process)
            if self._current:
                self._keep(self._current, {"error": why})
                return False
            if process.returncode and not self._spent():
                raise SweepError(f"the worker {why} and no case was running:\n{tail(output)}")
            return True

    def _follow(self, process: subprocess.Popen[bytes], events: Path) -> str:
        """Process events until the process ends or a case takes too long. Returns a description of how it ended."""
        begun = ""
        with events.open(encoding="utf-8") as stream:
            while True:
                ended = process.poll() is not None
                *lines, begun = (begun + stream.read()).split("\n")
                for line in lines:
                    self._take(json.loads(line))
                if ended or (self._spent() and not self._current):
                    return f"ended with {process.returncode}"
                if time.monotonic() - self._since > self.limit:
                    return f"took longer than {self.limit:.0f} s"
                time.sleep(POLL_SECONDS)

    def _spent(self) -> bool:
        return time.monotonic() - self._start > self.budget

    def _take(self, event: dict[str, Any]) -> None:
        self._since = time.monotonic()
        if "environment" in event:
            self._document = store.resumed(self.path, event["environment"])
            left = [name for name in event["cases"] if name not in self._document["cases"]]
            self.say(
                f"torch {event['environment'].get('torch', '')}: {len(left)} of {len(event['cases'])} cases to run"
            )
        elif "begin" in event:
            self._current = "" if self._spent() else event["begin"]
        else:
            self._current = ""
            self._keep(event["end"], event["figures"])

    def _keep(self, name: str, figures: dict[str, Any]) -> None:
        self._document["cases"][name] = figures
        store.write(self._document, self.path)
        self.say(f"{name}: {figures.get('error') or str(figures['seconds']) + ' s'}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def tail(path: Path, lines: int = 20) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
