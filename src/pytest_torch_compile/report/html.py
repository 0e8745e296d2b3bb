"""Create the self-contained HTML page. Jinja2 escapes all untrusted text."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from typing import Any

from ..observation import file_line
from . import document, safe_text, trends, view
from .failure_text import count, cudagraphs, headline
from .names import shortened
from .table_of_checks import USAGE_ERROR

# The number of characters that fit in the name column, on a desktop and on a phone.
WIDE, NARROW = 54, 40
COLUMNS = ("verdict", "graphs", "breaks", "recompiles", "ratio", "seconds", "speedup")


def available() -> bool:
    """Return whether Jinja2 is installed."""
    return find_spec("jinja2") is not None


def page(made: Mapping[str, Any]) -> str:
    """Return the document as one HTML file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader(__package__ or "", "templates")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: safe_text.html(value) if type(value) is str else value,
    )
    environment.globals.update(view=view, count=count, headline=headline, cudagraphs=cudagraphs, file_line=file_line)
    environment.filters.update(duration=view.duration, percent=view.percent)
    templates = resources.files(__package__) / "templates"
    style, script = (templates.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # Only results for the same selection of tests have comparable totals.
    own = made.get("selection", "")
    alike = [point for point in made["history"] if point.get("selection", "") == own]
    ids = [test["id"] for test in made["tests"]]
    # Each name in two lengths, for desktop screens and for phone screens.
    forms = {form: shortened(ids, width, mark="…") for form, width in (("wide", WIDE), ("narrow", NARROW))}
    names = {test: {form: forms[form][place] for form in forms} for place, test in enumerate(ids)}
    return environment.get_template("page.html").render(
        made=made,
        sentence=view.sentence(made),
        result=view.RESULTS[made["summary"]["result"]],
        tests=[_test(test, made["history"], names) for test in sorted(made["tests"], key=_badness)],
        trends=list(trends.of_run(alike)),
        trends_by_test=trends.by_test(made["tests"], made["history"], names),
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _badness(test: Mapping[str, Any]) -> tuple[int, int]:
    """Return the sort key of a test: failures come first, ordered by their worst finding."""
    ranks = [view.rank(finding["kind"]) for check in test["checks"] for finding in check["findings"]]
    return -document.OUTCOMES.index(test["outcome"]), min(ranks, default=9)


def _test(
    test: Mapping[str, Any], history: Sequence[Mapping[str, Any]], names: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    figures = view.row(test)
    kinds = {finding["kind"] for check in test["checks"] for finding in check["findings"]}
    kinds |= {USAGE_ERROR} if test.get("usage_error") else set()
    sort = {name: "1e999" if figures[name] == math.inf else figures[name] for name in COLUMNS}
    return {
        **test,
        "figures": figures,
        "sort": {"test": test["id"], **{name: "" if value is None else value for name, value in sort.items()}},
        "kinds": sorted(kinds),
        # The failure's message is shown unless the findings of a check already describe the failure.
        "bare": "" if kinds - {USAGE_ERROR} and test["outcome"] == "failed" else test["message"],
        "names": names[test["id"]],
        "shortened": set(names[test["id"]].values()) != {test["id"]},
        "timelines": [_timeline(check) for check in test["checks"]],
        "splits": [_split(check["compile_seconds"]) for check in test["checks"]],
        "speeds": [_speed(speed) for speed in test["speed"]],
        "history": trends.of_test(test, history),
    }


def _timeline(check: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls, each with its number, its recompiles, and its outcome as a CSS class name."""
    states = {"errors": "eager", "fallbacks": "eager", "recompiles": "recompiled", "graphs": "compiled"}
    timeline = []
    for number, call in enumerate(check["calls"], 1):
        seen = {name: [record for record in check[name] if record["call"] == number] for name in states}
        otherwise = "reused" if check["graphs"] else "other"
        state = next((states[name] for name, records in seen.items() if records), otherwise)
        timeline.append({**call, "state": state, "number": number, "recompiles": seen["recompiles"]})
    return timeline


def _split(seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the parts of the compile time, each with its share in percent, which is the width of its bar."""
    # torch's time for dynamo includes AOTAutograd's time, which includes Inductor's time.
    inductor = seconds["inductor"]
    aot = max(0.0, seconds["aot_autograd"] - inductor)
    dynamo = max(0.0, seconds["dynamo"] - aot - inductor)
    parts = {"dynamo": dynamo, "aot_autograd": aot, "inductor": inductor, "backward": seconds["backward"]}
    whole = sum(parts.values())
    return [{"name": name, "seconds": s, "width": round(100 * s / whole, 2)} for name, s in parts.items() if s]


def _speed(speed: Mapping[str, Any]) -> dict[str, Any]:
    sample = speed["sample"]
    pairs = [("wall time", "wall"), ("host time", "host"), ("device time", "device"), ("peak memory", "memory")]
    legs = []
    for title, name in pairs:
        if pair := sample.get(name):
            show = view.size if name == "memory" else view.duration
            most = max(pair["eager"], pair["compiled"]) or 1.0
            bars = [(leg, show(pair[leg]), round(100 * pair[leg] / most, 2)) for leg in ("eager", "compiled")]
            factor = pair["eager"] / pair["compiled"] if pair["compiled"] else None
            legs.append({"title": title, "bars": bars, "factor": factor})
    counts = [("kernels", "kernels"), ("Python calls", "python_calls")]
    return {
        **speed,
        "legs": legs,
        "intervals": [_interval(change) for change in speed["changes"]],
        "exact": [(view.difference(one), one["worse"]) for one in speed.get("exact", [])],
        "start": sample.get("start"),
        "counts": [(title, sample[name]) for title, name in counts if sample.get(name)],
    }


def _interval(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of ``change``, and the layout of its plot: the positions of the dot and of the allowed range,
    in percent of the plot's width.
    """
    effect = change["effect"]
    # If the floor (the allowed change) is None, there is no limit, so any change is allowed.
    floor = abs(effect if change["floor"] is None else change["floor"])
    reach = 1.25 * max(floor, abs(effect), 1e-6)
    return {
        **change,
        "left": round(50 - 50 * floor / reach, 2),
        "width": round(100 * floor / reach, 2),
        "dot": round(50 + 50 * effect / reach, 2),
    }
