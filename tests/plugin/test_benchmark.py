"""``compile_benchmark`` in a session: made-up figures in, verdicts out. Nothing depends on how fast anything is."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pytest_torch_compile import CompileUsageError
from pytest_torch_compile.plugin import speed_session
from pytest_torch_compile.speed.deciding.exact import require_counted
from tests.plugin.projects import OPTIONS

pytest.importorskip("pytest_benchmark")
ENVIRONMENT = "NVIDIA-H200_torch-2.11_cuda-13.0"

# Figures come from the environment variables SLOWER, as "device,wall,problem", and COUNTS; a fresh process may be given
# others.
CONFTEST = """
    import json, math, os
    import pytest
    from pytest_torch_compile.speed import fresh_process as confirm
    from pytest_torch_compile.speed.measuring import device_and_versions, turns
    from pytest_torch_compile.speed.measuring.bench import Bench
    from pytest_torch_compile.speed.sample import Exact, Paired, SpeedSample

    ASKED = []

    def figures(variable, counts="COUNTS"):
        device, wall, *problems = os.environ.get(variable, "0,0").split(",")
        pair = lambda slower, seconds: Paired(2 * seconds, seconds * math.exp(slower), slower - math.log(2))
        return SpeedSample(
            wall=pair(float(wall), 1e-3), host=pair(float(wall), 4e-4), device=pair(float(device), 9e-4),
            kernels=(20, 7), rounds=12, problems=tuple(problems), code=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            exact=Exact(**json.loads(os.environ.get(counts, '{"kernels": 7, "guards": 5}'))),
            environment={
                "device": "NVIDIA H200", "torch": "2.11.0", "cuda": "13.0", "python": "3.11",
                "uuid": os.environ.get("DEVICE", "GPU-1"),
            },
        )

    @pytest.fixture(autouse=True)
    def made_up_figures(monkeypatch):
        names = [f"{name}_AGAIN" if f"{name}_AGAIN" in os.environ else name for name in ("SLOWER", "COUNTS")]

        def again(child, at_most, **options):
            ASKED.append(at_most)
            print("further compilation, at most", at_most)
            yield figures(*names)

        described = lambda device: figures("SLOWER").environment
        monkeypatch.setattr(device_and_versions, "environment_of", described)
        monkeypatch.setattr(Bench, "measure", lambda self, **options: figures("SLOWER"))
        monkeypatch.setattr(confirm, "fresh_samples", again)
        monkeypatch.setattr(turns, "can_be_paused", lambda uuid: "WORKER" in os.environ)

    def pytest_terminal_summary(terminalreporter):
        terminalreporter.write_line(f"asked for {len(ASKED)} further")
"""
TESTS = """
    import torch

    def test_double(compile_benchmark):
        compile_benchmark(lambda x: x * 2, torch.ones(3))
"""


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


def record(project: pytest.Pytester, times: int = 10) -> Path:
    """A baseline with ``times`` runs; the first is written by the plugin, and repeated."""
    run(project, "--compile-update-baselines", perf="track").assert_outcomes(passed=1)
    path = project.path / "baselines" / ENVIRONMENT / "speed.json"
    document = json.loads(path.read_text())
    ours = document["benchmarks"][0]["extra_info"]["torch_compile"]
    for column in ("runs", "codes", "devices", "kept_caches"):
        ours[column] = ours[column] * times
    path.write_text(json.dumps(document))
    return path


def counts_in(path: Path) -> Any:
    """What the structure baseline beside it holds of the counts."""
    return json.loads(path.with_name("structure.json").read_text())["tests"][0]["counts"]


def stored_in(path: Path) -> Any:
    """What the test's entry holds of us."""
    return json.loads(path.read_text())["benchmarks"][0]["extra_info"]["torch_compile"]


def test_second_call_in_a_test_is_one_clear_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_speed="""
        import pytest, torch
        from pytest_torch_compile import CompileUsageError

        def double(x):
            return x * 2

        def test_twice(compile_benchmark):
            compile_benchmark(double, torch.ones(3))
            compile_benchmark(double, torch.ones(3))

        def test_after_a_refused_call(compile_benchmark):
            with pytest.raises(CompileUsageError, match="presicion is not an option"):
                compile_benchmark(double, torch.ones(3), presicion=1)
            compile_benchmark(double, torch.ones(3))

        @pytest.mark.parametrize("size", [3, 4])
        def test_sizes(compile_benchmark, size):
            compile_benchmark(double, torch.ones(size))
        """
    )
    for perf in ("track", "off"):
        result = run(project, perf=perf)
        result.assert_outcomes(passed=3, failed=1)
        result.stdout.fnmatch_lines(
            [
                "E *CompileUsageError: compile_benchmark can time only one target in each test: write one test for each "
                "target, or parametrize the test"
            ]
        )
        result.stdout.no_fnmatch_line("*FixtureAlreadyUsed*")


def test_missing_baseline_is_loud_and_passes(project: pytest.Pytester) -> None:
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [f"*CompileSpeedWarning: *no-baseline: no baseline exists for {ENVIRONMENT} in *baselines"]
    )
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
            "*relative to eager's device time is 5.1% longer than in the baseline (95% confidence interval * over 4 more *",
            "*eager device time*",
            "*compiled device time*",
            "*where: kernels (wall time +4.6%:*",
            "*If this is intended, run: pytest 'test_speed.py::test_double' --compile-perf=track --compile-update-baselines*",
        ]
    )
    assert 'failures="1"' in (project.path / "junit.xml").read_text()


@pytest.mark.parametrize(("worker", "at_most"), [(False, "7"), (True, "4")])
def test_beside_other_workers_a_change_is_confirmed_by_few_processes_at_a_time(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, worker: bool, at_most: str
) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    if worker:
        monkeypatch.setenv("WORKER", "")
    result = run(project, "-s")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*further compilation, at most {at_most}", "*over 4 more compilations*"])


def test_isolated_test_is_gated_and_stored_too(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(project)
    assert run(project, "--compile-isolate", "--compile-update-baselines").parseoutcomes()["passed"] == 1
    assert len(stored_in(path)["runs"]) == 11
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, "--compile-isolate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*device time relative to eager's device time is 5.1% longer than in the baseline*"])


def test_slower_host_is_called_host(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0,0.2")
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*where: host (wall time +22.1%: kernels +0.0%, host +22.1%)*"])


def test_what_a_fresh_process_does_not_confirm_passes(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.02,0")
    monkeypatch.setenv("SLOWER_AGAIN", "-0.02,0")
    run(project).assert_outcomes(passed=1)


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
    assert len(stored_in(path)["runs"]) == 11


@pytest.mark.parametrize(("stored", "runs"), [(3, 4), (10, 12)], ids=["while recording", "later"])
def test_while_few_runs_are_stored_nothing_is_confirmed(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, stored: int, runs: int
) -> None:
    path = record(project, times=stored)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    monkeypatch.setenv("SLOWER_AGAIN", "0,0")
    run(project, "--compile-update-baselines").assert_outcomes(passed=1)
    assert len(stored_in(path)["runs"]) == runs


def test_few_stored_runs_leave_a_slower_test_open_and_cost_nothing(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project, times=4)
    monkeypatch.setenv("SLOWER", "0.5,0.5")
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*inconclusive: only 4 compilations are stored, but 5 are *", "asked for 0 further"])


def test_device_that_no_run_is_of_is_not_gated(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    monkeypatch.setenv("DEVICE", "GPU-2")
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*inconclusive: the baseline was recorded on 1 other device*"])


@pytest.mark.parametrize(
    ("counts", "again", "asked", "line"),
    [
        ({"kernels": 7, "guards": 70}, None, 0, "*guards 5 -> 70 (about 3 us per call)*"),
        ({"kernels": 8, "guards": 5}, {"kernels": 8, "guards": 5}, 1, "*kernels per call 7 -> 8*"),
    ],
    ids=["certain at once", "tuned, so compiled once more"],
)
def test_count_over_one_stored_run_fails_the_test(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, counts: Any, again: Any, asked: int, line: str
) -> None:
    record(project, times=1)
    monkeypatch.setenv("COUNTS", json.dumps(counts))
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([line])
    result.stdout.fnmatch_lines([f"asked for {asked} further"])
    result.stdout.fnmatch_lines(["test_speed.py::test_double  regressed *->*"])
    run(project, perf="track").assert_outcomes(passed=1)


def test_count_of_one_compilation_only_is_said_and_fails_nothing(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project, times=1)
    monkeypatch.setenv("COUNTS", '{"kernels": 8, "guards": 5}')
    monkeypatch.setenv("COUNTS_AGAIN", '{"kernels": 7, "guards": 5}')
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  pass * kernels per call 7 -> 8 in one compilation only"])


@pytest.mark.parametrize(("kernels", "failed"), [(9, 0), (10, 1)], ids=["allowed", "more"])
def test_more_can_be_allowed_for_a_test(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, kernels: int, failed: int
) -> None:
    project.makepyfile(test_speed=TESTS.replace("ones(3))", 'ones(3), allow_more={"kernels": 2})'))
    record(project, times=1)
    monkeypatch.setenv("COUNTS", f'{{"kernels": {kernels}, "guards": 5}}')
    run(project).assert_outcomes(passed=1 - failed, failed=failed)


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ({"kernel": 1}, "allow_more: 'kernel' is not a counted quantity: did you mean 'kernels'\\?"),
        ({"xyz": 1}, "allow_more: 'xyz' is not a counted quantity: choose one of kernels, library_calls, memory, "),
        ({"kernels": -1}, "allow_more: kernels is -1; it must be a count such as 10, a fraction such as 0.05, or None"),
        ({"kernels": "5%"}, "allow_more: kernels is '5%'; it must be a count"),
        ({"kernels": float("nan")}, "allow_more: kernels is nan; it must be a count"),
    ],
)
def test_wrong_allowance_is_one_line(allowed: Any, message: str) -> None:
    with pytest.raises(CompileUsageError, match=f"^{message}"):
        require_counted(allowed)
    require_counted({"kernels": 10, "memory": 0.05, "guards": None})


def test_counts_are_stored_and_python_calls_of_another_python_are_not_compared(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTS", '{"kernels": 7, "python_calls": 300}')
    path = record(project, times=1)
    assert counts_in(path) == {"kernels": [7], "python_calls": [300], "python": "3.11"}
    monkeypatch.setenv("COUNTS", '{"kernels": 7, "python_calls": 900}')
    run(project).assert_outcomes(failed=1)
    structure = path.with_name("structure.json")
    structure.write_text(structure.read_text().replace('"3.11"', '"3.12"'))
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["speed.json", "structure.json"])
def test_baseline_that_cannot_be_read_is_one_red_line_under_gate_and_only_there(
    project: pytest.Pytester, name: str
) -> None:
    record(project).with_name(name).write_text("{")
    run(project, perf="track").assert_outcomes(passed=1)
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *the baseline cannot be used: *{name} cannot be read*restore the file from *"])
    run(project, "--compile-update-baselines").assert_outcomes(passed=1)
    run(project).assert_outcomes(passed=1)


def test_process_that_confirms_compiles_in_the_cache_that_it_was_given(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm start would be a cold one, in the empty cache that the stored runs were recorded with."""
    record(project)
    project.makepyfile(
        test_speed="""
        import os, torch

        def test_double(compile_benchmark):
            folders = []
            compile_benchmark(torch.ones, 3, compile=lambda f: folders.append(os.environ["TORCHINDUCTOR_CACHE_DIR"]) or f)
            assert (folders[0] == os.path.abspath("given")) == ("PYTEST_TORCH_COMPILE_CONFIRMS" in os.environ)
        """
    )
    run(project, "--compile-cache=given", perf="track").assert_outcomes(passed=1)
    monkeypatch.setenv("PYTEST_TORCH_COMPILE_CONFIRMS", "1")
    run(project, "--compile-cache=given", perf="track").assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["2", "auto"])
def test_workers_of_xdist_time_on_gpus_of_their_own_and_report_to_one_session(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    pytest.importorskip("xdist")
    smi = project.mkdir("bin") / "nvidia-smi"
    smi.write_text('#!/bin/sh\ncase "$1" in *index*) echo "0, GPU-a"; echo "1, GPU-b";; esac\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(smi.parent), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    more = TESTS + "    assert __import__('os').environ['PYTEST_XDIST_WORKER'].startswith('gw')\n"
    project.makepyfile(test_speed=more, test_more=more.replace("test_double", "test_more"))
    options = ["-n", workers, "--dist=loadfile", "--compile-update-baselines", "--compile-report=out"]
    result = project.runpytest_subprocess("--compile-perf=track", *options)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["test_*.py::test_* no-baseline *"] * 2)
    path = project.path / "baselines" / ENVIRONMENT / "speed.json"
    entries = json.loads(path.read_text())["benchmarks"]
    assert [entry["fullname"] for entry in entries] == ["test_more.py::test_more", "test_speed.py::test_double"]
    assert all(entry["stats"]["rounds"] > 1 for entry in entries), "pytest-benchmark timed in the workers"
    assert sorted(entry["extra_info"]["torch_compile"]["codes"][0] for entry in entries) == ["GPU-a", "GPU-b"]
    assert len(json.loads(path.with_name("structure.json").read_text())["tests"]) == 2
    report = json.loads((project.path / "out" / "report.json").read_text())
    assert [len(test["speed"]) for test in report["tests"]] == [1, 1]


def test_tracking_says_and_does_not_fail(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, perf="track")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  regressed *"])


def test_tracking_confirms_an_improvement_and_the_gate_only_shows_it(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project)
    monkeypatch.setenv("SLOWER", "-0.05,-0.05")
    result = run(project, perf="track")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["test_speed.py::test_double  improved *", "1 improved: run pytest with --compile-update-*"]
    )
    result = run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  pass *may have improved: confirm with *=track"])


def test_gate_that_records_starts_an_entry_over_and_does_not_fail(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(project)
    monkeypatch.setenv("SLOWER", "0.05,0.045")
    result = run(project, "--compile-update-baselines")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_speed.py::test_double  regressed *"])
    assert len(stored_in(path)["runs"]) == 5


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


def test_renamed_test_is_named(project: pytest.Pytester) -> None:
    record(project)
    project.makepyfile(test_speed=TESTS.replace("test_double", "test_doubles"))
    result = run(project)
    result.stdout.fnmatch_lines(
        [f"unused baseline for {ENVIRONMENT}: *::test_double; probably renamed to *::test_doubles"]
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
    result.stdout.fnmatch_lines(["*CompileUsageError: mode is an option of torch.compile, but compile= replaces*"])


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


def test_cpu_figures_are_not_gated(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncompile_backend = eager\n")
    pytester.makepyfile(test_speed=TESTS.replace("torch.ones(3)", "torch.ones(3), seconds=0.05"))
    pytester.runpytest_inprocess("--compile-perf=track", "--compile-update-baselines").assert_outcomes(passed=1)
    result = pytester.runpytest_inprocess("--compile-perf=gate")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*inconclusive: times on CPU are shown, but neither stored nor compared with a baseline"]
    )
    elsewhere = pytester.runpytest_inprocess("--compile-perf=gate", "--compile-baselines=baselnes")
    elsewhere.stdout.fnmatch_lines(["*no-baseline: no baseline exists for cpu_torch-* in *baselnes"])


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


def test_target_that_does_not_compile_has_the_finding_of_a_check(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch


        def breaks(x):
            torch._dynamo.graph_break()
            return x.sin()


        def raising(x):
            raise KeyError("no such key")


        def test_breaks(compile_benchmark):
            compile_benchmark(breaks, torch.ones(3), backend="eager", fullgraph=True)


        def test_raises(compile_benchmark):
            compile_benchmark(raising, torch.ones(3), backend="eager")


        def test_splits(compile_benchmark):
            compile_benchmark(breaks, torch.ones(3), backend="eager", fullgraph=False)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "E *CompileCheckFailed: breaks failed the torch.compile check: 1 finding *",
            "E *1. graph-break: graph break 1 of 1, 0 allowed: explicit graph break",
            "E *CompileUsageError: call 1 raises an exception in eager, *KeyError: 'no such key' (at *",
        ]
    )
    result.stdout.no_fnmatch_line("*convert_frame.py*")
    result.stdout.no_fnmatch_line("*direct cause*")


@pytest.mark.parametrize(
    ("installed", "message"),
    [(True, "which is disabled: remove -p no:benchmark*"), (False, "which is not installed: pip install*")],
)
def test_speed_test_without_pytest_benchmark_says_so(folder_of_tests, monkeypatch, installed, message):
    monkeypatch.setattr(speed_session, "find_spec", lambda name: installed or None)
    folder_of_tests.makepyfile("def test_a(compile_benchmark):\n    pass\n\ndef test_b(compile_options):\n    pass\n")
    result = folder_of_tests.runpytest_inprocess(*OPTIONS, "-p", "no:benchmark")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([f"E *CompileUsageError: compile_benchmark needs pytest-benchmark, {message}"])
