"""Create a model and its calls from command-line arguments. This module imports torch only when it is needed."""

from __future__ import annotations

import importlib
import operator
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._torch.user_lines import is_library
from ..observation import file_line

GIVE_INPUTS = (
    "return (model, inputs), pass --inputs package.module:make_inputs, or pass the shape of each argument with "
    "--input 2,3,224,224"
)
Shapes = Sequence[Sequence[Sequence[int]]]  # for each call, the shape of each argument


class FactoryError(Exception):
    """Raised when the model or its inputs cannot be created; the message is one line."""


@dataclass(frozen=True)
class Example:
    """The model and its calls. ``expression`` is the source code of the calls, for a test that imports ``factory``."""

    factory: str
    model: Any
    items: list[Any]
    expression: str
    gives_inputs: bool = False
    is_model: bool = False
    is_dict: bool = False
    make_inputs: str = ""


def load(factory: str, make_inputs: str = "", shapes: Shapes = (), times: int | None = None) -> Example:
    """Create a model from ``factory``, which has the form ``package.module:name``, and create its calls.

    Args:
        factory: Returns ``model``, ``(model, inputs)`` or ``{"model": model, "inputs": inputs}``, or is itself an
            ``nn.Module``.
        make_inputs: Returns the inputs of one call, or a list with the inputs of several calls. These inputs replace
            the factory's inputs.
        shapes: The shapes of random inputs, which replace all other inputs.
        times: The number of calls. By default, there is one call for each item of the list of inputs, but there are at
            least two calls.

    Raises:
        FactoryError: If the factory or ``make_inputs`` cannot be imported, is not callable or raises, or if the model
            or its inputs are missing.
    """
    import torch

    attribute = _attribute(factory)
    is_model = isinstance(attribute, torch.nn.Module)
    made = attribute if is_model else _called(factory, attribute)
    model, inputs = _parts(made)
    if not callable(model):
        raise FactoryError(f"{factory} returns {_short(model)}, which is not a model: {_FORMS}")
    if shapes:
        items, expression = _random(shapes)
    elif make_inputs:
        items, expression = _listed(_called(make_inputs), f"{make_inputs.partition(':')[2]}()")
    elif inputs is None:
        raise FactoryError(f"{factory} returns a model without inputs: {GIVE_INPUTS}")
    else:
        items, expression = _listed(inputs, "inputs")
    if not items:
        raise FactoryError(f"{make_inputs or factory} returns an empty list of inputs: {GIVE_INPUTS}")
    wanted = times or max(2, len(items))
    if wanted % len(items) == 0:
        expression += f" * {wanted // len(items)}" if wanted > len(items) else ""
    else:
        expression = f"({expression} * {-(-wanted // len(items))})[:{wanted}]"
    items = [items[number % len(items)] for number in range(wanted)]
    return Example(
        factory,
        model,
        items,
        expression,
        gives_inputs=model is not made,
        is_model=is_model,
        is_dict=type(made) is dict,
        make_inputs="" if shapes else make_inputs,
    )


_FORMS = "it must return model, (model, inputs) or {'model': model, 'inputs': inputs}"


def _parts(made: Any) -> tuple[Any, Any]:
    """Return the model and its inputs; the inputs are None if the factory does not return any."""
    if type(made) is tuple and len(made) == 2:
        return made[0], made[1]
    if type(made) is dict and "model" in made and made.keys() <= {"model", "inputs"}:
        return made["model"], made.get("inputs")
    return made, None


def _listed(inputs: Any, name: str) -> tuple[list[Any], str]:
    return (inputs, name) if type(inputs) is list else ([inputs], f"[{name}]")


def _random(shapes: Shapes) -> tuple[list[Any], str]:
    import torch

    if wrong := [shape for call in shapes for shape in call if not shape or min(shape) < 0]:
        raise FactoryError(f"{wrong[0]} is not a valid input shape: pass sizes of 0 or more, for example 8,16")
    torch.manual_seed(0)
    items = [tuple(torch.randn(*shape, device="cpu") for shape in call) for call in shapes]
    texts = [", ".join(f"torch.randn{tuple(shape)}" for shape in call) for call in shapes]
    calls = [f"({text})" if len(call) > 1 else text for text, call in zip(texts, shapes, strict=True)]
    return items, f"[{', '.join(calls)}]"


def _called(spec: str, attribute: Any = None) -> Any:
    """Return the result of calling the object at ``spec`` without arguments."""
    attribute = _attribute(spec) if attribute is None else attribute
    if not callable(attribute):
        raise FactoryError(f"{spec} is {_short(attribute)}, which is not callable: it must be a function or a class")
    try:
        return attribute()
    except (Exception, SystemExit) as error:
        raise FactoryError(f"{spec}() raised {_said(error)}; it must be callable without arguments") from error


def _attribute(spec: str) -> Any:
    module, _, name = spec.partition(":")
    if not module or not name or not all(part.isidentifier() for part in f"{module}.{name}".split(".")):
        example = f"{module.removesuffix('.py').strip('./').replace('/', '.')}:{name or 'make_model'}"
        raise FactoryError(f"{spec!r} does not have the form package.module:name, such as {example}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise FactoryError(f"{module} cannot be imported: {_said(error)}") from error
    try:
        return operator.attrgetter(name)(imported)
    except AttributeError:
        public = [one for one, value in vars(imported).items() if callable(value) and not one.startswith("_")]
        others = ", ".join(public[:10]) or "no public functions"
        raise FactoryError(f"{module} has no {name}; it defines {others}") from None


def _said(error: BaseException) -> str:
    """Describe an exception, with the line of user code that raised it: ``ValueError: no width (models.py:3: raise
    ValueError("no width"))``.
    """
    if isinstance(error, SyntaxError):
        where = file_line(str(error.filename), error.lineno or 0)
        return f"SyntaxError: {error.msg} ({where}: {(error.text or '').strip()})"
    what = ": ".join(filter(None, [type(error).__name__, *str(error).splitlines()[:1]]))
    tools = (__file__, importlib.__file__)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if os.path.exists(one.filename)]
    own = [one for one in frames if one.filename not in tools and not is_library(one.filename)]
    if not own:
        return what
    return f"{what} ({file_line(os.path.relpath(own[-1].filename), own[-1].lineno or 0)}: {own[-1].line})"


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
