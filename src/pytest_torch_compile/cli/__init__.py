"""The command ``pytest-torch-compile``."""

from .commands import main

__all__ = ["main"]
