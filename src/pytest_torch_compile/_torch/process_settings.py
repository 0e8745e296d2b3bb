"""The settings of this process that a fresh process has to share: everything in ``ProcessState`` except environment
variables, which a process inherits, and the compilers' configuration.
"""

from __future__ import annotations

import functools
import pickle
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch

from .deviations import changed_config
from .process_state import ProcessState


@dataclass(frozen=True)
class ProcessSettings:
    """The settings of a process. ``config`` maps the module and the name of each changed option of dynamo and Inductor
    to its value. Values that cannot be pickled, such as a custom pass, are omitted.
    """

    state: ProcessState
    threads: int
    config: dict[tuple[str, str], Any]

    @classmethod
    def now(cls) -> ProcessSettings:
        """Return the settings of this process."""
        config = {}
        for module, name, value, *_ in changed_config():
            with suppress(Exception):
                pickle.dumps(value)
                config[module, name] = value
        return cls(ProcessState.now(), torch.get_num_threads(), config)

    def put(self) -> None:
        """Apply the settings in this process."""
        torch.set_num_threads(self.threads)
        replace(self.state, environment=ProcessState.now().environment).put()
        for (module, name), value in self.config.items():
            *groups, leaf = name.split(".")
            setattr(functools.reduce(getattr, groups, import_module(module)), leaf, value)
