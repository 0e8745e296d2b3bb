"""At the end of a session with speed tests, print the table of results, update the baselines, list unused entries, and
describe changes in the stored counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ..baselines import files as baselines
from ..baselines.maintenance import probable_renames, unused
from .deciding import stored_runs
from .deciding.exact import QUANTITIES, Difference, Quantity
from .deciding.times import ENOUGH_RUNS
from .deciding.wording import percent

Say = Callable[[str], None]
COLOURS = {"regressed": "red", "no-baseline": "yellow", "inconclusive": "yellow", "improved": "green", "pass": "green"}


def finish(
    say: Callable[..., None],
    results: Sequence[Mapping[str, Any]],
    directory: Path,
    *,
    say_not_written: Say,
    update: bool,
    not_passed: Mapping[str, str],
    collected: Iterable[str] = (),
    selected: Iterable[str] = (),
) -> None:
    """Print the table of results. If ``update`` is true, also update the baselines and print a table of the changes.

    Args:
        say: prints a line; accepts colors as keyword arguments, like pytest's terminal reporter.
        say_not_written: prints a line with the reason why the baselines could not be updated.
        not_passed: the tests that did not pass, each with the reason. Nothing is stored for these tests.
        collected: the ids of all collected speed tests, which are needed to find unused entries.
        selected: the files in which only some tests were selected.
    """
    for line, outcome in table(results):
        say(line, **({COLOURS[outcome]: True} if outcome else {}))
    improved = sum(r["outcome"] == "improved" for r in results)
    if improved and not update:
        say(f"{improved} improved: run pytest with --compile-update-baselines to update the baseline", green=True)
    for environment in sorted({r["environment"] for r in results}):
        here = [r for r in results if r["environment"] == environment]
        _name_unused(say, directory, environment, here, set(collected), set(selected))
        if update:
            try:
                _update(say, directory, environment, here, not_passed)
            except baselines.BaselineError as error:
                say_not_written(f"baselines not updated: {error}")


def table(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the lines of the table, each with the outcome that determines its color."""
    width = max((len(r["test"]) for r in results), default=4)
    title = f"{'test':{width}}  {'verdict':12}  {'speedup':>8}  {'wall':>8}  {'device':>8}  {'kernels':>10}  runs"
    lines = [(title, "")]
    for r in results:
        sample = r.get("sample") or {}
        changes = {change["metric"]: percent(change["effect"]) for change in r["changes"]}
        wall, kernels = sample.get("wall"), sample.get("kernels")
        speedup = f"{wall['eager'] / wall['compiled']:.2f}x" if wall else ""
        counts = f"{kernels[0]} > {kernels[1]}" if kernels else ""
        cells = f"{speedup:>8}  {changes.get('wall', ''):>8}  {changes.get('device', ''):>8}  {counts:>10}"
        line = f"{r['test']:{width}}  {r['outcome']:12}  {cells}  {r['stored_runs']:4}  {r['summary']}"
        lines.append((line.rstrip(), r["outcome"]))
    return lines


def _name_unused(
    say: Say, directory: Path, environment: str, here: Sequence[Mapping[str, Any]], tests: set[str], selected: set[str]
) -> None:
    entries = baselines.load(directory, environment).entries
    gone = {test: dict(entries[test]) for test in unused(entries, tests, selected)}
    new = {r["test"]: r["entry"] for r in here if r["outcome"] == "no-baseline" and "entry" in r}
    renamed = probable_renames(gone, new, stored_runs.alike)
    for test in gone:
        hint = f"; probably renamed to {renamed[test]}" if test in renamed else ""
        say(f"unused baseline for {environment}: {test}{hint}")


def _update(
    say: Say,
    directory: Path,
    environment: str,
    here: Sequence[Mapping[str, Any]],
    not_passed: Mapping[str, str],
) -> None:
    usable = []
    for result in here:
        if why := _why_not_stored(result, not_passed):
            say(why)
        else:
            usable.append(result)

    def merge(old: Mapping[str, Any]) -> dict[str, Any]:
        return {r["test"]: stored_runs.merged(old.get(r["test"]), r["entry"], r["changed"]) for r in usable}

    done = baselines.update(directory, environment, merge)
    if done.kept:
        say(f"the old file could not be read and was moved to {done.kept}")
    say(str(done))
    width = max((len(row.test) for row in done.rows), default=0)
    for row in done.rows:
        say(f"  {row.test:{width}}  {row.change:8}  {_figures(row.before):>30}  ->  {_figures(row.after)}")
    fewest = min((len(stored_runs.runs_of(row.after)) for row in done.rows), default=ENOUGH_RUNS)
    if fewest < ENOUGH_RUNS:
        more = ENOUGH_RUNS - fewest
        say(
            f"times are judged once {ENOUGH_RUNS} runs are stored: repeat this command {more} "
            f"{'time' if more == 1 else 'times'}"
        )


def _why_not_stored(result: Mapping[str, Any], not_passed: Mapping[str, str]) -> str:
    """Return a line with the reason why a test's times are not stored, or an empty string if they are stored."""
    test = result["test"]
    if test in not_passed:
        return f"nothing stored: {test}: {not_passed[test]}"
    if "entry" not in result:  # the device stayed busy
        return f"no measurement stored: {test}: {result['summary']}"
    if problems := result["sample"]["problems"]:  # these are about the times only, so the counts are stored
        return f"times not stored: {test}: {'; '.join(problems)}"
    return ""


def changed_counts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Compare the counts that are stored for a test before and after an update of the baseline. Return a description of
    each change, such as ``graphs 1 -> 2``, in the words of the gate.
    """
    lines = []
    if before.get("python", after.get("python")) != after.get("python"):
        lines.append(f"Python {before['python']} -> {after.get('python', 'unknown')}")
    for quantity in QUANTITIES:
        old, new = (list(counts.get(quantity.name, ())) for counts in (before, after))
        if len(old) == len(new) == 1 and old != new:
            lines.append(str(Difference(quantity, old[0], new[0], worse=False)))
        elif old != new:
            shown = _shown(quantity, {*old, *new})
            texts = (" or ".join(shown[value] for value in values) or "none" for values in (old, new))
            lines.append(f"{quantity.title} {' -> '.join(texts)}")
    return lines


def _shown(quantity: Quantity, values: set[int]) -> dict[int, str]:
    """Format the values of a quantity. Different values have different texts."""
    shown = {value: quantity.shown(value) for value in values}
    if len(set(shown.values())) < len(shown):  # a difference of a few bytes is too small for megabytes
        return {value: f"{value:,} bytes" for value in values}
    return shown


def _figures(entry: Mapping[str, Any] | None) -> str:
    """Format the mean speedups and the number of runs in a baseline entry."""
    runs = stored_runs.runs_of(entry)
    if not runs:
        return "none"
    means = [
        f"{name} {math.exp(-fmean(getattr(run, name).log_ratio for run in runs)):.3f}x"
        for name in ("wall", "device")
        if all(getattr(run, name) for run in runs)
    ]
    return f"{', '.join(means)} (runs: {len(runs)})"
