"""The advice in ``fix:`` lines. Advice about failed guards is in check/guard_advice, and advice that mentions private
torch names in _torch/hints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ._torch.hints import MAY_FAIL_IN_EAGER, MAY_FOLLOW, RAISED_IN_CODE, corrected, dynamic_output_hint
from ._torch.hints import SEE_CACHE_BYPASS as SEE_CACHE_BYPASS
from ._torch.hints import SURFACE_ERRORS as SURFACE_ERRORS
from .observation import GraphBreak

# Fixes for graph breaks, by category.
BREAK_HINTS = {
    "data-dependent branch": "a branch on a tensor's value breaks the graph; use torch.where or torch.cond, or branch "
    "on a value that is known before the call",
    "scalar from a tensor": "keep the value as a tensor (no .item(), .tolist(), float(tensor)), or compute it outside "
    "the compiled function",
    "function transform that runs eagerly": "torch compiles this function only together with the call to torch.vmap, "
    "torch.func.grad or another transform of torch.func; compile the code that calls the transform, or, if it is "
    "compiled already, remove the graph break that makes the transform run eagerly",
    "explicit graph break": "remove the graph_break() call",
    "disabled function": "the function is marked with torch.compiler.disable; call it outside the compiled region, or "
    "allow this break with max_graph_breaks or accepted_breaks",
    "call to print or a logger": "remove the call, skip it if torch.compiler.is_compiling(), or move it out of the "
    "compiled function",
    "graph that the backend refuses": "torch traced the code, but the backend cannot compile the graph: the "
    "result of the op named above (often an op of the backward pass) has a data-dependent size or is a Python number; "
    "replace the op (for example, x[mask] with torch.where(c, a, b)), or move it out of the compiled function",
    "function that dynamo skips": "dynamo cannot trace this function; replace it, or call it outside the compiled "
    "function",
}
CALLS_GRAPH_BREAK = (
    "this line calls a function that breaks the graph with graph_break(); call it outside the compiled function, or "
    "allow this break with max_graph_breaks or accepted_breaks"
)
NUMBERS_BREAK = ("unsupported code", "scalar from a tensor")  # categories of breaks that a NumPy scalar can cause
NUMPY_NUMBER = (
    "torch traces a NumPy scalar as a tensor; convert it to a Python number where it is set, with float(...) or "
    "int(...)"
)
DEPENDS_ON_DATA = (
    "with fullgraph=True, torch stops at a line that uses the value or the size of this op's output; if this value "
    "does not depend on data, compute it without a tensor (for example, list(range(n))); otherwise replace the Python "
    "branch on that line with torch.cond or torch.where, or declare its outcome with torch._check(...)"
)
OTHER_BREAKS_FIRST = (
    "remove the break at that line first; fullgraph=True can then compile this op without a graph break"
)
REWRITE = "rewrite the line with operations that torch.compile can trace"
FOLLOWS = (
    "this break may be a consequence of another break in the same function or in a function that it calls; "
    "remove that break first"
)
RAISES_IN_CODE = (
    "this line raises an exception that nothing in the compiled function catches. If eager code raises the exception "
    "too, expect it with raises(...) or raise it outside the compiled function. Otherwise, the compiled code takes a "
    "different branch from the eager code: look for torch.compiler.is_compiling()"
)
NO_FULLGRAPH = f"{REWRITE}, or run the check with fullgraph=False"

# Fixes for code that was not compiled.
LOOK_FOR_SWITCHES = (
    "check for torch.compiler.disable, a force_eager stance, TORCH_COMPILE_DISABLE, or code without tensor ops"
)
REMOVE_BREAKS = "remove the graph breaks, so that torch can compile the code around them"
CALL_INSIDE = "call the compiled code inside the block"
OPEN_EARLIER = (
    "enter the block before the compiled code is first called, or call torch.compiler.reset() before the block"
)
LEAVE_MODE = "call the compiled code outside of this mode"
OBSERVE_WARM_UP = "run the warm-up in a compile_guard block without steady=True, which reports the guards that fail"
WARM_UP_ALL = "in the warm-up, call every function with every size and flag that is used later, including backward()"
WARM_UP_TWICE = (
    "call the code twice with each size during the warm-up: the first call warms up the CUDA graph, and the "
    "second call records it"
)
LEAVE_LIMIT_OUT = (
    "remove this limit, or set it only for the torch versions on which it can be checked, for example {'>=2.11': 4}"
)
LIMIT_EXCEEDED = {
    "structure": "if the increase is intended, raise the limit; otherwise look for code that was added or is "
    "compiled twice",
    "memory": "look for tensors that are kept after the call, a mode that needs more memory (CUDA graphs, "
    "max-autotune), or an extra copy",
    "host-sync": "keep values on the GPU: on these lines, avoid .item(), .tolist(), .cpu(), nonzero() and Python "
    "branches on tensors",
}
OTHER_TORCH = (
    "update pytest-torch-compile, or use a supported torch version (run pytest-torch-compile doctor); the check "
    "still compared the compiled results with the eager results"
)
RECREATE = (
    "pass factory(make_target) to the check, so that every run creates a new target and new objects, or ignore "
    "the result with Tolerances(ignored=[...])"
)
LONGER = "if the code is only slow, raise the limit with --compile-timeout; otherwise look at the line that hangs"
RANKS_WAIT = "if ranks are waiting in a collective, find the rank that did not call it; otherwise extend the timeout"
ISOLATE = "use --compile-isolate to terminate a test that hangs and continue with the next test"
CREATE_ON_DEVICE = (
    "create the tensor on the device of the inputs, for example torch.zeros(n, device=x.device), or register it as a "
    "buffer of the module: in a plan, the model and its arguments are on the GPU, as after model.to('cuda')"
)
COMPARE_PLAN = (
    "check the same calls with check_compile on a CPU: if that check passes, the cause is probably code that torch "
    "generates only for GPUs"
)
_ON_TWO_DEVICES = re.compile("Expected all tensors to be on the same device|FakeTensor Device Propagation")
_TOLERANCE = re.compile(r"(?:; )?if the difference is (?:expected|intended)[^;]*tolerances=.*", re.S)
FIND_STAGE = "try backend='eager', then backend='aot_eager': the first that fails shows the stage at fault"
TIED_SIZE = (
    "the code requires this size to equal another size or to lie in a range; declare the range with "
    "dynamic_dims={'x': {0: (low, high)}}, or do not mark one of the dimensions as dynamic"
)
CUDAGRAPHS = (
    "avoid CPU tensors, input mutation and dynamic shapes in the compiled code, or use "
    "mode='max-autotune-no-cudagraphs'"
)

# Fixes for compiled results that differ from eager.
LOOK_FOR_A_DEFECT = (
    "the difference is larger than rounding errors, so look for a bug; a looser tolerance would only hide it. To "
    f"find the cause, {FIND_STAGE}"
)
CHECK_IN_FLOAT64 = "check the code in float64"
LOST_WRITE = "return the new value instead of writing it in place, or write it to the tensor itself with copy_()"
UNEXPECTED_WRITE = "clone the tensor before passing it to the compiled function"
ONLY_COMPILED_WRITES = (
    "look for code that writes to this tensor only while it is compiled (torch.compiler.is_compiling()), or that "
    f"undoes the write only in eager; if you find none, {FIND_STAGE}"
)
ONE_SIDED_GRADIENT = (
    "this gradient exists in only one of the two runs (eager and compiled); look for detach(), no_grad() or unused "
    f"branches near this tensor; if there are none, {FIND_STAGE}"
)
SAME_CONTAINERS = "build the same containers (type, length, keys and their order) in every branch of the function"
CONTIGUOUS = "call .contiguous() (or .contiguous(memory_format=...)) on the tensor before returning it"
# Differences in a tensor's metadata, by the first differing part in the message.
METADATA = {
    "type": "return the same tensor class in the eager and compiled runs: to keep a subclass, define "
    "__torch_function__ or __torch_dispatch__, or wrap the result outside the compiled function",
    "shape": f"{FIND_STAGE}. Create tensors with torch's factory functions, such as torch.empty(size): "
    "torch.Tensor(size) interprets a traced size as a value",
    "dtype": "set the dtype explicitly where the value is created (dtype=..., .to(...)): the promotion rules of "
    "NumPy and Python differ from the rules in traced code",
    "device": "set the device explicitly where the value is created (device=..., .to(...))",
    "layout": "convert the tensor to a fixed layout before returning it (.to_dense(), .to_sparse())",
    "requires_grad": "call detach() on this tensor if it should not have a gradient; otherwise, look for detach(), "
    f"no_grad(), .data or requires_grad_() in the code that computes it; if there are none, {FIND_STAGE}",
    "strides": CONTIGUOUS,
}
ALIASING = (
    "clone() the output if callers may write to it; eager and compiled code must both return a view or both return a "
    "copy"
)
RANDOM_STREAM = (
    "compiled code drew different random numbers; look for seeds set inside the compiled code, or for custom "
    "random ops. tolerances=Tolerances(rng=False) turns this comparison off"
)
_REWRITE_OR_MOVE = "rewrite the code above, or move it out of the compiled function"
BACKEND_RAISED = "dynamo traced the code, and then the backend raised this exception; look for the cause in the backend"
RAISED_BY = {
    "dynamo": "dynamo raised this exception while it traced the code, so other backends do not help; "
    f"{_REWRITE_OR_MOVE}",
    "the backend": BACKEND_RAISED,
    "AOTAutograd": "AOTAutograd, which runs after dynamo, raised this exception; with backend='eager', torch compiles "
    f"without it. {_REWRITE_OR_MOVE.capitalize()}",
    "Inductor": "Inductor raised this exception; with backend='aot_eager', torch compiles without it. "
    f"{_REWRITE_OR_MOVE.capitalize()}",
}
FAILS_ON_FAKE_TENSORS = (
    "dynamo traces the code with fake tensors, which have no data, and the line above fails with them, so other "
    "backends do not help; if the exception does not say what to change, rewrite the line, or move it out of the "
    "compiled function"
)
NO_DOUBLE_BACKWARD = (
    "torch.compile cannot differentiate a compiled backward pass; compute the first derivative inside the compiled "
    "function with torch.func.grad or torch.func.vjp, or run the code that needs second derivatives eagerly"
)
ONLY_COMPILED_RAISES = "try backend='eager' to find out whether tracing or the backend raises the exception"
_ONLY_TRACED = (
    "look at the code itself: backend='eager' runs the ops that dynamo traced and compiles nothing, so either dynamo "
    "traced the code incorrectly, or the code branches on torch.compiler.is_compiling()"
)
_TRACED_OR_AOT = "try backend='eager': if the check then passes, AOTAutograd is at fault, otherwise dynamo"
FAILS_IN_EAGER = (
    "the call fails in eager code, so correct the call or the code first. If the exception is intended, expect it with "
    "call(...).raises(...), and make compiled code raise it: torch._check() validates values in compiled code"
)
ONLY_EAGER_RAISES = (
    "compiled code skips a check that eager code performs; use torch._check() to validate values, and validate "
    "shapes before the call"
)
RAISES_SOMETHING_ELSE = (
    "callers that catch the eager exception do not catch the compiled code's exception; raise the exception outside "
    "the compiled function or, if both exceptions are acceptable, allow both: raises(IndexError, RuntimeError)"
)
WRITES_BEFORE_RAISE = "write after the code that can raise: a graph that raises does not carry out earlier writes"
RAISE_LAST = (
    "validate inputs before calling the compiled function. If it is acceptable that later calls run eagerly, "
    "move the calls that raise an exception to the end, or add the fingerprint above to accepted_breaks"
)
BOTH_RAISE = "make callers catch both exceptions, or raise the exception outside the compiled function"


# Fixes for custom ops, by the opcheck test that fails.
CUSTOM_OPS = {
    "test_schema": "list in mutates_args every argument that the op writes to (or declare it as Tensor(a!) in the "
    "schema), and return a clone() rather than an input itself",
    "test_autograd_registration": "register the backward formula with torch.library.register_autograd instead of under "
    "a CPU or CUDA dispatch key; an op that only calls torch ops can be a plain Python function",
    "test_faketensor": "make the fake implementation (torch.library.register_fake) return the same shapes, dtypes, "
    "strides and devices as the op",
    "test_aot_dispatch_dynamic": "compare the op with its fake implementation and its backward formula: when traced, "
    "the op does not return the same result as in eager, or it specializes on sizes",
    "no backward formula": "register a backward formula with torch.library.register_autograd, or detach() the inputs "
    "if they do not need gradients",
}

# Fixes for artifacts, and for other checks in a fresh process.
SKIP_ON_THIS_TORCH = "skip the test on this torch version"
PREPARE = "set prepare= to a function that imports the modules that the artifact needs, such as modules with custom ops"
OWN_CPP_LIBRARY = (
    "the package contains a second copy of the C++ library, because the compiler links it "
    "statically; set CXX to a compiler that links libstdc++.so"
)
ARTIFACT_STATE = (
    "torch's global state (such as grad mode or the number of threads) is not the same as when the artifact was built; "
    "set the same state before loading the artifact (in this check, with prepare=)"
)
ARTIFACT_REFUSES = (
    "use dynamic_dims={'x': 0} to declare the dimensions that vary; if a declared dimension is still fixed, the code "
    "specializes it to a constant: set TORCH_LOGS=+dynamic to see where"
)
ARTIFACT_SIZES = (
    "the artifact was built for the sizes in call 1, but does not reject other sizes; use "
    "dynamic_dims={'x': 0} to declare the dimensions that vary"
)
COMPARE_ARTIFACT = "check the model itself with check_compile(model, calls=[...])"
TRY_EXPORT = "try via='export': if this also fails, the package is not the cause"
# Used if the eager results differ by far more than rounding errors. In that case the code is the cause, and a tolerance
# or a different kernel would not help.
VARIANT_IN_EAGER = {
    "batch": "eager results differ in the same way, by more than rounding errors, so the code mixes the rows of a "
    "batch. Look for a mean, sum, normalization or softmax over the batch dimension, or BatchNorm in train(); if "
    "this is intended, remove 'batch' from over=",
    "run": "two eager runs also differ from each other by more than rounding errors, so the code keeps state or "
    "draws random numbers that torch's seed does not control. Look for counters, caches and separate random "
    "number generators",
    "process": "the eager results of the two processes also differ by more than rounding errors, so the code depends "
    "on the process that runs it. Look for seeds derived from the process id, hash(), iteration over sets, and "
    "environment variables",
}
VARIANT = {
    "batch": "the choice of kernels depends on the batch size; pad the batch to a fixed size, or allow a difference "
    "with tolerance=Tolerance(rtol=..., atol=...)",
    "run": "look for atomic adds (index_add, scatter_add, some backward kernels) and uninitialized memory; "
    "torch.use_deterministic_algorithms(True) raises an error for an op that has no deterministic implementation, and "
    "fills uninitialized memory",
    "process": "on a GPU, Inductor times several launch configurations of a kernel, even in the default mode, and the "
    "fastest differs between processes; TORCHINDUCTOR_DETERMINISTIC=1 (torch 2.11 and newer) prevents this. Otherwise, "
    "look for max-autotune, seeds derived from the process id, and iteration over sets",
}
COMPILES_AFTER_LOADING = "look for torch.compile in custom ops and hooks called by the artifact"

# Fixes for a warm start that compiled something.
WHAT_DIFFERS = (
    "the cache key depends on the graph, shapes, device, torch version and configuration; find out which of these "
    "has changed since the run that filled the cache, and make sure that --compile-cache selects the same cache"
)
ONLY_INDUCTOR = (
    "only Inductor has a cache; make sure that the backend is 'inductor' and that force_disable_caches is not set"
)


def for_break(found: GraphBreak, breaks: Sequence[GraphBreak] = ()) -> str:
    """Return the fix for a graph break: the plugin's advice for a known category, and torch's hint otherwise.

    ``breaks`` contains all breaks of the run, because one break may cause another. If a line in an installed package
    caused the break, the user cannot change this line, so the fix starts with changes to the user's code.
    """
    if found.numbers and found.category in NUMBERS_BREAK:
        fix = f"{' and '.join(found.numbers)}: {NUMPY_NUMBER}"
    elif found.category == "explicit graph break" and found.location.library is not None and not found.installed:
        fix = CALLS_GRAPH_BREAK
    elif found.category == "dynamic output shape":
        fix = dynamic_output_hint(f"{found.reason} {found.explanation}")
    else:
        # torch's hint mentions that the code may fail in eager as well, but the eager run has already finished without
        # an error.
        hints = [corrected(hint) for hint in found.hints if not MAY_FAIL_IN_EAGER.search(hint)]
        if RAISED_IN_CODE.search(found.reason):
            hints = [RAISES_IN_CODE]
        if len(breaks) > 1 and any(map(MAY_FOLLOW.search, hints)):
            hints = [FOLLOWS]  # torch's other hints are about code that would break the graph on its own
        fix = BREAK_HINTS.get(
            found.category, hints[0] if hints else f"{REWRITE}, or add the break's fingerprint to accepted_breaks"
        )
    if not found.installed:
        return fix
    package = found.package
    number = sum(one.installed and one.package == package for one in breaks) or 1
    return (
        f"this line belongs to {package}; move the call that leads to this line out of the compiled function, or allow "
        f"breaks in {package} with max_graph_breaks={{{package!r}: {number}, '*': 0}}. To fix {package} itself: {fix}"
    )


def for_artifact(hint: str, via: str) -> str:
    """In ``hint``, replace the advice to try other backends, because the backend of an artifact cannot be changed.
    ``via`` is the way in which the artifact was built.
    """
    stages = COMPARE_ARTIFACT if via == "export" else f"{COMPARE_ARTIFACT}, and {TRY_EXPORT}"
    return hint.replace(FIND_STAGE, stages)


def for_plan(hint: str, evidence: str) -> str:
    """Return the fix for a finding in a plan. ``hint`` is the fix for the same finding in ``check_compile``. Advice to
    set options that ``check_plan`` does not have, ``backend`` and ``tolerances``, is removed or replaced.
    """
    if FIND_STAGE in hint and _ON_TWO_DEVICES.search(evidence):
        return hint.replace(FIND_STAGE, CREATE_ON_DEVICE)
    without = _TOLERANCE.sub("", hint).replace(FIND_STAGE, COMPARE_PLAN)
    return COMPARE_PLAN if hint and not without else without


def for_backend(hint: str, backend: str) -> str:
    """If the check uses backend ``eager`` or ``aot_eager``, replace advice in ``hint`` to try these backends."""
    if backend == "eager":
        hint = hint.replace(FIND_STAGE, _ONLY_TRACED).replace(ONLY_COMPILED_RAISES, _ONLY_TRACED)
    elif backend == "aot_eager":
        hint = hint.replace(FIND_STAGE, _TRACED_OR_AOT)
    return hint


def raised_below(stage: str) -> str:
    """Return the fix for an exception of code outside torch that a stage of torch.compile runs."""
    return f"{stage} runs this code while it compiles; look for the cause at the line that raised the exception"


def after_breaks(places: Sequence[str]) -> str:
    """Return the fix for recompiles of code after graph breaks. A place is text such as ``model.py:12 in forward``."""
    shown = ", ".join(places[:3]) + (f" and {len(places) - 3} more lines" if len(places) > 3 else "")
    why = "so the code after each break is compiled separately, with guards on all its inputs"
    return f"the graph breaks at {shown}, {why}. Remove the breaks first"


def after_skipped(functions: Sequence[str]) -> str:
    """Return the fix for recompiles in functions that skipped functions call."""
    return (
        f"torch skipped {' and '.join(functions)} because of a graph break, so it compiles the functions called there "
        "one by one, and a function that is called several times may recompile. Remove the break first"
    )


def loosen(path: str) -> str:
    """Return advice on how to accept a small difference in the tensor or number at ``path``."""
    return (
        "if the difference is expected, set a tolerance for this value: "
        f"tolerances=Tolerances(leaves={{{path!r}: Tolerance(rtol=..., atol=...)}})"
    )


def keep_out_of_state(path: str) -> str:
    """Return the fix for a part of the target's state whose values differ between the eager and compiled runs."""
    return (
        "move the write out of the compiled function, or change the code so that eager and compiled runs write the "
        f"same value; if the difference is intended, ignore it: tolerances=Tolerances(ignored=[{path!r}])"
    )


def fixed_size(size: str) -> str:
    """Return the fix for a dimension that is marked as dynamic but that the code specializes to one size."""
    return (
        f"torch specializes this dimension to {size}, because the code loops over it, compares its size with a number "
        "or converts the size to a number; rewrite that line, or do not mark the dimension as dynamic "
        "(dynamic_dims=..., mark_dynamic)"
    )


RANKS_DIFFER = (
    "run the same code and calls on every rank: avoid branches that depend on the rank, use the same shapes and "
    "types, and mark sizes that vary as dynamic. If the ranks are meant to differ, as pipeline stages do, use same=()"
)
