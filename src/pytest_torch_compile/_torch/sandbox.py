"""Restore torch's state: configuration, grad mode, random state, counters and dynamo's caches.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15: ``torch._dynamo.config``
and ``torch._inductor.config`` (``get_config_copy``), ``torch._dynamo.eval_frame.reset_code``,
``external_utils.wrap_inline``, ``pgo`` code state (used by automatic dynamic shapes), ``utils.counters``.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType
from typing import Any, Protocol

import torch
import torch._dynamo
import torch._inductor.config as inductor_config
import torch.compiler.config as compiler_config
from torch._dynamo import external_utils, pgo
from torch._dynamo.eval_frame import reset_code
from torch._dynamo.utils import counters

from .accelerator import accelerator, accelerator_in_use, kind_of
from .compiled_before import compiled_codes, has_graphs
from .defaults import kept_defaults
from .profile_function import profile_function
from .random_ops import CACHE_KEY_TAG
from .trace_log import not_captured
from .user_lines import function_name, is_torch
from .warning_filters import calm

# Modules defined in torch are compiled through a function nested in ``wrap_inline``, which does not run in eager code.
_INLINES_A_MODULE = [c for c in external_utils.wrap_inline.__code__.co_consts if isinstance(c, CodeType)]


# A check changes settings of the whole process, and torch reports compilations for the whole process. So the checks of
# several threads run one after another.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    """Run the ``with`` block without interference from earlier compilations, from warning filters and from pytest's
    capture of logs, and restore torch's settings and random state afterwards.

    Dynamo's cache entries for code that does not run in the block are kept. For code that does run, the caller's
    entries cannot be distinguished from the check's entries. So all entries for this code are dropped, and the code is
    compiled again when it is next called.
    """
    with ONE_AT_A_TIME, calm(), not_captured(), kept_settings(), ExitStack() as stack:
        box = Sandbox()
        stack.callback(box.forget)
        # Otherwise, Inductor and eager would draw different random numbers, and results with dropout could not be
        # compared.
        inductor_config.fallback_random = True
        if CACHE_KEY_TAG not in compiler_config.cache_key_tag:
            compiler_config.cache_key_tag += CACHE_KEY_TAG
        yield box


@contextmanager
def kept_settings() -> Iterator[None]:
    """Restore torch's settings and counters after the ``with`` block. Compiled code is not restored."""
    with ExitStack() as stack:
        stack.enter_context(_kept_config(torch._dynamo.config))
        stack.enter_context(_kept_config(inductor_config))
        stack.enter_context(_kept_config(compiler_config))
        stack.enter_context(kept_rng())
        stack.enter_context(kept_defaults())
        stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        stack.enter_context(_kept_counters())
        stack.enter_context(_kept_shape_memory())
        yield


class CodeListener(Protocol):
    """The methods that ``Sandbox.watching`` calls while code runs."""

    def code_runs(self, code: CodeType, namespace: dict[str, Any]) -> bool:
        """Handle the start of a function. If the result is False, this method is called again the next time the
        function starts.
        """

    def import_begins(self) -> None:
        """Handle the start of a module's import; functions that run during the import are not reported."""

    def import_ends(self) -> None:
        """Handle the end of a module's import."""


class Sandbox:
    """A sandbox that records which code runs in the eager run, and drops dynamo's cache entries for this code before
    the compiled run.
    """

    def __init__(self) -> None:
        self._before = {id(code): code for code in compiled_codes()}
        self._with_graphs = {id(code) for code in self._before.values() if has_graphs(code)}
        self._ran: dict[int, CodeType] = {}
        self._heard: set[int] = set()
        self._namespaces: dict[int, tuple[dict[str, Any], set[str]]] = {}

    @contextmanager
    def watching(self, listener: CodeListener) -> Iterator[None]:
        """Record the code that runs inside the ``with`` block; ``listener`` is called before each code object runs, and
        for imports.
        """
        importing: list[FrameType] = []

        def note(frame: FrameType, event: str, argument: Any) -> None:
            code = frame.f_code
            if event == "call" and id(code) not in self._heard:
                self._ran[id(code)] = code
                if id(frame.f_globals) not in self._namespaces:
                    self._namespaces[id(frame.f_globals)] = frame.f_globals, _aliases(frame.f_globals)
                # Code that ``exec`` runs may also be named <module>. Only during an import is the spec initializing.
                spec = frame.f_globals.get("__spec__") if code.co_name == "<module>" else None
                if getattr(spec, "_initializing", False):
                    if not importing:
                        listener.import_begins()
                    importing.append(frame)
                elif not importing and listener.code_runs(code, frame.f_globals):
                    self._heard.add(id(code))
            elif importing and event == "return" and frame is importing[-1]:
                importing.pop()
                if not importing:
                    listener.import_ends()

        with profile_function(note):
            yield

    def forget(self) -> None:
        """Drop dynamo's cache entries for the code that ran, so that the next run starts without compiled code. Also
        drop all sizes that torch has stored for automatic dynamic shapes.
        """
        ran = {(code.co_filename, code.co_name) for code in self._ran.values()}
        # torch 2.6 skips code that it encountered while dynamo was disabled, but does not list this code as seen.
        for code in (*self._ran.values(), *_INLINES_A_MODULE):
            reset_code(code)
        for code in compiled_codes():
            name = function_name(code.co_name)
            is_new = id(code) not in self._before or (id(code) not in self._with_graphs and has_graphs(code))
            # Modules defined in torch are compiled through one of torch's functions, which does not run in eager code.
            if is_new or is_torch(code.co_filename) or (code.co_filename, name) in ran:
                reset_code(code)
        # Only the guards of graphs that no longer exist used these aliases.
        for namespace, before in self._namespaces.values():
            for name in _aliases(namespace) - before:
                del namespace[name]
        pgo._CODE_STATE = None


def _aliases(namespace: dict[str, Any]) -> set[str]:
    """Return the aliases of torch modules that dynamo has added to the globals of a user's module; dynamo never removes
    them.
    """
    return {name for name in list(namespace) if name.startswith("__import_torch")}


@contextmanager
def _kept_shape_memory() -> Iterator[None]:
    """Inside the ``with`` block, start without the sizes that torch has stored for automatic dynamic shapes, and
    restore them afterwards. torch stores these sizes per source line, separately from cache entries.
    """
    before = pgo._CODE_STATE
    pgo._CODE_STATE = None
    try:
        yield
    finally:
        pgo._CODE_STATE = before


@contextmanager
def _kept_counters() -> Iterator[None]:
    before = copy.deepcopy({name: dict(values) for name, values in counters.items()})
    try:
        yield
    finally:
        counters.clear()
        for name, values in before.items():
            counters[name].update(values)


@contextmanager
def _kept_config(config: Any) -> Iterator[None]:
    before = {
        name: copy.copy(value) if isinstance(value, (list, dict, set)) else value
        for name, value in config.get_config_copy().items()
    }
    try:
        yield
    finally:
        now = config.get_config_copy()
        for name in before.keys() & now.keys():
            if now[name] is not before[name] and now[name] != before[name]:
                *groups, leaf = name.split(".")
                setattr(functools.reduce(getattr, groups, config), leaf, before[name])


@contextmanager
def kept_rng() -> Iterator[None]:
    """Restore the random state of torch (on all devices in use), Python and NumPy after the ``with`` block."""
    before, host = rng_state(), host_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
        set_host_rng_state(host)
        # If no accelerator was in use before the block, seed it with the caller's seed, even if the block has
        # initialized it.
        if len(before) == 1:
            seed_accelerator(torch.initial_seed())


def generators() -> dict[str, torch.Generator]:
    """Return the random number generators of the CPU and of the accelerator devices in use, keyed by device name."""
    by_device = {"cpu": torch.default_generator}
    if (module := accelerator_in_use()) is not None:
        own = getattr(module, "default_generators", ())
        by_device |= {f"{kind_of(module)}:{number}": generator for number, generator in enumerate(own)}
    return by_device


def rng_state() -> dict[str, torch.Tensor]:
    """Return the random state of each device in ``generators``, keyed by device name."""
    return {device: generator.get_state() for device, generator in generators().items()}


def host_rng_state() -> tuple[Any, Any]:
    """Return the state of Python's and, if loaded, NumPy's global random number generator."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy else None


def set_host_rng_state(state: tuple[Any, Any]) -> None:
    """Restore a state that ``host_rng_state`` returned."""
    python, numpy_state = state
    random.setstate(python)
    if numpy_state is not None:
        sys.modules["numpy"].random.set_state(numpy_state)


def seed_everything(seed: int) -> None:
    """Seed torch, Python and, if loaded, NumPy."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def seed_accelerator(seed: int) -> None:
    """Seed the accelerator devices; an uninitialized accelerator uses the seed when it is initialized."""
    module = accelerator()
    if module is not None and hasattr(module, "manual_seed_all"):
        module.manual_seed_all(seed)


def set_rng_state(states: dict[str, torch.Tensor]) -> None:
    """Restore a state that ``rng_state`` returned. A device that was not in use when the state was recorded keeps its
    present state.
    """
    for device, generator in generators().items():
        if device in states:
            generator.set_state(states[device])
