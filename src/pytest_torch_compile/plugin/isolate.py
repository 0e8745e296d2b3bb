"""``--compile-isolate``: each test that uses the plugin runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

REPORTS = "PYTEST_TORCH_COMPILE_REPORTS"


def is_child() -> bool:
    """Whether this process runs one test for another pytest."""
    return REPORTS in os.environ


def run(item: pytest.Item) -> list[pytest.TestReport]:
    """Run one test in a fresh pytest and give its reports; a child that dies is a failed test."""
    with tempfile.TemporaryDirectory(prefix="torch-compile-isolate-") as folder:
        reports = Path(folder) / "reports.jsonl"
        command = [sys.executable, "-m", "pytest", item.nodeid, "-p", "no:xdist", "-q", *_shared_options(item.config)]
        done = subprocess.run(
            command,
            cwd=item.config.rootpath,
            env={**os.environ, REPORTS: str(reports)},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = reports.read_text(encoding="utf-8").splitlines() if reports.exists() else []
    found = [_read(item, line) for line in lines]
    # A process that dies in the test has reported its setup already.
    return found if any(report.when == "teardown" for report in found) else [*found, _died(item, done)]


def save(config: pytest.Config, report: pytest.TestReport) -> None:
    """In the child: hand one report to the parent."""
    data = config.hook.pytest_report_to_serializable(config=config, report=report)
    with Path(os.environ[REPORTS]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(data, default=str) + "\n")


def _shared_options(config: pytest.Config) -> list[str]:
    names = ("backend", "device", "cache", "report", "diagnose")
    flags = [f"--compile-{name}" for name in ("fast", "accept") if config.getoption(f"--compile-{name}")]
    plugins = [part for name in config.getoption("plugins", []) for part in ("-p", name)]
    given = [f"--compile-{name}={value}" for name in names if (value := config.getoption(f"--compile-{name}"))]
    # Where the root directory is decides what relative folders mean.
    root = [f"--rootdir={config.rootpath}", *(["-c", str(config.inipath)] if config.inipath else [])]
    return [*plugins, *root, *given, *flags]


def _read(item: pytest.Item, line: str) -> pytest.TestReport:
    report = item.config.hook.pytest_report_from_serializable(config=item.config, data=json.loads(line))
    assert isinstance(report, pytest.TestReport)
    return report


def _died(item: pytest.Item, done: subprocess.CompletedProcess[str]) -> pytest.TestReport:
    text = f"the process of {item.nodeid} ended with {done.returncode} and no report\n{done.stdout}\n{done.stderr}"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
