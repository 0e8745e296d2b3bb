"""Forget what was compiled: ``torch._dynamo.reset``, checked on torch 2.6, 2.8, 2.11, 2.13 and 2.15."""

from __future__ import annotations

import sys


def reset_dynamo() -> None:
    """Forget everything that was compiled in this process, if torch's compiler was loaded at all."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
