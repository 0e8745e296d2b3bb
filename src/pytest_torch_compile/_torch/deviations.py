"""Find the torch settings that differ from their defaults, and the places where they were set.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``_config`` of
``torch._dynamo.config``, ``torch._inductor.config`` and ``torch._functorch.config``, whose entries have ``default``,
``user_override`` (a ``ContextVar`` since 2.13), ``env_value_force`` and ``env_value_default``; ``_UNSET_SENTINEL``;
``torch._dynamo.eval_frame._stance``.
"""

from __future__ import annotations

import functools
import linecache
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from ..observation import Deviation, Location
from .object_text import repr_of
from .user_lines import is_torch

_CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config")
_VARIABLES = re.compile(r"^TORCH(DYNAMO|_DYNAMO|INDUCTOR|_COMPILE|_COMPILER|_FUNCTORCH)_")
# Settings for file locations, compile processes, logging and the test of vector instructions, which do not affect
# whether a check passes.
_HARMLESS = re.compile(r"(_DIR|_THREADS|_VERBOSE|_PROFILE|_PROFILER|_CPROFILE|_LOG\w*|_WORKER\w*|_VEC_ISA_OK)$")

_EARLIER_NAMES = {
    "recompile_limit": "cache_size_limit",
    "accumulated_recompile_limit": "accumulated_cache_size_limit",
}

# Maps settings to their origin, if known: an import, or the test after which the setting first differed.
_left_by: dict[str, str] = {}
_imported: set[str] = set()  # the modules loaded when settings were last recorded


def deviations() -> list[Deviation]:
    """Return the settings that differ from torch's defaults in this thread, including environment variables."""
    differing: list[Deviation] = []
    for source in (_configured, stance, _global_modes, _environment):
        try:
            differing += source()
        except Exception as error:  # a future torch version may store settings elsewhere; checks must not fail then
            differing.append(
                Deviation(f"a torch setting ({source.__name__.strip('_')})", f"not observable: {error!r}", "unknown")
            )
    return [Deviation(one.name, one.value, one.default, one.where or _left_by.get(one.name, "")) for one in differing]


def note_before_tests() -> None:
    """Record the settings that differ from torch's defaults before the first test."""
    if not _imported:
        _note("set before the first test")


def note_left_by(test: str) -> None:
    """Record the settings that ``test`` changed, and discard the records of settings that were reset to their default
    values.
    """
    _note(f"left by {test}")


def _note(otherwise: str) -> None:
    """For each setting that newly differs from its default, record where the setting was changed. If a module that was
    imported since the previous call changes the setting, record this module. Otherwise, record the text in
    ``otherwise``.
    """
    if "torch._dynamo" not in sys.modules:
        return
    names = [one.name for one in deviations()]
    for name in _left_by.keys() - set(names):
        del _left_by[name]
    new = sys.modules.keys() - _imported
    for name in names:
        if name not in _left_by:
            _left_by[name] = _set_at_import(name, new) or otherwise
    _imported.update(new)


def _set_at_import(setting: str, modules: Iterable[str]) -> str:
    """Find the first module in ``modules`` whose source contains a top-level line that changes the setting. Return text
    such as ``set when m was imported (m.py:3)``, or an empty string if no module contains such a line.
    """
    name = setting.rpartition(".")[2]
    known = "|".join(filter(None, (name, _EARLIER_NAMES.get(name))))
    sets = re.compile(rf"^[A-Za-z_][\w.]*\.(?:{known})(?:\s*=(?!=)|\()")
    for module in sorted(modules):
        file = getattr(sys.modules.get(module), "__dict__", {}).get("__file__")
        if not isinstance(file, str) or not file.endswith(".py") or is_torch(file):
            continue
        for number, line in enumerate(linecache.getlines(file), 1):
            if sets.match(line):
                return f"set when {module} was imported ({Location(file, number).shown()})"
    return ""


def changed_config() -> Iterator[tuple[str, str, Any, Any, str]]:
    """For each config entry that differs from its default, yield the module, the name, the value, the default and, if
    known, a description of where the value was set.
    """
    from torch.utils._config_module import _UNSET_SENTINEL

    for module in _CONFIGS:
        config: Any = sys.modules.get(module)
        for name, entry in getattr(config, "_config", {}).items():
            override = entry.user_override
            override = override.get() if isinstance(override, ContextVar) else override
            by_environment = (entry.env_value_force, entry.env_value_default) != (_UNSET_SENTINEL, _UNSET_SENTINEL)
            # An alias is another name of a setting that is listed itself.
            if getattr(entry, "alias", None) or (override is _UNSET_SENTINEL and not by_environment):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # reading a deprecated entry warns
                value = functools.reduce(getattr, name.split("."), config)
            try:
                differs = bool(value != entry.default)
            except Exception:  # comparing values may raise any exception
                differs = value is not entry.default
            if differs:
                where = "set by the environment" if by_environment and override is _UNSET_SENTINEL else ""
                yield module, name, value, entry.default, where


def _configured() -> Iterator[Deviation]:
    for module, name, value, default, where in changed_config():
        yield Deviation(f"{module}.{name}", _shown(value), _shown(default), where)


def _shown(value: Any) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", repr_of(value, 1000))
    return text if len(text) <= 100 else text[:97] + "..."


def stance() -> Iterator[Deviation]:
    """Yield the stance of ``torch.compiler.set_stance``, unless it is the default."""
    from torch._dynamo import eval_frame

    now, default = eval_frame._stance, eval_frame.DynamoStance()
    if now != default:
        parts = {name: value for name, value in vars(now).items() if value != vars(default).get(name)}
        arguments = {"stance": "", "backend": "force_backend="}
        text = ", ".join(f"{arguments.get(name, f'{name}=')}{_shown(value)}" for name, value in parts.items())
        yield Deviation("torch.compiler.set_stance", text, "'default'")


def _global_modes() -> Iterator[Deviation]:
    import torch

    modes: list[tuple[str, Any, Any]] = [
        ("torch.use_deterministic_algorithms", torch.are_deterministic_algorithms_enabled(), False),
        ("torch.autograd.set_detect_anomaly", torch.is_anomaly_enabled(), False),
        ("torch.set_default_dtype", torch.get_default_dtype(), torch.float32),
        ("torch.set_default_device", _default_device(), "cpu"),
        ("torch.set_float32_matmul_precision", _matmul_precision(), "highest"),
    ]
    for name, value, default in modes:
        if value != default:
            yield Deviation(name, _shown(value), _shown(default))


def _default_device() -> str:
    import torch

    try:
        return str(torch.get_default_device())
    except AttributeError:  # torch 2.6 and 2.8 raise it after set_default_device(None)
        return "cpu"


def _matmul_precision() -> str:
    import torch

    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # changed through the newer per-backend settings, which the older function cannot read
        return "set per backend"


def _environment() -> Iterator[Deviation]:
    for name, value in sorted(os.environ.items()):
        if _VARIABLES.match(name) and not _HARMLESS.search(name):
            yield Deviation(name, _shown(value), "not set", "set by the environment")
