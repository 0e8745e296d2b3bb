"""``compile_benchmark`` in a session: made-up figures in, verdicts out. Nothing depends on how fast anything is."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_torch_compile.speed.measuring.bench import measure_compile

pytest.importorskip("pytest_benchmark")
ENVIRONMENT = "NVIDIA-H200_torch-2.11_cuda-13.0"

# Figures come from the environment variable SLOWER, as "device,wall,problem"; a fresh process may be given others.
CONFTEST = """
    import math, os
    import pytest
    from pytest_torch_compile.speed import fresh_process as confirm
    from pytest_torch_compile.speed.measuring import bench as measure
    from pytest_torch_compile.speed.sample import Paired, SpeedSample

    def figures(variable, code="CODE"):
        device, wall, *problems = os.environ.get(variable, "0,0").split(",")
        pair = lambda slower, seconds: Paired(2 * seconds, seconds * math.exp(slower), slower - math.log(2))
        return SpeedSample(
            wall=pair(float(wall), 1e-3), host=pair(float(wall), 4e-4), device=pair(float(device), 9e-4),
            kernels=(20, 7), rounds=12, problems=tuple(problems), code=os.environ.get(code, ""),
            environment={
                "device": "NVIDIA H200", "torch": "2.11.0", "cuda": "13.0", "uuid": os.environ.get("DEVICE", "GPU-1")
            },
        )

    @pytest.fixture(autouse=True)
    def made_up_figures(monkeypatch):
        code_again = "CODE_AGAIN" if "CODE_AGAIN" in os.environ else "CODE"
        again = "SLOWER_AGAIN" if "SLOWER_AGAIN" in os.environ else "SLOWER"
        monkeypatch.setattr(measure.Bench, "measure", lambda self, **options: figures("SLOWER"))
        monkeypatch.setattr(confirm, "fresh_sample", lambda *arguments, **options: figures(again, code_again))
        monkeypatch.setattr(confirm, "compiled_anew", lambda *arguments, **options: figures("SLOWER_ANEW"))
"""
TESTS = """
    import torch

    def test_double(compile_benchmark):
        compile_benchmark(lambda x: x * 2, torch.ones(3))
"""


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Sessions run in this process and forget what they import, which torch does not survive twice."""
    importlib.import_module("pytest_torch_compile.check.check_compile")
    measure_compile(lambda x: x * 2, torch.ones(3), backend="eager", seconds=0.01)


@pytest.fixture(autouse=True)
def plugin_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11")):
        monkeypatch.setenv("PYTEST_PLUGINS", "pytest_torch_compile.plugin")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    # pytest-benchmark measures nothing in a worker of pytest-xdist, and these are no workers.
    for variable in ("SLOWER", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)
    pytester.makeini("[pytest]\ncompile_backend = eager\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_speed=TESTS)
    return pytester


def run(project: pytest.Pytester, *arguments: str, perf: str = "gate") -> pytest.RunResult:
    return project.runpytest_inprocess(f"--compile-perf={perf}", *arguments)


def record(project: pytest.Pytester, times: int = 8, codes: Sequence[str] = ("",)) -> Path:
    """A baseline with ``times`` runs; the first is written by the plugin, and repeated, of these codes in turn."""
    run(project, "--compile-update-baselines", perf="track").assert_outcomes(passed=1)
    path = project.path / "baselines" / ENVIRONMENT / "speed.json"
    document = json.loads(path.read_text())
    found = document["benchmarks"][0]["extra_info"]["torch_compile"]
    found["runs"] = found["runs"] * times
    found["codes"] = [codes[number % len(codes)] for number in range(times)]
    path.write_text(json.dumps(document))
    return path


def stored_in(path: Path) -> Any:
    """What the test's entry holds of us."""
    return json.loads(path.read_text())["benchmarks"][0]["extra_info"]["torch_compile"]


def test_missing_baseline_is_loud_and_passes(project: pytest.Pytester) -> None:
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*CompileSpeedWarning: *no-baseline: no baseline for {ENVIRONMENT} in *baselines"])
    result.stdout.fnmatch_lines(["test_speed.py::test_double * no-baseline * 2.00x *20 > 7*"])


def test_a_timing_in_a_fixture_is_shown_too(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_speed="""
        import pytest, torch

        @pytest.fixture
        def timed(compile_benchmark):
            return compile_benchmark(lambda x: x * 2, torch.ones(3))

        def test_double(timed):
            pass
        """
    )
    result = run(project, perf="track")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double * no-baseline *"])


def test_unchanged_test_passes(project: pytest.Pytester) -> None:
    record(project)
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  pass *"])


def test_slower_kernels_fail_the_test_itself(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*device time against eager is 5.1 % slower than its baseline*confirmed in fresh processes*",
            "*eager device time*",
            "*compiled device time*",
            "*where: kernels (of +4.6 % wall time*",
            "*If this is meant: pytest 'test_speed.py::test_double' --compile-perf=track --compile-update-baselines*",
        ]
    )
    assert 'failures="1"' in (project.path / "junit.xml").read_text()


def test_isolated_test_is_gated_and_stored_too(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(project)
    assert run(project, "--compile-isolate", "--compile-update-baselines").parseoutcomes()["passed"] == 1
    assert len(stored_in(path)["runs"]) == 9
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, "--compile-isolate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*device time against eager is 5.1 % slower than its baseline*"])


def test_slower_host_is_called_host(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0,0.2")
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*where: host (of +22.1 % wall time, kernels +0.0 %, host +22.1 %)*"])


def test_what_a_fresh_process_does_not_confirm_passes(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.02,0")
    monkeypatch.setenv("SLOWER_AGAIN", "-0.02,0")
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("slower", "anew", "failed", "line"),
    [
        ("0.05,0.045", "0,0", 0, "*inconclusive: device time is 5.1 % over the highest stored run, but of other *"),
        ("0.3,0.28", "0.2,0.18", 1, "*where: kernels (of *"),
        ("0.3,0.28", "0,0", 0, "test_speed.py::test_double  pass *"),
    ],
    ids=["somewhat slower", "much slower each time it is compiled", "tuned badly once"],
)
def test_other_compiled_code_is_not_held_to_the_noise_of_this(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, slower: str, anew: str, failed: int, line: str
) -> None:
    record(project, codes=("first", "second", "third"))
    for variable, value in (("CODE", "another"), ("SLOWER", slower), ("SLOWER_ANEW", anew)):
        monkeypatch.setenv(variable, value)
    result = run(project)
    result.assert_outcomes(failed=failed, passed=1 - failed)
    result.stdout.fnmatch_lines([line])


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("CODE_AGAIN", "another", "a change was seen, but the fresh process ran other compiled code"),
        ("DEVICE", "GPU-2", "the baseline was recorded on 1 other device"),
    ],
    ids=["a fresh process that ran other code", "a device that no run is of"],
)
def test_what_nothing_can_confirm_is_not_gated(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    monkeypatch.setenv(variable, value)
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*inconclusive: {why}*"])


@pytest.mark.parametrize(
    ("again", "failed", "line"),
    [
        ("0.05,0.045", 1, "*where: kernels (of *"),
        ("0,0", 0, "*test_double  pass *1 of 2 processes do not count: no stored run has their tuning"),
    ],
    ids=["slower however tuned", "slower by its tuning"],
)
def test_process_that_tuned_anew_is_decided_by_further_ones(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, again: str, failed: int, line: str
) -> None:
    record(project, codes=("source/a", "source/b"))
    for variable, value in (("CODE", "source/new"), ("CODE_AGAIN", "source/a"), ("SLOWER_AGAIN", again)):
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project)
    result.assert_outcomes(failed=failed, passed=1 - failed)
    result.stdout.fnmatch_lines([line])


def test_runs_that_a_test_is_held_against_are_counted(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project, times=10, codes=("source/a", "other/b"))
    monkeypatch.setenv("CODE", "source/a")
    run(project).stdout.fnmatch_lines(["test_speed.py::test_double  pass * 20 > 7     5"])


@pytest.mark.parametrize(("others", "failed"), [(0.0, 1), (0.3, 0)], ids=["steady", "unsteady"])
def test_few_runs_borrow_from_the_scatter_of_the_suites_other_tests(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, others: float, failed: int
) -> None:
    path = record(project, times=5)
    document = json.loads(path.read_text())
    (entry,) = document["benchmarks"]
    runs = [{"wall": [2e-3, 1e-3, -0.7 + others * (number % 2)], "host": [1e-3, 4e-4, -0.7]} for number in range(5)]
    ours = {"torch_compile": {**entry["extra_info"]["torch_compile"], "runs": runs}}
    document["benchmarks"] += [{**entry, "fullname": f"test_{n}.py::test", "extra_info": ours} for n in range(5)]
    path.write_text(json.dumps(document))
    monkeypatch.setenv("SLOWER", "0,0.15")
    run(project).assert_outcomes(failed=failed, passed=1 - failed)


@pytest.mark.parametrize(("stored", "runs"), [(3, 4), (8, 11)], ids=["while recording", "later"])
def test_while_few_runs_are_stored_nothing_is_confirmed(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, stored: int, runs: int
) -> None:
    path = record(project, times=stored)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    monkeypatch.setenv("SLOWER_AGAIN", "0,0")
    run(project, "--compile-update-baselines").assert_outcomes(passed=1)
    assert len(stored_in(path)["runs"]) == runs


def test_strange_device_is_named_while_few_runs_are_stored(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project, times=3)
    monkeypatch.setenv("DEVICE", "GPU-2")
    result = run(project, "--compile-update-baselines")
    result.stdout.fnmatch_lines(["*test_double * inconclusive *the baseline was recorded on 1 other device*"])


def test_confirming_process_with_problems_is_not_recorded(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    monkeypatch.setenv("SLOWER_AGAIN", "0.05,0.045,the device was throttled")
    run(project, "--compile-update-baselines").assert_outcomes(passed=1)
    assert len(stored_in(path)["runs"]) == 9


def test_process_that_does_not_count_is_recorded_too(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(project, codes=("source/a", "source/b"))
    for variable, value in (("CODE", "source/new"), ("CODE_AGAIN", "source/a"), ("SLOWER_AGAIN", "0,0")):
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    run(project, "--compile-update-baselines").assert_outcomes(passed=1)
    assert stored_in(path)["codes"][8:] == ["source/new", "source/a"]


def test_tracking_says_and_does_not_fail(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, perf="track")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  regressed *"])


def test_improvement_asks_to_tighten(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "-0.05,-0.05")
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  improved *", "1 improved: run with --compile-update-*"])


def test_gate_that_records_starts_an_entry_over_and_does_not_fail(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, "--compile-update-baselines")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  regressed *"])
    assert len(stored_in(path)["runs"]) == 3


def test_throttled_device_is_inconclusive(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.5,0.5,the device was throttled: hardware slowdown")
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*inconclusive: the device was throttled: hardware slowdown"])


def test_update_shows_before_and_after_and_then_nothing(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project, times=10)
    monkeypatch.setenv("SLOWER", "-0.05,-0.05")
    result = run(project, "--compile-update-baselines")
    result.stdout.fnmatch_lines(["*test_speed.py::test_double  changed * wall 2.000x*->  wall 2.103x*"])
    assert run(project).ret == 0


def test_corrupt_baseline_is_one_line_and_fails_nothing(project: pytest.Pytester) -> None:
    record(project).write_text("{")
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*no-baseline: *speed.json cannot be read (*); restore it from version control"])


def test_renamed_test_is_named(project: pytest.Pytester) -> None:
    record(project)
    project.makepyfile(test_speed=TESTS.replace("test_double", "test_doubles"))
    result = run(project)
    result.stdout.fnmatch_lines(
        [f"baseline of {ENVIRONMENT} that no test uses: *::test_double; probably renamed to *::test_doubles"]
    )


def test_off_leaves_it_to_pytest_benchmark(project: pytest.Pytester) -> None:
    result = run(project, "--benchmark-json=out.json", perf="off")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*torch.compile speed*")
    assert len(json.loads((project.path / "out.json").read_text())["benchmarks"]) == 1


def test_own_compile_function_takes_the_place_of_how_the_suite_compiles(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_speed="""
        import pytest
        import torch


        @pytest.fixture
        def compile_options():
            return {"fullgraph": True, "dynamic": True}


        def test_own(compile_benchmark):
            compile_benchmark(lambda x: x * 2, torch.ones(3), compile=lambda target: target)


        def test_own_with_a_mode(compile_benchmark):
            compile_benchmark(lambda x: x * 2, torch.ones(3), compile=lambda target: target, mode="default")
        """
    )
    result = run(project, perf="off")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*CompileUsageError: mode is for torch.compile, and compile= takes its place*"])


def test_figures_are_in_the_json_of_pytest_benchmark(project: pytest.Pytester) -> None:
    run(project, "--benchmark-json=out.json", perf="track").assert_outcomes(passed=1)
    benchmark = json.loads((project.path / "out.json").read_text())["benchmarks"][0]
    assert benchmark["stats"]["rounds"] > 1
    assert benchmark["extra_info"]["torch_compile"]["sample"]["kernels"] == [20, 7]


def test_benchmark_options_behave(project: pytest.Pytester) -> None:
    project.makepyfile(test_plain="def test_plain(): pass")
    run(project, "--benchmark-only").assert_outcomes(passed=1, skipped=1)
    run(project, "--benchmark-skip").assert_outcomes(passed=1, skipped=1)
    run(project, "--benchmark-autosave").assert_outcomes(passed=2)
    assert list((project.path / ".benchmarks").glob("*/0001_*.json"))


def test_pytest_benchmark_compares_the_baselines(project: pytest.Pytester) -> None:
    path = record(project)
    result = project.run(sys.executable, "-m", "pytest_benchmark", "compare", str(path))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_double*"])


@pytest.mark.slow
def test_workers_of_xdist_report_to_one_table(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    project.makepyfile(test_more=TESTS.replace("test_double", "test_more"))
    result = project.runpytest_subprocess("--compile-perf=track", "-n2", "--compile-update-baselines")
    result.assert_outcomes(passed=2)
    entries = json.loads((project.path / "baselines" / ENVIRONMENT / "speed.json").read_text())["benchmarks"]
    assert [entry["fullname"] for entry in entries] == ["test_more.py::test_more", "test_speed.py::test_double"]


def test_cpu_figures_are_not_gated(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncompile_backend = eager\n")
    pytester.makepyfile(test_speed=TESTS.replace("torch.ones(3)", "torch.ones(3), seconds=0.05"))
    result = pytester.runpytest_inprocess("--compile-perf=gate")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*inconclusive: CPU figures are shown, not judged and not stored"])


def test_failure_shows_the_tests_own_log_and_nothing_of_torchs_trace(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncompile_backend = eager\n")
    pytester.makepyfile(
        """
        import logging

        import torch


        def test_double(compile_benchmark):
            compile_benchmark(lambda x: x * 2, torch.ones(3))
            logging.getLogger("models").warning("a word of the test")
            assert False
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a word of the test"])
    result.stdout.no_fnmatch_line("*torch.__trace*")
