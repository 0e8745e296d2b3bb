"""The backend of these tests."""

from .._light import backend, compile_options

__all__ = ["backend", "compile_options"]
