"""The action from the first step to the last, as a runner runs it: passing, failing, hostile, refused."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_torch_compile.action import environment, steps
from pytest_torch_compile.action import inputs as action_inputs
from pytest_torch_compile.triage import command

yaml = pytest.importorskip("yaml")
from tests.action import steps_runner  # noqa: E402

ROOT = Path(__file__).parents[2]
# Checks are announced by hand, so that nothing has to be compiled.
PRELUDE = """
import pytest
from pytest_torch_compile.findings import CompileCheckFailed, Finding, Location
from pytest_torch_compile.events import announce
from pytest_torch_compile.findings import CompileReport

def check(*findings):
    report = CompileReport("model", "fullgraph", "inductor", "2.13.0", "cpu", findings=list(findings))
    announce(report)
    if findings:
        raise CompileCheckFailed("model does not hold", report, findings)
"""
PASSING = PRELUDE + "\ndef test_one():\n    check()\n\ndef test_two():\n    check()\n"
FAILING = (
    PRELUDE + "\ndef test_bad():\n    check(Finding('graph-break', 'one break', Location(__file__, 2, 'f', 'x')))\n"
)
HOSTILE_NAMES = [
    "<script>alert(1)</script>",
    "\"quotes\" and 'quotes'",
    "$(touch owned) `touch owned`",
    "a\n::error::owned",
    "::set-output name=result::passed",
    "::stop-commands::x",
    "| cell | @everyone",
]
HOSTILE = (
    PRELUDE
    + f"""
NAMES = {HOSTILE_NAMES!r}

@pytest.mark.parametrize("name", NAMES)
def test_hostile(name):
    print("\\n::error::owned by output\\n##[error]owned\\n::stop-commands::pause\\n::pause::\\n::warning::owned")
    check(Finding("numerics", name, Location(name, 3, name, name), evidence=name, hint=name))
"""
)


@pytest.fixture
def job(tmp_path):
    """Run the action on a test file, in an environment that has torch and the plugin."""
    workspace, temporary = tmp_path / "workspace with space", tmp_path / "temp"
    workspace.mkdir()
    temporary.mkdir()
    around = steps_runner.clean_environment() | _interpreter(tmp_path)
    around |= {"RUNNER_ENVIRONMENT": "github-hosted", "GITHUB_REPOSITORY": "me/mine", "GITHUB_SHA": "c" * 40}

    def start(
        code: str,
        event: dict | None = None,
        variables: dict | None = None,
        github: Path | None = None,
        **inputs: str,
    ):
        (workspace / "test_it.py").write_text(code, encoding="utf-8")
        (tmp_path / "event.json").write_text(json.dumps(event or {}))
        more = {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), **(variables or {})}
        return steps_runner.run(workspace, temporary, around | more, github=github, **inputs)

    start.workspace, start.temporary = workspace, temporary
    return start


def _interpreter(tmp_path: Path) -> dict[str, str]:
    """``python`` on the path: this one, with metadata of torch and of the plugin if it has none itself."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    for name in ("python", "python3"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    site = tmp_path / "site"
    for name, version in (("torch", "2.13.0"), ("pytest_torch_compile", "0.1.0")):
        look = f"import importlib.metadata as m; m.version({name.replace('_', '-')!r})"
        if subprocess.run([sys.executable, "-c", look], capture_output=True, check=False).returncode:
            folder = site / f"{name}-{version}.dist-info"
            folder.mkdir(parents=True)
            folder.joinpath("METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
            if name != "torch":
                folder.joinpath("entry_points.txt").write_text(
                    "[pytest11]\ntorch_compile = pytest_torch_compile.plugin\n"
                )
    path = os.pathsep.join([str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}


def test_a_passing_suite_is_green_and_publishes_everything(job):
    done = job(PASSING, tests="test_it.py")
    assert not done.failed
    assert done.outputs["result"] == "passed"
    assert done.outputs["regressions"] == "0"
    assert Path(done.outputs["report-path"]).name in ("report.html", "summary.md")
    assert json.loads(Path(done.outputs["json-path"]).read_text())["summary"]["passed"] == 2
    assert "## torch.compile: All checks passed" in done.summary
    assert done["Upload the report"].given["path"] == str(Path(done.outputs["json-path"]).parent)
    assert done["Upload the report"].given["name"] == "torch-compile-report"
    assert done["Keep compiled code"].given["key"].startswith(done["Restore compiled code"].given["restore-keys"])
    assert done["Set up uv"].outcome == "skipped"


def test_a_failing_suite_is_published_and_red_at_the_last_step_only(job):
    done = job(FAILING)
    assert [step.name for step in done.steps if step.outcome == "failure"] == ["test"]
    assert done["test"].status == 1
    assert done.outputs["result"] == "failed"
    assert done.commands == ["::error file=test_it.py,line=2,title=torch.compile%3A graph-break::one break"]
    assert "one break" in done.summary


def test_the_next_run_starts_with_the_history_of_the_last_also_on_another_machine(job):
    github = job.temporary.parent / "github"
    for run, name in enumerate(("GitHub Actions 12", "GitHub Actions 7")):
        done = job(PASSING, variables={"RUNNER_NAME": name, "GITHUB_RUN_ID": str(run)}, github=github)
        report = json.loads(Path(done.outputs["json-path"]).read_text())
        shutil.rmtree(job.temporary)
        job.temporary.mkdir()
    assert done["Restore compiled code"].outputs["cache-matched-key"].endswith("-0-1")
    assert len(report["history"]) == 2


@pytest.fixture
def keys(monkeypatch):
    """The prefix and the key of a job's cache, without an environment."""
    found = environment.Environment("python", "2.13.0+cpu", "0.1.0")
    monkeypatch.setattr(environment.Setup, "existing", lambda setup: found)
    monkeypatch.setattr(environment.Setup, "complete", lambda setup, active: active)

    def of(variables: dict[str, str], **inputs: str) -> tuple[str, str]:
        outputs = {}
        with monkeypatch.context() as changed:
            changed.setattr(steps.runner, "set_outputs", outputs.update)
            for name, value in {"RUNNER_TEMP": "/temp", "GITHUB_RUN_ID": "5", **variables}.items():
                changed.setenv(name, value)
            steps.install(action_inputs.Inputs(**inputs))
        return outputs["cache-prefix"], outputs["cache-key"]

    return of


@pytest.mark.parametrize(
    ("variables", "inputs"),
    [
        ({}, {"shard": "1/2"}),
        ({}, {"report_name": "torch-compile-report-1"}),
        ({}, {"working_directory": "python"}),
        ({"GITHUB_JOB": "other"}, {}),
        ({"GITHUB_WORKFLOW": "other, workflow"}, {}),
    ],
    ids=str,
)
def test_jobs_do_not_restore_what_another_job_kept(variables, inputs, keys):
    (prefix, key), (other_prefix, other_key) = keys({}), keys(variables, **inputs)
    assert key.startswith(prefix) and other_key.startswith(other_prefix)
    assert not other_key.startswith(prefix) and not key.startswith(other_prefix)
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,100}", other_key)


def test_code_that_was_compiled_for_another_cpu_is_not_used(ran, monkeypatch):
    folders = []
    for flags in ("fpu avx2", "fpu avx2 avx512f", "fpu avx2"):
        monkeypatch.setattr(steps, "_cpu", lambda flags=flags: [flags])
        folders += [word for word in steps.pytest_arguments(action_inputs.Inputs()) if "cache" in word]
    assert folders[0] == folders[2] != folders[1]


def test_hostile_names_and_output_reach_nothing(job):
    done = job(HOSTILE, report_name="report", select="hostile", extra_args="-p no:cacheprovider '-rA'")
    assert done["test"].status == 1
    assert done.outputs["result"] == "failed"
    assert 1 <= len(done.commands) <= 10
    assert all(
        re.match(r"::error (file=[^:,]+,line=\d+,)?title=torch.compile(%3A [a-z]+)?::", c) for c in done.commands
    )
    assert not [path for path in job.workspace.rglob("*") if path.name == "owned"]
    outside_code = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", done.summary, flags=re.DOTALL)
    assert "script" not in outside_code
    assert "@everyone" not in outside_code


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("perf", "gate; touch owned"),
        ("torch", "2.13.0 --index-url=http://localhost"),
        ("torch", "--help"),
        ("python", "3.12\n3.13"),
        ("tests", "--collect-only"),
        ("tests", "'unclosed"),
        ("shard", "5/4"),
        ("shard", "$(touch owned)/2"),
        ("compare_with", "--upload-pack=touch owned"),
        ("compare_with", "a..b"),
        ("report_name", "a/b"),
        ("report_name", "a\n::error::owned"),
        ("annotations", "yes"),
        ("allow_forks", "${{ github.token }}"),
        ("cache", "-rf"),
        ("working_directory", "nothing-here"),
    ],
)
def test_a_tampered_input_stops_the_job_before_anything_runs(name, value, job):
    done = job(PASSING, **{name: value})
    assert done["guard"].status == 2
    assert {done[name].outcome for name in ("install", "test", "compare", "publish")} == {"skipped"}
    (command,) = done.commands
    assert command.startswith(f"::error title=torch.compile::input {name.replace('_', '-')} is ")
    assert not list(job.workspace.glob("owned"))


def test_inputs_with_shell_syntax_stay_words(job):
    done = job(PASSING, select="one or $(touch owned) or `touch owned`", tests="test_it.py '; touch owned'")
    assert done.failed
    assert not list(job.workspace.rglob("owned"))


FORK = {"pull_request": {"head": {"repo": {"full_name": "stranger/mine", "fork": True}}}}
OWN = {"pull_request": {"head": {"repo": {"full_name": "me/mine"}}}}
DELETED = {"pull_request": {"head": {"repo": None}}}
AFTER_FORK = {"workflow_run": {"head_repository": {"full_name": "stranger/mine"}}}


@pytest.mark.parametrize("event", [FORK, DELETED, AFTER_FORK], ids=["fork", "deleted", "workflow_run"])
@pytest.mark.parametrize("where", ["self-hosted", ""])
def test_a_forks_code_does_not_run_on_a_self_hosted_runner(event, where, job):
    done = job(PASSING, event, {"RUNNER_ENVIRONMENT": where})
    assert done["guard"].status == 1
    assert {done["install"].outcome, done["test"].outcome, done["Upload the report"].outcome} == {"skipped"}
    assert "self-hosted" in done.commands[0]


@pytest.mark.parametrize(
    ("event", "where", "allowed"),
    [(FORK, "github-hosted", "false"), (OWN, "self-hosted", "false"), (FORK, "self-hosted", "true"), ({}, "", "false")],
)
def test_everything_else_runs(event, where, allowed, job):
    assert not job(PASSING, event, {"RUNNER_ENVIRONMENT": where}, allow_forks=allowed, cache="false").failed


def test_the_repository_cannot_replace_modules_of_the_guard(job):
    for name in ("json.py", "pytest_torch_compile.py", "re.py"):
        (job.workspace / name).write_text("raise SystemExit(0)\n")
    done = job(PASSING, FORK, {"RUNNER_ENVIRONMENT": "self-hosted", "PYTHONPATH": str(job.workspace)})
    assert done["guard"].status == 1


def test_shards_are_parts_of_the_whole(job):
    seen = []
    for number in (1, 2, 3):
        done = job(PASSING, shard=f"{number}/3")
        assert not done.failed
        assert done["Upload the report"].given["name"] == f"torch-compile-report-{number}-of-3"
        seen += [test["id"] for test in json.loads(Path(done.outputs["json-path"]).read_text())["tests"]]
    assert sorted(seen) == ["test_it.py::test_one", "test_it.py::test_two"]


def test_a_run_without_tests_is_red(job):
    done = job("", cache="false")
    assert done["test"].status == 5
    assert "so this step fails" in done.commands[-1]


def test_a_run_that_dies_is_an_error_and_no_old_report_is_taken_for_its(job):
    job(PASSING)
    done = job("import os\nos._exit(3)\n")
    assert done.outputs["result"] == "error"
    assert done["test"].status == 3
    assert "no report" in done.summary


def test_a_subfolder_is_named_in_annotations(job):
    (job.workspace / "python").mkdir()
    (job.workspace / "python" / "test_sub.py").write_text(FAILING)
    done = job(PASSING, working_directory="python")
    assert done.commands[0].startswith("::error file=python/test_sub.py,line=2,")


def test_annotations_can_be_turned_off(job):
    assert job(FAILING, annotations="false").commands == []


@pytest.fixture
def uv_log(tmp_path):
    """What uv was asked for, by a uv that makes environments out of this interpreter."""
    log = tmp_path / "uv.log"
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "uv").write_text(
        f'#!/bin/sh\necho "$@" >> "{log}"\n'
        'if [ "$1" = venv ]; then for last; do :; done; mkdir -p "$last/bin"; '
        f'cp "{tmp_path}/bin/python" "$last/bin/"; fi\n'
    )
    (tmp_path / "bin" / "uv").chmod(0o755)
    return lambda: log.read_text().splitlines()


def test_an_environment_is_made_with_uv_where_a_torch_is_asked_for(job, uv_log):
    (job.workspace / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '0'\n")
    done = job(PASSING, torch="2.13.0", python="3.12", extras="test, vision", perf="off")
    assert done.outputs["result"] == "passed"
    made, torch, rest = uv_log()
    assert made.startswith("venv --python 3.12 ")
    assert torch.endswith("--torch-backend=auto torch==2.13.0")
    assert rest.endswith(f"{ROOT}[report] pytest-xdist -e .[test,vision]")


def test_a_plan_needs_the_default_build_of_torch(job, uv_log):
    job(PASSING, torch="2.15.0", plan="H100")
    assert not [line for line in uv_log() if "--torch-backend" in line]


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """The commands that a step runs, which do nothing."""
    commands = []
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("TORCH_COMPILE_PYTHON", sys.executable)
    monkeypatch.setattr(steps, "_fetched", lambda revision, folder: revision)
    monkeypatch.setattr(
        steps.strangers,
        "run",
        lambda command, *_, **__: commands.append(command) or subprocess.CompletedProcess(command, 0, b""),
    )
    return commands


def test_a_plan_is_passed_to_the_tests_and_to_the_comparison(ran):
    given = action_inputs.Inputs(plan="RTX 4090", compare_with="HEAD", tests=("tests",), working_directory=".")
    assert "--compile-plan=RTX 4090" in steps.pytest_arguments(given)
    assert steps.compare(given) == 0
    assert ran[0][-3:] == ["HEAD", "--compile-plan=RTX 4090", "tests"]


@pytest.mark.parametrize("step", [steps.compare, steps.releases])
def test_comparisons_run_once_and_not_in_each_shard(step, ran, capsys):
    given = {"torch_old": "2.11.0", "compare_with": "HEAD"}
    assert step(action_inputs.Inputs(shard="2/3", **given)) == 0
    assert not ran
    assert re.match(
        r"shard 1 makes the comparison of (revisions|torch releases), for all tests\n", capsys.readouterr().out
    )
    assert step(action_inputs.Inputs(shard="1/3", **given)) == 0
    assert ran


@pytest.mark.parametrize(
    ("given", "extras"),
    [
        ({"perf": "track"}, "report,speed"),
        ({"plan": "H100"}, "report,speed"),
        ({"cache": "memory://compiled"}, "report,cache"),
        ({"cache": "/a/folder"}, "report"),
    ],
)
def test_the_plugin_brings_what_the_inputs_need(given, extras):
    chosen = action_inputs.read({action_inputs.VARIABLE: json.dumps(given)})
    assert environment.plugin(chosen, ROOT) == f"{ROOT}[{extras}]"


def test_a_cache_at_a_url_is_loaded_and_saved_by_pytest_itself(job):
    pytest.importorskip("fsspec")
    pytest.importorskip("torch")
    place = job.temporary / "bucket"
    done = job(PASSING, cache=f"file://{place}")
    assert not done.failed
    assert done["Restore compiled code"].outcome == done["Keep compiled code"].outcome == "skipped"


CHOSEN = {"tests": ("tests",), "select": "--old or vit", "extra_args": ("-m", "quick")}


def test_the_tests_that_are_chosen_are_those_of_both_revisions(ran):
    assert steps.compare(action_inputs.Inputs(compare_with="HEAD", **CHOSEN)) == 0
    assert ran[0][-6:] == ["--against", "HEAD", "-k--old or vit", "-m", "quick", "tests"]


def test_the_tests_that_are_chosen_are_those_of_both_releases(ran):
    assert steps.releases(action_inputs.Inputs(torch_old="2.11.0", **CHOSEN)) == 0
    words = ran[0][ran[0].index("torch") + 1 :]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    command.add_options(parser)
    known, rest = parser.parse_known_args(words)
    assert (known.old, known.new) == ("2.11.0", sys.executable)
    assert rest == ["-k--old or vit", "-m", "quick", "tests"]


def test_a_revision_that_is_not_there_is_refused(job):
    subprocess.run(["git", "init", "-q", str(job.workspace)], check=True)
    done = job(PASSING, compare_with="no-such-branch")
    assert done["compare"].status == 2
    assert done["test"].outcome == "success"
    assert "not a revision of this repository" in done.commands[0]
    assert done.outputs["result"] == "passed"


def test_the_action_and_its_code_know_the_same_inputs_and_defaults():
    declared = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    defaults = {name: str(spec["default"]) for name, spec in declared.items()}
    assert action_inputs.read({action_inputs.VARIABLE: json.dumps(defaults)}) == action_inputs.Inputs()
    assert {name.replace("-", "_") for name in declared} == set(action_inputs.Inputs.__dataclass_fields__)


@pytest.mark.parametrize("file", ["action.yml", *sorted(map(str, (ROOT / ".github" / "workflows").glob("*.yml")))])
def test_every_action_that_is_used_is_pinned_by_a_commit(file):
    used = re.findall(r"uses: *(\S+)", (ROOT / file).read_text())
    assert used or "self" in file
    for one in used:
        assert one.startswith("./") or re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", one)
