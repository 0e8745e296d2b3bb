"""Advice that names switches of torch which are not public: read on torch 2.6, 2.8, 2.11, 2.13 and 2.15. No torch."""

from __future__ import annotations

import re

SURFACE_ERRORS = "fix the error, or set torch._dynamo.config.suppress_errors = False to let it surface"
SEE_CACHE_BYPASS = "TORCH_LOGS=+torch._inductor.codecache says why a graph is not cached: often an op or a custom pass"

MAY_FAIL_IN_EAGER = re.compile(r"may result in an error when running in eager")
_DOUBT = re.compile(rf"^\s*Hint: [^\n]*{MAY_FAIL_IN_EAGER.pattern}.*(?:\n {{4}}.*)*\n?", re.M)

_CAPTURE = "or let dynamo capture such ops: torch._dynamo.config.capture_dynamic_output_shape_ops = True"
_DYNAMIC_OUTPUTS = {
    "nonzero": "torch.nonzero(c), torch.where(c) with one argument and x[mask] give as many rows as the data says: use "
    "torch.where(c, a, b) with all three arguments, multiply by the mask, or torch.nonzero_static(c, size=n)",
    "masked_select": "torch.masked_select and x[mask] give as many elements as the data says: use "
    "torch.where(mask, x, fill), or multiply by the mask",
    "_?unique": "torch.unique gives as many elements as the data says: call it outside, or sort and compare neighbours",
    "repeat_interleave": "give the length of the result: torch.repeat_interleave(x, repeats, output_size=n)",
    "bincount": "torch.bincount has as many bins as the data says: use "
    "torch.zeros(n, dtype=x.dtype).scatter_add(0, x, torch.ones_like(x))",
}


def without_doubt(said: str) -> str:
    """Torch's text without the hint that the code may fail in eager, which has run."""
    return _DOUBT.sub("", said)


def dynamic_output_hint(reason: str) -> str:
    """What to write in place of an op whose output shape depends on data; ``reason`` is torch's text, with the op."""
    for op, hint in _DYNAMIC_OUTPUTS.items():
        if re.search(rf"aten\.{op}", reason):
            return f"{hint}; {_CAPTURE}"
    return f"the op's output shape depends on data: use a form with a fixed shape, or call it outside; {_CAPTURE}"
