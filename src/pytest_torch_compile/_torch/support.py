"""Find out which features the installed torch supports, and classify the exceptions that it raises.

This module uses these private torch names, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._dynamo.list_backends``, ``torch._dynamo.exc``, ``torch._inductor.list_mode_options``,
``torch._inductor.config.compile_threads``,
``torch._dynamo.config.recompile_limit`` (``cache_size_limit`` before 2.7) and ``suppress_errors``,
``torch._TorchCompileInductorWrapper``, ``torch.utils._pytree``.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Collection, Mapping
from typing import Any

import torch
import torch._dynamo
from packaging.version import Version

from ..findings import CompileUsageError
from .object_text import message_of

OLDEST = Version("2.6")
NEWEST = Version("2.15")
# Maps an argument of ``torch.compile`` or an Inductor option to the oldest tested torch version that has it.
_HAS = {
    "numerics": "2.15",
    "batch_invariant": "2.13",
    "deterministic": "2.11",
    "recompile_limit": "2.13",
    "isolate_recompiles": "2.13",
    "dynamic_shapes": "2.13",
}
_EARLIER_NAMES = {"dynamic_shapes": "shapes_spec"}
_NOT_INDUCTORS = ("guard_filter_fn", "use_aoti")  # torch.compile removes these arguments from the options
# True if, with fullgraph=True, torch also captures ops that return Python scalars or have data-dependent output shapes.
FULLGRAPH_CAPTURES_MORE = Version(Version(torch.__version__).base_version) >= Version("2.10")
# True if Inductor averages a long channel of a batch normalization in parts on a CPU.
AVERAGES_IN_PARTS = Version(Version(torch.__version__).base_version) >= Version("2.8")
CONSTRAINT_VIOLATION = "ConstraintViolationError"
# The imports of torch at the top of a generated script.
IMPORTS_OF_TORCH = ("import torch", "import torch._dynamo", "import torch.utils._pytree as pytree")


def torch_version() -> str:
    """Return the version without the local part, such as ``2.13.0``."""
    return str(torch.__version__).split("+")[0]


def require_supported_torch() -> None:
    """Raise ``CompileUsageError`` if torch is older than the oldest supported version."""
    if Version(Version(torch_version()).base_version) < OLDEST:
        raise CompileUsageError(
            f"torch {torch_version()} is not supported: pytest-torch-compile supports "
            f"torch {OLDEST} to {NEWEST}. Install torch>={OLDEST}."
        )


def compile_processes() -> int:
    """Return the number of processes in which Inductor compiles kernels, or 0 if it is unknown."""
    import torch._inductor.config

    return torch._inductor.config.compile_threads or 0


def newer_than_checked() -> str:
    """Return a note for reports if torch is newer than the latest tested version, or an empty string."""
    installed = Version(torch_version())
    if (installed.major, installed.minor) <= (NEWEST.major, NEWEST.minor):
        return ""
    return f"torch {installed} is newer than {NEWEST}, the latest tested version"


def require_backend(backend: Any) -> None:
    """Raise ``CompileUsageError`` for an unknown backend."""
    if not isinstance(backend, str):
        if not callable(backend):
            raise CompileUsageError(f"backend is {backend!r}; pass the name of a backend, or a callable")
        return
    known = set(torch._dynamo.list_backends(exclude_tags=()))
    if backend not in known:
        usual = ["eager", "aot_eager", *torch._dynamo.list_backends()]
        raise CompileUsageError(
            f"backend {backend!r} is unknown to torch; available backends include: {', '.join(usual)}"
        )


def require_mode(mode: str | None) -> None:
    """Raise ``CompileUsageError`` for an unknown mode."""
    from torch._inductor import list_mode_options

    if mode is not None and mode not in list_mode_options():
        raise CompileUsageError(f"mode {mode!r} is unknown to torch; choose one of: {', '.join(list_mode_options())}")


def options_of_mode(mode: str | None) -> dict[str, Any]:
    """Return the Inductor options of a mode."""
    from torch._inductor import list_mode_options

    return dict(list_mode_options(mode)) if mode else {}


def require_inductor_options(options: Mapping[str, Any]) -> None:
    """Raise ``CompileUsageError`` if an Inductor option is unknown or needs a newer torch version."""
    from torch._inductor import config

    known = {*config.get_config_copy(), *_NOT_INDUCTORS}
    for name in (name for name in options if name.replace("-", "_") not in known):
        raise CompileUsageError(_unknown(f"options={{{name!r}: ...}}", "an Inductor option", name, known))


def options_left_out(options: Mapping[str, Any]) -> list[str]:
    """Return a note for each option that torch accepts but does not pass to Inductor. For example, torch 2.6 ignores
    options with an ``Optional`` type.
    """
    given = {name.replace("-", "_"): value for name, value in options.items() if name not in _NOT_INDUCTORS}
    applied = torch._TorchCompileInductorWrapper(None, given, None).config
    return [
        f"options: torch {torch_version()} accepts {name!r} but does not apply it, so the check ran without it; "
        f"set torch._inductor.config.{name} instead"
        for name in given
        if name not in applied
    ]


def newer_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requested arguments under the names that ``torch.compile`` uses in this torch version. Arguments that
    are None or False are left out.

    Raises:
        CompileUsageError: If a requested argument is not available in this torch version.
    """
    arguments: dict[str, Any] = {}
    for name, value in asked.items():
        if value is None or value is False:
            continue
        known = inspect.signature(torch.compile).parameters
        own = next((one for one in (name, _EARLIER_NAMES.get(name, name)) if one in known), None)
        if own is None:
            raise CompileUsageError(_unknown(name, "a torch.compile argument", name, ()))
        arguments[own] = value
    return arguments


def _unknown(written: str, what: str, name: str, known: Collection[str]) -> str:
    if name in _HAS:
        return f"{written}: torch {torch_version()} does not support it (requires torch {_HAS[name]} or newer)"
    near = difflib.get_close_matches(name, known, n=1)
    return f"{written}: this is not {what}" + (f"; did you mean {near[0]}?" if near else "")


def inductor_numerics() -> str:
    """Return Inductor's numerics mode in this process, or ``default`` if this torch version has no numerics modes."""
    config = sys.modules.get("torch._inductor.config")
    return str(getattr(config, "numerics", "default"))


DEFAULT_RECOMPILE_LIMIT = 8


def recompile_limit() -> int:
    """Return the number of graphs that dynamo keeps for one code object before dynamo falls back to eager."""
    config: Any = torch._dynamo.config
    return int(config.recompile_limit if hasattr(config, "recompile_limit") else config.cache_size_limit)


def swallows_errors() -> bool:
    """Return whether dynamo runs a function eagerly if compiling the function raises an exception."""
    config: Any = torch._dynamo.config
    return bool(config.suppress_errors)


def is_compiler_error(error: BaseException) -> bool:
    """Return whether an exception comes from torch's compiler rather than from the compiled code."""
    ours = type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "torch.fx.experimental"))
    ours = ours or is_refused_recompile(error)
    # Since 2.12, fullgraph raises a plain RuntimeError if nothing was compiled at all.
    return ours or "fullgraph=True found no compiled frames" in message_of(error)


def is_failed_compilation(error: BaseException) -> bool:
    """Return whether an exception means that code cannot be compiled, rather than that an op rejected its inputs during
    tracing.
    """
    return is_compiler_error(error) and type(error).__name__ != "TorchRuntimeError"


def is_refused_recompile(error: BaseException) -> bool:
    """Return whether torch raised an exception instead of recompiling, because of its config or a stance."""
    return type(error).__name__ == "RecompileError" or "stance is 'fail_on_recompile'" in message_of(error)


def is_recompile_limit(error: BaseException) -> bool:
    """Return whether an exception means that the recompile limit was hit. The class of this exception changed in torch
    2.11.
    """
    chain: BaseException | None = error
    while chain is not None:
        if "RecompileLimit" in type(chain).__name__ or "recompile limit" in str(chain).lower():
            return True
        chain = chain.__cause__
    return False


def is_constraint_violation(error: BaseException) -> bool:
    """Return whether an exception means that the code specializes or limits a dimension that is marked as dynamic."""
    return type(error).__name__ == CONSTRAINT_VIOLATION


def root_cause(error: BaseException) -> BaseException:
    """Return the innermost cause of ``error``."""
    seen = {id(error)}
    while True:
        inner = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
        if not isinstance(inner, BaseException) or id(inner) in seen:
            return error
        seen.add(id(inner))
        error = inner


def user_error(error: BaseException) -> BaseException:
    """Return the exception that eager code would have raised: the exception that dynamo's exception wraps, or ``error``
    itself.
    """
    inner = getattr(error, "inner_exception", None) or error.__cause__
    return inner if is_compiler_error(error) and isinstance(inner, BaseException) else error
