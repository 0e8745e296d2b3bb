"""A process that runs one side (the plugin or the oracle) on targets of one package, and writes one line of JSON for
each target.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import warnings
from pathlib import Path
from typing import Any

from .targets import factories


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m libraries.worker", description=__doc__)
    parser.add_argument("side", choices=["product", "oracle"])
    parser.add_argument("package")
    parser.add_argument("backend")
    parser.add_argument("tasks", help='JSON: [["name", "mode"], ...]')
    parser.add_argument("lines", type=Path, help="the file to which the results are written")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with options.lines.open("a", encoding="utf-8") as stream:

        def say(**what: Any) -> None:
            stream.write(json.dumps(what, default=str) + "\n")
            stream.flush()

        say(loaded=options.package)
        targets = factories(options.package)
        ask = asked(options.side)
        gc.freeze()  # exclude the imported libraries from garbage collection, which would be slow
        for number, (name, mode) in enumerate(json.loads(options.tasks)):
            say(begin=[name, mode])
            start = time.monotonic()
            try:
                words = ask(targets[name], mode, options.backend)
            except Exception as error:
                words = {"crash": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            if words is not None:
                words["seconds"] = round(time.monotonic() - start, 2)
            say(end=[name, mode], words=words)
            if number % 8 == 0:
                gc.collect()


def asked(side: str) -> Any:
    """The function that runs a target in ``check_compile`` or in the oracle. The oracle's process never imports the
    plugin.
    """
    if side == "oracle":
        from .oracle import truth

        return truth
    from .product import verdict

    return verdict


if __name__ == "__main__":
    main()
