"""What to do about each finding: the texts of the ``fix:`` lines. Those that name private torch are in _torch/hints."""

from __future__ import annotations

from ._torch.hints import MAY_FAIL_IN_EAGER, dynamic_output_hint
from ._torch.hints import SEE_CACHE_BYPASS as SEE_CACHE_BYPASS
from ._torch.hints import SURFACE_ERRORS as SURFACE_ERRORS
from .observation import GraphBreak

# Recompiles and eager fallback, by the kind of guard that failed.
EXPLANATIONS: dict[str, str] = {
    "size": "a tensor size changed; mark the dimension dynamic (dynamic_dims=...), compile with dynamic=True, "
    "or pad to a fixed set of sizes",
    "size-0-or-1": "torch specialises on the sizes 0 and 1, so that they cost a graph of their own even with "
    "dynamic=True; allow one recompile for it or keep such sizes out",
    "duck-shape": "two dimensions had one size by accident and were made one symbol (duck shaping); make them differ "
    "in the first call, or mark both dynamic",
    "stride": "the memory layout of a tensor changed; make it contiguous, or always hand over the same memory format",
    "rank": "the number of dimensions changed; reshape before the compiled code",
    "dtype": "the dtype of a tensor changed; cast before the compiled code",
    "device": "a tensor was on another device, and torch compiles a graph for each; move it with .to(device) before "
    "the call, or allow one recompile for each device with max_recompiles",
    "requires-grad": "requires_grad of a tensor changed; detach() it in every call or in none, or allow one recompile "
    "with max_recompiles",
    "type": "an argument was of another type (a tensor, None, a Parameter, a subclass), and torch compiles a graph for "
    "each; always pass one type (an empty tensor in place of None), or allow them with max_recompiles",
    "dispatch-keys": "a tensor was made under another mode (inference mode, autocast, a wrapper subclass); make all "
    "inputs under the same mode, or clone() them outside of it before the call",
    "grad-mode": "grad mode changed: keep torch.no_grad() in the same state around every call",
    "inference-mode": "inference mode changed: keep it in the same state around every call",
    "autocast": "autocast changed: keep it in the same state around every call",
    "threads": "the number of threads changed, and generated code is made for one number: set it once, before "
    "the first call (torch.set_num_threads)",
    "deterministic": "deterministic algorithms were switched on or off: set them once, before the first call "
    "(torch.use_deterministic_algorithms)",
    "default-dtype": "the default dtype changed: set it once, before the first call (torch.set_default_dtype)",
    "global-state": "a global state of torch changed, which the guard names: set it once, before the first call",
    "train-or-eval": "the module went from train() to eval() or back, and torch compiles a graph for each; allow one "
    "recompile with max_recompiles, or check train and eval apart",
    "length": "the length or the keys of a container changed; pass a tensor, or always the same structure",
    "new-object": "another object (a new function, module or None) was passed, and the graph is for the first one; "
    "make it once, outside the call, and pass the same one each time",
    "closure": "a variable of an enclosing function changed, and its value is part of the graph; pass it as an "
    "argument, as a tensor if it is a number, or keep it the same over the calls",
    "global": "a global variable changed, and its value is part of the graph; pass it as an argument, as a tensor if "
    "it is a number, or set it once, before the first call",
    "python-number": "a Python number changed; pass it as a tensor, or mark it dynamic",
    "python-bool": "a Python flag changed, and torch compiles a graph for each value; allow one recompile for it with "
    "max_recompiles, or decide with torch.where on a tensor",
    "python-string": "a Python string changed, and torch compiles a graph for each value; keep it out of the compiled "
    "code (choose the function or the tensor by it before the call), or allow its values with max_recompiles",
    "python-value": "a Python value (a dtype, a device, ...) changed, and torch compiles a graph for each; keep it the "
    "same over the calls, or allow its values with max_recompiles",
    "new-code": "a new function object was compiled for the same source line; define it once, outside the call",
    "new-backend": "another backend object was used; make one backend callable and use it for every compilation",
    "dynamic-mark": "the dynamic marks of a tensor changed; mark it in every call, or in none",
    "other": "the guard above says which value must stay as it was: keep it the same over the calls, or pass it as a "
    "tensor",
}

# Graph breaks, by category.
BREAK_HINTS = {
    "data-dependent branch": "a branch on a tensor's value splits the graph: use torch.where or torch.cond, or decide "
    "on something that is known before the call",
    "scalar from a tensor": "keep the value a tensor (no .item(), .tolist(), float(tensor)), or compute it outside",
    "explicit graph break": "remove the graph_break() call",
    "disabled function": "the function is marked torch.compiler.disable: call it outside the compiled region, or allow "
    "this break with max_graph_breaks or accepted_breaks",
    "call to print or a logger": "remove the call, guard it with torch.compiler.is_compiling(), or move it out",
    "function that dynamo skips": "dynamo does not trace this function: replace it, or call it outside",
}
NUMBERS_BREAK = ("unsupported code", "scalar from a tensor")  # the categories of what a NumPy number does to a graph
NUMPY_NUMBER = (
    "a NumPy number, which torch traces as a tensor; make it a Python number where it is set, float(...) or int(...)"
)
REWRITE = "rewrite the line with what torch.compile can trace"
NO_FULLGRAPH = f"{REWRITE}, or check the default mode with fullgraph=False"

# Compilation that did not take place.
LOOK_FOR_SWITCHES = (
    "look for torch.compiler.disable, a force_eager stance, TORCH_COMPILE_DISABLE, or a target without tensor ops"
)
CALL_INSIDE = "call what was compiled inside the block"
OPEN_EARLIER = (
    "open the block before the first call of the compiled code, or call torch.compiler.reset() before the block"
)
WARM_UP_ALL = "run this once in the warm-up too: each function, size and flag, and its backward() where there is one"
WARM_UP_TWICE = "call each size twice in the warm-up: the first run warms a CUDA graph up, the second one records it"
LEAVE_LIMIT_OUT = "leave this limit out here, or give it by torch version: {'>=2.11': 4}"
EXACT_LIMITS = {
    "structure": "if more is meant, raise the limit; otherwise look for what was added, or what compiles twice",
    "memory": "look for tensors that are kept beyond the call, a larger mode (CUDA graphs, max-autotune), or a copy",
    "host-sync": "keep values on the GPU: no .item(), .tolist(), .cpu(), nonzero() or Python branch on a tensor here",
}
OTHER_TORCH = (
    "update pytest-torch-compile, or check with a torch that it knows (pytest-torch-compile doctor names them); "
    "the results were compared with eager all the same"
)
LONGER = "if it only takes long, give it more time with --compile-timeout; compare with backend='eager' otherwise"
ISOLATE = "--compile-isolate ends such a test, and the run goes on"
FIND_STAGE = "try backend='aot_eager' and backend='eager': the first that fails is the stage at fault"
TIED_SIZE = (
    "the code ties this size to another one or to a range: give the range, dynamic_dims={'x': {0: (low, high)}}, "
    "or remove the mark from one of them"
)
CUDAGRAPHS = (
    "avoid CPU tensors, input mutation and dynamic shapes inside the region, or use 'max-autotune-no-cudagraphs'"
)

# Compiled results that are not eager's.
COMPARE_STAGES = "compare with backend='eager' and 'aot_eager': the first of them that goes wrong is the stage at fault"
LOOK_FOR_A_DEFECT = (
    f"this is more than rounding, so look for a defect: {COMPARE_STAGES}. A looser tolerance would only hide it"
)
LOST_WRITE = "return the new value instead of writing it in place, or write with copy_() on the tensor itself"
UNEXPECTED_WRITE = "clone the tensor before it is handed to the compiled function"
ONE_SIDED_GRADIENT = (
    "a gradient that only one leg has: look for detach(), no_grad() or unused branches near this tensor"
)
SAME_CONTAINERS = "return the same containers in every branch of the checked function"
CONTIGUOUS = "call .contiguous() (or .contiguous(memory_format=...)) on it, in both modes, before it is returned"
# What is not the same about a tensor apart from its values, by the part that is named first.
METADATA = {
    "type": "return one class of tensor in both modes: a subclass that is lost needs a __torch_function__ or "
    "__torch_dispatch__ of its own, or is put around the result outside of the compiled function",
    "shape": f"{COMPARE_STAGES}. Make tensors with torch's factories and sizes that are numbers, torch.empty(size): "
    "torch.Tensor(size) takes a traced size for a value",
    "dtype": "name the dtype where the value is made (dtype=..., .to(...)): NumPy and Python promote in their own way, "
    "and torch traces such code in its own",
    "device": "name the device where the value is made (device=..., .to(...))",
    "layout": "convert it to one layout before it is returned (.to_dense(), .to_sparse())",
    "requires_grad": "look for detach(), no_grad(), .data or requires_grad_() on the way to this tensor, and detach() "
    "it where no gradient is meant",
    "strides": CONTIGUOUS,
}
ALIASING = "clone() the output if the caller may write to it; a view in one mode and a copy in the other is a bug"
RANDOM_STREAM = (
    "compiled code drew other random numbers: check for seeds set inside, or custom random ops; "
    "tolerances=Tolerances(rng=False) switches this comparison off"
)
ONLY_COMPILED_RAISES = "compare with backend='eager' to see whether tracing or the backend raises"
ONLY_EAGER_RAISES = (
    "a check that eager makes is lost when compiled: check data with torch._check(), shapes before the call"
)
RAISES_SOMETHING_ELSE = (
    "callers that catch eager's exception do not catch this one: raise outside of the compiled function, or, where "
    "that is meant, name both: raises(IndexError, RuntimeError)"
)
RAISE_LAST = (
    "check inputs before the compiled function. Where one such input may cost the compiled code: put the calls that "
    "raise last, or accept the fingerprint with accepted_breaks"
)
BOTH_RAISE = "catch what both modes raise, or raise outside of the compiled function"


# Ops of torch.library, by the clause of opcheck that fails.
CUSTOM_OPS = {
    "test_schema": "declare what the op does: an argument that it writes to in mutates_args (or as Tensor(a!) in the "
    "schema), and return no input as it is; or clone() first",
    "test_autograd_registration": "register the formula with torch.library.register_autograd, and not at a CPU or CUDA "
    "key; an op made of torch's ops can be a plain function",
    "test_faketensor": "make the fake (torch.library.register_fake) give what the op gives: the same shapes, dtypes, "
    "strides and devices",
    "test_aot_dispatch_dynamic": "compare the op with its fake and its formula: traced, it gives something else "
    "than in eager, or works for fixed sizes only",
    "the autograd formula": "register one with torch.library.register_autograd, or detach() the inputs where no "
    "gradient is meant to pass",
}

# Artifacts, and what is checked in a fresh process.
SKIP_ON_THIS_TORCH = "skip the test on this torch"
PREPARE = "give prepare= a function that imports what the artifact needs, such as the module of its custom ops"
OWN_CPP_LIBRARY = (
    "the package has a copy of the C++ library beside the one of torch, since the compiler links it statically: "
    "set CXX to one that links libstdc++.so"
)
ARTIFACT_STATE = (
    "torch is in another state than where the artifact was built: set the same where it is loaded, in this check with "
    "prepare="
)
ARTIFACT_REFUSES = (
    "name the dimensions that vary, dynamic_dims={'x': 0}; one that stays fixed all the same is tied to a number by "
    "the code: TORCH_LOGS=+dynamic shows where"
)
ARTIFACT_SIZES = (
    "the artifact was built for the sizes of call 1, and does not refuse others: name the dimensions that vary, "
    "dynamic_dims={'x': 0}"
)
COMPARE_ARTIFACT = (
    "hold the model itself against eager, check_compile(model, calls=[...]), and try via='export': what goes wrong "
    "there too does not come from the package"
)
# Eager differs by far more than rounding: the code is at fault, and a tolerance or another kernel would not help.
VARIANT_IN_EAGER = {
    "batch": "eager differs too, and not by rounding: the code mixes the rows of a batch. Look for a mean, sum, norm "
    "or softmax over the batch dimension, and batch norm in train(); where that is meant, leave 'batch' out of over=",
    "run": "eager differs too, and not by rounding: the code keeps something from run to run, or draws random numbers "
    "that no seed of torch decides. Look for counters, caches and generators of its own",
    "process": "eager differs too, and not by rounding: the code depends on the process. Look for seeds taken from it, "
    "hash(), the order of sets, and environment variables",
}
VARIANT = {
    "batch": "kernels are chosen by the size of the batch: pad to one size, or state "
    "how far apart they may be: tolerance=Tolerance(rtol=..., atol=...)",
    "run": "look for atomic adds (index_add, scatter_add, some backwards) and memory that is never written: "
    "torch.use_deterministic_algorithms(True) names them",
    "process": "look for choices that are made by timing (max-autotune, coordinate descent tuning), for seeds "
    "taken from the process, and for sets, whose order depends on the process",
}
COMPILES_AFTER_LOADING = "look for torch.compile in custom ops and hooks that the artifact calls"

# A warm start that compiled something.
WHAT_DIFFERS = (
    "a key holds the graph, the shapes, the device, torch's version and configuration: look for what differs from the "
    "run that filled the cache; and see that --compile-cache names the place that it filled"
)
ONLY_INDUCTOR = "only Inductor has a cache: see that backend is 'inductor' and that force_disable_caches is not set"


def for_break(found: GraphBreak) -> str:
    """What to do about a graph break: ours where we know its category, else torch's own words.

    In a line of an installed package the caller cannot change it: what the caller can do comes first.
    """
    if found.numbers and found.category in NUMBERS_BREAK:
        fix = f"{' and '.join(found.numbers)}: {NUMPY_NUMBER}"
    elif found.category == "dynamic output shape":
        fix = dynamic_output_hint(f"{found.reason} {found.explanation}")
    else:
        # Torch does not know that eager ran: that the code may fail in eager is not what is wrong.
        hints = [hint for hint in found.hints if not MAY_FAIL_IN_EAGER.search(hint)]
        fix = BREAK_HINTS.get(
            found.category, hints[0] if hints else f"{REWRITE}, or accept the break by its fingerprint"
        )
    if not found.installed:
        return fix
    package = found.package
    return (
        f"the line belongs to {package}: call it outside of the compiled function, or allow breaks of {package}, "
        f"max_graph_breaks={{{package!r}: 1, '*': 0}}. For {package} itself: {fix}"
    )


def for_artifact(hint: str) -> str:
    """The fix line of a comparison, for an artifact: it has no backend to change."""
    return hint.replace(COMPARE_STAGES, COMPARE_ARTIFACT)


def after_break(line: int) -> str:
    """What to do about recompiles of what comes after a graph break."""
    return (
        f"graph break: the graph breaks at line {line}, so the code after it is compiled apart, with guards on all "
        "that it is handed. Remove the break first"
    )


def for_guard(cause: str) -> str:
    """What to do about a failed guard of this kind."""
    return f"{cause}: {EXPLANATIONS[cause]}"


def loosen(path: str) -> str:
    """How to accept a small difference in one leaf."""
    return (
        "if the difference is expected, loosen this leaf by name: "
        f"tolerances=Tolerances(leaves={{{path!r}: Tolerance(rtol=..., atol=...)}})"
    )


def keep_out_of_state(path: str) -> str:
    """What to do about something that the target keeps, and that only one leg writes."""
    return (
        "make compiled code write it too, or move the write out of the compiled function; if the difference is meant, "
        f"leave it out by name: tolerances=Tolerances(ignored=[{path!r}])"
    )


def fixed_size(size: str) -> str:
    """What to do about a dimension that is marked dynamic and that the code fixes to one size."""
    return (
        f"the code works for the size {size} only, because it compares the size with a number or uses it as one: "
        "rewrite that line, or remove the mark (dynamic_dims=..., mark_dynamic) from the dimension"
    )


RANKS_DIFFER = (
    "give every rank the same code and the same calls: no branch on the rank in compiled code, inputs of one shape and "
    "type, or mark what varies dynamic; ranks that differ on purpose, such as pipeline stages, are run with same=()"
)
