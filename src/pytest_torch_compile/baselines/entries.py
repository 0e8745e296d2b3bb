"""The schemas of baseline entries. A baseline file is rejected if any entry does not match the schema.

An entry may also contain keys that its schema does not list, because pytest-benchmark and newer versions of this plugin
add keys.
"""

from __future__ import annotations

from .schema import Schema

# The largest allowed number. It is larger than any time or size, but its square is still finite.
LARGEST = 1e100

NUMBER: Schema = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": LARGEST}
TEXT: Schema = {"type": "string"}
NAMED: Schema = {"type": "object", "required": ["fullname"], "properties": {"fullname": TEXT}}
# The log of a ratio of times. The bounds exceed any measured value, but the exponential of a difference is still
# finite.
RATIO: Schema = {"type": "number", "minimum": -300, "maximum": 300}
POSITIVE: Schema = {**NUMBER, "exclusiveMinimum": 0}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


# The eager value, the compiled value, and log(compiled / eager).
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
        "compile_processes": _list_of(COUNT),
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
# All recorded values of each count in a speed test.
COUNTS: Schema = {
    "type": "object",
    "properties": {"python": TEXT},
    "additionalProperties": {**_list_of(COUNT), "minItems": 1},
}
# One kernel or library function in a plan (--compile-plan), and its number of launches in one call.
LAUNCHES: Schema = {
    "type": "object",
    "required": ["name", "ops", "times"],
    "properties": {"name": TEXT, "ops": _list_of(TEXT), "times": COUNT},
}
# The possible results of --compile-existing for a target, from best to worst.
# The results in ``existing/verdicts.py``, apart from "not checked".
VERDICTS = (
    *("works", "works so far", "not observable", "recompiles", "breaks", "does not compile", "different state"),
    "wrong",
)
# The schema of one entry in each kind of file.
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
    "plan": {
        "type": "object",
        "required": ["fullname", "counts", "launches", "graph_breaks"],
        "properties": {
            "fullname": TEXT,
            "counts": {"type": "object", "additionalProperties": COUNT},
            "launches": _list_of(LAUNCHES),
            "graph_breaks": _list_of(TEXT),
        },
    },
}
