"""Make optimizers use foreach operators for fake tensors, as they do for parameters on the GPU.

These operators need temporary tensors for all parameters at once, which can determine the peak memory. torch uses the
operators only if the types of all parameters are in ``torch.optim.optimizer._foreach_supported_types``, so the type of
fake tensors is added to this list.

This module uses the private torch name ``_foreach_supported_types``, checked with torch 2.11, 2.13 and 2.15.
"""

from __future__ import annotations

from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import _foreach_supported_types


def allow_foreach() -> None:
    """Allow optimizers to use foreach operators for fake tensors, for the rest of the process."""
    _foreach_supported_types.append(FakeTensor)
