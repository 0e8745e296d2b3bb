"""Advice that mentions private torch settings. The settings were checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15. This
module does not import torch.
"""

from __future__ import annotations

import re

SURFACE_ERRORS = "fix the error, or set torch._dynamo.config.suppress_errors = False so that torch raises it"
SEE_CACHE_BYPASS = (
    "set TORCH_LOGS=+torch._inductor.codecache to see why a graph is not cached; the usual cause is an op that "
    "cannot be cached, or a custom pass"
)

MAY_FAIL_IN_EAGER = re.compile(r"may result in an error when running in eager")
MAY_FOLLOW = re.compile(r"may have been caused by an earlier graph break")
RAISED_IN_CODE = re.compile(r"^Observed exception")
# A setting that torch names incorrectly in its hint.
_WRONG_NAME = re.compile(r"\btorch\._dynamo\.trace_autograd_ops\b")
_NOTHING_SAID = re.compile(r"^\s*(?:Explanation|Developer debug context):[ ]*\n", re.M)
_DOUBT = re.compile(rf"^\s*Hint: [^\n]*{MAY_FAIL_IN_EAGER.pattern}.*(?:\n {{4}}.*)*\n?", re.M)

_CAPTURE = (
    "or let dynamo capture ops with data-dependent output shapes: "
    "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
)
_DYNAMIC_OUTPUTS = {
    "nonzero": "torch.nonzero(c), one-argument torch.where(c) and x[mask] return a "
    "data-dependent number of rows; use torch.where(c, a, b) with three arguments, "
    "multiply by the mask, or use torch.nonzero_static(c, size=n)",
    "masked_select": "torch.masked_select and x[mask] return a data-dependent number of "
    "elements; use torch.where(mask, x, fill), or multiply by the mask",
    "_?unique": "torch.unique returns a data-dependent number of elements; call it "
    "outside the compiled function, or sort its input and compare neighboring elements",
    "repeat_interleave": "pass the length of the result: torch.repeat_interleave(x, repeats, output_size=n)",
    "bincount": "torch.bincount returns a data-dependent number of bins; use "
    "torch.zeros(n, dtype=x.dtype).scatter_add(0, x, torch.ones_like(x))",
}


def without_doubt(said: str) -> str:
    """Remove from torch's message the hint that the code may fail in eager mode, because the eager run has already
    succeeded, and headings without text.
    """
    return _NOTHING_SAID.sub("", _DOUBT.sub("", said))


def corrected(hint: str) -> str:
    """Return torch's hint with the correct name of the setting that it mentions."""
    return _WRONG_NAME.sub("torch._dynamo.config.trace_autograd_ops", hint)


def dynamic_output_hint(reason: str) -> str:
    """Return advice on replacing an op that has a data-dependent output shape. ``reason`` is torch's message."""
    for op, hint in _DYNAMIC_OUTPUTS.items():
        if re.search(rf"aten\.{op}", reason):
            return f"{hint}; {_CAPTURE}"
    return (
        "the op's output shape depends on data; use an alternative with a fixed "
        f"shape, or call the op outside the compiled function; {_CAPTURE}"
    )
