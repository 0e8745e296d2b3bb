"""The script that ``action.yml`` starts in isolated mode, without the checked-out repository on its path."""

import sys
from pathlib import Path


def main() -> int:
    """Run the step given on the command line."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from pytest_torch_compile.action.steps import main as run_step

    return run_step(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
