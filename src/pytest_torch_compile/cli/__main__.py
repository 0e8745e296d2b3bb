"""Run the command with ``python -m pytest_torch_compile.cli``, for use if the command is not on the path."""

from . import main

raise SystemExit(main())
