"""The script that ``action.yml`` runs in Python's isolated mode, in which it cannot import files from the checkout."""

import sys
from pathlib import Path


def main() -> int:
    """Run the step whose name is on the command line."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from pytest_torch_compile.action.steps import main as run_step

    return run_step(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
