"""Which of eager, aot_eager and inductor first goes wrong."""

from __future__ import annotations

from .._torch.support import CONSTRAINT_VIOLATION
from .subject import Subject

# What a later stage can do wrong; breaks and recompiles are dynamo's, which is the first stage.
KINDS = {
    "numerics",
    "gradient",
    "mutation",
    "state",
    "aliasing",
    "metadata",
    "exception",
    "compile-error",
    "eager-fallback",
}
STAGES = {
    "eager": "dynamo: it cannot trace the code, or the graph that it captures does something else than the code",
    "aot_eager": "AOTAutograd: the graph is right before it makes it functional and traces its backward",
    "aot_eager_decomp_partition": "a decomposition or the partitioning: the ops as they were written are right",
    "inductor": "Inductor: the graph that it is handed is right, so its lowering or generated code is wrong",
}


def stage(subject: Subject) -> list[str]:
    """The first stage with a finding of the same kind; nothing where there is only one stage to try."""
    kinds = subject.kinds & KINDS
    names = list(STAGES)
    backend = subject.compiling.backend
    if not kinds or subject.compiling.wrapper is not None or backend not in names[1:] or _is_users(subject):
        return []
    earlier = names[: names.index(str(backend))]
    for name in earlier:
        if subject.shows(subject.again(backend=name), kinds):
            return [_line(name, earlier[: earlier.index(name)])]
    return [_line(str(backend), earlier)]


def _is_users(subject: Subject) -> bool:
    """No stage is at fault where calls exceed the recompile limit, or the code fixes a size that is marked dynamic."""
    if any(error.error == CONSTRAINT_VIOLATION for error in subject.report.observation.errors):
        return True
    return bool(subject.report.fallbacks) and subject.kinds <= {"eager-fallback", "recompile"}


def _line(name: str, held: list[str]) -> str:
    holds = f" (held with backend {', '.join(held)})" if held else ""
    return f"stage: goes wrong with backend {name}{holds}. It is {STAGES[name]}"
