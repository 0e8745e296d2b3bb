"""The command line: exit statuses, and what is written."""

from __future__ import annotations

import json
import os
import signal
import time
from types import SimpleNamespace

import pytest

from pytest_torch_compile.baselines import files as baselines
from pytest_torch_compile.cli import commands as cli
from pytest_torch_compile.cli import doctor
from pytest_torch_compile.report import document
from tests.report import documents


@pytest.fixture
def saved(tmp_path):
    def save(made, name):
        return str(document.write(made, tmp_path / name / "report.json").parent)

    return save


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("terminal", "graph-break: graph break 1 of 1, 0 allowed"),
        ("markdown", "## torch.compile: Some checks failed"),
        ("html", "<!doctype html>"),
        ("github", "::error file=src/model.py,line=3"),
        ("json", '"schema_version": 1'),
    ],
)
def test_report_renders_each_form(form, expected, saved, capsys):
    assert cli.main(["report", saved(documents.typical(), "a"), "--format", form]) == 0
    assert expected in capsys.readouterr().out


def test_report_writes_to_a_file(saved, tmp_path, capsys):
    assert (
        cli.main(["report", saved(documents.typical(), "a"), "--format=html", f"--output={tmp_path / 'x.html'}"]) == 0
    )
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", [["report"], ["merge", "--output=x"], ["compare", "y"]])
def test_a_wrong_path_is_one_line_and_status_2(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, "nothing"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_merge_finds_the_reports_of_downloaded_artifacts(saved, tmp_path, capsys):
    saved(documents.made(documents.case("a")), "shards/one")
    saved(documents.made(documents.case("b")), "shards/two/deeper")
    assert cli.main(["merge", str(tmp_path / "shards"), f"--output={tmp_path / 'all'}"]) == 0
    assert [test["id"] for test in document.read(tmp_path / "all")["tests"]] == ["a", "b"]
    assert {path.name for path in (tmp_path / "all").iterdir()} == {"report.json", "report.html", "summary.md"}
    assert "2 reports merged" in capsys.readouterr().out


def test_merge_of_a_failed_shard_fails(saved, tmp_path):
    shard = saved(documents.typical(), "one")
    assert cli.main(["merge", shard, f"--output={tmp_path / 'all'}"]) == 1


def test_compare_of_one_report_with_itself_finds_nothing(saved, capsys):
    path = saved(documents.typical(), "a")
    assert cli.main(["compare", path, path]) == 0
    assert capsys.readouterr().out == "nothing changed\n"


def test_compare_fails_for_what_got_worse_and_names_it(saved, capsys):
    old = documents.made(documents.case("a", "passed", documents.check(breaks=1)), documents.case("gone"))
    new = documents.made(
        documents.case("a", "passed", documents.check(breaks=2, recompiles=1)),
        documents.case("b", "failed", documents.check(documents.finding(), breaks=1)),
    )
    assert cli.main(["compare", saved(old, "old"), saved(new, "new")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "worse  a  new graph break at src/model.py:4: data-dependent branch (gb-1)",
        "worse  a  recompiles 0 -> 1",
        "worse  b  is new: fail",
        "       gone  is gone",
        "4 changes, 3 for the worse",
    ]


def test_compare_the_other_way_is_no_failure(saved, capsys):
    old = documents.made(documents.case("a", "failed", documents.check(documents.finding(), breaks=1)))
    new = documents.made(documents.case("a", "passed", documents.check()))
    assert cli.main(["compare", saved(old, "old"), saved(new, "new"), "--format=markdown"]) == 0
    assert "| `a` | `graph break gone: data-dependent branch (gb-0)` |" in capsys.readouterr().out


def test_compare_sees_a_regression_and_ignores_noise(saved):
    def made(outcome, compiled):
        return documents.made(documents.case("a", speed=[documents.speed(outcome, 0.0, compiled)]))

    old = saved(made("pass", 0.001), "old")
    assert cli.main(["compare", old, saved(made("pass", 0.00101), "noise")]) == 0
    assert cli.main(["compare", old, saved(made("regressed", 0.0015), "slow")]) == 1


def test_baselines_are_listed_and_pruned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").write_text("def test_kept(): pass\n")
    names = ["test_a.py::test_kept", "test_a.py::test_gone", "test_deleted.py::test_x"]
    ours = {"torch_compile": {"runs": [{"wall": [2e-3, 1e-3, -0.7]}]}}
    entries = {name: {"fullname": name, "extra_info": ours} for name in names}
    baselines.update(tmp_path / "baselines", "cpu_torch-2.13", lambda stored: entries)
    assert cli.main(["baselines", "list"]) == 0
    assert capsys.readouterr().out == "cpu_torch-2.13  speed: 3 entries\n"

    assert cli.main(["baselines", "prune"]) == 0
    assert "nothing was removed" in capsys.readouterr().out
    assert cli.main(["baselines", "prune", "--write"]) == 0
    assert list(baselines.load(tmp_path / "baselines", "cpu_torch-2.13").entries) == ["test_a.py::test_kept"]


def test_prune_removes_nothing_when_the_tests_cannot_be_collected(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").write_text("import nothing_of_this_name\n")
    assert cli.main(["baselines", "prune", "--write"]) == 2
    assert "could not collect" in capsys.readouterr().err


def test_prune_says_so_where_the_plugin_is_not_loaded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_PLUGINS", raising=False)
    (tmp_path / "test_a.py").write_text("def test_kept(): pass\n")
    (tmp_path / "baselines").mkdir()
    assert cli.main(["baselines", "prune"]) == 2
    assert "without this plugin" in capsys.readouterr().err


def test_prune_keeps_what_addopts_leave_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -v -k other --import-mode=importlib\n")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_same.py").write_text("def test_kept(): pass\ndef test_other(): pass\n")
    ours = {"torch_compile": {"runs": [{"wall": [2e-3, 1e-3, -0.7]}]}}
    names = ["a/test_same.py::test_kept", "b/test_same.py::test_other", "b/test_same.py::test_gone"]
    baselines.update(
        tmp_path / "baselines", "cpu_torch-2.13", lambda stored: {n: {"fullname": n, "extra_info": ours} for n in names}
    )
    assert cli.main(["baselines", "prune"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "cpu_torch-2.13  speed: b/test_same.py::test_gone"


def test_doctor_says_what_is_there(capsys):
    status = cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["yes", "Python"]
    assert status == int(any(line.split()[:2] == ["no", "torch"] for line in lines))


def test_doctor_without_a_compiler_says_what_cannot_be_checked(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("CXX", raising=False)
    line = next(line for line in doctor.examine() if line.subject == "C++ compiler")
    assert (line.status, line.needed) == ("no", False)
    assert "inductor cannot compile" in line.text


@pytest.mark.parametrize(
    ("version", "status"), [("2.5.1", "no"), ("2.13.0+cu130", "yes"), ("3.0.0", "note"), ("", "no")]
)
def test_doctor_judges_the_torch_version(version, status, monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: version)
    assert doctor._torch().status == status


def test_json_output_is_the_document(saved, capsys):
    made = documents.typical()
    cli.main(["report", saved(made, "a"), "--format=json"])
    assert json.loads(capsys.readouterr().out) == made


def test_help_of_compare_names_its_options(capsys):
    with pytest.raises(SystemExit):
        cli.main(["compare", "--help"])
    text = capsys.readouterr().out
    for word in ("old", "new", "--format", "--against REF", "--rounds N"):
        line = next(line for line in text.splitlines() if line.strip().startswith(word))
        assert len(line.split()) > 2 or text.splitlines()[text.splitlines().index(line) + 1].strip(), word


@pytest.mark.parametrize(
    "arguments", [["--help"], ["compare", "--help"], ["report", "--help"], ["baselines", "--help"]]
)
def test_help_has_no_marks(arguments, capsys):
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert "``" not in capsys.readouterr().out


@pytest.mark.parametrize("revision", [["--against", "main"], ["--against=main"]])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_compare_with_a_revision_is_of_speed(revision, place, monkeypatch):
    from pytest_torch_compile.speed import revisions

    taken = []
    monkeypatch.setattr(revisions, "compare_with", lambda *given, **more: taken.append(given) or revisions.Comparison())
    words = ["tests", "-k--old or vit", "-p", "no:cacheprovider"]
    assert cli.main(["compare", *words[:place], *revision, *words[place:]]) == 0
    assert taken == [("main", words)]


@pytest.mark.parametrize("wrong", [["--against"], ["--against", "main", "--rounds=many"]])
def test_usage_of_a_speed_comparison_names_the_revision_and_the_arguments_of_pytest(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", *wrong])
    assert ended.value.code == 2
    usage = "usage: pytest-torch-compile compare --against REF [--rounds N] [pytest arguments]\n"
    assert capsys.readouterr().err.startswith(usage)


def test_options_of_a_speed_comparison_need_a_revision(saved, capsys):
    path = saved(documents.made(documents.case("one")), "one")
    assert cli.main(["compare", path, path, "--rounds", "3"]) == 2
    assert "--rounds needs --against REF" in capsys.readouterr().err


def unfinished(*cases, **more):
    return document.new(cases, {documents.KEY: documents.ENVIRONMENT}, created="2026", version="1", **more)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (unfinished(documents.case("one"), exit_status=2), "did not finish: pytest ended with status 2"),
        (unfinished(exit_status=3), "did not finish: pytest ended with status 3"),
        (
            unfinished(documents.case("one"), exit_status=1, selection="-k a, stopped early"),
            "did not finish: stopped early",
        ),
        (unfinished(exit_status=5), "has no results"),
    ],
    ids=["interrupted", "crashed", "stopped", "empty"],
)
def test_new_run_that_did_not_finish_is_worse_and_an_old_one_is_not(saved, made, message, capsys):
    whole, part = saved(documents.made(documents.case("one"), documents.case("two")), "old"), saved(made, "new")
    assert cli.main(["compare", whole, part]) == 1
    assert capsys.readouterr().out.splitlines()[0] == f"worse  the new run  {message}"
    assert cli.main(["compare", part, whole]) == 0


def test_two_runs_without_results_are_equal(saved):
    empty = saved(unfinished(exit_status=5), "empty")
    assert cli.main(["compare", empty, empty]) == 0


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Store entries of these names in a project with an ini file, and give those that are left."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)

    def store(*names):
        ours = {"torch_compile": {"runs": [{"wall": [2e-3, 1e-3, -0.7]}]}}
        entries = {name: {"fullname": name, "extra_info": ours} for name in names}
        baselines.update(tmp_path / "baselines", "cpu_torch-2.13", lambda old: entries)

    store.left = lambda: sorted(baselines.load(tmp_path / "baselines", "cpu_torch-2.13").entries)
    return store


@pytest.mark.parametrize("damage", ["{", '{"benchmarks": []}', "[" * 100])
def test_baselines_that_cannot_be_read_are_named_and_kept(stored, damage, tmp_path, capsys):
    (tmp_path / "test_a.py").write_text("def test_kept(): pass\n")
    stored("test_a.py::test_kept")
    file = tmp_path / "baselines" / "broken_torch-2.13" / "speed.json"
    file.parent.mkdir()
    file.write_text(damage)
    for command, others in ((["list"], 1), (["prune"], 0), (["prune", "--write"], 0)):
        assert cli.main(["baselines", *command]) == 2
        first, *rest = capsys.readouterr().out.splitlines()
        assert first.startswith("broken_torch-2.13  speed: ") and str(file.relative_to(tmp_path)) in first
        assert rest == ["cpu_torch-2.13  speed: 1 entry"][:others]
    assert file.read_text() == damage
    assert stored.left() == ["test_a.py::test_kept"]


def test_prune_from_a_subfolder_keeps_what_is_used(stored, tmp_path, monkeypatch, capsys):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text("def test_kept(): pass\n")
    stored("a/test_a.py::test_kept", "a/test_a.py::test_gone", "b/test_b.py::test_kept", "b/test_deleted.py::test_x")
    monkeypatch.chdir(tmp_path / "a")
    assert cli.main(["baselines", "prune", "--write"]) == 0
    assert stored.left() == ["a/test_a.py::test_kept", "b/test_b.py::test_kept"]


def test_prune_keeps_what_another_machine_collects(stored, tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('device', ['cpu'])\ndef test_devices(device): pass\n"
        "if False:\n    def test_on_gpus(): pass\n"
        "class TestKept:\n    def test_in_class(self): pass\n"
    )
    here = ["test_a.py::TestKept::test_in_class", "test_a.py::test_devices[cpu]"]
    there = ["test_a.py::test_devices[cuda]", "test_a.py::test_on_gpus"]
    stored(*here, *there, "test_a.py::TestGone::test_in_class", "test_a.py::test_gone[cuda]")
    assert cli.main(["baselines", "prune", "--write"]) == 0
    assert stored.left() == sorted(here + there)


def test_prune_of_some_tests_of_a_file_keeps_the_others(stored, tmp_path):
    (tmp_path / "test_a.py").write_text("def test_kept(): pass\ndef test_other(): pass\n")
    stored("test_a.py::test_kept", "test_a.py::test_gone")
    assert cli.main(["baselines", "prune", "--write", "test_a.py::test_other"]) == 0
    assert stored.left() == ["test_a.py::test_gone", "test_a.py::test_kept"]


def test_prune_refuses_baselines_of_another_project(stored, tmp_path, monkeypatch, capsys):
    stored("test_a.py::test_kept")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pytest.ini").write_text("[pytest]\n")
    (inner / "test_b.py").write_text("def test_b(): pass\n")
    monkeypatch.chdir(inner)
    assert cli.main(["baselines", "prune", "--write", "--baselines=../baselines"]) == 2
    assert "is outside pytest's root directory" in capsys.readouterr().err
    assert stored.left() == ["test_a.py::test_kept"]


@pytest.mark.parametrize(
    ("kind", "hip", "status", "subject", "words"),
    [
        ("cuda", None, "yes", "CUDA", "Some device"),
        ("cuda", "6.4", "note", "ROCm", "untested on ROCm"),
        ("xpu", None, "note", "XPU", "device time, kernels, CUDA graphs"),
        (None, None, "no", "CUDA", "does not support CUDA"),
    ],
)
def test_doctor_names_the_accelerator_and_what_was_not_run(kind, hip, status, subject, words, monkeypatch):
    torch = pytest.importorskip("torch")
    module = SimpleNamespace(
        __name__=f"torch.{kind}", device_count=lambda: 1, get_device_name=lambda number: "Some device"
    )
    module.is_available = lambda: kind is not None
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind or "cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.version, "cuda", "13.0" if kind == "cuda" else None)
    line = doctor._accelerator()
    assert (line.status, line.subject) == (status, subject) and words in line.text


def test_interrupted_command_ends_without_a_traceback(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_torch_compile.speed.revisions.main", interrupted)
    assert cli.main(["compare", "--against", "main", "tests/speed"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_prune_says_that_there_are_no_baselines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")
    assert cli.main(["baselines", "prune", "--baselines=typo"]) == 0
    assert capsys.readouterr().out == "no baselines in typo\n"


@pytest.fixture
def sigterm():
    """Restores the handler of SIGTERM."""
    kept = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, kept)


def test_terminated_command_cleans_up_and_a_second_signal_does_not_interrupt_it(monkeypatch, capsys, sigterm):
    cleaned = []

    def terminated(arguments):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)

    monkeypatch.setattr("pytest_torch_compile.speed.revisions.main", terminated)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert cli.main(["compare", "--against", "main", "tests/speed"]) == 143
    assert (capsys.readouterr().err, cleaned) == ("terminated\n", [True])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_handler_of_sigterm_is_kept(monkeypatch, sigterm):
    heard = []
    monkeypatch.setattr(
        "pytest_torch_compile.speed.revisions.main", lambda arguments: os.kill(os.getpid(), signal.SIGTERM) or 0
    )
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    assert cli.main(["compare", "--against", "main", "tests/speed"]) == 0
    assert heard == [signal.SIGTERM]
