"""Compile the target with ``torch.compile`` and the check's options, or with a custom wrapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .._torch import support
from .._torch.object_text import name_of, text_of
from .._torch.random_ops import draw_as_in_eager
from ..findings import CompileUsageError

# These backends generate no code.
TORCHS_OPS = ("eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs")
CUDAGRAPH_MODES = ("reduce-overhead", "max-autotune")


@dataclass(frozen=True)
class Compiling:
    """The compile options of a check; calling the object compiles a target.

    Raises:
        CompileUsageError: If the backend or mode is unknown, or the options cannot be combined.
    """

    backend: str | Callable[..., Any] = "inductor"
    mode: str | None = None
    options: dict[str, Any] | None = None
    dynamic: bool | None = None
    fullgraph: bool = True
    wrapper: Callable[[Any], Any] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.wrapper is not None:
            if not callable(self.wrapper):
                raise CompileUsageError(
                    f"compile={text_of(self.wrapper)} is not callable; pass a function that returns the compiled target"
                )
            for name in (name for name, value in self.more.items() if value):
                raise CompileUsageError(
                    f"{name} is an option of torch.compile, but compile= replaces torch.compile: apply the option "
                    "in the function that you pass"
                )
            return
        support.require_backend(self.backend)
        support.require_mode(self.mode)
        if self.mode is not None and self.options is not None:
            raise CompileUsageError("torch.compile accepts either mode or options, but not both: remove one of them")
        if self.options and self.has_backend("inductor"):
            support.require_inductor_options(self.options)
        support.newer_arguments(self.more)

    def __call__(self, target: Any) -> Any:
        """Compile ``target``.

        Raises:
            CompileUsageError: If the wrapper does not return the compiled target.
        """
        if self.wrapper is not None or self.has_backend("inductor", "aot_eager_decomp_partition"):
            draw_as_in_eager()
        if self.wrapper is not None:
            compiled = self.wrapper(target)
            if not callable(compiled):
                raise CompileUsageError(
                    f"the function passed as compile= returned {text_of(compiled)}, but it must return the compiled "
                    "target (module.compile() compiles in place and returns None)"
                )
            return compiled
        return torch.compile(
            target,
            fullgraph=self.fullgraph,
            dynamic=self.dynamic,
            backend=self.backend,
            mode=self.mode,
            options=None if self.options is None else dict(self.options),  # torch deletes entries from this dict
            **support.newer_arguments(self.more),
        )

    def has_backend(self, *names: str) -> bool:
        """Return whether the backend is one of these backends of torch."""
        return isinstance(self.backend, str) and self.backend in names

    @property
    def name(self) -> str:
        """The name of the backend and the mode, or of the custom compile function, for reports."""
        if self.wrapper is not None:
            return name_of(self.wrapper).rpartition(".")[2]
        backend = self.backend if isinstance(self.backend, str) else name_of(self.backend).rpartition(".")[2]
        return f"{backend} ({self.mode})" if self.mode else backend

    @property
    def checked_mode(self) -> str:
        """The mode in reports: ``fullgraph``, ``default`` (``fullgraph=False``) or ``custom compile function``."""
        if self.wrapper is not None:
            return "custom compile function"
        return "fullgraph" if self.fullgraph else "default"

    @property
    def is_torchs(self) -> bool:
        """Whether ``torch.compile`` is called directly, without a custom wrapper."""
        return self.wrapper is None

    @property
    def runs_torchs_ops(self) -> bool:
        """Whether the backend generates no code and runs only torch's ops."""
        return self.wrapper is None and self.has_backend(*TORCHS_OPS)

    @property
    def can_relax(self) -> bool:
        """Whether fullgraph is set and can be turned off."""
        return self.wrapper is None and self.fullgraph

    def relaxed(self) -> Compiling:
        """Return the same options with ``fullgraph=False``."""
        return replace(self, fullgraph=False)

    @property
    def is_strict(self) -> bool:
        """Whether Inductor must match eager bitwise, because of an option or a process-wide setting."""
        asked = (self.options or {}).get("numerics", support.inductor_numerics())
        return self.wrapper is None and self.has_backend("inductor") and asked == "strict"

    @property
    def remarks(self) -> list[str]:
        """Notes on options that torch accepts but does not apply."""
        if self.wrapper is not None or not self.has_backend("inductor") or not self.options:
            return []
        return support.options_left_out(self.options)

    @property
    def wants_cudagraphs(self) -> bool:
        """Whether the backend, the mode or an option requests CUDA graphs, in which case the check must report skipped
        CUDA graphs.
        """
        asked = (self.options or {}).get("triton.cudagraphs", False)
        return bool(asked) or self.has_backend("cudagraphs") or self.mode in CUDAGRAPH_MODES
