"""At the end of a pytest session with ``--compile-plan``, list the planned counts and update their baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import settings
from ..baselines import files as baselines
from ..baselines.maintenance import unused
from ..report.safe_text import terminal
from ..report.view import size
from ..speed.summary import COLOURS

if TYPE_CHECKING:
    import pytest

# The columns of the table: the quantity, the title, and a function that formats the value.
COLUMNS: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("kernels", "kernels", "{:,}".format),
    ("library_calls", "library calls", "{:,}".format),
    ("memory", "peak memory", size),
    ("bytes_moved", "moved", size),
)
Result = Mapping[str, Any]


class PlanSession:
    """The hooks for ``--compile-plan``, registered only if the option is set.

    Args:
        folder: the baselines folder.
        results: returns a pair for each planned test of this run: whether the test passed, and its result.
        collected: returns the ids of all collected tests that may have a plan, and the files in which only some tests
            were selected.
        say_not_written: prints a line with the reason why a baseline could not be written, and fails the run.
    """

    def __init__(
        self,
        folder: Path,
        results: Callable[[pytest.TerminalReporter], Iterable[tuple[bool, Result]]],
        collected: Callable[[pytest.Config], tuple[Sequence[str], Sequence[str]]],
        say_not_written: Callable[[pytest.TerminalReporter, str], None],
    ) -> None:
        self._folder = folder
        self._results = results
        self._collected = collected
        self._say_not_written = say_not_written

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print the table of planned counts, and update the baseline if requested."""
        results = list(self._results(terminalreporter))
        if not results:
            return

        def say(line: str, **colors: bool) -> None:
            terminalreporter.write_line(terminal(line), **colors)

        terminalreporter.section(f"torch.compile plans for {settings.current.plan}, not measured")
        for line, outcome in table([result for _, result in results]):
            say(line, **({COLOURS[outcome]: True} if outcome else {}))
        environment = results[0][1]["environment"]
        stored, (tests, partly) = baselines.load(self._folder, environment, "plan"), self._collected(config)
        for test in unused(stored.entries, tests, partly):
            say(f"unused baseline for {environment}: {test}")
        if settings.current.update_baselines:
            self._update(terminalreporter, say, environment, [result for passed, result in results if passed])
            return
        if improved := sum(result["outcome"] == "improved" for _, result in results):
            options = f"--compile-plan={str(settings.current.plan).replace(' ', '')} --compile-update-baselines"
            say(f"{improved} improved: run pytest with {options} to update the baseline", green=True)

    def _update(
        self, reporter: pytest.TerminalReporter, say: Callable[[str], None], environment: str, passed: Sequence[Result]
    ) -> None:
        entries = {result["test"]: result["entry"] for result in passed}
        try:
            done = baselines.update(self._folder, environment, lambda old: entries, "plan")
        except baselines.BaselineError as error:
            self._say_not_written(reporter, f"baselines not updated: {error}")
            return
        if done.kept:
            say(f"the old file could not be read and was moved to {done.kept}")
        say(str(done))
        for row in done.rows:
            say(f"  {row.test}  {row.change}  {_figures(row.before)}  ->  {_figures(row.after)}")


def table(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Return the lines of the table, each with the outcome that determines its color."""
    width = max((len(result["test"]) for result in results), default=4)
    titles = "".join(f"  {title:>13}" for _, title, _ in COLUMNS)
    lines = [(f"{'test':{width}}  {'verdict':12}{titles}", "")]
    for result in results:
        counts = result["entry"]["counts"]
        cells = "".join(f"  {show(counts[name]) if name in counts else '':>13}" for name, _, show in COLUMNS)
        line = f"{result['test']:{width}}  {result['outcome']:12}{cells}  {result['summary']}"
        lines.append((line.rstrip(), result["outcome"]))
    return lines


def _figures(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "none"
    counts = entry["counts"]
    return ", ".join(f"{title} {show(counts[name])}" for name, title, show in COLUMNS if name in counts)
