"""What an entry of a baseline must hold, so that a damaged one is refused where the file is read. Plain data.

Keys that are not named here are allowed: pytest-benchmark and newer versions have theirs.
"""

from __future__ import annotations

from ..schema import Schema

# No seconds and no bytes come near it, and sums and squares of figures under it are finite.
LARGEST = 1e100

NUMBER: Schema = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": LARGEST}
TEXT: Schema = {"type": "string"}
NAMED: Schema = {"type": "object", "required": ["fullname"], "properties": {"fullname": TEXT}}
# Far beyond any speedup, and its exponential is finite, also of the difference of two.
RATIO: Schema = {"type": "number", "minimum": -300, "maximum": 300}
POSITIVE: Schema = {**NUMBER, "exclusiveMinimum": 0}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


# Eager, compiled, and the log of their ratio.
FIGURES: Schema = {"type": "array", "prefixItems": [POSITIVE, POSITIVE, RATIO], "minItems": 3, "maxItems": 3}
RUN: Schema = {"type": "object", "required": ["wall"], "additionalProperties": FIGURES}
OURS: Schema = {
    "type": "object",
    "required": ["runs"],
    "properties": {
        "runs": _list_of(RUN),
        "devices": _list_of(TEXT),
        "codes": _list_of(TEXT),
        "kept_caches": _list_of({"type": "boolean"}),
    },
}
CHECK: Schema = {
    "type": "object",
    "required": ["target", "backend", "checked_mode", "graphs", "graph_breaks", "recompiles", "cudagraph_skips"],
    "properties": {
        "target": TEXT,
        "backend": TEXT,
        "checked_mode": TEXT,
        "graphs": _list_of(COUNT),
        "graph_breaks": _list_of(TEXT),
        "recompiles": COUNT,
        "cudagraph_skips": COUNT,
        "guards": COUNT,
    },
}
# Every value that was recorded of what a timing counts.
COUNTS: Schema = {
    "type": "object",
    "properties": {"python": TEXT},
    "additionalProperties": {**_list_of(COUNT), "minItems": 1},
}
# Of a target that --compile-existing checks, from best to worst.
VERDICTS = ("works", "recompiles", "breaks", "does not compile", "wrong")
# The entry of a test in each kind of file.
SCHEMAS: dict[str, Schema] = {
    "speed": {
        "type": "object",
        "required": ["fullname", "extra_info"],
        "properties": {
            "fullname": TEXT,
            "extra_info": {"type": "object", "required": ["torch_compile"], "properties": {"torch_compile": OURS}},
        },
    },
    "structure": {
        "type": "object",
        "required": ["fullname", "checks"],
        "properties": {"fullname": TEXT, "checks": _list_of(CHECK), "counts": COUNTS},
    },
    "existing": {
        "type": "object",
        "required": ["fullname", "verdict", "breaks", "kinds"],
        "properties": {
            "fullname": TEXT,
            "verdict": {"type": "string", "enum": list(VERDICTS)},
            "breaks": _list_of(TEXT),
            "kinds": _list_of(TEXT),
        },
    },
}
