"""Detect functions that dynamo recognizes by identity; dynamo would treat a copy of such a function differently.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._dynamo.trace_rules._allowed_callable_ids``, ``_disallowed_callable_ids`` and, since 2.8,
``_nonstrict_trace_callable_ids``.
"""

from __future__ import annotations

import types

_TABLES = ("_allowed_callable_ids", "_disallowed_callable_ids", "_nonstrict_trace_callable_ids")


# Prefixes of attributes that dynamo sets on functions and objects. These attributes are not user state. torch 2.15
# leaves ``fake_device`` on a parameter whose ``.data`` was assigned in compiled code.
DYNAMOS_OWN = ("_torchdynamo", "_dynamo", "fake_device")


def known_by_identity(function: types.FunctionType) -> bool:
    """Return whether the function was registered with dynamo, for example by ``allow_in_graph`` or
    ``nonstrict_trace``.
    """
    from torch._dynamo import trace_rules

    tables = [getattr(trace_rules, name, ()) for name in _TABLES]
    return any(id(function) in table for table in tables)
