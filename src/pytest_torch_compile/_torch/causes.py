"""Detect findings that are caused by a torch setting rather than by the checked code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..findings import Finding
from ..observation import Deviation

STANCE = "torch.compiler.set_stance"
SWITCHED_OFF = (STANCE, "torch._dynamo.config.disable", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
LIMITS = (
    "torch._dynamo.config.recompile_limit",
    "torch._dynamo.config.cache_size_limit",
    "torch._dynamo.config.accumulated_recompile_limit",
    "torch._dynamo.config.accumulated_cache_size_limit",
)
SWALLOWS = ("torch._dynamo.config.suppress_errors", "TORCHDYNAMO_SUPPRESS_ERRORS")
REFUSES_RECOMPILES = ("torch._dynamo.config.error_on_recompile", STANCE)


def caused(findings: Sequence[Finding], deviations: Sequence[Deviation], names: Sequence[str]) -> list[Finding]:
    """Return the findings with a new cause, which is a torch setting, and a new hint, which is advice to reset this
    setting. The setting is the first of the ``deviations`` that is in ``names`` and can have an effect. If there is no
    such setting, the findings are returned unchanged.
    """
    setting = first_of(deviations, names)
    if setting is None:
        return list(findings)
    back = f"reset {setting.name} to {setting.default}" if setting.default != "not set" else f"unset {setting.name}"
    return [
        replace(
            finding,
            cause=str(setting),
            hint=(f"{back}, or make the code that changed this setting restore it afterwards"),
        )
        for finding in findings
    ]


def first_of(deviations: Sequence[Deviation], names: Sequence[str]) -> Deviation | None:
    """Return the first of the ``deviations`` whose setting is in ``names`` and can have an effect, or None."""
    for one in deviations:
        if one.name not in names:
            continue
        # A limit can cause a finding only if it is lower than torch's default, and a switch only if it is on.
        lower_or_on = int(one.value) < int(one.default) if one.name in LIMITS else one.value not in ("'0'", "''")
        if lower_or_on:
            return one
    return None
