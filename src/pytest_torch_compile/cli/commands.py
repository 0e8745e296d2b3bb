"""The command ``pytest-torch-compile`` and its subcommands."""

from __future__ import annotations

import argparse
import io
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .. import __version__
from ..baselines import maintenance
from ..baselines.files import BaselineError
from ..disk import write_atomically
from ..report import changes, document, github, html, markdown, render
from ..report.safe_text import terminal
from ..triage.command import add_options
from . import doctor, one_model

_WHAT = "Process reports and stored baselines, compare torch releases, check a model, and inspect this machine."
# Maps each command to the meanings of exit statuses 0 and 1.
STATUSES = {
    "report": ("the report was rendered", ""),
    "merge": ("the merged report has no failures", "the merged report has failures"),
    "compare": (
        "nothing got worse",
        "a result got worse, the new run did not finish, or (with `--against`) a test regressed or fails only in this "
        "checkout",
    ),
    "torch": (
        "there are no new failures",
        "there are new failures, or failures in tests that did not run on the older torch version",
    ),
    "baselines": ("the entries were listed or removed", ""),
    "diagnose": ("there are no findings", "there are findings"),
    "doctor": ("checks can run on this machine", "something that every check requires is missing"),
}
STATUS_2 = "the arguments were invalid, or the command could not be completed"
FORMATS = ("terminal", "markdown", "html", "github", "json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status. ``STATUSES`` and ``STATUS_2`` contain the meaning of each status;
    after Ctrl-C, the status is 130, and after SIGTERM 143, as in a shell.
    """
    try:
        with _ended_in_order():
            return _run(list(sys.argv[1:] if arguments is None else arguments))
    except _Terminated:
        print("terminated", file=sys.stderr)
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


class _Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, so that a command ends in the same way as on Ctrl-C: children are terminated, and temporary
    files and git worktrees are removed.
    """


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Raise ``_Terminated`` on SIGTERM inside the ``with`` block, unless another handler is installed."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, _: object) -> None:
        # `timeout` and some CI runners send a second signal to the whole process group. It must not interrupt the
        # cleanup, nor end the git process that removes a worktree, which inherits this setting.
        signal.signal(number, signal.SIG_IGN)
        raise _Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(given: list[str]) -> int:
    if given[:1] == ["compare"] and any(word.split("=")[0] == "--against" for word in given):
        # Unknown arguments are passed to pytest, so _parser() must not parse this command line.
        from ..speed.revisions import main as compare_speed

        return compare_speed(given[1:])
    if given[:1] == ["torch"] and not {"-h", "--help"} & {*given}:
        from ..triage.command import main as triage

        return triage(given[1:])
    options = _parser().parse_args(given)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not support all characters in a report
    try:
        return int(options.run(options))
    except (document.DocumentError, BaselineError, OSError) as error:
        print(terminal(f"error: {error}"), file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pytest-torch-compile", description=_WHAT)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    report = commands.add_parser("report", help="render a report in another format")
    report.add_argument("path", type=Path, help="report.json, or the folder that contains it")
    report.add_argument("--format", choices=FORMATS, default="terminal", help="output format (default: terminal)")
    report.add_argument("--output", type=Path, help="output file (default: the terminal)")
    report.set_defaults(run=_report)

    merge = commands.add_parser("merge", help="merge the reports of several shards, torch versions or machines")
    merge.add_argument("paths", type=Path, nargs="+", help="reports, or the folders that contain them")
    merge.add_argument("--output", type=Path, required=True, help="folder for the merged report")
    merge.set_defaults(run=_merge)

    compare = commands.add_parser(
        "compare",
        help="compare two reports or, with --against REF, compare the speed of two revisions",
        usage="%(prog)s [-h] [--format {terminal,markdown}] old new\n       %(prog)s --against REF [--rounds N] "
        "[pytest arguments]",
        description="Compare two reports.",
    )
    compare.add_argument("old", type=Path, help="the earlier report.json, or the folder that contains it")
    compare.add_argument("new", type=Path, help="the later report.json, or the folder that contains it")
    form = "output format (default: terminal)"
    compare.add_argument("--format", choices=("terminal", "markdown"), default="terminal", help=form)
    speed = compare.add_argument_group(
        "compare the speed of this checkout with the speed of another revision",
        "The speed tests of both revisions are compiled and run alternately, on every GPU of the machine. No baseline "
        "is needed. All other arguments are passed to pytest. On a machine without a CUDA device, "
        "--compile-plan=GPU measures nothing. Instead, Inductor generates code for this GPU, and the number of kernels "
        "and other counts of this code are compared.",
    )
    speed.add_argument("--against", metavar="REF", help="revision to compare with, such as main or HEAD~1")
    speed.add_argument("--rounds", metavar="N", help="maximum number of compilations of each revision (default: 8)")
    compare.set_defaults(run=_compare)

    both = commands.add_parser(
        "torch",
        help="run the tests under two torch releases and group the failures by cause",
        description="Run the tests under two torch releases and group the failures by cause. All other arguments are "
        "passed to pytest.",
    )
    add_options(both)

    stored = commands.add_parser("baselines", help="list the baselines, or remove unused entries")
    actions = stored.add_subparsers(required=True, metavar="ACTION")
    shown = actions.add_parser("list", help="list each baseline file with its number of entries")
    shown.set_defaults(run=_list)
    prune = actions.add_parser("prune", help="list entries that no test uses; with --write, remove them")
    prune.set_defaults(run=_prune)
    shown.add_argument(
        "--baselines", type=Path, default=Path("baselines"), help="baselines folder (default: baselines)"
    )
    prune.add_argument("--baselines", type=Path, help="baselines folder (default: the folder that pytest uses)")
    prune.add_argument("--write", action="store_true", help="remove the entries instead of only listing them")
    prune.add_argument("tests", nargs="*", help="tests that pytest should collect (default: all)")

    diagnosed = commands.add_parser(
        "diagnose",
        help="check one model: graph breaks, recompiles, cost, and fixes",
        description="Check a model that has no tests yet, and report graph breaks, recompiles, differences from "
        "eager, the cost of compilation, and verified fixes.",
    )
    one_model.add_options(diagnosed)
    diagnosed.set_defaults(run=one_model.run)

    examined = commands.add_parser(
        "doctor", help="show which checks are available on this machine, and why others are not"
    )
    examined.set_defaults(run=doctor.run)
    for name, one in commands.choices.items():
        zero, other = (text.replace("`", "") for text in STATUSES[name])
        one.epilog = f"Exit status 0: {zero}; {f'1: {other}; ' if other else ''}2: {STATUS_2}."
    return parser


def _report(options: argparse.Namespace) -> int:
    text = rendered(document.read(options.path), options.format)
    if options.output:
        write_atomically(options.output, text)
    else:
        print(text, end="" if text.endswith("\n") else "\n")
    return 0


def rendered(report: document.Document, form: str) -> str:
    """Return the report in one of the output formats.

    Raises:
        DocumentError: If the HTML page is requested but Jinja2 is not installed.
    """
    if form == "html" and not html.available():
        raise document.DocumentError("the HTML page needs Jinja2: pip install 'pytest-torch-compile[report]'")
    if form == "github":
        return "".join(annotation.command() + "\n" for annotation in github.ranked(report))
    makers = {"terminal": changes.overview, "markdown": markdown.summary, "html": html.page, "json": document.dumps}
    return makers[form](report)


def _merge(options: argparse.Namespace) -> int:
    # Each downloaded artifact is in a separate folder.
    paths = [
        path
        for given in options.paths
        for path in (sorted(given.rglob(document.FILE_NAME)) if given.is_dir() else [given])
    ]
    if not paths:
        raise document.DocumentError(f"no {document.FILE_NAME} in {', '.join(map(str, options.paths))}")
    merged = document.merge([document.read(path) for path in paths])
    written = render.write_all(merged, options.output)
    print(terminal(f"{len(paths)} reports merged into {written}: {merged['summary']['result']}"))
    return int(merged["summary"]["result"] in ("failed", "error"))


def _compare(options: argparse.Namespace) -> int:
    if options.rounds:
        raise document.DocumentError("--rounds needs --against REF")
    differences = changes.changes(document.read(options.old), document.read(options.new))
    print((changes.as_markdown if options.format == "markdown" else changes.as_text)(differences))
    return int(any(difference.worse for difference in differences))


def _list(options: argparse.Namespace) -> int:
    lines = maintenance.listing(options.baselines)
    print(*map(terminal, lines or [f"no baselines in {options.baselines}"]), sep="\n")
    return 2 if maintenance.problems(options.baselines) else 0


def _prune(options: argparse.Namespace) -> int:
    collection = maintenance.collected(options.tests)
    folder = options.baselines or collection.baselines
    if not folder.is_dir():
        print(terminal(f"no baselines in {folder}"))
        return 0
    lines, problems = maintenance.prune(folder, collection, write=options.write), maintenance.problems(folder)
    print(*map(terminal, [*problems, *lines] or [f"all entries in {folder} are used"]), sep="\n")
    if lines and not options.write:
        print("nothing was removed; run the command again with --write to remove these entries")
    return 2 if problems else 0
