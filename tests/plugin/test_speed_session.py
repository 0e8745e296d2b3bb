"""The end of a session with speed tests: what is stored, and what is said. The tests measure nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.plugin import outcomes
from pytest_torch_compile.speed.deciding import stored_runs
from tests.plugin.projects import OPTIONS, lines_with

pytest.importorskip("pytest_benchmark")
ENVIRONMENT = "cpu_torch-2.15"

# In place of the fixture, a function that records made-up figures.
CONFTEST = f"""
    import pytest
    from pytest_torch_compile.plugin import payload
    from pytest_torch_compile.speed.deciding.stored_runs import new_entry
    from pytest_torch_compile.speed.sample import Paired, SpeedSample

    @pytest.fixture
    def compile_benchmark(request):
        def measure(changed=False, problems=(), **counts):
            test = request.node.nodeid
            sample = SpeedSample(wall=Paired(2e-3, 1e-3, -0.69), problems=problems)
            payload.of(request.node).timings.append({{
                "test": test, "environment": "{ENVIRONMENT}", "outcome": "no-baseline", "summary": "the summary",
                "changes": [], "exact": [], "changed": changed, "stored_runs": 0, "sample": sample.to_dict(),
                "entry": new_entry(test, {{}}, [sample]),
                "counts": {{**(counts or {{"kernels": [7]}}), "python": "3.11"}},
            }})

        return measure
"""
TWO = """
def test_first(compile_benchmark):
    compile_benchmark()

def test_second(compile_benchmark):
    compile_benchmark()
"""


@pytest.fixture
def project(folder_of_tests):
    """Run a file of speed tests with ``track``, in this process."""
    pytester = folder_of_tests
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]")

    def run(source, *options):
        pytester.makepyfile(test_speed=source)
        return pytester.runpytest_inprocess(*OPTIONS, "--compile-perf=track", *options)

    def stored():
        folder = pytester.path / "baselines"
        speed, counts = (baselines.load(folder, ENVIRONMENT, kind).entries for kind in ("speed", "structure"))
        return {test: (len(stored_runs.runs_of(entry)), counts[test]["counts"]) for test, entry in speed.items()}

    run.stored, run.tester = stored, pytester
    run.update = lambda source, *options: run(source, "--compile-update-baselines", *options)
    return run


def measuring(call):
    return f"import pytest\n\ndef test_speed(compile_benchmark):\n    {call}\n"


WITH_TEARDOWN = """
    import pytest

    @pytest.fixture
    def failing():
        yield
        assert {passes}

    def test_first(compile_benchmark, failing):
        compile_benchmark(kernels=[8])
"""
IN_FIXTURE = """
    import pytest

    @pytest.fixture
    def measured(compile_benchmark):
        compile_benchmark(kernels=[8])

    def test_first(measured):
        {body}
"""
NOT_PASSED = {
    "its assertion": (TWO.replace("()", "(kernels=[8])\n    assert False", 1), "failed"),
    "its teardown": (WITH_TEARDOWN.format(passes=False), "failed"),
    "its call, measured in a fixture": (IN_FIXTURE.format(body="assert False"), "failed"),
    "its call, as expected": (IN_FIXTURE.format(body="pytest.xfail()"), "failed as expected"),
    "skipped": (IN_FIXTURE.format(body="pytest.skip()"), "was skipped"),
}


@pytest.mark.parametrize(("source", "why"), NOT_PASSED.values(), ids=NOT_PASSED)
def test_a_test_that_did_not_pass_changes_no_baseline(project, source, why):
    project.update(TWO).assert_outcomes(passed=2)
    before = project.stored()
    result = project.update(source)
    assert project.stored()["test_speed.py::test_first"] == before["test_speed.py::test_first"] == (
        1, {"kernels": [7], "python": "3.11"},
    )  # fmt: skip
    assert lines_with(result, "nothing stored:") == [f"nothing stored: test_speed.py::test_first: the test {why}"]


@pytest.mark.parametrize(
    "source",
    [TWO, WITH_TEARDOWN.format(passes=True), IN_FIXTURE.format(body="pass")],
    ids=["call", "teardown", "fixture"],
)
def test_a_test_that_passed_is_stored(project, source):
    for runs in (1, 2):
        result = project.update(source)
        assert project.stored()["test_speed.py::test_first"][0] == runs
        assert not lines_with(result, "nothing stored")


def test_a_failing_test_does_not_keep_another_from_being_stored(project):
    project.update(TWO.replace("()", "()\n    assert False", 1)).assert_outcomes(passed=1, failed=1)
    assert list(project.stored()) == ["test_speed.py::test_second"]


class Subtest(pytest.TestReport):
    """As pytest's own, which older versions lack."""


def reported(outcome, when="call", kind=pytest.TestReport):
    return kind("test_a", ("a.py", 1, "test_a"), {}, outcome, None, when)


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ([reported("passed", "setup"), reported("passed")], None),
        ([reported("skipped", kind=Subtest), reported("passed")], None),
        ([reported("failed", kind=Subtest), reported("passed")], "the test failed"),
        ([reported("rerun"), reported("passed")], None),
        ([reported("rerun"), reported("failed")], "the test failed"),
        ([reported("passed"), reported("skipped", "teardown")], "the test was skipped"),
    ],
    ids=["passed", "subtest skipped", "subtest failed", "repeated", "repeated in vain", "skipped at the end"],
)
def test_which_tests_did_not_pass(reports, reason):
    reporter = SimpleNamespace(stats={"one": reports[:1], "deselected": [object()], "other": reports[1:]})
    assert outcomes.not_passed(reporter) == ({"test_a": reason} if reason else {})


def test_the_attempt_that_is_repeated_is_not_stored(project):
    """As pytest-rerunfailures does it: the first attempt has an outcome of its own."""
    project.tester.makepyfile(
        again="""
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item):
            reports = runtestprotocol(item, log=False)
            for report in reports:
                report.outcome = "rerun" if report.failed else report.outcome
            again = runtestprotocol(item, log=False) if any(report.outcome == "rerun" for report in reports) else []
            for report in [*reports, *again]:
                item.ihook.pytest_runtest_logreport(report=report)
            return True

        def pytest_report_teststatus(report):
            return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None
        """
    )
    project.tester.syspathinsert()
    flaky = """
        ATTEMPTS = []

        def test_other():
            pass

        def test_flaky(compile_benchmark):
            ATTEMPTS.append(1)
            compile_benchmark(problems=("throttled",) if len(ATTEMPTS) == 1 else (), kernels=[len(ATTEMPTS)])
            assert len(ATTEMPTS) > 1
    """
    result = project.update(flaky, "-p", "again")
    assert result.parseoutcomes() == {"passed": 2, "rerun": 1}
    assert project.stored() == {"test_speed.py::test_flaky": (1, {"kernels": [2], "python": "3.11"})}
    assert not lines_with(result, "nothing stored") and not lines_with(result, "throttled")


RENAMED = TWO.replace("test_second", "test_seconds")
UNUSED = (
    f"unused baseline for {ENVIRONMENT}: test_speed.py::test_second; probably renamed to test_speed.py::test_seconds"
)


@pytest.mark.parametrize(
    "argument", ["test_folder/test_speed.py", "test_speed.py", "./test_speed.py", "absolute", "module"]
)
def test_a_test_that_was_not_selected_is_not_unused(project, monkeypatch, argument):
    tester, options = project.tester, [*OPTIONS, "--compile-perf=track"]
    tester.makepyfile(**{"test_folder/__init__": "", "test_folder/test_speed": TWO})
    tester.runpytest_inprocess(*options, "--compile-update-baselines").assert_outcomes(passed=2)
    path = tester.path / "test_folder" / "test_speed.py"
    if argument in ("test_speed.py", "./test_speed.py"):
        monkeypatch.chdir(path.parent)
    if argument == "module":
        tester.syspathinsert()
        options.append("--pyargs")
    file = {"absolute": str(path), "module": "test_folder.test_speed"}.get(argument, argument)
    result = tester.runpytest_inprocess(*options, f"{file}::test_first")
    result.assert_outcomes(passed=1)
    assert not lines_with(result, "unused baseline")
    path.write_text(RENAMED)
    assert lines_with(tester.runpytest_inprocess(*options, file), "unused baseline")


def test_a_test_that_lf_leaves_out_is_not_unused(project):
    failing = TWO.replace("()", "()\n    assert False", 1)
    project.update(TWO).assert_outcomes(passed=2)
    tester, options = project.tester, [*OPTIONS, "-p", "cacheprovider", "--compile-perf=track"]
    tester.makepyfile(test_speed=failing)
    tester.runpytest_inprocess(*options).assert_outcomes(passed=1, failed=1)
    result = tester.runpytest_inprocess(*options, "--lf")
    result.assert_outcomes(failed=1)
    assert not lines_with(result, "unused baseline")


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [(RENAMED, (), [UNUSED]), (TWO, (), []), (TWO, ("-k", "first"), [])],
    ids=["renamed", "unchanged", "deselected"],
)
def test_workers_tell_which_baselines_are_unused(project, source, options, said):
    pytest.importorskip("xdist")
    project.update(TWO).assert_outcomes(passed=2)
    project.tester.makepyfile(test_speed=source)
    result = project.tester.runpytest_subprocess(*OPTIONS, "--compile-perf=track", "-n1", *options)
    assert lines_with(result, "unused baseline") == said
    assert lines_with(result, "test_speed.py::test_first ")


CPU = 'compile_benchmark(problems=("times on CPU are not stored",), {counts})'


def test_a_reason_that_is_about_the_times_says_so_and_the_counts_are_stored(project):
    project.update(measuring(CPU.format(counts="graphs=[1]")))
    result = project.update(measuring(CPU.format(counts="graphs=[2], changed=True")))
    assert lines_with(result, "not stored: ") == [
        "times not stored: test_speed.py::test_speed: times on CPU are not stored"
    ]
    assert lines_with(result, "graphs 1 -> 2") == ["torch.compile structure: test_speed.py::test_speed: graphs 1 -> 2"]
    assert lines_with(result, "structure.json: 1 entry changed")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("python_calls=[98]", "python_calls=[98, 218]", "Python calls per call 98 -> 98 or 218"),
        ("memory=[50_000_000]", "memory=[50_000_000, 50_000_512]", "peak memory 50,000,000 bytes -> 50,000,000 bytes or 50,000,512 bytes"),
        ("guards=[5]", "guards=[105]", "guards 5 -> 105 (about 5 us per call)"),
        ("kernels=[7]", "kernels=[7], syncs=[1]", "device synchronizations per call none -> 1"),
        ("kernels=[7], graphs=[1]", "kernels=[8], graphs=[2]", "kernels per call 7 -> 8; graphs 1 -> 2"),
        ("kernels=[7]", "kernels=[7]", ""),
    ],
    ids=["another value", "few bytes", "cost", "new", "two", "same"],
)  # fmt: skip
def test_changed_counts_are_listed_when_they_are_written(project, before, after, line):
    project.update(measuring(f"compile_benchmark({before})"))
    source = measuring(f"compile_benchmark({after})")
    assert not lines_with(project(source), "torch.compile structure:"), "nothing is written"
    listed = lines_with(project.update(source), "torch.compile structure: test_speed.py::test_speed: ")
    assert listed == ([f"torch.compile structure: test_speed.py::test_speed: {line}"] if line else [])


def test_a_changed_test_says_how_many_runs_are_missing(project):
    said = "times are judged once 5 runs are stored: repeat this command"
    unchanged, changed = (measuring(f"compile_benchmark(changed={changed})") for changed in (False, True))
    runs = [lines_with(project.update(unchanged), said) for _ in range(6)]
    assert runs == [[f"{said} 4 times"], [f"{said} 3 times"], [f"{said} 2 times"], [f"{said} 1 time"], [], []]
    assert lines_with(project.update(changed), said) == [f"{said} 4 times"]
    assert not lines_with(project(unchanged), said), "nothing is written"
