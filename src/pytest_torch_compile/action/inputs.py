"""The inputs of the action, validated before use."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

VARIABLE = "TORCH_COMPILE_INPUTS"


class InputError(ValueError):
    """Raised for an invalid input; the message is one line with the allowed values."""


def _wrong(name: str, text: str, allowed: str) -> InputError:
    return InputError(f"input {name.replace('_', '-')} is {text!r}; it must be {allowed}")


def _words(name: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise _wrong(name, text, f"valid shell words ({error})") from None


def _paths(name: str, text: str) -> tuple[str, ...]:
    words = _words(name, text)
    if any(word.startswith("-") for word in words):
        raise _wrong(name, text, "files, folders or test ids; pass options in extra-args")
    return words


def _shard(name: str, text: str) -> str:
    parts = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    if not parts or not 1 <= int(parts[1]) <= int(parts[2]):
        raise _wrong(name, text, "a number and a total such as 2/4")
    return text


def _matching(pattern: str, allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise _wrong(name, text, allowed)
        return text

    return parse


def _flag(name: str, text: str) -> bool:
    return _matching("(?i)true|false", "true or false")(name, text).lower() == "true"


_PATH = {"parse": _matching(r"[^-\r\n\0][^\r\n\0]*", "a path that does not start with a hyphen")}
_REVISION = _matching(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/-]*", "a branch, a tag or a commit")
_TORCH = _matching(r"[0-9]+(\.[0-9]+)*[A-Za-z0-9.+]*", "a version such as 2.13.0")
_PYTHON = _matching(r"3\.[0-9]{1,2}(\.[0-9]{1,2})?", "a version such as 3.12")
_EXTRAS = _matching(r"[A-Za-z0-9._-]+( *, *[A-Za-z0-9._-]+)*", "names of extras such as test,vision")
_NAME_OF_GPU = _matching(r"[A-Za-z0-9][A-Za-z0-9 ]*", "the name of a GPU such as H100")
_NAME = _matching(r"[A-Za-z0-9][A-Za-z0-9._ -]*", "a name that contains only letters, digits, spaces and . _ -")


@dataclass(frozen=True)
class Inputs:
    """All inputs in parsed form. An empty string means that an input is not set."""

    tests: tuple[str, ...] = field(default=(), metadata={"parse": _paths})
    select: str = field(default="", metadata={"parse": _matching(r"[^\r\n\0]*", "one line")})
    torch: str = field(default="", metadata={"parse": _TORCH})
    python: str = field(default="", metadata={"parse": _PYTHON})
    extras: str = field(default="", metadata={"parse": _EXTRAS})
    perf: str = field(default="off", metadata={"parse": _matching("off|track|gate", "off, track or gate")})
    plan: str = field(default="", metadata={"parse": _NAME_OF_GPU})
    baselines: str = field(default="", metadata=_PATH)
    update_baselines: bool = field(default=False, metadata={"parse": _flag})
    compare_with: str = field(default="", metadata={"parse": _REVISION})
    torch_old: str = field(default="", metadata={"parse": _TORCH})
    cache: str = field(default="true", metadata=_PATH)
    shard: str = field(default="", metadata={"parse": _shard})
    report_name: str = field(default="torch-compile-report", metadata={"parse": _NAME})
    annotations: bool = field(default=True, metadata={"parse": _flag})
    allow_forks: bool = field(default=False, metadata={"parse": _flag})
    extra_args: tuple[str, ...] = field(default=(), metadata={"parse": _words})
    working_directory: str = field(default=".", metadata=_PATH)


def read(environment: Mapping[str, str]) -> Inputs:
    """Read all inputs from one environment variable; missing or empty inputs get their default values.

    Raises:
        InputError: If an input is invalid; the message describes the first invalid input.
    """
    sent: dict[str, str] = json.loads(environment.get(VARIABLE, "{}"))
    parsed = {}
    for one in fields(Inputs):
        if text := str(sent.get(one.name.replace("_", "-"), "")).strip():
            parsed[one.name] = one.metadata["parse"](one.name, text)
    return Inputs(**parsed)
