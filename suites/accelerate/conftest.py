"""The ranks of these tests."""

from .._ranks import ranks

__all__ = ["ranks"]
