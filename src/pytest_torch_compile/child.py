"""Every process of ours that runs pytest starts here: what it takes over from its parent, and what is different in it.

A child repeats the command line of its parent word for word, in the same folder and environment, as a worker of
pytest-xdist does. So it has the same ini file, plugins, conftest files and options, also those of other plugins. What
must differ is set by name after the child has read its command line (``plugin/in_child.py``). No plugin is switched
off: addopts may hold options of it, and without it pytest would refuse them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

VARIABLE = "PYTEST_TORCH_COMPILE_CHILD"

# Options that no child takes over, by the name under which pytest keeps them. All others are the parent's.
NOT_INHERITED: dict[str, Any] = {
    # One test needs one process, and pytest-benchmark times nothing beside pytest-xdist.
    "numprocesses": 0,
    "distload": False,
    "looponfail": False,
    # Nobody can answer a debugger there.
    "usepdb": False,
    "trace": False,
    # Files and folders that belong to the parent: a child would empty them or write over them.
    "basetemp": None,
    "cacheclear": False,
    "htmlpath": None,
    "json_report": False,
    "log_file": os.devnull,
    "pastebin": None,
    "report_log": None,
    "xmlpath": None,
    "allure_report_dir": None,
    "clean_alluredir": False,
    "benchmark_autosave": False,
    "benchmark_compare": None,
    "benchmark_compare_fail": [],
    "benchmark_histogram": None,
    "benchmark_json": None,
    "benchmark_save": None,
    # What it prints is quoted in messages.
    "color": "no",
}
# Plugins that remember between runs which tests failed: that is for the parent to do, and for it to go by.
UNREGISTERED = ("lfplugin", "nfplugin", "stepwiseplugin")
# Pytest's note of the test that is running: in a child it would be that of the parent.
FORGOTTEN = ("PYTEST_CURRENT_TEST",)


@dataclass(frozen=True)
class Job:
    """What a child is for. It travels as JSON in an environment variable, which the child removes when it starts."""

    tests: Sequence[str] | None = None  # in place of those of the command line
    options: Mapping[str, Any] = field(default_factory=dict)  # by name, over the command line and ``NOT_INHERITED``
    speed_tests: int = 0  # of the parent's run: how many comparisons its gate allows for
    results: str = ""  # the file for what the child has to say, a line of JSON each


@dataclass(frozen=True)
class Ended:
    """How a child ended; ``status`` is None where it took too long."""

    status: int | None
    output: str
    results: Sequence[Any] = ()

    @property
    def last_line(self) -> str:
        """The last line that it printed, which is how pytest sums up a run."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}, no output"


@dataclass(frozen=True)
class Child:
    """A pytest to be started: the arguments and the folder that its parent was started with, and its job.

    Plugins that the parent got as objects (``pytest.main(plugins=[...])``) cannot be repeated.
    """

    arguments: Sequence[str]
    folder: Path
    job: Job = Job()

    def with_options(self, **options: Any) -> Child:
        """The same child with further options, by name: ``compile_perf="track"``."""
        return replace(self, job=replace(self.job, options={**self.job.options, **options}))

    def run(self, environment: Mapping[str, str | None] | None = None, seconds: float | None = None) -> Ended:
        """Start it and wait, ``seconds`` at most. ``environment`` adds variables, and removes those that are None."""
        with tempfile.TemporaryDirectory(prefix="torch-compile-child-") as place:
            results = Path(place) / "results.jsonl"
            job = json.dumps(vars(replace(self.job, results=str(results))))
            changes = {**dict.fromkeys(FORGOTTEN), **(environment or {}), VARIABLE: job}
            variables = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", *self.arguments],
                    cwd=self.folder,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Ended(None, f"it took longer than {seconds:.0f} s")
            lines = results.read_text(encoding="utf-8").splitlines(keepends=True) if results.exists() else []
        # A child that was killed may have left a part of a line.
        whole = [line for line in lines if line.endswith("\n")]
        return Ended(done.returncode, done.stdout + done.stderr, [json.loads(line) for line in whole])


def take_job() -> Job | None:
    """The job of this process, once: processes that its tests start are no children of ours."""
    text = os.environ.pop(VARIABLE, None)
    known = {field.name for field in fields(Job)}  # the parent may be another version, which ``compare`` runs
    return Job(**{name: value for name, value in json.loads(text).items() if name in known}) if text else None
