"""Each test file in a pytest of its own, several at a time: `python -m tests.stress.alone`.

A file that needs what another one imported, set or left on disk fails here. Options that it does not know go to pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_TESTS = 5  # pytest's exit status where nothing is collected, as where a whole file needs a newer torch


@dataclass(frozen=True)
class Alone:
    """How one file, named from the tests' folder, ended; ``output`` is the end of what a red one printed."""

    file: str
    status: int
    seconds: float
    counts: str
    output: str = ""

    @property
    def green(self) -> bool:
        return self.status in (0, NO_TESTS)


def test_files(folder: Path) -> list[Path]:
    """Every test file, but for the suites of the action's own test, which fail on purpose.

    Those with slow tests come first: the longest takes half an hour, and would run on its own at the end.
    """
    of_action = folder / "action" / "suites"
    files = [file for file in sorted(folder.rglob("test_*.py")) if not file.is_relative_to(of_action)]
    return sorted(files, key=lambda file: "mark.slow" not in file.read_text(encoding="utf-8"))


def run_alone(file: Path, folder: Path, arguments: list[str]) -> Alone:
    """One file in one pytest, in a temporary folder that is its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="alone-") as place:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={place}/tmp", *arguments]
        ended = subprocess.run([*command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (ended.stdout + ended.stderr).splitlines()
    counts = next((line.strip("= ") for line in reversed(lines) if " in " in line and line.startswith("=")), "")
    name, seconds = file.relative_to(folder).as_posix(), round(time.monotonic() - started, 1)
    alone = Alone(name, ended.returncode, seconds, counts)
    return alone if alone.green else replace(alone, output="\n".join(lines[-60:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: the cores)")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="the folder (default: tests)")
    options, arguments = parser.parse_known_args()
    folder = options.tests.resolve()
    files, results = test_files(folder), []
    if not files:
        parser.error(f"no test files in {folder}")
    with ThreadPoolExecutor(options.jobs) as pool:
        for ended in as_completed(pool.submit(run_alone, file, folder, arguments) for file in files):
            alone = ended.result()
            results.append(alone)
            print(
                f"{len(results)}/{len(files)} {alone.file}: {alone.counts or alone.status} {alone.output}", flush=True
            )
            if options.out:  # after each one, so that a run that is cut off leaves what it saw
                in_order = sorted(results, key=lambda alone: alone.file)
                text = json.dumps([asdict(alone) for alone in in_order], indent=1)
                options.out.write_text(text + "\n", encoding="utf-8")
    red = sorted(alone.file for alone in results if not alone.green)
    print(f"{len(results)} files alone, {len(red)} red: {' '.join(red) or '-'}", flush=True)
    return int(bool(red))


if __name__ == "__main__":
    raise SystemExit(main())
