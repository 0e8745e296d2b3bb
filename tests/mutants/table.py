"""What the rows of a mutation test say: counts, shares, survivors, false alarms, and the rivals on the same runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

RIVALS = ("checker", "same", "assert_close")
USABLE = ("killed", "survived", "below rounding")


def summary(rows: Sequence[Any]) -> dict[str, Any]:
    """The counts that are printed and written."""
    mutants = [row for row in rows if row.kind]
    honest = [row for row in rows if not row.kind and row.verdict != "broken"]
    usable = [row for row in mutants if row.verdict in USABLE]
    above = [row for row in usable if row.verdict != "below rounding"]
    return {
        "mutants": len(mutants),
        "verdicts": dict(Counter(row.verdict for row in mutants)),
        "killed, of the non-equivalent": _kills("checker", usable),
        "killed, of those not below rounding": _kills("checker", above),
        "kills": {rival: f"{_kills(rival, usable)}; {_kills(rival, above)}" for rival in RIVALS},
        "honest checks": len(honest),
        "false alarms": {rival: sum(rival not in row.passed_by for row in honest) for rival in RIVALS},
        "by kind": _verdicts_by(mutants, "kind"),
        "by dtype": _verdicts_by(mutants, "dtype"),
        "by model": _verdicts_by(mutants, "model"),
        "honest by dtype": _verdicts_by(honest, "dtype"),
        "broken": [row.findings[0] for row in rows if row.verdict == "broken"],
    }


def _kills(rival: str, rows: Sequence[Any]) -> str:
    return share(sum(rival not in row.passed_by for row in rows), len(rows))


def _verdicts_by(rows: Sequence[Any], name: str) -> dict[str, dict[str, int]]:
    values = sorted({getattr(row, name) for row in rows})
    return {value: dict(Counter(row.verdict for row in rows if getattr(row, name) == value)) for value in values}


def share(part: int, whole: int) -> str:
    """``99 of 100 (99.00%)``."""
    return f"{part} of {whole} ({100 * part / whole:.2f}%)" if whole else "0 of 0"


def report(rows: Sequence[Any]) -> Iterator[str]:
    """The summary, every mutant that was not killed and every false alarm, as lines."""
    for name, value in summary(rows).items():
        if isinstance(value, dict):
            yield f"{name}:"
            yield from (f"  {key:24} {_plain(count)}" for key, count in value.items())
        else:
            yield f"{name}: {value}"
    for row in rows:
        place = f"{row.model} {row.dtype} {'training' if row.train else 'inference'} seed {row.seed}"
        if row.verdict in ("survived", "below rounding"):
            yield (
                f"{row.verdict}: {place}: {row.mutation}, {row.ratio:.3g} of the limit, "
                f"in fp64 {row.signal:.3g} of eager's own error"
            )
        if row.verdict == "false alarm":
            yield f"false alarm: {place}: {row.findings}"


def _plain(count: Any) -> str:
    return ", ".join(f"{number} {verdict}" for verdict, number in count.items()) if isinstance(count, dict) else count
