"""Libraries that dynamo sets up when it first encounters them, by calling them itself.

It calls ``einops.rearrange`` once, which fills einops' tables. This looks like a state change that compiled code makes
and eager does not. So the set-up is done before the state is recorded.

Private names used, checked on torch 2.11, 2.13 and 2.15: ``torch._dynamo.trace_rules._lazy_module_init``, which maps
package names to functions, and ``_maybe_init_lazy_module``, which calls the functions for the package of an object.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace


def set_up_imported() -> None:
    """Make dynamo set up the libraries that are imported; torch versions without such functions need nothing."""
    from torch._dynamo import trace_rules

    initialise = getattr(trace_rules, "_maybe_init_lazy_module", None)
    for name in list(getattr(trace_rules, "_lazy_module_init", ())):
        if name in sys.modules and initialise is not None:
            initialise(SimpleNamespace(__module__=name))
