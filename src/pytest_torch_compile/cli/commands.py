"""The command ``pytest-torch-compile``: reports, baselines, two releases of torch, one model, what can be checked."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..baselines import maintenance
from ..baselines.files import BaselineError
from ..disk import write_atomically
from ..report import changes, document, github, html, markdown, render
from ..report.safe_text import terminal
from ..triage.command import add_options
from . import doctor, one_model

_WHAT = "Reports rendered again, merged and compared, stored baselines, and what this machine can check."
# What exit statuses 0 and 1 mean for each command.
STATUSES = {
    "report": ("the report was rendered", ""),
    "merge": ("the merged report has no failure", "the merged report has failures"),
    "compare": ("nothing is worse", "something is worse, or with `--against` a test regressed"),
    "torch": ("nothing new fails", "something new fails, or was not run on the older torch"),
    "baselines": ("the entries were listed or removed", ""),
    "diagnose": ("nothing was found", "something was found"),
    "doctor": ("checks can run here", "something that every check needs is missing"),
}
STATUS_2 = "wrong usage, or the command could not do what it was asked"
FORMATS = ("terminal", "markdown", "html", "github", "json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; exit status 0 for fine, 1 for something worse or missing, 2 for wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["compare"] and any(word.split("=")[0] == "--against" for word in given):
        # What argparse does not know goes to pytest, so the line is not for this parser.
        from ..speed.revisions import main as compare_speed

        return compare_speed([word.removeprefix("--against=") for word in given[1:] if word != "--against"])
    if given[:1] == ["torch"] and not {"-h", "--help"} & {*given}:
        from ..triage.command import main as triage

        return triage(given[1:])
    options = _parser().parse_args(given)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know fewer letters than a report has
    try:
        return int(options.run(options))
    except (document.DocumentError, BaselineError, OSError) as error:
        print(terminal(f"error: {error}"), file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pytest-torch-compile", description=_WHAT)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    report = commands.add_parser("report", help="render a report again")
    report.add_argument("path", type=Path, help="report.json, or the folder it is in")
    report.add_argument("--format", choices=FORMATS, default="terminal", help="what to make (default: terminal)")
    report.add_argument("--output", type=Path, help="file to write to (default: the terminal)")
    report.set_defaults(run=_report)

    merge = commands.add_parser("merge", help="one report of several shards, torch versions or machines")
    merge.add_argument("paths", type=Path, nargs="+", help="reports, or folders they are in")
    merge.add_argument("--output", type=Path, required=True, help="folder to write the merged report to")
    merge.set_defaults(run=_merge)

    compare = commands.add_parser(
        "compare",
        help="what changed between two reports; with --against REF, the speed of this checkout against a revision",
        usage="%(prog)s [-h] [--format {terminal,markdown}] old new\n"
        "       %(prog)s --against REF [--rounds N] [what pytest should run]",
        description="What changed between two reports.",
    )
    compare.add_argument("old", type=Path, help="the earlier report.json, or the folder it is in")
    compare.add_argument("new", type=Path, help="the later one")
    form = "how to print it (default: terminal)"
    compare.add_argument("--format", choices=("terminal", "markdown"), default="terminal", help=form)
    speed = compare.add_argument_group(
        "speed of this checkout against a revision",
        "Both sides compile and run the speed tests in turn, on every GPU of the machine. Needs no baseline. The rest "
        "of the line goes to pytest: tests, and its own options.",
    )
    speed.add_argument("--against", metavar="REF", help="the revision to compare with, such as main or HEAD~1")
    speed.add_argument("--rounds", metavar="N", help="compilations of each side, at most (default: 8)")
    compare.set_defaults(run=_compare)

    both = commands.add_parser(
        "torch",
        help="the tests under two releases of torch: what fails since, grouped by cause",
        description="Run the tests under two releases of torch, and group what fails by its cause. The rest of the "
        "line goes to pytest: tests, and its own options.",
    )
    add_options(both)

    stored = commands.add_parser("baselines", help="list the stored baselines, or remove what no test uses")
    actions = stored.add_subparsers(required=True, metavar="ACTION")
    shown = actions.add_parser("list", help="each environment with its entries")
    shown.set_defaults(run=_list)
    prune = actions.add_parser("prune", help="remove entries that no test uses")
    prune.set_defaults(run=_prune)
    shown.add_argument("--baselines", type=Path, default=Path("baselines"), help="folder (default: baselines)")
    prune.add_argument("--baselines", type=Path, help="folder (default: where pytest stores them)")
    prune.add_argument("--write", action="store_true", help="remove them; without it they are only shown")
    prune.add_argument("tests", nargs="*", help="what pytest should collect (default: what it does by itself)")

    diagnosed = commands.add_parser(
        "diagnose",
        help="one model: what breaks, what recompiles, what it costs, and what helps",
        description="Check a model that has no tests yet: graph breaks, recompiles, results against eager, the cost of "
        "compiling, and what helps.",
    )
    one_model.add_options(diagnosed)
    diagnosed.set_defaults(run=one_model.run)

    examined = commands.add_parser("doctor", help="what this machine can check, and what it cannot and why")
    examined.set_defaults(run=_doctor)
    for name, one in commands.choices.items():
        one.epilog = _statuses(name)
    return parser


def _statuses(command: str) -> str:
    """The last line of a command's help."""
    zero, one = (text.replace("`", "") for text in STATUSES[command])
    return f"Exit status: 0 {zero}; {f'1 {one}; ' if one else ''}2 {STATUS_2}."


def _report(options: argparse.Namespace) -> int:
    text = rendered(document.read(options.path), options.format)
    if options.output:
        write_atomically(options.output, text)
    else:
        print(text, end="" if text.endswith("\n") else "\n")
    return 0


def rendered(report: document.Document, form: str) -> str:
    """A report in one of the forms.

    Raises:
        DocumentError: the page was asked for and Jinja2 is not installed.
    """
    if form == "html" and not html.available():
        raise document.DocumentError("the page needs Jinja2: pip install 'pytest-torch-compile[report]'")
    if form == "github":
        return "".join(annotation.command() + "\n" for annotation in github.ranked(report))
    makers = {"terminal": changes.overview, "markdown": markdown.summary, "html": html.page, "json": document.dumps}
    return makers[form](report)


def _merge(options: argparse.Namespace) -> int:
    # Downloaded artifacts lie in folders of their own.
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
        raise document.DocumentError("--rounds is an option of a comparison with a revision: give --against REF too")
    differences = changes.changes(document.read(options.old), document.read(options.new))
    print((changes.as_markdown if options.format == "markdown" else changes.as_text)(differences))
    return int(any(difference.worse for difference in differences))


def _list(options: argparse.Namespace) -> int:
    lines = maintenance.listing(options.baselines)
    print(*map(terminal, lines or [f"no baselines in {options.baselines}"]), sep="\n")
    return 0


def _prune(options: argparse.Namespace) -> int:
    collection = maintenance.collected(options.tests)
    folder = options.baselines or collection.baselines
    lines = maintenance.prune(folder, collection, write=options.write)
    print(*map(terminal, lines or [f"every entry in {folder} is used"]), sep="\n")
    if lines and not options.write:
        print("nothing was removed; run it again with --write")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    lines = doctor.examine()
    print(*(terminal(str(line)) for line in lines), sep="\n")
    return int(any(line.status == "no" and line.needed for line in lines))
