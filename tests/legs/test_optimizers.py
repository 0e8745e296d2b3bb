"""Compiled optimizers: what torch changes by itself while it traces a step passes, and a wrong step is a finding."""

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, call, check_compile

BROKEN_BY_TORCH = {"max_graph_breaks": 9, "max_recompiles": 9, "backend": "aot_eager"}  # before every optimizer's step


def check_step(make, **options):
    model = torch.nn.Linear(8, 4)
    optimizer = make(model.parameters())

    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        take_step()

    take_step = torch.compiler.disable(optimizer.step) if options.pop("eager_step", False) else optimizer.step
    return check_compile(step, calls=[call(torch.randn(3, 8)) for _ in range(3)], **BROKEN_BY_TORCH, **options)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "ASGD"])
def test_bias_correction_in_float32_passes(name):
    check_step(lambda parameters: getattr(torch.optim, name)(parameters, lr=0.01))


class Adam(torch.optim.Adam):
    """Does something else where it is compiled, as the classes below choose."""

    def step(self, closure=None):
        super().step()
        if torch.compiler.is_compiling():
            for group in self.param_groups:
                self.wrong(group)

    def wrong(self, group):
        raise NotImplementedError


class ScaledUpdate(Adam):
    def wrong(self, group):
        for parameter in group["params"]:
            parameter.data.sub_(self.state[parameter]["exp_avg"].sign(), alpha=1e-3 * group["lr"])


class RoundedUpdate(Adam):
    """Bias correction in float32, as torch computes it on a GPU: in the first step, ``1 - 0.999`` is off by 6e-5."""

    def wrong(self, group):
        for parameter in group["params"]:
            parameter.data.sub_(self.state[parameter]["exp_avg"].sign(), alpha=2.5e-5 * group["lr"])


class LateCount(Adam):
    def wrong(self, group):
        for parameter in group["params"]:
            self.state[parameter]["step"] -= 1


class LostMoment(Adam):
    def wrong(self, group):
        for parameter in group["params"]:
            self.state[parameter]["exp_avg_sq"].mul_(1.001)


class OtherFlag(Adam):
    def wrong(self, group):
        group["maximize"] = True


class Capturable(Adam):
    """As torch up to 2.14 does on a GPU, and leaves it so."""

    def wrong(self, group):
        group["capturable"] = True


def test_rounding_of_the_bias_correction_is_no_finding():
    check_step(lambda parameters: RoundedUpdate(parameters, lr=0.01))


@pytest.mark.parametrize("kind", [ScaledUpdate, LateCount, LostMoment, OtherFlag])
def test_wrong_step_is_found(kind):
    with pytest.raises(CompileCheckFailed) as failed:
        check_step(lambda parameters: kind(parameters, lr=0.01))
    assert {finding.kind for finding in failed.value.findings} & {"state", "numerics", "mutation"}


class Plain(torch.optim.Optimizer):
    """A library's optimizer without the key, in whose groups compiled code leaves another key."""

    def __init__(self, parameters, key):
        super().__init__(parameters, {"lr": 0.01})
        self.key = key

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-group["lr"])
            if torch.compiler.is_compiling():
                group[self.key] = True


def test_capturable_that_torch_sets_is_no_finding():
    check_step(lambda parameters: Capturable(parameters, lr=0.01))
    check_step(lambda parameters: Plain(parameters, "capturable"))


def test_another_key_that_appears_in_a_group_is_a_finding():
    with pytest.raises(CompileCheckFailed):
        check_step(lambda parameters: Plain(parameters, "other"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["Adam", "NAdam"])
def test_counts_that_torch_keeps_on_the_gpu_are_compared_by_value(name):
    model = torch.nn.Linear(8, 4, device="cuda")
    optimizer = getattr(torch.optim, name)(model.parameters())
    model(torch.randn(3, 8, device="cuda")).sum().backward()
    check_compile(optimizer.step, calls=[call(), call()], **BROKEN_BY_TORCH)


def test_guards_of_a_compiled_step_are_no_state_of_the_target():
    def compiled_sgd(parameters):
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        optimizer.step = torch.compile(optimizer.step, backend="eager")
        return optimizer

    options = {"max_graph_breaks": {"torch": 3, "*": 0}, "max_recompiles": 5}
    model = torch.nn.Linear(4, 4)
    report = check_compile(
        model, torch.ones(2, 4), backend="eager", train=lambda y: y.sum(), optimizer=compiled_sgd, **options
    )
    assert report.ok
