"""The plugin's fixtures, and the options that these fixtures get from a test's markers and from other fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from .. import settings
from .._torch.warning_filters import calm
from .plan_session import compare_plan
from .usage import MARKER

if TYPE_CHECKING:
    import torch

    from ..findings import CompileReport
    from ..numerics import Tolerances


PLAN = "plan"  # an option of the fixture compile_check, in addition to the options of check_compile


@pytest.fixture
def compile_options() -> dict[str, Any]:
    """Options for compile_check and compile_benchmark; override this fixture in a class, module or conftest.py."""
    return {}


@pytest.fixture
def compile_tolerances() -> Tolerances | None:
    """The tolerances for compile_check; override this fixture to change them. None selects the default tolerances."""
    return None


@pytest.fixture
def compile_device() -> torch.device:
    """The device for models and inputs: --compile-device, or the CPU."""
    with calm():
        import torch

    return torch.device(settings.current.device or "cpu")


@pytest.fixture
def compile_check(
    request: pytest.FixtureRequest, compile_options: dict[str, Any], compile_tolerances: Tolerances | None
) -> Iterator[Callable[..., CompileReport]]:
    """check_compile with this test's options. In order of precedence, options come from the call, the test's markers,
    compile_options, and the command line.

    With the option plan=True, under --compile-plan, the calls are also planned for a GPU, and the planned counts are
    compared with their baseline.
    """
    with calm():
        import torch

        from ..check.check_compile import KEYWORDS, check_compile
        from ..legs.calls import as_calls
        from ..legs.converted import on_device

    defaults = {"tolerances": compile_tolerances, **_test_options(request, compile_options)}

    def check(target: Callable[..., Any], /, *args: Any, **keywords: Any) -> CompileReport:
        __tracebackhide__ = True
        options, kwargs = replace(KEYWORDS, options=KEYWORDS.options | {PLAN}).split(target, args, keywords)
        calls = as_calls(args, kwargs, options.pop("calls", None))
        chosen = defaults | options
        plans = chosen.pop(PLAN, False)
        with on_device(target, calls, settings.current.device) as there:
            report = check_compile(target, calls=there, **chosen)
            if plans and settings.current.plan and not torch.cuda.is_available():
                compare_plan(request.node, target, there, {**chosen, "fullgraph": report.checked_mode == "fullgraph"})
            return report

    yield check


@pytest.fixture
def compile_benchmark(request: pytest.FixtureRequest, benchmark: Any, compile_options: dict[str, Any]) -> Any:
    """Time a compiled target with pytest-benchmark, and compare it with eager and with the stored baseline."""
    from .benchmark import CompileBenchmark

    return CompileBenchmark(request, benchmark, _test_options(request, compile_options))


def _test_options(request: pytest.FixtureRequest, compile_options: dict[str, Any]) -> dict[str, Any]:
    """Return the options from ``compile_options``, overridden by the test's markers; the nearest marker wins."""
    with calm():
        from ..check.check_compile import KEYWORDS
        from ..findings import CompileUsageError
        from ..speed.measuring.bench import BENCH_OPTIONS

    # compile_options can contain options for compile_check and for compile_benchmark. Each of these fixtures ignores
    # the other's options.
    known = replace(KEYWORDS, options=KEYWORDS.options - {"calls"} | BENCH_OPTIONS | {PLAN})
    test = request.node.nodeid
    if not isinstance(compile_options, dict):
        raise CompileUsageError(
            f"the fixture compile_options of {test} returns {compile_options!r}, but it must return a dict of options"
        )
    known.require_known(compile_options, f"compile_options of {test}")
    options = dict(compile_options)
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise CompileUsageError(
                f"{test}: the marker {MARKER} accepts only keyword arguments: {MARKER}(max_recompiles=1)"
            )
        known.require_known(marker.kwargs, f"the marker {MARKER} of {test}")
        options |= marker.kwargs
    return options
