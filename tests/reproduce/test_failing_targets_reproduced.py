"""A reproduction of every target of the catalogue, each run once more by itself.

`python -m pytest tests/reproduce/test_failing_targets_reproduced.py -s` prints how many there are, and why there is none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
from filelock import FileLock

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytest.importorskip("transformers")

from pytest_torch_compile import CompileCheckFailed, settings  # noqa: E402
from tests.diagnose.failing import breaks, custom_ops, deep, recompiles, wrong_results  # noqa: E402, F401
from tests.diagnose.failing.planting import inductor  # noqa: E402
from tests.diagnose.failing.record import CATALOGUE  # noqa: E402

pytestmark = pytest.mark.slow
TARGETS = {one.name: one for one in CATALOGUE if one.on_this_torch}
LINE = re.compile(r"reproduction: (?P<path>.+\.py) \(needs (?P<needs>.+)\)")
WRONG = ("numerics", "gradient")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """What the check said, and how the file ended that was run by itself."""

    line: str
    status: int | None = None
    last: str = ""

    @property
    def needs_only_torch(self) -> bool:
        return self.line.endswith("(needs only torch)")


@pytest.fixture
def folder(tmp_path_factory):
    """One for all workers of a run: three tests ask for each result, and all results take 20 minutes of one core."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reproductions"
    shared.mkdir(exist_ok=True)
    return shared


def result(name: str, folder: Path) -> Result:
    kept = folder / f"{name}.json"
    with FileLock(folder / f"{name}.lock"):
        if not kept.exists():
            kept.write_text(json.dumps(asdict(reproduced(name, folder))), encoding="utf-8")
        return Result(**json.loads(kept.read_text(encoding="utf-8")))


def reproduced(name: str, folder: Path) -> Result:
    before = settings.current
    settings.current = replace(before, repro=str(folder / name), diagnose="full")
    try:
        with pytest.raises(CompileCheckFailed) as failed:
            TARGETS[name].build().run()
    finally:
        settings.current = before
    (line,) = [one for one in failed.value.report.diagnosis if one.startswith(("reproduction: ", "no reproduction"))]
    named = LINE.fullmatch(line)
    return Result(line, *run(Path(named["path"]), named["needs"])) if named else Result(line)


def run(file: Path, needs: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    if needs != "only torch":
        environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, str(file)], cwd=file.parent, env=environment, capture_output=True, text=True, check=False
    )
    last = [line for line in done.stderr.splitlines() if line.startswith("AssertionError: ")]
    return done.returncode, last[-1] if last else done.stderr[-500:]


@pytest.mark.parametrize("name", TARGETS)
def test_file_that_is_named_fails_alike_by_itself(name, folder):
    one = result(name, folder)
    print(f"{name}: {one.line}")
    if one.status is not None:
        kind = Path(LINE.fullmatch(one.line)["path"]).read_text(encoding="utf-8").removeprefix('"""').partition(":")[0]
        assert one.status == 1
        assert one.last.startswith(f"AssertionError: {kind}: ")


def test_defect_that_is_planted_in_torch_has_none(folder):
    planted = [name for name, one in TARGETS.items() if one.kind in WRONG and {*one.build().contexts} - {inductor}]
    lines = {name: result(name, folder).line for name in planted}
    assert len(lines) > 10
    assert {
        name: line
        for name, line in lines.items()
        if not line.startswith("no reproduction: no script failed in the same way as the check: ")
    } == {}


def test_most_need_only_torch(folder, capsys):
    results = {name: result(name, folder) for name in TARGETS}
    named = [one for one in results.values() if one.status is not None]
    alone = [one for one in named if one.needs_only_torch]
    with capsys.disabled():
        print(f"\n{len(results)} targets, {len(named)} reproductions, {len(alone)} need only torch")
    assert len(alone) >= 0.8 * len(named)
