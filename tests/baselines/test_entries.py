"""Entries of a baseline in which one value after another is damaged: refused, or harmless to all that read them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_torch_compile import Finding
from pytest_torch_compile.baselines import structure
from pytest_torch_compile.baselines.entries import SCHEMAS
from pytest_torch_compile.baselines.schema import problem
from pytest_torch_compile.speed.deciding import exact, times
from pytest_torch_compile.speed.deciding import stored_runs as record
from pytest_torch_compile.speed.sample import Exact, Times
from pytest_torch_compile.speed.summary import changed_counts

Path = tuple[str | int, ...]
DAMAGE = ("null", '""', "[]", "{}", "-1", "0", '"1.5"', "true", "1e308", "1e999", "1" + 400 * "0", "[[]]", '{"a": 1}')
QUANTITIES = ("wall", "host", "device", "start", "warm-start")
RUN = {name: [2e-3, 1e-3, math.log(0.5)] for name in QUANTITIES}
OURS = {"runs": [RUN] * 6, "devices": ["GPU-1"] * 6, "codes": [*["source/a"] * 5, "other/a"],
        "kept_caches": [False] * 6}  # fmt: skip
SPEED = {"fullname": "test_a", "extra_info": {"torch_compile": OURS}}
CHECK = {"target": "f", "backend": "eager", "checked_mode": "fullgraph", "graphs": [2], "graph_breaks": ["a"],
         "recompiles": 1, "cudagraph_skips": 0, "guards": 5}  # fmt: skip
STRUCTURE = {"fullname": "test_a", "checks": [CHECK], "counts": {"kernels": [7], "memory": [1000, 2000], "python_calls": [300], "python": "3.11"}}  # fmt: skip


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
    runs, (new, *_) = record.runs_of(entry), record.runs_of(SPEED)
    record.unknown_device(runs, "GPU-2")
    record.other_cache(runs, kept_cache=False)
    record.alike(entry, SPEED)
    record.merged(entry, SPEED, changed=False)
    slower = replace(new, device=Times(2e-3, 1.3e-3, new.wall.log_ratio + 0.26))
    for count in (1, 8):
        times.judge(runs, [slower] * count, tests=1)


def read_structure(entry: Any) -> None:
    """All that reads a structure entry."""
    structure.table({"test_a": entry}, {"test_a": STRUCTURE}, changed_counts)
    structure.table({"test_a": STRUCTURE}, {"test_a": entry}, changed_counts)
    structure.worse(entry, STRUCTURE, lambda name, more: Finding("graph-break", more))
    new = [Exact(kernels=8, memory=10**6, python_calls=300)]
    counts = structure.counts_of(entry, "3.11")
    exact.differences(counts, new)
    exact.merged(counts, new, changed=False)


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


@pytest.mark.parametrize("kernels", [["7"], [[20, 7]], 7, [None], []], ids=str)
def test_counts_that_are_no_numbers_are_refused(kernels: Any) -> None:
    assert not problem(STRUCTURE, SCHEMAS["structure"])
    wrong = problem({**STRUCTURE, "counts": {"kernels": kernels}}, SCHEMAS["structure"])
    assert wrong.startswith("counts['kernels']")


def test_run_without_a_wall_time_is_refused() -> None:
    run = {name: three for name, three in RUN.items() if name != "wall"}
    wrong = problem({**SPEED, "extra_info": {"torch_compile": {"runs": [RUN, run]}}}, SCHEMAS["speed"])
    assert wrong == "extra_info.torch_compile.runs[1] has no wall"
