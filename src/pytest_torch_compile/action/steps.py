"""The steps of the action, in the order in which they run."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ..disk import write_atomically
from ..report import document, github, markdown
from . import environment, forks, runner
from .inputs import VARIABLE as INPUTS
from .inputs import InputError, Inputs, read
from .shard import VARIABLE as SHARD


def main(arguments: Sequence[str]) -> int:
    """Run one step; what is wrong with the inputs or the environment is one annotation."""
    if arguments[0] == "gate" and not os.environ.get("TORCH_COMPILE_STATUS", "").isdigit():
        runner.say("an earlier step failed")
        return 1
    try:
        return STEPS[arguments[0]](read(os.environ))
    except (InputError, environment.SetupFailed, document.DocumentError, OSError) as error:
        runner.annotate("error", str(error))
        return 2


def guard(inputs: Inputs) -> int:
    """Refuse what must not run here, before anything of the repository does."""
    if reason := forks.refusal(os.environ, inputs.allow_forks):
        runner.annotate("error", reason)
        return 1
    if not _folder(inputs).is_dir():
        raise InputError(f"input working-directory is {inputs.working_directory!r}, which is no folder")
    needs_environment = environment.existing(inputs, _variables(), _folder(inputs)) is None
    needs_uv = needs_environment and shutil.which("uv") is None
    runner.set_outputs({"setup-uv": str(needs_uv).lower(), "artifact": _artifact(inputs), "report": str(_report())})
    return 0


def install(inputs: Inputs) -> int:
    """Find or make the environment, and say under which key its compiled code is kept."""
    folder, action = _folder(inputs), Path(__file__).resolve().parents[3]
    found = environment.existing(inputs, _variables(), folder)
    if found is None:
        found = environment.make(inputs, action, _work() / "environment", _variables(), folder)
    else:
        found = environment.complete(found, inputs, action, _variables(), folder)
    runner.say(f"torch {found.torch} in {found.python}, pytest-torch-compile {found.plugin}")
    parts = ["torch-compile", platform.system(), platform.machine(), found.torch, os.environ.get("RUNNER_NAME", "")]
    prefix = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join([*parts, inputs.shard])).strip("-")
    run = f"{os.environ.get('GITHUB_RUN_ID', '0')}-{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
    kept = str(_work() / "cache") if inputs.cache == "true" else ""
    outputs = {"python": found.python, "cache-path": kept, "cache-prefix": f"{prefix}-", "cache-key": f"{prefix}-{run}"}
    runner.set_outputs(outputs)
    return 0


def test(inputs: Inputs) -> int:
    """Run pytest. Its status is an output: the job's colour is decided by the last step."""
    _recall(inputs)
    command = [os.environ["TORCH_COMPILE_PYTHON"], "-m", "pytest", *pytest_arguments(inputs)]
    variables = _variables() | ({SHARD: inputs.shard} if inputs.shard else {})
    before = _stamp()
    with runner.commands_off():
        done = subprocess.run(command, cwd=_folder(inputs), env=variables, check=False)
    if _stamp() == before:  # what lies there is the last run's
        (_report() / document.FILE_NAME).unlink(missing_ok=True)
    runner.set_outputs({"status": str(done.returncode)})
    return 0


def pytest_arguments(inputs: Inputs) -> list[str]:
    """What pytest is told. Each input is one word, so that none can become an option of its own."""
    arguments = [f"--compile-report={_report()}"]
    if cache := _cache(inputs):
        arguments.append(f"--compile-cache={cache}")
    if inputs.perf != "off":
        arguments.append(f"--compile-perf={inputs.perf}")
    if inputs.baselines:
        arguments.append(f"--compile-baselines={inputs.baselines}")
    if inputs.update_baselines:
        arguments.append("--compile-update-baselines")
    if inputs.shard:
        arguments += ["-p", f"{__package__}.shard"]
    if inputs.select:
        arguments += ["-k", inputs.select]
    return [*arguments, *inputs.extra_args, *inputs.tests]


def compare(inputs: Inputs) -> int:
    """Compare the speed with a revision, where that was asked for."""
    if not inputs.compare_with:
        return 0
    folder = _folder(inputs)
    revision = _fetched(inputs.compare_with, folder)
    tests = inputs.tests or (".",)
    command = [
        os.environ["TORCH_COMPILE_PYTHON"],
        "-m",
        "pytest_torch_compile.cli",
        "compare",
        "--against",
        revision,
    ]
    with runner.commands_off():
        done = subprocess.run([*command, *tests], cwd=folder, env=_variables(), check=False, stdout=subprocess.PIPE)
        text = done.stdout.decode("utf-8", "replace")
        runner.say(text)
    write_atomically(_report() / "compare.txt", text)
    shown = "\n".join(markdown.fenced(text.splitlines()[-200:]))
    runner.add_summary(f"## Speed against {markdown.code(inputs.compare_with)}\n\n{shown}\n\n")
    runner.set_outputs({"status": str(done.returncode)})
    return 0


def _fetched(revision: str, folder: Path) -> str:
    """The commit of a revision, fetched where the checkout is shallow."""
    for attempt in (revision, "FETCH_HEAD"):
        command = ["git", "rev-parse", "--verify", "--quiet", f"{attempt}^{{commit}}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
        subprocess.run(["git", "fetch", "--depth=1", "origin", revision], cwd=folder, capture_output=True, check=False)
    raise InputError(f"input compare-with is {revision!r}, which is no revision of this repository")


def publish(inputs: Inputs) -> int:
    """Write the summary, the annotations and the outputs of the action; keep the report for the next run's history."""
    path = _report() / document.FILE_NAME
    if not path.exists():
        runner.add_summary("## torch.compile: no report\n\nThe run ended before a report was written; see the log.\n")
        runner.annotate("error", "The run ended before a report was written")
        runner.set_outputs({"result": "error", "regressions": "0", "report-path": "", "json-path": "", "speedup": ""})
        return 0
    made = document.read(path)
    runner.add_summary(markdown.summary(made, runner.summary_room()))
    if inputs.annotations:
        for annotation in github.ranked(made, _prefix(inputs)):
            runner.say(annotation.command())
    page, speedup = _report() / "report.html", made["summary"]["speedup"]
    runner.set_outputs(
        {
            "result": made["summary"]["result"],
            "regressions": str(made["summary"]["regressions"]),
            "report-path": str(page if page.exists() else _report() / "summary.md"),
            "json-path": str(path),
            "speedup": f"{speedup:.4f}" if speedup else "",
        }
    )
    if inputs.cache == "true":
        shutil.copy(path, _remembered())
    return 0


def gate(inputs: Inputs) -> int:
    """The job's colour, after everything was published."""
    status, compared = os.environ["TORCH_COMPILE_STATUS"], os.environ.get("TORCH_COMPILE_COMPARED", "")
    if status == "5" and inputs.shard:
        runner.say("this shard has no tests")
        status = "0"
    if status == "5":
        runner.annotate("error", "pytest found no tests: a gate without tests would always be open")
    return int(status) or int(compared or 0)


def _variables() -> dict[str, str]:
    """The environment for other programs, without the inputs."""
    return {name: value for name, value in os.environ.items() if name != INPUTS}


def _folder(inputs: Inputs) -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE", ".")) / inputs.working_directory


def _prefix(inputs: Inputs) -> str:
    folder = Path(inputs.working_directory).as_posix()
    return "" if folder == "." else folder


def _work() -> Path:
    return Path(os.environ["RUNNER_TEMP"]) / "torch-compile"


def _report() -> Path:
    return _work() / "report"


def _remembered() -> Path:
    kept = _work() / "cache"
    kept.mkdir(parents=True, exist_ok=True)
    return kept / document.FILE_NAME


def _recall(inputs: Inputs) -> None:
    """Start from an empty folder, with the last run's report where its history is looked for."""
    shutil.rmtree(_report(), ignore_errors=True)
    _report().mkdir(parents=True)
    if inputs.cache == "true" and _remembered().exists():
        shutil.copy(_remembered(), _report())


def _stamp() -> int:
    path = _report() / document.FILE_NAME
    return path.stat().st_mtime_ns if path.exists() else 0


def _cache(inputs: Inputs) -> str:
    if inputs.cache == "false":
        return ""
    return str(_work() / "cache" / "inductor") if inputs.cache == "true" else inputs.cache


def _artifact(inputs: Inputs) -> str:
    return f"{inputs.report_name}-{inputs.shard.replace('/', '-of-')}" if inputs.shard else inputs.report_name


STEPS: dict[str, Callable[[Inputs], int]] = {
    "guard": guard,
    "install": install,
    "test": test,
    "compare": compare,
    "publish": publish,
    "gate": gate,
}
