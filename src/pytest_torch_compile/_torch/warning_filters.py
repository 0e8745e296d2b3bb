"""Under ``filterwarnings = error``, warnings of torch's compiler and of this plugin stay warnings. Imports no torch.

A filter that makes errors of warnings is meant for the user's own code. What torch warns of while it is imported or
compiles (deprecated functions of its own, ops that Inductor has no code for) is not the model's fault, and its author
cannot change it. Raised there, it would look like a failed compilation, so it is shown as a warning. What the model
itself warns of is an error in both legs, as without the plugin.

Module names of torch, read on torch 2.6, 2.8, 2.11, 2.13 and 2.15.
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
# The modules through which compiled code runs the user's do not belong to the compiler.
_COMPILER = re.compile(
    r"torch$|torch\._inductor|torch\.fx\.|torch\._functorch\.(_aot_autograd|aot_autograd|partitioners)|torch\._subclasses"
    r"|torch\._dynamo(?!\.(eval_frame|external_utils|decorators|resume_execution)$)"
)
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("platlib", "purelib"))
_STDLIB = (sysconfig.get_paths()["stdlib"], "<frozen ")


@contextmanager
def calm() -> Iterator[None]:
    """In the body, errors that filters make of warnings are for the user's code only."""
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
        warnings.filterwarnings("default", category=_Unused, append=True)  # has Python see the change
        yield


class _Unused(Warning):
    """Nobody warns of this."""


def _filters() -> list[Any]:
    # From Python 3.14 on they may belong to a context.
    in_context = getattr(warnings, "_get_filters", None)
    return cast("list[Any]", in_context() if in_context is not None else warnings.filters)


class _Theirs:
    """In the place of a filter's pattern for modules: also asks whose code warns."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def match(self, name: str) -> bool:
        """Whether the filter is for the module, and the warning is not the user's."""
        module = self._module
        fits = module is None or (module == name if isinstance(module, str) else module.match(name))
        return bool(fits) and not is_users(sys._getframe(1))


def is_users(frame: FrameType | None) -> bool:
    """Whether a warning that is given in this frame is the user's, and not the compiler's or the plugin's.

    The innermost code that is neither torch's nor Python's decides. A library is a user's model where the user or the
    plugin calls it, and a tool of the compiler's where that does.
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
