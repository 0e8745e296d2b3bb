"""Prevent ``filterwarnings = error`` from turning warnings from torch's compiler or from this plugin into errors. This
module does not import torch.

A filter that turns warnings into errors is meant for the user's code. The author of a model cannot fix the warnings
that torch emits when it is imported or compiles code, for example about deprecated functions that torch itself calls.
As errors, these warnings would look like failed compilations, so they remain warnings. Warnings from the model become
errors in the eager and the compiled run, just as they do without the plugin.

The names of torch's modules were checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

OWN = __name__.split(".")[0]
# Modules through which compiled code runs user code do not count as the compiler.
_COMPILER = re.compile(
    r"torch$|torch\._inductor|torch\.fx\.|torch\._functorch\.(_aot_autograd|aot_autograd|partitioners)|torch\._subclasses"
    r"|torch\._dynamo(?!\.(eval_frame|external_utils|decorators|resume_execution)$)"
)
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("platlib", "purelib"))
_STDLIB = (sysconfig.get_paths()["stdlib"], "<frozen ")


@contextmanager
def calm() -> Iterator[None]:
    """Inside the ``with`` block, warning filters turn only warnings from the user's code into errors."""
    if all(entry[0] != "error" for entry in _filters()):
        yield
        return
    with warnings.catch_warnings():
        before = list(_filters())
        warnings.resetwarnings()
        for entry in before:
            action, message, category, module, line = entry
            if action == "error":
                _filters().append(("default", message, category, _Theirs(module), line))
            _filters().append(entry)
        warnings.filterwarnings("default", category=_Unused, append=True)  # makes Python notice the change
        yield


class _Unused(Warning):
    """A warning category that no warning belongs to."""


def _filters() -> list[Any]:
    # Since Python 3.14, filters may belong to a context.
    in_context = getattr(warnings, "_get_filters", None)
    return cast("list[Any]", in_context() if in_context is not None else warnings.filters)


class _Theirs:
    """A replacement for a filter's module pattern that does not match warnings from user code."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def match(self, name: str) -> bool:
        """Return whether the filter matches the module and the warning comes from code other than user code."""
        module = self._module
        fits = module is None or (module == name if isinstance(module, str) else module.match(name))
        return bool(fits) and not is_users(sys._getframe(1))


def is_users(frame: FrameType | None) -> bool:
    """Return whether a warning in this frame comes from user code, not from the compiler or the plugin.

    The result depends on the innermost frame outside torch and Python's standard library. A library counts as user code
    if the user or the plugin calls it, and as part of the compiler if the compiler calls it.
    """
    through_library = False
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if name.split(".")[0] == OWN:
            return through_library
        if _COMPILER.match(name) or file.startswith("<eval_with_key>"):
            return False
        if not name.startswith("torch.") and file.startswith(_LIBRARIES):
            through_library = True
        elif not name.startswith("torch.") and not file.startswith(_STDLIB):
            return True
        frame = frame.f_back
    return True
