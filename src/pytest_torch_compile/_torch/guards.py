"""Parse the text of a failed guard: find the guarded argument or attribute, and classify the cause. This module does
not import torch.

The wording of guards was checked with torch 2.6 (``L['n'] == 2``), 2.8, 2.11, 2.13 and 2.15 (``n == 2``).
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress

from ..observation import FailedGuard

_ENTRY = re.compile(r"^(?P<entry>[\[\]!\d/.]+):\s*(?P<text>.*)", re.S)
_COMMENT = re.compile(r"\s{2,}#.*|\s+# .*", re.S)
_QUOTED_TENSOR = re.compile(r"^tensor '(?P<names>.+?)' ")
_TYPE = re.compile(r"^expected type of '(?P<names>.+?)' to be ")
_GLOBAL_STATE = re.compile(r"GLOBAL_STATE changed: (?P<names>.+)")
_HINT = re.compile(r"\s*\(HINT: .*", re.S)
_DELETED = re.compile(r"Cache line invalidated because (?P<path>.+) got deallocated")
_OBJECT_ID = re.compile(r"___check_obj_id\((?P<path>.+), (?P<id>\d+)\)(?:, type=.*)?")
_OBJECT_TYPE = re.compile(r"___check_type_id\((?P<path>.+), \d+\)(?:, type=(?P<type>.*))?")
_CONTAINS = re.compile(
    r"(?:not )?(?:___dict_contains\(.+, |set\.__contains__\()(?P<names>[LG]?[\w.\[\]'\"]+)(?:, .*)?\)$"
)
_NAN = re.compile(r".*math[._]isnan\((?P<names>[^()]+)\)")
_KEY_ERROR = re.compile(r"KeyError on (?P<names>.+)")
_KEY_SETS = re.compile(r"dispatch key set mismatch\. expected DispatchKeySet\((.*?)\), actual DispatchKeySet\((.*?)\)")
# A guard on one of these objects contains only the object's id.
_SINGLETONS = {id(True): "== True", id(False): "== False", id(None): "is None"}
_WRAPPING = re.compile(r"^(?:(?:not )?(?:len|list|type|id|__\w+|isinstance|hasattr|set|dict(?:\.keys)?)\(+)+")
_METHODS = re.compile(r"\.(?:size|stride|keys|dim|storage_offset|shape(?:\[\d+\])?|__code__)$")
_PATH = re.compile(r"(?:[LG]\[(?P<quote>['\"])\w+(?P=quote)\]|\b[A-Za-z_]\w*)(?:\.[A-Za-z_]\w*|\[[^\[\]]*\])*")

# Guards written as sentences with quoted names; all others are expressions.
_SENTENCE = re.compile(r"mismatch|expected type|GLOBAL_STATE|BACKEND_MATCH|KeyError on|dispatch keys|dim_marking")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_STRING_COMPARED = re.compile(rf"(?<=[=!]= )(?:{_STRING.pattern})")
_NAME = re.compile(r"(?<![\w'\"])[A-Za-z_]\w*(?![\w(])")
_SYMBOL = re.compile(r"s\d+")
_MEANT = {
    *("L", "G", "not", "is", "in", "None", "True", "False", "inf", "nan", "set", "dict", "list"),
    *("shape", "training", "cell_contents", "the", "same", "object", "class"),
}

OTHER = "other"
# Ordered from specific to general; the first match applies.
_CAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("new-backend", re.compile(r"BACKEND_MATCH|___current_backend|skip_backend_check")),
    ("dynamic-mark", re.compile(r"_has_dynamo_dim_marking|_dynamo_(?:dynamic|weak_dynamic|static)_indices")),
    ("size-0-or-1", re.compile(r"size mismatch at index -?\d+\. expected (?:[01], actual|\d+, actual [01]\b)")),
    ("size", re.compile(r"size mismatch at index")),
    ("stride", re.compile(r"stride mismatch|strides? mismatch|\.stride\(\)|is_contiguous")),
    ("rank", re.compile(r"rank mismatch|\.dim\(\)")),
    ("dtype", re.compile(r"dtype mismatch")),
    ("device", re.compile(r"device index mismatch|device mismatch")),
    ("device", re.compile(r"dispatch keys changed: (?:.*, )?(?:CPU|CUDA|HIP|XPU|MPS|HPU|Meta|PrivateUse\d)\b")),
    ("type", re.compile(r"expected type of '|^type\(.+\) is (?:<class|the same)")),
    ("requires-grad", re.compile(r"requires_grad mismatch")),
    ("autocast", re.compile(r"dispatch keys changed: [^\n]*Autocast")),
    ("dispatch-keys", re.compile(r"dispatch keys? (?:set mismatch|changed)")),
    ("grad-mode", re.compile(r"grad_mode|is_grad_enabled|GRAD_MODE")),
    ("autocast", re.compile(r"autocast", re.I)),
    ("inference-mode", re.compile(r"inference_mode|is_inference")),
    ("threads", re.compile(r"GLOBAL_STATE.*num_threads")),
    ("deterministic", re.compile(r"GLOBAL_STATE.*deterministic_alg")),
    ("default-dtype", re.compile(r"GLOBAL_STATE.*default_dtype")),
    ("global-state", re.compile(r"check_global_state|GLOBAL_STATE")),
    ("global-state", re.compile(r"torch_function_mode_stack")),
    ("train-or-eval", re.compile(r"\.training\b|\['training'\]")),
    ("duck-shape", re.compile(r"(?:size\(\)|shape)\[\d+\]\s*(?:==|!=)\s*[^\n]*(?:size\(\)|shape)\[\d+\]")),
    ("constant-size", re.compile(r"(?:size\(\)|shape)\[\d+\][^\n]*==\s*-?\d+\.\d")),  # a float made from a size
    ("size-0-or-1", re.compile(r"2 <= [^<>=]*(?:size\(\)|shape)\[\d+\]$")),
    ("size-0-or-1", re.compile(r"(?:size\(\)|shape)\[\d+\] (?:[!=]= [01]\b|> 1\b|>= 2\b)")),
    ("size", re.compile(r"(?:size\(\)|shape)\[\d+\]|^Eq\(|^Ne\(|\bs\d+\b")),
    ("attribute", re.compile(r"___dict_contains\([^,]*, [^,]*\.__dict__\)")),
    ("length", re.compile(r"\blen\(|list\(.*keys|dict_keys|KeyError|DICT_(?:LENGTH|KEYS)")),
    ("length", re.compile(r"^not (?:_|[LG]\[)[^()<>=]*$")),  # an empty container
    ("length", re.compile(r"___dict_(?:version|contains)|set\.__contains__|not in | in (?:L|G)\[")),
    ("python-number", re.compile(r"math[._]isnan")),
    ("new-object", re.compile(r"is the same object|check_(?:obj|type)_id|weakref|ID_MATCH| is (?:not )?None|type\(")),
    ("closure", re.compile(r"__closure__|cell_contents")),
    ("global", re.compile(r"G\[")),
    ("python-bool", re.compile(r"== (?:True|False)\b")),
    ("python-string", re.compile(r"""==\s*(?:'|")""")),
    ("python-number", re.compile(r"==\s*-?(?:\d|inf|nan|float)|isinstance\(.*(?:int|float)")),
    ("python-value", re.compile("==")),
)  # fmt: skip


def parse_recompile_reasons(payload: str) -> list[str]:
    """Return the reasons for a recompile; the first reason is about the newest cache entry. The payload is a single
    reason or a JSON list of reasons.
    """
    for parse in (json.loads, ast.literal_eval) if payload.lstrip().startswith("[") else ():
        with suppress(ValueError, SyntaxError):
            return [str(reason) for reason in parse(payload)]
    return [payload]


def parse_guard(reason: str) -> FailedGuard:
    """Parse one reason, such as ``0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5``."""
    match = _ENTRY.match(reason.strip())
    entry, text = (match["entry"], match["text"]) if match else ("", reason)
    raw = _COMMENT.sub("", text.split("\nUser stack trace")[0].split("\n")[0]).strip() or text.strip()
    raw = _plain(_HINT.sub("", raw.split(". Cached backend:")[0])) or "torch reported no guard"
    cause = classify(raw)
    # A guard whose cause is unknown is shown unchanged.
    as_it_is = text.split("\nUser stack trace")[0].strip()
    return FailedGuard(entry, as_it_is if cause == OTHER and as_it_is else readable(raw), _names(raw), cause)


def _plain(text: str) -> str:
    """Remove object ids and full sets of dispatch keys from a guard's text."""
    if match := _OBJECT_ID.fullmatch(text):
        return _same_object(match)
    if match := _DELETED.fullmatch(text):
        return f"{match['path']} is the same object"
    if match := _OBJECT_TYPE.fullmatch(text):
        return f"type({match['path']}) is {match['type'] or 'the same'}"
    if match := _KEY_SETS.search(text):
        changed = sorted(set(match[1].split(", ")) ^ set(match[2].split(", ")))
        return text.replace(match[0], f"dispatch keys changed: {', '.join(changed)}")
    return text


def _same_object(guard: re.Match[str]) -> str:
    return f"{guard['path']} {_SINGLETONS.get(int(guard['id']), 'is the same object')}"


def classify(text: str) -> str:
    """Classify the cause of a failed guard, ignoring variable names, keys and string literals."""
    text = _without_names(text)
    for name, pattern in _CAUSES:
        if pattern.search(text):
            return name
    return OTHER


def _without_names(text: str) -> str:
    """Replace names and string contents in the guard's text with ``_``, except those that identify the cause."""
    if _SENTENCE.search(_STRING_COMPARED.sub("''", text)):
        return re.sub(r"(tensor|of|on) '.+?'(?= |$)", r"\1 '_'", text)
    is_variable = re.match(r"s\d+\b[^<>*+]*==", text) is not None

    def name(found: re.Match[str]) -> str:
        word = found[0]
        symbol = _SYMBOL.fullmatch(word) is not None and not is_variable
        return word if word in _MEANT or word.startswith("__") or symbol else "_"

    def string(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith("'_dynamo_") or "training" in found[0] else "'_'"

    return _NAME.sub(name, _STRING.sub(string, text))


def readable(text: str) -> str:
    """Replace dynamo's notation in a guard (``L['x']``, ``_modules['x']``) with plain names, and remove object ids."""
    text = re.sub(r"___from_numpy\((.+?)\)", r"\1", _OBJECT_ID.sub(_same_object, text))
    text = re.sub(r"L\[(['\"])(\w+)\1\]", r"\2", text)
    text = re.sub(r"G\[(['\"])(\w+)\1\]", r"global \2", text)
    return re.sub(r"\._(?:modules|buffers|parameters)\[(['\"])([^'\"]+)\1\]", r".\2", text)


def _names(text: str) -> str:
    for pattern in (_QUOTED_TENSOR, _TYPE, _GLOBAL_STATE, _CONTAINS, _NAN, _KEY_ERROR):
        if quoted := pattern.match(text):
            return readable(quoted["names"])
    numeric = re.sub(r"^(?:\(*-?\d+ (?:<=?|==)|not) ", "", _WRAPPING.sub("", text))
    match = _PATH.search(numeric)
    return _METHODS.sub("", readable(match.group(0))) if match else ""
