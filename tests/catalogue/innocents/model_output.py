"""A dict subclass that is a dataclass too, in the manner of transformers' ModelOutput: its attributes are its keys."""

import pytest

from pytest_torch_compile import check_compile

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.linear(x)
        return transformers.modeling_outputs.BaseModelOutput(last_hidden_state=hidden, hidden_states=(x, hidden))


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, **options)
