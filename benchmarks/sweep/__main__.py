"""Check real models on several torch versions (the sweep). Use `run FILE` in each environment, and then `page FILE...
-o PAGE`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from . import page, store
from .drive import Drive, SweepError

DATA = Path(__file__).parent / "data"
PAGE = Path("docs/compatibility.md")


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Returns 1 if it fails."""
    options = parser().parse_args(arguments)
    try:
        return int(options.do(options) or 0)
    except (SweepError, store.StoreError) as error:
        print(error, file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    commands = made.add_subparsers(required=True)
    run = commands.add_parser("run", help="run the cases that have no result yet")
    run.add_argument("store", type=Path, help="the JSON document of this torch version")
    run.add_argument("--only", default="", help="only cases whose name matches this regular expression")
    run.add_argument("--limit", type=float, default=300, help="time limit for one case in seconds")
    run.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no more cases are started")
    run.set_defaults(do=do_run)
    work = commands.add_parser("work", help="the worker that `run` starts")
    work.add_argument("only")
    work.add_argument("store", type=Path)
    work.add_argument("events", type=Path)
    work.set_defaults(do=do_work)
    write = commands.add_parser("page", help="write the page")
    write.add_argument("stores", type=Path, nargs="*", help=f"the documents (default: those in {DATA.name}/)")
    write.add_argument("-o", "--output", type=Path, default=PAGE)
    write.set_defaults(do=do_page)
    return made


def do_run(options: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "benchmarks.sweep", "work", options.only]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no worker outlives this process
    Drive(options.store, command, options.limit, options.budget, say=lambda text: print(text, flush=True)).run()


def do_work(options: argparse.Namespace) -> None:
    from .worker import work

    work(options.store, options.events, options.only)


def do_page(options: argparse.Namespace) -> None:
    documents = [store.read(path) for path in options.stores or sorted(DATA.glob("torch-*.json"))]
    page.write(documents, options.output)
    print(options.output)


if __name__ == "__main__":
    raise SystemExit(main())
