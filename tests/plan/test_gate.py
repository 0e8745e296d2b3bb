"""``--compile-plan``: planned counts are held to their baseline on a machine without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pytest_torch_compile.baselines import maintenance
from pytest_torch_compile.plan import gate, tasks
from pytest_torch_compile.report import document, github
from pytest_torch_compile.speed import revisions
from tests.once import once
from tests.plugin.projects import OPTIONS, SOURCES, other_process

pytest.importorskip("pytest_benchmark")
ENVIRONMENT = f"plan_H100_torch-{'.'.join(torch.__version__.split('.')[:2])}"
TEST = "test_block.py::test_block"

TESTS = """
import torch
import torch.nn.functional as F


@torch.library.custom_op("plan_gate::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scaled.register_fake
def _(x):
    return torch.empty_like(x)


scaled.register_autograd(lambda ctx, grad: grad * 2)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate = torch.nn.Linear(64, 256), torch.nn.Linear(64, 256)

    def forward(self, x):
        up = self.up(x)
        gate = self.gate(x)
        gate = F.silu(gate) * 2
        return F.layer_norm(up * gate, (256,))


def test_block(compile_benchmark):
    x = torch.randn(64, 64, dtype=torch.bfloat16)
    compile_benchmark(Block().bfloat16(), x, train=True)
"""
GATE = "        gate = F.silu(gate) * 2\n"
PLANTED = {
    "lost fusion": GATE + "        torch._dynamo.graph_break()\n",
    "opaque op": "        gate = scaled(F.silu(gate))\n",
    "saved activation": "        gate = (F.silu(gate.float()) * up.float().exp()).to(x.dtype)\n",
}
HARMLESS = {
    "renamed variable": TESTS.replace("gate", "activation").replace("plan_activation", "plan_gate"),
    "reordered lines": TESTS.replace(
        "        up = self.up(x)\n        gate = self.gate(x)\n",
        "        gate = self.gate(x)\n\n        up = self.up(x)\n",
    ),
    "comment": TESTS.replace(GATE, "        # a comment\n" + GATE),
}


class Project:
    """A folder with the tests above, and pytest run in this process."""

    def __init__(self, tester: pytest.Pytester) -> None:
        self._tester = tester
        self.folder = tester.path
        self.baseline = tester.path / "baselines" / ENVIRONMENT / "plan.json"

    def write(self, tests: str = TESTS) -> None:
        (self.folder / "test_block.py").write_text(tests)

    def run(self, *options: str, plan: str = "H100") -> pytest.RunResult:
        return self._tester.runpytest_inprocess(*OPTIONS, f"--compile-plan={plan}", *options)

    def record(self) -> None:
        self.write()
        self.run("--compile-update-baselines").assert_outcomes(passed=1)

    def store(self, **counts: int) -> None:
        """Write the recorded baseline with other counts."""
        stored = json.loads(self.baseline.read_text())
        stored["tests"][0]["counts"] |= counts
        self.baseline.write_text(json.dumps(stored))


@pytest.fixture
def project(folder_of_tests: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Project(folder_of_tests)


@once
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The baseline of the tests above."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "test_block.py").write_text(TESTS)
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    done = other_process(folder, "--compile-plan=H100", "--compile-update-baselines", environment=hidden.items())
    assert done.returncode == 0, done.stdout
    return (folder / "baselines" / ENVIRONMENT / "plan.json").read_text()


@pytest.fixture
def gated(project: Project, recorded: str) -> Project:
    """The project with its baseline."""
    project.write()
    project.baseline.parent.mkdir(parents=True)
    project.baseline.write_text(recorded)
    return project


def line_of(tests: str, text: str) -> int:
    return next(number for number, line in enumerate(tests.splitlines(), 1) if text in line)


def test_equal_code_passes_twice(gated: Project) -> None:
    before = gated.baseline.read_text()
    for _ in range(2):
        result = gated.run("-W", "error::pytest.PytestWarning")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["*torch.compile plans for H100, not measured*", f"{TEST}  pass *"])
    assert gated.baseline.read_text() == before


@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_passes(gated: Project, change: str) -> None:
    assert HARMLESS[change] != TESTS
    gated.write(HARMLESS[change])
    result = gated.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"{TEST}  pass *"])


@pytest.mark.parametrize(
    ("defect", "line", "says"),
    [
        ("lost fusion", "graph_break()", "graph-break: planned for H100: kernels *graph breaks 0 -> 1"),
        ("opaque op", "scaled(F.silu", "planned for H100: kernels * -> *"),
        ("saved activation", "up.float().exp()", "memory: planned for H100: *planned peak memory * -> *"),
    ],
)
def test_a_defect_is_red_at_the_users_line(gated: Project, defect: str, line: str, says: str) -> None:
    tests = TESTS.replace(GATE, PLANTED[defect])
    gated.write(tests)
    result = gated.run("--compile-report=report")
    result.assert_outcomes(failed=1)
    place = f"test_block.py:{line_of(tests, line)}"
    result.stdout.fnmatch_lines([f"E *1. *{says}*", f"E *at {place} in forward", "E *new: triton_*(aten.*)*"])
    result.stdout.fnmatch_lines([f"E *run: pytest '{TEST}' --compile-plan=H100 --compile-update-baselines"])
    (annotation,) = github.ranked(document.read(gated.folder / "report"))
    assert (annotation.level, f"{annotation.file}:{annotation.line}") == ("error", place)
    assert annotation.message.startswith("planned for H100: ")


def test_a_better_count_is_a_note_and_the_update_stores_it(gated: Project) -> None:
    now = json.loads(gated.baseline.read_text())["tests"][0]["counts"]
    gated.store(kernels=now["kernels"] + 10, memory=now["memory"] + 1)
    result = gated.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            f"{TEST}  improved *kernels {now['kernels'] + 10} -> {now['kernels']}, planned peak memory "
            f"{now['memory'] + 1:,} -> {now['memory']:,} bytes",
            "1 improved: run pytest with --compile-plan=H100 --compile-update-baselines to update the baseline",
        ]
    )
    result = gated.run("--compile-update-baselines")
    result.stdout.fnmatch_lines(["*plan.json: 1 entry changed", f"*{TEST}  changed  kernels *->*"])
    assert json.loads(gated.baseline.read_text())["tests"][0]["counts"] == now


def test_one_byte_more_is_red_unless_the_run_only_tracks_or_the_test_allows_it(gated: Project) -> None:
    now = json.loads(gated.baseline.read_text())["tests"][0]["counts"]
    gated.store(memory=now["memory"] - 1)
    gated.run().assert_outcomes(failed=1)
    tracked = gated.run("--compile-perf=track")
    tracked.assert_outcomes(passed=1)
    tracked.stdout.fnmatch_lines([f"{TEST}  regressed *planned peak memory *"])
    gated.write(TESTS.replace("train=True", "train=True, allow_more={'memory': 1}"))
    gated.run().assert_outcomes(passed=1)


def test_a_missing_baseline_is_said(project: Project) -> None:
    project.write()
    result = project.run()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            f"*CompilePlanWarning: {TEST}: no-baseline: no baseline exists for {ENVIRONMENT} in *",
            f"{TEST}  no-baseline*",
        ]
    )


def test_a_corrupt_baseline_is_red_and_an_update_keeps_it(gated: Project) -> None:
    gated.baseline.write_text("{")
    result = gated.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *the baseline cannot be used: *plan.json cannot be read*"])
    result = gated.run("--compile-update-baselines")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["the old file could not be read and was moved to *plan.json.corrupt-1"])
    assert (gated.baseline.parent / "plan.json.corrupt-1").read_text() == "{"
    assert [test["fullname"] for test in json.loads(gated.baseline.read_text())["tests"]] == [TEST]


def test_a_card_is_found_by_its_name_in_any_case(project: Project) -> None:
    project.write()
    project.run("--compile-update-baselines", plan="rtx4090").assert_outcomes(passed=1)
    assert [path.name for path in (project.folder / "baselines").iterdir()] == [ENVIRONMENT.replace("H100", "RTX-4090")]


def test_an_unknown_card_is_a_usage_error_that_lists_the_cards(project: Project) -> None:
    result = project.run(plan="H1000")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--compile-plan=H1000: choose one of A100, A10, H100, H200, *B200*"])


@pytest.mark.parametrize("option", ["--compile-fast", "--compile-backend=eager"])
def test_another_backend_is_a_usage_error(project: Project, option: str) -> None:
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--compile-plan requires backend inductor: remove {option}"])


@pytest.mark.parametrize(
    ("given", "what"), [("backend='eager'", "backend 'eager'"), ("compile=torch.compile", "compile=")]
)
def test_a_test_that_does_not_use_inductor_is_refused(project: Project, given: str, what: str) -> None:
    project.write(TESTS.replace("train=True", given))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *CompileUsageError: --compile-plan *but this test uses *{what}*"])


def test_a_target_that_does_not_compile_is_red_without_a_baseline(project: Project) -> None:
    project.write(TESTS.replace(GATE, "        raise KeyError('planted')\n"))
    result = project.run("--compile-update-baselines")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *planted*"])
    assert not project.baseline.exists()


def test_a_torch_that_cannot_plan_is_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "missing", lambda: "torch was built without CUDA")
    project.write()
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *CompileUsageError: this machine cannot create a plan: torch was built without CUDA"]
    )


def test_planned_counts_are_among_the_baselines_that_are_listed_and_pruned(gated: Project) -> None:
    folder = gated.folder / "baselines"
    assert maintenance.listing(folder) == [f"{ENVIRONMENT}  plan: 1 entry"]
    (gated.folder / "test_block.py").unlink()
    pruned = maintenance.prune(folder, maintenance.Collection(gated.folder, folder), write=True)
    assert pruned == [f"{ENVIRONMENT}  plan: {TEST}"]
    assert maintenance.listing(folder) == [f"{ENVIRONMENT}  plan: 0 entries"]


def test_plans_of_check_plan_leave_the_other_baselines_alone(project: Project) -> None:
    project.write(
        "import torch\n\n\ndef test_block():\n    from pytest_torch_compile import check_plan\n"
        "    check_plan(torch.nn.Linear(4, 4), torch.ones(1, 4))\n"
    )
    result = project.run("--compile-update-baselines", "--compile-perf=track")
    result.assert_outcomes(passed=1)
    assert not (project.folder / "baselines").exists()


def test_a_second_call_in_one_test_is_refused(project: Project) -> None:
    project.write(TESTS + "    compile_benchmark(Block().bfloat16(), x)\n")
    project.run().stdout.fnmatch_lines(["E *only one plan can be compared with the baseline in each test"])


def test_with_a_cuda_device_it_measures_as_before(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*_: object, **__: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gate, "planned_test", planned)
    project.write(
        "def test_block(compile_benchmark, monkeypatch):\n"
        "    from pytest_torch_compile.check import warm_bench\n"
        "    made = []\n"
        "    monkeypatch.setattr(warm_bench, 'warm_bench', lambda *given: made.append(given))\n"
        "    monkeypatch.setattr(compile_benchmark, '_time', lambda bench: print('timed', len(made)))\n"
        "    compile_benchmark(abs, 1)\n"
    )
    result = project.run("-s", "-W", "ignore")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*timed 1"])


def test_dynamic_dims_and_options_reach_the_plan(project: Project) -> None:
    project.write(
        TESTS.replace("train=True", "mode='reduce-overhead', dynamic_dims={'x': 0}").replace(
            "Block()", "Block().eval()"
        )
    )
    project.run("--compile-update-baselines").assert_outcomes(passed=1)
    (test,) = json.loads(project.baseline.read_text())["tests"]
    assert (test["counts"]["cuda_graphs"], test["counts"]["cudagraph_skips"]) == (1, 0)


def test_the_report_shows_planned_figures_apart(gated: Project) -> None:
    pytest.importorskip("jinja2")
    gated.run("--compile-report=report").assert_outcomes(passed=1)
    made = document.read(gated.folder / "report")
    (test,) = made["tests"]
    (check,) = test["checks"]
    counts = json.loads(gated.baseline.read_text())["tests"][0]["counts"]
    assert {one["quantity"]: one["value"] for one in check["plan"]["counts"]} == counts
    assert (test["speed"], made["summary"]["speedup"], check["plan"]["outcome"]) == ([], None, "pass")
    assert "### Plans (not measured)" in (gated.folder / "report" / "summary.md").read_text()
    assert (
        "Planned for NVIDIA H100 80GB HBM3, not measured: pass" in (gated.folder / "report" / "report.html").read_text()
    )


@pytest.mark.usefixtures("new_interpreters")
def test_a_session_without_speed_tests_imports_no_torch(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\n\ndef test_plain():\n    assert 'torch' not in sys.modules\n"
    )
    done = other_process(tmp_path, "--compile-plan=H100", "-q")
    assert done.returncode == 0 and "plans for" not in done.stdout, done.stdout


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.mark.slow
def test_two_revisions_are_compared_by_their_planned_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write: Callable[[str], object] = (tmp_path / "test_block.py").write_text
    git(tmp_path, "init", "-q")
    write(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {' '.join(OPTIONS)}\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    tests = TESTS.replace(GATE, PLANTED["opaque op"])
    write(tests)
    assert revisions.main(["--against", "HEAD", "--compile-plan=H100", "."]) == 1
    out = capsys.readouterr().out
    assert "planned counts (nothing was measured):\n  regressed    test_block.py::test_block  kernels " in out
    assert f"at test_block.py:{line_of(tests, 'scaled(F.silu')} in forward" in out and "times relative to" not in out


# In fp32 and without training, because Inductor also compiles the checked code for the CPU, which takes longer.
CHECKED = TESTS.replace("def test_block(compile_benchmark):", "def test_block(compile_check):").replace(
    "compile_benchmark(Block().bfloat16(), x, train=True)", "compile_check(Block(), x.float(), plan=True)"
)


def test_a_check_is_planned_where_it_is_asked_for(project: Project) -> None:
    project.write(
        CHECKED
        + "\n\ndef test_not_asked_for(compile_check):\n    compile_check(torch.nn.Linear(4, 4), torch.ones(1, 4))\n"
    )
    result = project.run("--compile-update-baselines")
    result.assert_outcomes(passed=2)
    (stored,) = json.loads(project.baseline.read_text())["tests"]
    assert (stored["fullname"], stored["counts"]["graphs"]) == (TEST, 1)

    result = project.run()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"{TEST}  pass *"])
    result.stdout.no_fnmatch_line("*unused baseline*")

    project.write(CHECKED.replace(GATE, PLANTED["opaque op"]))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*structure: planned for H100: kernels *"])


def test_the_marker_asks_for_a_plan_of_the_last_call(project: Project) -> None:
    project.write(
        "import pytest, torch\n"
        "from pytest_torch_compile import call\n"
        "@pytest.mark.torch_compile(plan=True, dynamic=True)\n"
        "def test_block(compile_check):\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())\n"
        "    compile_check(model, calls=[call(torch.ones(size, 8)) for size in (2, 3)])\n"
    )
    project.run("--compile-update-baselines").assert_outcomes(passed=1)
    (stored,) = json.loads(project.baseline.read_text())["tests"]
    counts = stored["counts"]
    assert (counts["kernels"], counts["library_calls"], counts["graphs"], counts["recompiles"]) == (1, 1, 1, 0)


def test_a_check_that_fails_is_not_planned(project: Project) -> None:
    project.write(CHECKED.replace(GATE, PLANTED["lost fusion"]))
    result = project.run("--compile-update-baselines")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*graph-break: *"])
    assert not project.baseline.exists()
