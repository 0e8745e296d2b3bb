"""The steps of the action, in the order in which they run."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ..disk import write_atomically
from ..report import document, github, markdown, safe_text
from . import forks, runner, strangers
from .environment import Setup, SetupFailed
from .inputs import InputError, Inputs, read
from .shard import VARIABLE as SHARD


def main(arguments: Sequence[str]) -> int:
    """Run one step; an error in the inputs or the environment is reported as an annotation."""
    try:
        return STEPS[arguments[0]](read(os.environ))
    except (InputError, SetupFailed, document.DocumentError, OSError) as error:
        runner.annotate("error", str(error))
        return 2


def guard(inputs: Inputs) -> int:
    """Fail if the code to test comes from a fork and is not safe to run here. Otherwise, set the outputs that later
    steps need. This step runs before any code from the repository.
    """
    if reason := forks.refusal(os.environ, inputs.allow_forks):
        runner.annotate("error", reason)
        return 1
    if not _folder(inputs).is_dir():
        raise InputError(f"input working-directory is {inputs.working_directory!r}, which is not a folder")
    needs_uv = _setup(inputs).existing() is None and shutil.which("uv") is None
    shard = f"-{inputs.shard.replace('/', '-of-')}" if inputs.shard else ""
    outputs = {"artifact": f"{inputs.report_name}{shard}", "report": str(_work("report"))}
    runner.set_outputs({"setup-uv": str(needs_uv).lower(), **outputs})
    return 0


def install(inputs: Inputs) -> int:
    """Find or create the environment, and output the cache key for compiled code."""
    setup = _setup(inputs)
    active = setup.existing()
    chosen = setup.make(_work("environment")) if active is None else setup.complete(active)
    found = f"torch {chosen.torch} in {chosen.python}, pytest-torch-compile {chosen.plugin}"
    runner.say(safe_text.terminal(found))
    system = f"torch-compile-{platform.system()}-{platform.machine()}-{chosen.torch}"
    # Not the runner's name: hosted and ephemeral runners have a new name in each run.
    prefix = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', system)}-{_digest(_job(inputs))}"
    run = f"{os.environ.get('GITHUB_RUN_ID', '0')}-{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
    keys = {"cache-prefix": f"{prefix}-", "cache-key": f"{prefix}-{run}"}
    # A run for a privileged event must not save a cache: it may have run a fork's code, and runs on the main branch
    # would restore this cache.
    kept = str(_work("cache")) if inputs.cache == "true" and not forks.is_privileged(os.environ) else ""
    runner.set_outputs({"python": chosen.python, "cache-path": kept, **keys})
    return 0


def test(inputs: Inputs) -> int:
    """Run pytest, and return the exit status of this step. This status determines whether the action fails; no later
    step can change the status.
    """
    report, last = _work("report"), _work("cache") / document.FILE_NAME
    shutil.rmtree(report, ignore_errors=True)
    report.mkdir(parents=True)
    if inputs.cache == "true" and last.exists():
        shutil.copy(last, report)  # the new report continues this report's history
    path = report / document.FILE_NAME
    before = path.stat().st_mtime_ns if path.exists() else 0
    command = [os.environ["TORCH_COMPILE_PYTHON"], "-m", "pytest", *pytest_arguments(inputs)]
    done = strangers.run(command, _folder(inputs), {SHARD: inputs.shard} if inputs.shard else None)
    if path.exists() and path.stat().st_mtime_ns == before:  # pytest wrote no report: this is the old report
        path.unlink()
    if done.returncode == 5 and inputs.shard:
        runner.say("this shard has no tests")
        return 0
    if done.returncode == 5:
        runner.annotate("error", ("pytest found no tests, so this step fails: check the test paths"))
    # Any module that the tests import can end pytest with status 0, so a missing report is an error.
    return done.returncode or (0 if path.exists() else 3)


def pytest_arguments(inputs: Inputs) -> list[str]:
    """Return the arguments for pytest. Only the input ``extra-args`` can add options."""
    # Compiled code from a fork must not be written to a folder or bucket that other runs read.
    kept = "false" if forks.is_fork(os.environ) and inputs.cache != "true" else inputs.cache
    cache = {"true": str(_work("cache") / f"inductor-{_digest(_cpu())}"), "false": ""}.get(kept, kept)
    perf = "" if inputs.perf == "off" else inputs.perf
    values = {"report": str(_work("report")), "cache": cache, "perf": perf, "plan": inputs.plan}
    values["baselines"] = inputs.baselines
    arguments = [f"--compile-{name}={value}" for name, value in values.items() if value]
    arguments += ["--compile-update-baselines"] if inputs.update_baselines else []
    arguments += ["-p", f"{__package__}.shard"] if inputs.shard else []
    arguments += ["-k", inputs.select] if inputs.select else []
    return [*arguments, *inputs.extra_args, *inputs.tests]


def compare(inputs: Inputs) -> int:
    """If the input ``compare-with`` is set, compare the speed of this checkout with the speed of another revision. If
    the input ``plan`` is also set, and there is no CUDA device, compare planned counts instead.
    """
    if not inputs.compare_with or _left_to_first_shard(inputs, "comparison of revisions"):
        return 0
    folder = _folder(inputs)
    revision = _fetched(inputs.compare_with, folder)
    python = os.environ["TORCH_COMPILE_PYTHON"]
    plan = [f"--compile-plan={inputs.plan}"] if inputs.plan else []
    command = [python, "-m", "pytest_torch_compile.cli", "compare", "--against", revision, *plan]
    done = strangers.run([*command, *_selection(inputs)], folder, capture=True)
    text = done.stdout.decode("utf-8", "replace")
    write_atomically(_work("report") / "compare.txt", text)
    shown = "\n".join(safe_text.markdown_block(text.splitlines()[-200:]))
    runner.add_summary(f"## Comparison with {safe_text.markdown_code(inputs.compare_with)}\n\n{shown}\n\n")
    return done.returncode


def releases(inputs: Inputs) -> int:
    """If the input ``torch-old`` is set, also run the tests under this older torch release, and report failures that
    occur only under the newer release.
    """
    if not inputs.torch_old or _left_to_first_shard(inputs, "comparison of torch releases"):
        return 0
    folder, output, python = _folder(inputs), _work("report"), os.environ["TORCH_COMPILE_PYTHON"]
    options = ["--old", inputs.torch_old, "--new", python, "--output", str(output)]
    options += [f"--install=-e .[{inputs.extras.replace(' ', '')}]"] if inputs.extras else []
    command = [python, "-m", "pytest_torch_compile.cli", "torch", *options, *_selection(inputs)]
    # The environment is not kept for later jobs, because it is created from this checkout.
    done = strangers.run(command, folder, {"XDG_CACHE_HOME": str(_work("environments"))})
    if (page := output / "triage.md").exists():
        fits = page.stat().st_size < runner.summary_room() // 2  # leave space for the report
        runner.add_summary(
            page.read_text(encoding="utf-8")
            if fits
            else "For the comparison of torch releases, see triage.md in the artifact.\n"
        )
    return done.returncode


def _selection(inputs: Inputs) -> list[str]:
    """Return the arguments that select the tests of a comparison, for a command that passes them to pytest."""
    # A single argument, which cannot add another option.
    select = [f"-k{inputs.select}"] if inputs.select else []
    return [*select, *inputs.extra_args, *inputs.tests]


def _left_to_first_shard(inputs: Inputs, what: str) -> bool:
    """Return whether another shard makes a comparison. The first shard compares all tests, because the two sides of a
    comparison can have different tests, and would be split differently.
    """
    if not inputs.shard or int(inputs.shard.partition("/")[0]) == 1:
        return False
    runner.say(f"shard 1 makes the {what}, for all tests")
    return True


def _fetched(revision: str, folder: Path) -> str:
    """Return the commit hash of a revision. If the checkout does not contain the revision, fetch it first."""
    for attempt in (revision, "FETCH_HEAD"):
        command = ["git", "rev-parse", "--verify", "--quiet", f"{attempt}^{{commit}}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
        subprocess.run(["git", "fetch", "--depth=1", "origin", revision], cwd=folder, capture_output=True, check=False)
    raise InputError(f"input compare-with is {revision!r}, which is not a revision of this repository")


def publish(inputs: Inputs) -> int:
    """Write the summary, annotations and outputs, and keep the report, so that the next run can continue the report's
    history.
    """
    report = _work("report")
    path, page = report / document.FILE_NAME, report / "report.html"
    if not path.exists():
        runner.add_summary("## torch.compile: no report\n\nThe run ended before a report was written; see the log.\n")
        runner.annotate("error", "The run ended before a report was written")
        runner.set_outputs({"result": "error", "regressions": "0", "report-path": "", "json-path": "", "speedup": ""})
        return 0
    written = document.read(path)
    runner.add_summary(markdown.summary(written, runner.summary_room()))
    if inputs.annotations:
        folder = Path(inputs.working_directory).as_posix()
        for annotation in github.ranked(written, "" if folder == "." else folder):
            runner.say(annotation.command())
    summary = written["summary"]
    # Tests can write to the report, so the report must not turn a failed step into a success.
    failed = os.environ.get("TORCH_COMPILE_OUTCOME") != "success"
    runner.set_outputs(
        {
            "result": "error" if failed and summary["result"] in ("passed", "empty") else summary["result"],
            "regressions": str(summary["regressions"]),
            "report-path": str(page if page.exists() else report / "summary.md"),
            "json-path": str(path),
            "speedup": f"{summary['speedup']:.4f}" if summary["speedup"] else "",
        }
    )
    if inputs.cache == "true":
        _work("cache").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, _work("cache"))
    return 0


def _setup(inputs: Inputs) -> Setup:
    return Setup(inputs, Path(__file__).resolve().parents[3], _folder(inputs))


def _folder(inputs: Inputs) -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE", ".")) / inputs.working_directory


def _job(inputs: Inputs) -> list[str]:
    """Return what tells this use of the action apart from others in the repository, but is the same in each run."""
    workflow = [os.environ.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB")]
    return [*workflow, inputs.working_directory, inputs.report_name, inputs.shard]


def _cpu() -> list[str]:
    """Return a description of the instructions that this machine's CPU supports."""
    # Inductor compiles C++ code with -march=native, but its cache key does not contain all instructions of the CPU.
    about = Path("/proc/cpuinfo")
    lines = about.read_text(errors="replace").splitlines() if about.exists() else []
    return [platform.processor(), *[line for line in lines if re.match(r"(flags|Features)\s*:", line)][:1]]


def _digest(parts: Sequence[str]) -> str:
    # Of fixed length, so that no key starts with the prefix of another job.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _work(name: str) -> Path:
    return Path(os.environ["RUNNER_TEMP"]) / "torch-compile" / name


STEPS: dict[str, Callable[[Inputs], int]] = {
    "guard": guard,
    "install": install,
    "test": test,
    "compare": compare,
    "releases": releases,
    "publish": publish,
}
