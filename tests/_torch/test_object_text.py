import dataclasses
import enum
import functools
from types import SimpleNamespace

import pytest
import torch

from pytest_torch_compile._torch.object_text import message_of, name_of, repr_of, text_of, text_of_error


class Silent:
    """An object that raises an exception, whatever is asked of it."""

    def refuse(self, *args):
        raise RuntimeError("private")

    __repr__ = __str__ = __getattr__ = __len__ = __bool__ = __eq__ = __hash__ = __iter__ = refuse


class Colour(enum.Enum):
    RED = 1

    def __repr__(self):
        raise RuntimeError("private")


@dataclasses.dataclass(repr=False)
class Settings:
    width: int
    owner: object
    __repr__ = Silent.refuse


@dataclasses.dataclass(slots=True)
class Slotted:
    width: int


class RefusingMeta(type):
    def refuse(cls, *args):
        raise RuntimeError("private")

    __repr__ = __eq__ = __hash__ = __getattr__ = refuse


class OfRefusingMeta(metaclass=RefusingMeta):
    pass


class Text(str):
    def __repr__(self):
        raise RuntimeError("private")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: 3, "3"),
        (lambda: "a", "'a'"),
        (lambda: None, "None"),
        (lambda: [1, (2,), {"a": {3}}], "[1, (2,), {'a': {3}}]"),
        (lambda: [set(), (), []], "[set(), (), []]"),
        (lambda: torch.float16, "torch.float16"),
        (lambda: torch.device("cpu"), "device(type='cpu')"),
        (lambda: torch.Size([2, 3]), "torch.Size([2, 3])"),
        (lambda: Colour.RED, "Colour.RED"),
        (lambda: len, "len"),
        (lambda: Colour, "Colour"),
        (lambda: Settings(3, Silent()), "Settings(width=3, owner=Silent(...))"),
        (lambda: [Slotted(3)], "[Slotted(width=3)]"),
        (lambda: Silent(), "Silent(...)"),
        (lambda: [Silent(), 1], "[Silent(...), 1]"),
        (lambda: Text("a"), "Text(...)"),
        (lambda: OfRefusingMeta(), "OfRefusingMeta(...)"),
        (lambda: SimpleNamespace(a=Silent()), "SimpleNamespace(...)"),
        (lambda: torch.nn.Linear(1, 1), "Linear(...)"),
        (lambda: list(range(30)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11..."),
    ],
)
def test_text_of_a_value_runs_none_of_its_code(make, text):
    assert text_of(make()) == text


def test_text_of_a_cyclic_list_ends():
    cyclic = []
    cyclic.append(cyclic)
    assert text_of(cyclic) == "[[[list(...)]]]"


def test_name_of_functions_classes_and_objects():
    def wrapped():
        pass

    held = functools.wraps(wrapped)(SimpleNamespace())
    assert name_of(Silent.refuse) == name_of(Silent().__class__.refuse) == "Silent.refuse"
    assert name_of(OfRefusingMeta) == name_of(OfRefusingMeta()) == "OfRefusingMeta"
    assert name_of(held).endswith("wrapped")
    assert name_of(Silent()) == "Silent"


def test_shown_texts_survive_failing_methods():
    class Silence(Exception):
        def __str__(self):
            raise KeyError("no text")

    assert repr_of(Silent()) == "<Silent, whose __repr__ raises RuntimeError>"
    assert repr_of("a" * 100) == f"'{'a' * 76}..."
    assert message_of(Silence()) == "no message, because __str__ raises KeyError"
    assert message_of(ValueError("wrong")) == "wrong"
    assert text_of_error(ValueError("wrong")) == "ValueError: wrong"
