"""Process-wide state that code may change: grad mode, defaults, autocast, precision, the switches in ``torch.backends``
and environment variables.

This module itself uses only public names; the modules ``defaults``, ``deterministic`` and ``inference_mode``, which it
calls, use private names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from .backend_switches import effective, set_switches, switches
from .defaults import Defaults, defaults, set_defaults
from .deterministic import Deterministic, deterministic, set_deterministic
from .inference_mode import kept_dispatch_keys, set_inference_mode

_AUTOCAST_DEVICES = ("cpu", "cuda")
# torch and its compilers set variables with these prefixes themselves, with or without a leading underscore.
_TORCHS = ("TORCH", "PYTORCH", "TRITON", "CUDA", "NCCL", "OMP_", "KMP_", "MKL_", "PYTEST_")


@dataclass(frozen=True)
class ProcessState:
    """The values of process-wide settings on which results may depend."""

    grad: bool
    inference: bool
    defaults: Defaults
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    autocast_cache: bool
    deterministic: Deterministic
    anomaly: tuple[bool, bool]
    precision: str
    switches: dict[str, Any]
    environment: dict[str, str]

    @classmethod
    def now(cls) -> ProcessState:
        """Return the current state."""
        return cls(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            defaults(),
            tuple(
                (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCAST_DEVICES
            ),
            torch.is_autocast_cache_enabled(),
            deterministic(),
            (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            _matmul_precision(),
            switches(),
            {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith(_TORCHS)},
        )

    @staticmethod
    @contextmanager
    def kept() -> Iterator[None]:
        """Restore the current state after the ``with`` block."""
        before = ProcessState.now()
        # A compilation that fails inside inference mode leaves wrong dispatch keys (see ``inference_mode``).
        with kept_dispatch_keys():
            try:
                yield
            finally:
                before.put()

    def with_dtype(self, dtype: torch.dtype) -> ProcessState:
        """Return the same state with a different default dtype."""
        return replace(self, defaults=replace(self.defaults, dtype=dtype))

    def put(self) -> None:
        """Restore this state. A setting that already has the wanted value is not set again, because setting a value
        makes one of dynamo's guards fail.
        """
        now = ProcessState.now()
        if now.inference != self.inference:
            set_inference_mode(self.inference)
        if torch.is_grad_enabled() != self.grad:  # read again, because setting inference mode also sets grad mode
            torch.set_grad_enabled(self.grad)
        set_defaults(self.defaults)
        for (kind, enabled, dtype), (_, was_enabled, was_dtype) in zip(self.autocast, now.autocast, strict=True):
            if enabled != was_enabled:
                torch.set_autocast_enabled(kind, enabled)
            if dtype != was_dtype:
                torch.set_autocast_dtype(kind, dtype)
        if now.autocast_cache != self.autocast_cache:
            torch.set_autocast_cache_enabled(self.autocast_cache)
        set_deterministic(self.deterministic)
        if now.anomaly != self.anomaly:
            torch.autograd.set_detect_anomaly(*self.anomaly)
        if self.precision and now.precision != self.precision:
            torch.set_float32_matmul_precision(self.precision)
        set_switches(self.switches)
        if now.environment != self.environment:
            for name in now.environment.keys() - self.environment.keys():
                del os.environ[name]
            os.environ.update({k: v for k, v in self.environment.items() if now.environment.get(k) != v})

    def named(self) -> dict[str, Any]:
        """Return the values of the settings, keyed by the names that messages use for the settings."""
        values: dict[str, Any] = {
            "grad mode": self.grad,
            "inference mode": self.inference,
            "the default dtype": str(self.defaults.dtype),
            "the default device": str(self.defaults.device or "cpu"),
            "the autocast cache": self.autocast_cache,
            "deterministic algorithms": self.deterministic.algorithms,
            "anomaly detection": self.anomaly[0],
            "the float32 matmul precision": self.precision,
        }
        values |= {f"torch.backends.{name}": value for name, value in effective(self.switches).items()}
        values |= {f"autocast on {kind}": str(dtype) if enabled else "off" for kind, enabled, dtype in self.autocast}
        return values | {f"environment variable {name}": value for name, value in self.environment.items()}


def _matmul_precision() -> str:
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # changed through the newer per-backend settings, which the older functions cannot read
        return ""
