"""What somebody who controls a pull request can try: its tests, its conftest files and the build of its project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_torch_compile.action import forks, strangers

pytest.importorskip("yaml")
from tests.action.test_action import FORK, OWN, PASSING, job, uv_log  # noqa: F401

# The folder of the runner's files can be guessed, whatever a process is told.
GUESSED = """
import glob, os, pathlib
FILES = [path for name in ("output", "env", "path", "state") for path in glob.glob(f"{os.environ['RUNNER_TEMP']}/github_{name}-*")]
def poison():
    for path in FILES:
        with open(path, "a") as file:
            file.write("/tmp/owned\\n" if "_path-" in path else "BASH_ENV=/tmp/owned\\nresult=passed\\nstatus=0\\n")
"""
FAILS = "\ndef test_fails():\n    check(Finding('numerics', 'wrong'))\n"


def poisoned(done) -> list[str]:
    return [
        step.name for step in done.steps if "owned" in str(step.files) or "status=0" in str(step.files) or step.links
    ]


def test_tests_are_told_of_no_file_and_no_token_of_the_runner(job):  # noqa: F811
    code = "\ndef test_variables():\n    import os, pathlib\n    pathlib.Path('variables').write_text(chr(10).join(os.environ))\n"
    tokens = dict.fromkeys(strangers.TOKENS, "secret")
    assert not job(PASSING + code, variables=tokens).failed
    names = set((job.workspace / "variables").read_text().splitlines())
    assert not names & {*strangers.FILES, *strangers.TOKENS}
    assert not [name for name in names if name.startswith("TORCH_COMPILE_")]


def test_what_tests_write_to_the_runners_files_is_taken_back(job):  # noqa: F811
    done = job(PASSING + FAILS + GUESSED + "\ndef test_poison():\n    assert len(FILES) == 4\n    poison()\n")
    assert done["test"].status == 1
    assert done.outputs["result"] == "failed"
    assert not poisoned(done)


def test_files_of_the_runner_that_tests_replace_by_links_are_put_back(job):  # noqa: F811
    (job.workspace / "victim").write_text("untouched")
    code = (
        GUESSED
        + "\ndef test_links():\n    for path in FILES:\n        os.unlink(path)\n        os.symlink('victim', path)\n"
    )
    done = job(PASSING + code)
    assert done.outputs["result"] == "passed"
    assert (job.workspace / "victim").read_text() == "untouched"
    assert not poisoned(done)


def test_nothing_that_tests_started_goes_on(job):  # noqa: F811
    code = GUESSED + (
        "\ndef test_daemon():\n"
        "    if os.fork():\n"
        "        return\n"
        "    os.setsid()\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    import time\n"
        "    pathlib.Path('daemon').write_text(str(os.getpid()))\n"
        "    while True:\n"
        "        time.sleep(0.02)\n"
        "        poison()\n"
    )
    done = job(PASSING + FAILS + code)
    assert done["test"].status == 1
    assert done.outputs["result"] == "failed"
    assert not poisoned(done)
    time.sleep(0.1)
    assert not Path(f"/proc/{(job.workspace / 'daemon').read_text()}").exists()


@pytest.mark.parametrize("status", [0, 5])
def test_a_conftest_that_ends_pytest_with_success_is_red(job, status):  # noqa: F811
    (job.workspace / "conftest.py").write_text(f"import os\nos._exit({status})\n")
    done = job(PASSING)
    assert done["test"].outcome == "failure"
    assert done.outputs["result"] == "error"


def test_a_forged_report_makes_no_failure_a_success(job):  # noqa: F811
    forged = (
        "\n@pytest.hookimpl(trylast=True)\ndef pytest_unconfigure(config):\n"
        "    import json, os, pathlib\n"
        "    path = pathlib.Path(os.environ['RUNNER_TEMP'], 'torch-compile', 'report', 'report.json')\n"
        "    made = json.loads(path.read_text())\n"
        "    made['summary']['result'] = 'passed'\n"
        "    made['tests'] = []\n"
        "    path.write_text(json.dumps(made))\n"
    )
    (job.workspace / "conftest.py").write_text("import pytest\n" + forged)
    done = job(PASSING + FAILS)
    assert done["test"].status == 1
    assert done.outputs["result"] == "error"


@pytest.mark.parametrize("text", ["{", '{"schema_version": 1}', "[" * 100_000], ids=["cut", "empty", "deep"])
def test_a_report_that_is_none_is_one_line(job, text):  # noqa: F811
    spoiled = (
        f"import os, pathlib\ndef pytest_unconfigure(config):\n"
        f"    pathlib.Path(os.environ['RUNNER_TEMP'], 'torch-compile', 'report', 'report.json').write_text({text!r})\n"
    )
    (job.workspace / "conftest.py").write_text(spoiled)
    done = job(PASSING)
    assert done["publish"].outcome == "failure"
    assert len(done.commands) == 1
    assert "Traceback" not in done["publish"].log


def test_the_build_of_a_project_cannot_speak_to_the_runner(job, uv_log, tmp_path):  # noqa: F811
    fake = tmp_path / "bin" / "uv"
    poison = (
        'for file in "$RUNNER_TEMP"/github_*; do echo "BASH_ENV=/tmp/owned" >> "$file"; done\n'
        'echo "::error::owned"; env > "$RUNNER_TEMP/variables"\n'
    )
    fake.write_text(fake.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + poison))
    (job.workspace / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '0'\n")
    done = job(PASSING, torch="2.13.0")
    assert done.outputs["result"] == "passed"
    assert not done.commands
    assert not poisoned(done)
    assert not [name for name in strangers.FILES if name in (job.temporary / "variables").read_text()]


def test_modules_of_the_checkout_are_not_imported_to_look_at_the_environment(job):  # noqa: F811
    (job.workspace / "json.py").write_text("import pathlib\npathlib.Path('looked').write_text('owned')\n")
    done = job(PASSING, torch="not a version")
    assert done["guard"].status == 2
    assert not (job.workspace / "looked").exists()


COMMENT = {"issue": {"pull_request": {"url": "x"}}, "comment": {}}
AFTER_FORK = {"workflow_run": {"head_repository": {"full_name": "stranger/mine"}}}


@pytest.mark.parametrize(
    ("name", "event"),
    [("pull_request_target", FORK), ("workflow_run", AFTER_FORK), ("issue_comment", COMMENT)],
    ids=["pull_request_target", "workflow_run", "issue_comment"],
)
@pytest.mark.parametrize("allowed", ["true", "false"])
def test_a_fork_runs_with_the_rights_of_the_base_nowhere(job, name, event, allowed):  # noqa: F811
    variables = {"RUNNER_ENVIRONMENT": "github-hosted", "GITHUB_EVENT_NAME": name}
    done = job(PASSING, event, variables, allow_forks=allowed)
    assert done["guard"].status == 1
    assert {done["install"].outcome, done["test"].outcome, done["Keep compiled code"].outcome} == {"skipped"}
    assert name in done.commands[0] and len(done.commands) == 1


def test_an_own_branch_runs_with_the_rights_of_the_base_but_saves_nothing(job):  # noqa: F811
    done = job(PASSING, OWN, {"GITHUB_EVENT_NAME": "pull_request_target"})
    assert done.outputs["result"] == "passed"
    assert done["Restore compiled code"].outcome == done["Keep compiled code"].outcome == "skipped"


def test_compiled_code_of_a_fork_goes_to_no_shared_folder(job, tmp_path):  # noqa: F811
    shared = tmp_path / "shared"
    code = PASSING + "\ndef test_option(pytestconfig):\n    print('cache', pytestconfig.getoption('compile_cache'))\n"
    done = job(code, FORK, {"GITHUB_EVENT_NAME": "pull_request"}, cache=str(shared), extra_args="-rP")
    assert "cache None" in done["test"].log
    done = job(code, OWN, {"GITHUB_EVENT_NAME": "pull_request"}, cache=str(shared), extra_args="-rP")
    assert f"cache {shared}" in done["test"].log


def test_a_comment_on_an_issue_is_no_pull_request(tmp_path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"issue": {"number": 1}, "comment": {}}))
    assert not forks.refusal({"GITHUB_EVENT_NAME": "issue_comment", "GITHUB_EVENT_PATH": str(event)}, False)


def test_the_status_of_a_program_is_its_own(tmp_path, monkeypatch):
    for name in strangers.FILES:
        monkeypatch.delenv(name, raising=False)
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    code = "from pathlib import Path; from pytest_torch_compile.action import strangers; import sys; print(strangers.run(sys.argv[1:], Path('.')).returncode)"
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(forks.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "-9"
