"""Compute the plots of earlier results, for the whole run and for each test, as data without markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from . import document

MOST_TESTS = 30  # the maximum number of tests whose plots are at the top of the page
_OF_TEST = ("breaks", "recompiles", "compile_seconds", "speedup")
_FAILED = ("failed", "error")


def of_run(history: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Create the plots for the whole run."""
    series: dict[str, Callable[[Sequence[Mapping[str, Any]]], float | None]] = {
        "failed tests": lambda tests: sum(t["outcome"] in _FAILED for t in tests),
        "graph breaks": lambda tests: sum(t["breaks"] for t in tests),
        "recompiles": lambda tests: sum(t["recompiles"] for t in tests),
        "compile seconds": lambda tests: sum(t["compile_seconds"] for t in tests),
        "speedup": lambda tests: (
            geometric_mean(known) if (known := [t["speedup"] for t in tests if t["speedup"]]) else None
        ),
    }
    for title, value in series.items():
        plot = _plot(title, [(at, value(list(at["tests"].values())), "passed") for at in history])
        if plot:
            yield plot


def of_test(test: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Create the plots for one test; empty plots are omitted."""
    points = _points(test, history)
    plots = []
    for name in _OF_TEST:
        series = [(at, figures[name], figures["outcome"]) for at, figures in points]
        plots.append(_plot(name.replace("_", " "), series))
    return [plot for plot in plots if plot and plot["most"] > 0]


def by_test(
    tests: Sequence[Mapping[str, Any]],
    history: Sequence[Mapping[str, Any]],
    names: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Return a dict with ``tests`` and ``more``. ``tests`` lists the tests with at least two results, worst first, each
    with its plots. ``more`` is the number of omitted tests.
    """
    found = []
    for test in tests:
        points = [figures for _, figures in _points(test, history)]
        if len(points) > 1 and (plots := of_test(test, history)):
            failed = sum(figures["outcome"] in _FAILED for figures in points)
            words = f"failed in {failed} of {len(points)} results" if failed else f"{len(points)} results, none failed"
            entry = {"id": test["id"], "names": names[test["id"]], "words": words, "plots": plots}
            found.append((_weight(points), entry))
    found.sort(key=lambda one: one[0], reverse=True)
    return {"tests": [entry for _, entry in found[:MOST_TESTS]], "more": max(0, len(found) - MOST_TESTS)}


def _weight(points: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """Return the sort key for ``by_test``: tests that both passed and failed come first. Ties are broken, in this
    order, by the number of failures, the changes in counts, the change in speed, and the counts.
    """
    first, last = points[0], points[-1]
    changed = sum(abs(last[name] - first[name]) for name in ("breaks", "recompiles"))
    known = [point["speedup"] for point in points if point["speedup"]]
    return (
        float(len({point["outcome"] in _FAILED for point in points})),
        float(sum(point["outcome"] in _FAILED for point in points)),
        float(changed),
        abs(math.log(known[-1] / known[0])) if known else 0.0,
        float(last["breaks"] + last["recompiles"]),
    )


def _points(
    test: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the history points that contain this test, each with the test's values."""
    key = document.key_of(test)
    return [(at, at["tests"][key]) for at in history if key in at["tests"]]


def _plot(title: str, points: Sequence[tuple[Mapping[str, Any], float | None, str]]) -> dict[str, Any] | None:
    """Return a line plot over time, 200 units wide and 40 units high, or None if fewer than two points have a value."""
    known = [(at, value, outcome) for at, value, outcome in points if value is not None]
    if len(known) < 2:
        return None
    most = max(value for _, value, _ in known)
    step = 190 / (len(known) - 1)
    dots = [
        {
            "x": round(5 + place * step, 1),
            "y": round(35 - 30 * value / (most or 1), 1),  # all values may be 0
            "label": f"{at['created']} {at['commit'][:10]}: {value:g}",
            "bad": outcome in _FAILED,
        }
        for place, (at, value, outcome) in enumerate(known)
    ]
    return {"title": title, "most": most, "last": known[-1][1], "dots": dots}
