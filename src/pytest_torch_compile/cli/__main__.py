"""Run the command as ``python -m pytest_torch_compile.cli``, for example if it is not on ``PATH``."""

from . import main

raise SystemExit(main())
