"""Entries of a baseline in which one value after another is damaged: refused, or harmless to all that read them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_torch_compile.speed.deciding.comparison import SpeedComparison
from pytest_torch_compile.speed.deciding.scatter import priors_of

from pytest_torch_compile import Finding
from pytest_torch_compile.baselines import structure
from pytest_torch_compile.baselines.entries import SCHEMAS
from pytest_torch_compile.schema import problem
from pytest_torch_compile.speed.deciding import stored_runs as record

Path = tuple[str | int, ...]
DAMAGE = ("null", '""', "[]", "{}", "-1", "0", '"1.5"', "true", "1e308", "1e999", "1" + 400 * "0", "[[]]", '{"a": 1}')
QUANTITIES = ("wall", "host", "device", "memory", "kernels")
RUN = {name: [2e-3, 1e-3, math.log(0.5)] for name in QUANTITIES}
OURS = {"runs": [RUN] * 6, "devices": ["GPU-1"] * 6, "codes": [*["source/a"] * 5, "other/a"]}
SPEED = {"fullname": "test_a", "extra_info": {"torch_compile": OURS}}
CHECK = {"target": "f", "backend": "eager", "checked_mode": "fullgraph", "graphs": [2], "graph_breaks": ["a"],
         "recompiles": 1, "cudagraph_skips": 0}  # fmt: skip
STRUCTURE = {"fullname": "test_a", "checks": [CHECK], "kernels": [[20, 7]]}


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every value within a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, its in inside:
        yield (*path, name)
        yield from places(its, (*path, name))


def damaged(entry: Any, path: Path, text: str) -> Any:
    """The entry with this JSON at a path."""
    found = copy.deepcopy(entry)
    inside = found
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = json.loads(text)
    return found


def read_speed(entry: Any) -> None:
    """All that reads a speed entry."""
    record.unknown_device(entry, "GPU-2")
    record.alike(entry, SPEED)
    record.merged(entry, SPEED, "pass")
    runs, codes, (new, *_) = record.runs_of(entry), record.codes_of(entry), record.runs_of(SPEED)
    slower = {name: (eager, 1.3 * compiled, ratio + 0.26) for name, (eager, compiled, ratio) in new.items()}
    comparison = SpeedComparison.of(runs, codes, "source/a", tests=1, priors=priors_of(record.runs_by_source(entry)))
    comparison.needs_another([slower])
    comparison.judge([slower] * 3)


def read_structure(entry: Any) -> None:
    """All that reads a structure entry."""
    structure.table({"test_a": entry}, {"test_a": STRUCTURE})
    structure.worse(entry, STRUCTURE, lambda name, more: Finding("graph-break", more))


@pytest.mark.parametrize(
    ("entry", "kind", "read"), [(SPEED, "speed", read_speed), (STRUCTURE, "structure", read_structure)]
)
def test_damaged_value_is_refused_or_harmless(entry: Any, kind: str, read: Callable[[Any], None]) -> None:
    assert not problem(entry, SCHEMAS[kind])
    refused = 0
    for path in places({name: its for name, its in entry.items() if name != "fullname"}):
        for text in DAMAGE:
            found = damaged(entry, path, text)
            if wrong := problem(found, SCHEMAS[kind]):
                assert "\n" not in wrong
                refused += 1
            else:
                read(found)
    assert refused > 100


@pytest.mark.parametrize("missing", ["target", "graphs", "graph_breaks", "recompiles"])
def test_structure_without_what_is_compared_is_refused(missing: str) -> None:
    check = {name: value for name, value in CHECK.items() if name != missing}
    assert problem({**STRUCTURE, "checks": [check]}, SCHEMAS["structure"]) == f"checks[0] has no {missing}"


def test_kernels_that_are_no_counts_are_refused() -> None:
    wrong = problem({**STRUCTURE, "kernels": [["20", 7]]}, SCHEMAS["structure"])
    assert wrong == "kernels[0][0] must be integer, and is '20'"


def test_run_without_a_wall_time_is_refused() -> None:
    run = {name: three for name, three in RUN.items() if name != "wall"}
    wrong = problem({**SPEED, "extra_info": {"torch_compile": {"runs": [RUN, run]}}}, SCHEMAS["speed"])
    assert wrong == "extra_info.torch_compile.runs[1] has no wall"
