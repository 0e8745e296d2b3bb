"""tensordict under torch.compile: every operation on a TensorDict compiles to one graph, and modules built for
TensorDicts work."""

import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, UnbatchedTensor
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from examples.planted import KINDS, plant
from pytest_torch_compile import CompileCheckFailed


def entries(batch):
    generator = torch.Generator().manual_seed(batch)
    sizes = {"a": (batch, 4), "b": (batch, 2), "c": (batch,)}
    return {name: torch.randn(size, generator=generator, requires_grad=True) for name, size in sizes.items()}


def tensordict(batch=3):
    a, b, c = entries(batch).values()
    return TensorDict({"a": a, "nested": {"b": b, "deep": {"c": c}}}, batch_size=[batch])


def build(td, **more):
    return TensorDict({"a": td["a"] * 2, "nested": {"b": td["nested", "b"]}}, batch_size=td.batch_size, **more)


def written(td, write):
    """The TensorDict after a write to an independent copy."""
    copy = td * 1
    write(copy)
    return copy


def summed(tds):
    return sum(td["a"] for td in tds)


OPERATIONS = {
    "get": lambda td: td["a"] * td.get("a"),
    "get nested": lambda td: td["nested", "deep", "c"] * 2,
    "get with default": lambda td: td.get("missing", td["a"]) * 2,
    "construct": build,
    "construct with names": lambda td: build(td, names=["time"]),
    "construct unsafe": lambda td: TensorDict._new_unsafe({"a": td["a"] + 1}, batch_size=td.batch_size),
    "from dict": lambda td: TensorDict.from_dict({"a": td["a"] * 2}, batch_size=[3]),
    "index by slice": lambda td: td[1:] * 2,
    "index by int": lambda td: td[0] * 2,
    "index by tensor": lambda td: td[torch.tensor([0, 2])] * 2,
    "index by mask": lambda td: td[torch.tensor([True, False, True])] * 2,
    "index by ellipsis": lambda td: td[..., 1:] * 2,
    "index by none": lambda td: td[:, None] * 2,
    "index set": lambda td: written(td, lambda copy: copy.__setitem__(slice(0, 1), td[2:])),
    "gather": lambda td: td.gather(0, torch.tensor([2, 1, 0])),
    "masked select": lambda td: td.masked_select(torch.tensor([True, False, True])) * 2,
    "stack": lambda td: torch.stack([td, td + 1], 0),
    "stack inside": lambda td: torch.stack([td, td + 1], 1),
    "stack lazily": lambda td: LazyStackedTensorDict(td * 2, td + 1, stack_dim=0)["a"],
    "maybe dense stack": lambda td: TensorDict.maybe_dense_stack([td, td + 1]),
    "cat": lambda td: torch.cat([td, td * 2], 0),
    "split": lambda td: summed((td * 2).split(1)),
    "chunk": lambda td: td.chunk(3)[1] * 2,
    "unbind": lambda td: summed((td * 2).unbind(0)),
    "gather from split sizes": lambda td: td.split([1, 2])[1] * 2,
    "reshape": lambda td: (td * 2).reshape(3, 1),
    "view": lambda td: (td * 2).view(1, 3),
    "expand": lambda td: (td * 2).expand(2, 3),
    "repeat": lambda td: td.repeat(2),
    "repeat interleave": lambda td: td.repeat_interleave(2, dim=0),
    "transpose": lambda td: (td * 2).unsqueeze(0).transpose(0, 1),
    "permute": lambda td: (td * 2).unsqueeze(0).permute(1, 0),
    "unsqueeze": lambda td: (td * 2).unsqueeze(-1),
    "squeeze": lambda td: (td * 2).unsqueeze(-1).squeeze(-1),
    "flatten": lambda td: (td * 2).unsqueeze(0).flatten(0, 1),
    "unflatten": lambda td: (td * 2).unflatten(0, (1, 3)),
    "flatten keys": lambda td: (td * 2).flatten_keys("."),
    "unflatten keys": lambda td: (td * 2).flatten_keys(".").unflatten_keys("."),
    "select": lambda td: (td * 2).select("a", ("nested", "b")),
    "select what is not there": lambda td: (td * 2).select("a", "missing", strict=False),
    "exclude": lambda td: (td * 2).exclude(("nested", "deep")),
    "split keys": lambda td: (td * 2).split_keys(["a"])[0],
    "rename": lambda td: written(td, lambda copy: copy.rename_key_("a", "z")),
    "pop": lambda td: (td * 2).pop("a") + 1,
    "delete": lambda td: written(td, lambda copy: copy.del_("a")),
    "keys": lambda td: sum(td[key].sum() for key in td.keys(include_nested=True, leaves_only=True)),
    "values": lambda td: sum(value.sum() for value in td.values(include_nested=True, leaves_only=True)),
    "items": lambda td: {str(key): value * 2 for key, value in td.items(True, True)},
    "to dict": lambda td: (td * 2).to_dict(),
    "clone": lambda td: td.clone() * 2,
    "shallow clone": lambda td: td.clone(recurse=False)["a"] * 2,
    "copy": lambda td: td.copy()["a"] * 2,
    "empty": lambda td: td.empty().set("a", td["a"] * 2),
    "zeros like": lambda td: torch.zeros_like(td)["a"] + td["a"],
    "lock": lambda td: (td * 2).lock_(),
    "unlock": lambda td: (td * 2).lock_().unlock_().set("z", td["a"]),
    "lock for a while": lambda td: written(td, lambda copy: copy.lock_().unlock_().set_("a", td["a"] * 3)),
    "set": lambda td: (td * 2).set("z", td["a"] + 1),
    "set in place": lambda td: written(td, lambda copy: copy.set_("a", td["a"] * 3)),
    "update": lambda td: (td * 2).update({"a": td["a"] * 3}),
    "update in place": lambda td: written(td, lambda copy: copy.update_({"a": td["a"] * 3})),
    "replace": lambda td: td.replace(a=td["a"] * 3)["a"],
    "dtype": lambda td: td.to(torch.float64) * 2,
    "device": lambda td: (td * 2).to("cpu"),
    "names": lambda td: build(td, names=["time"]).refine_names("time") + 1,
    "apply": lambda td: td.apply(torch.sin),
    "named apply": lambda td: td.named_apply(lambda name, value: value * len(name), nested_keys=False),
    "apply to two": lambda td: td.apply(torch.add, td * 2),
    "arithmetic": lambda td: (td + 1) * td - td / 2,
    "power": lambda td: td.abs().sqrt() ** 2,
    "in-place arithmetic": lambda td: written(td, lambda copy: copy.mul_(3)),
    "lerp": lambda td: td.lerp(td * 2, 0.5),
    "norm": lambda td: td.norm(),
    "clamp": lambda td: td.clamp(-0.5, 0.5),
    "sum of each": lambda td: td.sum(dim=0),
    "mean of all": lambda td: td.mean(),
    "where": lambda td: td.where(td["a"].sum(-1) > 0, td * 2),
    "not a tensor": lambda td: (td * 2).set("word", NonTensorData("text", batch_size=[3]))["a"],
    "unbatched": lambda td: td.clone(False).set("free", UnbatchedTensor(torch.ones(5))).clone()["a"] + 1,
    "vmap": lambda td: torch.vmap(lambda one: one["a"].sin() + 1)(td),
}


def built(a, b):
    return TensorDict({"a": a, "nested": {"b": b}}, batch_size=[a.shape[0]])


def both(td):
    return td["a"], td["nested", "b"]


def inputs(batch):
    generator = torch.Generator().manual_seed(batch)
    return torch.randn(batch, 4, generator=generator), torch.randn(batch, 2, generator=generator)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        first = TensorDictModule(nn.Linear(4, 8), in_keys=["a"], out_keys=["hidden"])
        second = TensorDictModule(nn.Linear(8, 2), in_keys=["hidden"], out_keys=["action"])
        self.steps = TensorDictSequential(first, second)

    def forward(self, a, b):
        return self.steps(built(a, b))["action"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(compile_check, name):
    compile_check(OPERATIONS[name], tensordict(), train=True)


def test_modules_and_their_gradients(compile_check):
    compile_check(Policy(), *inputs(3), train=True)


def test_batches_cost_one_recompile_and_new_contents_none(compile_check):
    compile_check(Policy(), calls=[inputs(3), inputs(3), inputs(5), inputs(9)], max_recompiles=1)


def broken(a, b):
    td = built(a, b)
    return both(td + 1 if td["a"].sum() > 0 else td)


def wrong(a, b):
    return both(built(a, b) * (1.001 if torch.compiler.is_compiling() else 1.0))


def named(a, b, key):
    return TensorDict({key: a}, batch_size=[3])[key] + b.sum()


@pytest.mark.parametrize(
    ("planted", "kind"),
    [(broken, "graph-break"), (wrong, "numerics"), (named, "recompile")],
    ids=["break", "wrong number", "recompile"],
)
def test_what_is_planted_is_found(compile_check, planted, kind):
    calls = [(*inputs(3), key) for key in "xy"] if kind == "recompile" else [inputs(3)]
    with pytest.raises(CompileCheckFailed) as failed:
        compile_check(planted, calls=calls, diagnose="off")
    assert {finding.kind for finding in failed.value.findings} == {kind}


# Locations of planted defects in tensordict, with code that uses them.
SITES = {
    "permute": ("tensordict._td:TensorDict._permute", lambda td: td.unsqueeze(0).permute(1, 0)["a"] * 2),
    "clone": ("tensordict._td:TensorDict._clone", lambda td: td.clone()["a"] * 2),
    "select": ("tensordict._td:TensorDict._select", lambda td: td.select("a")["a"] * 2),
    "unsqueeze": ("tensordict._td:TensorDict._unsqueeze", lambda td: td.unsqueeze(-1)["a"] * 2),
}


@pytest.mark.parametrize("defect", KINDS)
@pytest.mark.parametrize("site", SITES)
def test_what_is_planted_in_the_library_is_found(compile_check, site, defect):
    where, work = SITES[site]
    with plant(where, defect), pytest.raises(CompileCheckFailed) as failed:
        compile_check(work, calls=[(tensordict(),), (tensordict(),)], train=True, diagnose="off")
    assert KINDS[defect] in {finding.kind for finding in failed.value.findings}
