"""Ranks that compile different things in one check: planted divergences are told, innocent differences are not."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch import distributed as dist  # noqa: E402

from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    CompileUsageError,
    RankGroup,
    call,
    check_compile,
    compile_guard,
)

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(not dist.is_available(), reason="torch was built without torch.distributed"),
]


def rank() -> int:
    return dist.get_rank()


def compiled(function):
    return torch.compile(function, backend="eager")


def doubled(x):
    return x * 2


def scaled(x, factor=1):
    return x * factor


# Planted: what rank 1 does other than rank 0.


def branch_on_the_rank():
    def forward(x):
        return x.sin() if rank() else x.cos()

    check_compile(forward, torch.ones(4), backend="eager")


def a_batch_of_another_size():
    sizes = [4, 4 - rank()]
    check_compile(doubled, calls=[torch.ones(size, 3) for size in sizes], max_recompiles=1, backend="eager")


def another_dtype():
    with compile_guard(max_recompiles=1):
        run = compiled(doubled)
        run(torch.ones(4))
        run(torch.ones(4, dtype=torch.float64 if rank() else torch.float32))


def another_number():
    calls = [call(torch.ones(4), factor=2), call(torch.ones(4), factor=2 + rank())]
    check_compile(scaled, calls=calls, max_recompiles=1, backend="eager")


def another_grad_mode():
    with compile_guard(max_recompiles=1):
        run = compiled(doubled)
        run(torch.ones(4))
        with torch.set_grad_enabled(rank() == 0):
            run(torch.ones(4))


def a_break_on_one():
    def forward(x):
        if rank():
            torch._dynamo.graph_break()
        return x + 1

    def both(x):
        return forward(x.sin()).cos()

    check_compile(both, torch.ones(4), max_graph_breaks=1, backend="eager")


def none_in_place_of_a_tensor():
    def forward(x, mask=None):
        return x if mask is None else x * mask

    check_compile(lambda x, m: forward(x.sin(), m), torch.ones(4), None if rank() else torch.ones(4), backend="eager")


def a_layer_less():
    layers = [torch.nn.Linear(4, 4) for _ in range(2 - rank())]
    check_compile(torch.nn.Sequential(*layers), torch.ones(1, 4), train=True, backend="aot_eager")


def reductions_in_another_order():
    def forward(x):
        x = x.clone()
        for op in [dist.ReduceOp.SUM, dist.ReduceOp.MAX][:: -1 if rank() else 1]:
            dist.all_reduce(x, op)
        return x

    with compile_guard():
        compiled(forward)(torch.ones(4))


def a_collective_more_in_a_group_of_one():
    groups = [dist.new_group([0]), dist.new_group([1])]

    def forward(x):
        y = x * 2
        if rank():
            dist.all_reduce(y, group=groups[1])
        return y

    with compile_guard():
        compiled(forward)(torch.ones(4))


def fallback_at_the_limit():
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    with torch._dynamo.config.patch({limit: 1}), compile_guard(max_recompiles=2):
        run = compiled(doubled)
        run(torch.ones(4))
        run(torch.ones(4, dtype=torch.float64 if rank() else torch.float32))


def a_global_that_changes():
    global SCALE
    SCALE = 2
    with compile_guard(max_recompiles=1):
        run = compiled(lambda x: x * SCALE)
        run(torch.ones(4))
        SCALE += rank()
        run(torch.ones(4))


SCALE = 2


PLANTED = [
    (branch_on_the_rank, "graphs in", "graphs of rank 1: 1", "sin"),
    (a_batch_of_another_size, "1 recompile in doubled, but 0 on rank 0", "expected 4, actual 3", "recompiles of rank 0: none"),
    (another_dtype, "1 recompile in the guarded region, but 0 on rank 0", "dtype", "recompiles of rank 0: none"),
    (another_number, "1 recompile in scaled, but 0 on rank 0", "factor", "recompiles of rank 0: none"),
    (another_grad_mode, "1 recompile in the guarded region, but 0 on rank 0", "grad", "recompiles of rank 0: none"),
    (a_break_on_one, "1 graph break in", "graph breaks of rank 1: 1", "graph breaks of rank 0: none"),
    (none_in_place_of_a_tensor, "graphs in", "sin", "*"),
    (a_layer_less, "graphs in Sequential", "linear", "x2"),
    (reductions_in_another_order, "collectives in", "all_reduce max", "all_reduce sum"),
    (a_collective_more_in_a_group_of_one, "collectives in", "all_reduce sum", "collectives of rank 0: none"),
    (fallback_at_the_limit, "1 eager fallback in", "recompile-limit", "eager fallbacks of rank 0: none"),
    (a_global_that_changes, "1 recompile in", "SCALE", "recompiles of rank 0: none"),
]  # fmt: skip


def divergences(group, function, *args, **options):
    with pytest.raises(CompileCheckFailed) as caught:
        group.run(function, *args, **options)
    return [finding for finding in caught.value.findings if finding.kind == "rank-divergence"], caught.value


@pytest.mark.parametrize(("plant", "says", "mine", "theirs"), PLANTED, ids=[row[0].__name__ for row in PLANTED])
def test_a_planted_divergence_is_told_with_both_sides(ranks, plant, says, mine, theirs):
    (finding,), failed = divergences(ranks, plant)
    print(failed)
    assert finding.ranks == (1,)
    assert says in finding.message
    assert mine in finding.evidence and theirs in finding.evidence
    assert failed.findings[0] is finding


# Planted, and then the ranks hang, or one dies.


def one_more_collective():
    def forward(x):
        y = x * 2
        for _ in range(1 + rank()):
            dist.all_reduce(y)
        return y

    with compile_guard():
        compiled(forward)(torch.ones(4))
    dist.barrier()


def recompiles_then_is_killed():
    with compile_guard(max_recompiles=1):
        run = compiled(doubled)
        run(torch.ones(4))
        run(torch.ones(4 - rank()))
        run(torch.ones(4 - rank()))
        if rank():
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()


def returns_early():
    with compile_guard():
        compiled(doubled)(torch.ones(4))
    if rank() == 0:
        dist.barrier()


@pytest.mark.parametrize(
    ("plant", "says", "told"),
    [
        (one_more_collective, "collectives in the guarded region", "all_reduce sum"),
        (recompiles_then_is_killed, "1 recompile in the guarded region, but 0 on rank 0", "expected 4, actual 3"),
        (returns_early, "returned after the guarded region, but rank 0 did not return", ""),
    ],
)
def test_a_divergence_is_told_though_ranks_hang_or_die(ranks, plant, says, told):
    ranks.run(rank)  # their start is not part of the time limit
    (finding, *_), failed = divergences(ranks, plant, timeout=8)
    print(failed)
    assert says in finding.message and told in finding.evidence
    assert finding.ranks == (1,)
    assert failed.findings[-1].kind == "exception"


# Innocent: what ranks may do differently.


def uneven_last_batch():
    sizes = [6, 4 - rank()]
    check_compile(doubled, calls=[torch.ones(size, 3) for size in sizes], max_recompiles=1, backend="eager")


def logging_of_rank_0():
    with compile_guard():
        result = compiled(doubled)(torch.ones(4))
    if rank() == 0:
        compiled(lambda x: x.mean())(result)
    return float(result.sum())


def a_check_of_rank_0_only():
    check_compile(doubled, torch.ones(4), backend="eager")
    if rank() == 0:
        check_compile(lambda x: x.tan(), torch.ones(4), backend="eager")


def a_part_of_the_batch():
    def forward(x):
        return x.chunk(2)[rank()] * 2 + rank()

    check_compile(forward, torch.arange(8.0), backend="eager")


def the_same_break_on_all():
    def forward(x):
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()

    check_compile(forward, torch.ones(4 + rank()), max_graph_breaks=1, backend="eager")


def a_group_for_each():
    groups = [dist.new_group([0]), dist.new_group([1])]

    def forward(x):
        y = x * 2
        dist.all_reduce(y, group=groups[rank()])
        return y

    with compile_guard():
        compiled(forward)(torch.ones(4))


def uneven_all_to_all():
    from torch.distributed import _functional_collectives as collectives

    send, receive = ([3, 1], [3, 2]) if rank() == 0 else ([2, 2], [1, 2])

    def forward(x):
        return collectives.all_to_all_single(x * 2, receive, send, dist.group.WORLD) + 1

    with compile_guard():
        compiled(forward)(torch.ones(4))


def a_slow_rank():
    def slowly(graph, inputs):
        time.sleep(2 * rank())
        return graph.forward

    def forward(x):
        y = x * 2
        dist.all_reduce(y)
        return y

    with compile_guard(max_recompiles=1):
        run = torch.compile(forward, backend=slowly)
        run(torch.ones(4))
        run(torch.ones(3))


def another_random_seed():
    torch.manual_seed(rank())
    check_compile(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()),
        torch.randn(2, 4),
        train=True,
        backend="aot_eager",
    )


def other_targets_in_turn():
    for function in [doubled, scaled][:: -1 if rank() else 1]:
        check_compile(function, torch.ones(4), backend="eager")


INNOCENTS = [
    uneven_last_batch,
    logging_of_rank_0,
    a_check_of_rank_0_only,
    a_part_of_the_batch,
    the_same_break_on_all,
    a_group_for_each,
    uneven_all_to_all,
    a_slow_rank,
    another_random_seed,
    other_targets_in_turn,
]


@pytest.mark.parametrize("innocent", INNOCENTS)
def test_an_innocent_difference_is_not_told(ranks, innocent):
    ranks.run(innocent)


def behind_before_its_second_call():
    with compile_guard(max_recompiles=1):
        run = compiled(doubled)
        run(torch.ones(4))
        time.sleep(600 * rank())
        run(torch.ones(3))
        dist.barrier()


def test_a_rank_that_has_not_come_so_far_tells_no_other_story(ranks):
    ranks.run(rank)
    found, failed = divergences(ranks, behind_before_its_second_call, timeout=5)
    assert not found, failed
    assert [finding.message for finding in failed.findings] == ["did not finish within 5 s"]


def test_the_same_failure_on_all_ranks_is_no_divergence(ranks):
    found, failed = divergences(ranks, partial(check_compile, breaking, backend="eager"), torch.ones(4))
    assert not found and [finding.kind for finding in failed.findings] == ["graph-break"]


def breaking(x):
    return x + 1 if x.sum() > 0 else x - 1


def test_what_is_compared_can_be_chosen(ranks):
    ranks.run(branch_on_the_rank, same=())
    ranks.run(a_batch_of_another_size, same=["graph_breaks"])
    found, _ = divergences(ranks, a_batch_of_another_size, same=["graphs"])
    assert "1 more" not in found[0].message and "graph" in found[0].message
    with pytest.raises(
        CompileUsageError, match=r"same=\['order'\]: must be a list of these names: 'graph_breaks', 'recompiles'"
    ):
        ranks.run(rank, same=["order"])
    with pytest.raises(CompileUsageError, match="must be a list"):
        RankGroup(2, same="graphs")
