"""Turn inference mode off after code has left it on.

If a compilation fails inside ``torch.inference_mode``, torch does not exit its context manager, and the exception's
traceback keeps the context manager alive. Inference mode then stays on until the context manager is destroyed, which
restores the dispatch keys that were active during the compilation. With these keys, most torch functions raise an
internal error.

This module uses these private torch names, checked with torch 2.6, 2.11, 2.13 and 2.15: ``torch._C._InferenceMode``,
``_ForceDispatchKeyGuard``, ``_dispatch_tls_local_include_set`` and ``_dispatch_tls_local_exclude_set``.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager
from typing import Any

import torch

_kept: list[Any] = []  # contexts that must not be destroyed


def kept_dispatch_keys() -> AbstractContextManager[Any]:
    """Restore the dispatch keys of this thread after the ``with`` block."""
    core: Any = torch._C
    keys = core._dispatch_tls_local_include_set(), core._dispatch_tls_local_exclude_set()
    guard: AbstractContextManager[Any] = core._ForceDispatchKeyGuard(*keys)
    return guard


def set_inference_mode(enabled: bool) -> None:
    """Turn inference mode on or off in this thread, even if the code under test left an inference-mode context open."""
    core: Any = torch._C
    # The garbage collector does not track these objects, so find them through the objects that refer to them.
    _kept.extend(one for one in gc.get_referents(*gc.get_objects()) if type(one) is core._InferenceMode)
    mode = core._InferenceMode(enabled)
    mode.__enter__()
    _kept.append(mode)  # when it is destroyed, torch would restore the mode before this call
