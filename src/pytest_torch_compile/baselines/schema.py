"""Read untrusted JSON documents. The size and depth of a document are limited, and each document is validated against a
schema before use.

This module supports the JSON Schema keywords in ``KEYWORDS``. Integers must fit into 64 bits, and other numbers into a
float.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]
MOST_BYTES = 128 * 2**20
MOST_LEVELS = 40
KEYWORDS = frozenset(
    {"type", "enum", "const", "anyOf", "$ref", "minimum", "maximum", "exclusiveMinimum", "items", "prefixItems"}
    | {"minItems", "maxItems", "pattern", "properties", "required", "additionalProperties"}
)
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


class Refused(ValueError):
    """Raised for a document that cannot be used; the message is a predicate without a subject, such as "is not valid
    JSON".
    """


def read(path: Path) -> Any:
    """Return the JSON value in a file.

    Raises:
        OSError: If the file cannot be read.
        Refused: If the document is too large or too deep, is invalid JSON, or contains a non-finite number.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    return parse(content)


def parse(content: bytes) -> Any:
    """Return the value of a JSON text. Raise ``Refused`` for the same reasons as ``read``."""
    if len(content) > MOST_BYTES:
        raise Refused(f"is larger than {MOST_BYTES // 2**20} MiB")
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refuse)
    except Refused:
        raise
    except RecursionError:
        raise Refused(f"is nested deeper than {MOST_LEVELS} levels") from None
    except ValueError as error:
        raise Refused(f"is not valid JSON ({error})") from None
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MOST_LEVELS):
        items = (item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer))
        level = [item for item in items if isinstance(item, (dict, list))]
    if level:
        raise Refused(f"is nested deeper than {MOST_LEVELS} levels")
    return value


def _refuse(constant: str) -> None:
    raise Refused(f"contains {constant}, which is not a valid measurement")


def problem(value: Any, schema: Schema, whole: Schema | None = None, at: str = "") -> str:
    """Return a description of the first schema violation in a value, or an empty string if it is valid.

    ``whole`` is the schema in which references are resolved, and ``at`` is the path of the value inside the document.
    """
    whole = schema if whole is None else whole
    if "$ref" in schema:
        return problem(value, whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, at)
    if "anyOf" in schema:
        problems = [problem(value, choice, whole, at) for choice in schema["anyOf"]]
        # Report the error of the alternative that matched furthest.
        return "" if "" in problems else max(problems, key=lambda text: len(text.partition(" ")[0]))
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return f"{at or 'it'} must be of type {' or '.join(kinds)}, not {shown(value)}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and not any(type(value) is type(one) and value == one for one in allowed):
        return f"{at or 'it'} must be {' or '.join(map(str, allowed))}, not {shown(value)}"
    if isinstance(value, dict):
        return _in_object(value, schema, whole, at)
    if isinstance(value, list):
        return _in_array(value, schema, whole, at)
    if isinstance(value, str) and "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        return f"{at or 'it'} does not match {schema['pattern']}: {shown(value)}"
    if isinstance(value, (int, float)):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            return f"{at or 'it'} is out of range: {shown(value)}"
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            return f"{at or 'it'} must be greater than {schema['exclusiveMinimum']}, not {shown(value)}"
    return ""


def _is(value: Any, kind: str) -> bool:
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind == "integer":
        return bool(-(2**63) <= value < 2**63)
    return kind != "number" or bool(-sys.float_info.max <= value <= sys.float_info.max)


def _in_object(value: Mapping[str, Any], schema: Schema, whole: Schema, at: str) -> str:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at or 'it'} has no {name}"
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        own = properties.get(name, others)
        if own is False:
            return f"{at or 'it'} has the key {shown(name)}, which is not allowed"
        place = f"{at}.{name}" if name in properties else f"{at}[{shown(name)}]"
        if own is not True and (text := problem(item, own, whole, place.lstrip("."))):
            return text
    return ""


def _in_array(value: list[Any], schema: Schema, whole: Schema, at: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{at or 'it'} has the wrong number of items: {len(value)}"
    first = schema.get("prefixItems", ())
    for place, item in enumerate(value):
        own = first[place] if place < len(first) else schema.get("items")
        if own is not None and (text := problem(item, own, whole, f"{at}[{place}]")):
            return text
    return ""


def shown(value: Any, width: int = 60) -> str:
    """Show a value on one line of limited width, without terminal control characters."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    text = ascii(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."
