"""Create the stored part of a run's results, and the page that is generated from it:
`python -m libraries.summary RESULTS FILE`.

The results contain everything that the plugin and the oracle report, including paths of the machine. The file in the
repository contains only the findings and differences.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import verdicts

DATA = Path(__file__).parent / "data"
PLANTED = "planted"
ONE_RECOMPILE = "recompiles: 1"
# The path up to the folder in which packages are installed.
INSTALLED = re.compile(r"/[\w./+-]*?/(?:site-packages|[\w.-]+-site)/")
# A tensor as a key, from its class to the end of the shortened text.
OF_A_REPR = re.compile(r" containing: Parameter\(.*")
OWN = re.compile(r"/[\w./+-]*?/(?=libraries/(?:packages/)?\w+\.py)")


def kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """The run without details that matter only on the machine that ran it."""
    return {
        "environment": document["environment"],
        "packages": {
            name: {
                "version": package["version"],
                "checks": {task: entry(words) for task, words in package["checks"].items()},
            }
            for name, package in document["packages"].items()
        },
    }


def entry(check: Mapping[str, Any]) -> dict[str, Any]:
    """One check: the real findings, and the aspects in which the plugin's report differs."""
    differ = verdicts.compared(check["product"], check["oracle"])
    usable = verdicts.UNUSABLE not in differ.values()
    found = [portable(what) for what in verdicts.findings(check["oracle"])] if usable else []
    return {**({"found": found} if found else {}), **({"differ": differ} if differ else {})}


def portable(text: str) -> str:
    """A finding without the machine's paths and addresses, and without the values of tensors, in one line."""
    text = " ".join(OWN.sub("", INSTALLED.sub("", text)).split())
    return OF_A_REPR.sub("", re.sub(r" at 0x[0-9a-f]+", "", text))


@dataclass(frozen=True)
class Row:
    """The numbers for one package on one torch version."""

    package: str
    version: str
    targets: int
    checks: int
    agree: int
    findings: int
    crashes: int
    false_alarms: int
    misses: int

    @classmethod
    def of(cls, name: str, package: Mapping[str, Any]) -> Row:
        checks = {task: check for task, check in package["checks"].items() if not unusable(check)}
        said = [set(check.get("differ", {}).values()) for check in checks.values()]
        return cls(
            name,
            package["version"],
            len({task.rpartition(" ")[0] for task in checks}),
            len(checks),
            sum(not ways for ways in said),
            sum(bool(notable(check)) for check in checks.values()),
            sum(verdicts.CRASH in ways for ways in said),
            sum(verdicts.FALSE_ALARM in ways for ways in said),
            sum(verdicts.MISS in ways for ways in said),
        )


def unusable(check: Mapping[str, Any]) -> bool:
    return verdicts.UNUSABLE in check.get("differ", {}).values()


def notable(check: Mapping[str, Any]) -> list[str]:
    """The findings, without a single recompile, because automatic dynamic shapes cause one recompile when a size
    changes.
    """
    return [what for what in check.get("found", ()) if what != ONE_RECOMPILE]


def documents() -> list[dict[str, Any]]:
    """The runs stored in the repository, oldest torch version first."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in DATA.glob("torch-*.json")]
    return sorted(read, key=lambda one: [int(part) for part in one["environment"]["torch"].split(".")])


def page(kept_documents: Iterable[Mapping[str, Any]] | None = None) -> str:
    """The tables and the findings, in Markdown."""
    parts: list[str] = []
    for document in documents() if kept_documents is None else kept_documents:
        parts += [f"## torch {document['environment']['torch']}", table(document), planted_line(document)]
        parts += ["### What was found", found_list(document)]
    return "\n\n".join(part for part in parts if part)


def table(document: Mapping[str, Any]) -> str:
    rows = [Row.of(name, package) for name, package in sorted(document["packages"].items()) if name != PLANTED]
    heads = ("package", "targets", "checks", "both agree", "with findings", "crashes", "false alarms", "misses")
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        figures = (row.targets, row.checks, row.agree, row.findings, row.crashes, row.false_alarms, row.misses)
        lines.append(f"| {row.package} {row.version} | " + " | ".join(map(str, figures)) + " |")
    columns = ("targets", "checks", "agree", "findings", "crashes", "false_alarms", "misses")
    sums = [sum(getattr(row, column) for row in rows) for column in columns]
    lines.append(f"| all {len(rows)} | " + " | ".join(map(str, sums)) + " |")
    return "\n".join(lines)


def planted_line(document: Mapping[str, Any]) -> str:
    checks = document["packages"].get(PLANTED, {}).get("checks", {})
    missed = [task for task, check in checks.items() if "planted defect" in check.get("differ", {})]
    more = f" Missed: {', '.join(missed)}." if missed else ""
    return f"Planted defects: {len(checks)}, found: {len(checks) - len(missed)}.{more}" if checks else ""


def found_list(document: Mapping[str, Any]) -> str:
    """One line for each finding, with the targets that show it."""
    lines: list[str] = []
    for name, package in sorted(document["packages"].items()):
        same: dict[str, list[str]] = {}
        for task, check in package["checks"].items() if name != PLANTED else ():
            for what in notable(check):
                what = "more than one recompile" if what.startswith("recompiles:") else what
                same.setdefault(what, []).append(task.rpartition(" ")[0])
        lines += [
            f"- {name}: {escaped(what)} ({shortened(dict.fromkeys(targets))})" for what, targets in sorted(same.items())
        ]
    return "\n".join(lines)


def shortened(targets: Iterable[str], most: int = 4) -> str:
    names = list(targets)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


def escaped(text: str) -> str:
    return re.sub(r"([\\*_<>|\[\]])", r"\\\1", text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m libraries.summary", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    document = kept(json.loads(options.results.read_text(encoding="utf-8")))
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
