"""Libraries that dynamo sets up when it meets them for the first time, by calling them itself.

It calls ``einops.rearrange`` once, which fills einops' tables: a state that compiled code seems to leave and eager does
not. So the set-up is done before the state is noted.

Private names used, read on torch 2.11, 2.13 and 2.15: ``torch._dynamo.trace_rules._lazy_module_init``, functions by the
name of a package, and ``_maybe_init_lazy_module``, which calls those for the package of an object.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace


def set_up_imported() -> None:
    """Let dynamo set up those of the libraries that are imported; a torch without such functions has nothing to do."""
    from torch._dynamo import trace_rules

    initialise = getattr(trace_rules, "_maybe_init_lazy_module", None)
    for name in list(getattr(trace_rules, "_lazy_module_init", ())):
        if name in sys.modules and initialise is not None:
            initialise(SimpleNamespace(__module__=name))
