"""Runs under two agents of torchrun, one process of which is killed at a random moment: `python -m tests.stress.launched`.

The victim is an agent, a test process or a rank. Counted is what has not ended a minute later, and which runs end without a
line that says so. Of a test process that is killed before it has met the other one, that one cannot know: it waits longer.
Needs /proc, so Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from pytest_torch_compile.ranks.failures import processes_with
from pytest_torch_compile.ranks.launched import START_SECONDS
from tests.ranks.test_launched import Agents

END_SECONDS = 60.0
RUN_SECONDS = 40.0
LINES = (
    "its launcher has exited",
    "the launcher terminated this run",
    "the store that",
    "cannot reach the other ranks",
    "did not start",
    "nothing was received from it",
    "was killed by",
)


def one_kill(moments: random.Random) -> dict[str, Any]:
    """One run, with one kill; what it left."""
    with tempfile.TemporaryDirectory(prefix="stress-") as place:
        agents = Agents(Path(place))
        try:
            # Until both agents have met, torchrun waits for the other one for minutes, with or without tests.
            while [kind_of(pid) for pid in processes_with(agents.token)].count("test process") < 2:
                time.sleep(0.5)
            time.sleep(moments.uniform(0, RUN_SECONDS))
            started = all((agents.folder / f"waits-{rank}").exists() for rank in range(2))
            # A rank that dies earlier costs its test only, and the run goes on.
            running = [pid for pid in processes_with(agents.token) if started or kind_of(pid) != "rank"]
            # It ignores SIGTERM, and no test needs it.
            running = [pid for pid in running if kind_of(pid) != "resource tracker"]
            victim = moments.choice(running)
            kind, number = kind_of(victim), moments.choice([signal.SIGKILL, signal.SIGTERM])
            os.kill(victim, number)
            killed = time.monotonic()
            unseen = kind == "test process" and not started
            left = [kind_of(pid) for pid in agents.left(END_SECONDS + START_SECONDS * unseen)]
            seconds = time.monotonic() - killed
            texts = "\n".join(agents.outputs())
        finally:
            agents.end()
    return {
        "victim": kind,
        "signal": number.name,
        "all waited": started,
        "seconds": round(seconds, 1),
        "left": left,
        "line": any(line in texts for line in LINES),
    }


def kind_of(process: int) -> str:
    """What a process is to a run."""
    try:
        what = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return "ended since"
    kinds = {"distributed.run": "agent", "spawn_main": "rank", "-m pytest": "test process"}
    kinds["resource_tracker"] = "resource tracker"
    return next((kind for part, kind in kinds.items() if part in what), what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    moments, results = random.Random(options.seed), []
    for _ in range(options.kills):
        try:
            results.append(one_kill(moments))
        except (IndexError, OSError):  # nothing runs any more, or the victim has just ended
            continue
        print(len(results), json.dumps(results[-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    left = sum(len(result["left"]) for result in results)
    print(f"{len(results)} kills, {left} processes left", flush=True)
    return int(left > 0)


if __name__ == "__main__":
    raise SystemExit(main())
