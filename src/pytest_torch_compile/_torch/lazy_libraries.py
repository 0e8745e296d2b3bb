"""Set up libraries that dynamo would otherwise set up when it first traces a call to them.

For example, dynamo calls ``einops.rearrange`` once, which fills einops' internal tables. During a check, such a call
would look like a state change that happens in compiled code but not in eager code. So these libraries are set up before
the state is recorded.

This module uses these private torch names, checked with torch 2.11, 2.13 and 2.15:
``torch._dynamo.trace_rules._lazy_module_init``, which maps package names to functions, and ``_maybe_init_lazy_module``,
which calls these functions for an object's package.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace


def set_up_imported() -> None:
    """Make dynamo set up the libraries that are already imported. Do nothing on torch versions in which dynamo does not
    set up libraries.
    """
    from torch._dynamo import trace_rules

    initialize = getattr(trace_rules, "_maybe_init_lazy_module", None)
    for name in list(getattr(trace_rules, "_lazy_module_init", ())):
        if name in sys.modules and initialize is not None:
            initialize(SimpleNamespace(__module__=name))
