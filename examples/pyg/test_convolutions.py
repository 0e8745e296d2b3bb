"""PyTorch Geometric under torch.compile: results and gradients match eager, with one graph for inputs of changing
size."""

import pytest
import torch
from torch import nn
from torch_geometric import nn as geometric
from torch_geometric import utils

from examples.planted import KINDS, plant
from pytest_torch_compile import CompileCheckFailed, call

CONVOLUTIONS = {
    "GCNConv": lambda: geometric.GCNConv(8, 8),
    "GCNConv without self loops": lambda: geometric.GCNConv(8, 8, add_self_loops=False),
    "SAGEConv": lambda: geometric.SAGEConv(8, 8),
    "SAGEConv of maxima": lambda: geometric.SAGEConv(8, 8, aggr="max"),
    "GATConv": lambda: geometric.GATConv(8, 4, heads=2),
    "GATv2Conv": lambda: geometric.GATv2Conv(8, 4, heads=2),
    "TransformerConv": lambda: geometric.TransformerConv(8, 4, heads=2),
    "GINConv": lambda: geometric.GINConv(nn.Linear(8, 8)),
    "GraphConv": lambda: geometric.GraphConv(8, 8),
    "ChebConv": lambda: geometric.ChebConv(8, 8, K=2),
    "TAGConv": lambda: geometric.TAGConv(8, 8, K=2),
    "EdgeConv": lambda: geometric.EdgeConv(nn.Linear(16, 8)),
    "LEConv": lambda: geometric.LEConv(8, 8),
    "SGConv": lambda: geometric.SGConv(8, 8),
}
REDUCTIONS = ("sum", "mean", "min", "max", "mul")
SIZES = [(10, 40), (13, 51), (7, 19), (31, 97), (20, 20)]


def graph(nodes, edges):
    generator = torch.Generator().manual_seed(nodes)
    x = torch.randn(nodes, 8, generator=generator, requires_grad=True)
    return x, torch.randint(nodes, (2, edges), generator=generator)


def gather(x, edges, reduce):
    return utils.scatter(x[edges[0]], edges[1], dim_size=x.size(0), reduce=reduce)


def gather_both(x, edges, reduce):
    return utils.scatter(torch.cat([x[edges[1]], x[edges[0]]], -1), edges[1], dim_size=x.size(0), reduce=reduce)


def gather_weighted(x, edges, reduce):
    weight = (x[edges[0]] * x[edges[1]]).sum(-1, keepdim=True).sigmoid()
    return utils.scatter(x[edges[0]] * weight, edges[1], dim_size=x.size(0), reduce=reduce)


def gather_transformed(x, edges, reduce):
    return utils.scatter(x[edges[0]] @ (x.T @ x), edges[1], dim_size=x.size(0), reduce=reduce)


def gather_several(x, edges, reduce):
    return torch.cat([gather(x, edges, each) for each in ("sum", "mean", reduce)], -1)


FUNCTIONS = {
    "softmax over edges": lambda x, edges: utils.softmax(x[edges[0]], edges[1], num_nodes=x.size(0)),
    "degree": lambda x, edges: utils.degree(edges[1], x.size(0)) * x.sum(),
    "self loops": lambda x, edges: utils.add_self_loops(edges, num_nodes=x.size(0))[0] + 1,
    "mean of a batch": lambda x, edges: geometric.global_mean_pool(x, edges[1][: x.size(0)].sort()[0], 10),
    "maximum of a batch": lambda x, edges: geometric.global_max_pool(x, edges[1][:1].expand(x.size(0)), 10),
    "sum of a batch": lambda x, edges: geometric.global_add_pool(x, None),
}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = geometric.SAGEConv(8, 16), geometric.SAGEConv(16, 4)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("pattern", [gather, gather_both, gather_weighted, gather_transformed, gather_several])
def test_gather_and_scatter(compile_check, pattern, reduce):
    compile_check(pattern, *graph(10, 40), reduce, train=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(compile_check, name):
    compile_check(FUNCTIONS[name], *graph(10, 40))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_and_its_gradients(compile_check, name):
    compile_check(CONVOLUTIONS[name](), *graph(10, 40), train=True)


@pytest.mark.parametrize("name", ["SAGEConv", "GATConv", "GINConv", "GraphConv"])
def test_convolution_over_graphs_of_changing_size(compile_check, name):
    dims = {"x": 0, "edge_index": 1}
    compile_check(CONVOLUTIONS[name](), calls=[graph(*size) for size in SIZES[:3]], dynamic_dims=dims)


def test_training_over_graphs_of_changing_size_compiles_once(compile_check):
    report = compile_check(
        Network(),
        calls=[graph(*size) for size in SIZES],
        dynamic_dims={"x": 0, "edge_index": 1},
        train=True,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01),
        steps=2,
    )
    assert len(report.graphs) == 1


def test_sizes_are_noticed_by_themselves_after_one_recompile(compile_check):
    compile_check(Network(), calls=[graph(*size) for size in SIZES], max_recompiles=1)


def test_evaluation_after_training_costs_one_recompile(compile_check):
    attention = geometric.GATConv(8, 4, dropout=0.5)
    both = [call(*graph(10, 40)), call(*graph(10, 40)).before(lambda target: target.eval())]
    compile_check(attention, calls=both, max_recompiles=1)


@pytest.mark.compile_known_failure("its size depends on the values of the edges", kind="graph-break")
def test_dense_adjacency(compile_check):
    compile_check(lambda edges, x: utils.to_dense_adj(edges) @ x, graph(10, 40)[1], torch.ones(10, 8))


SITES = {
    "scatter": ("torch_geometric.utils:scatter", lambda: lambda x, edges: gather(x, edges, "mean")),
    "a convolution": ("torch_geometric.nn.conv.sage_conv:SAGEConv.forward", lambda: geometric.SAGEConv(8, 8)),
    "messages": ("torch_geometric.nn.conv.sage_conv:SAGEConv.message", lambda: geometric.SAGEConv(8, 8)),
    "a network": ("torch_geometric.nn.conv.sage_conv:SAGEConv.forward", Network),
}


@pytest.mark.parametrize("defect", KINDS)
@pytest.mark.parametrize("site", SITES)
def test_what_is_planted_in_the_library_is_found(compile_check, site, defect):
    where, make = SITES[site]
    with plant(where, defect), pytest.raises(CompileCheckFailed) as failed:
        compile_check(make(), calls=[graph(10, 40)] * 2, train=True, diagnose="off")
    assert KINDS[defect] in {finding.kind for finding in failed.value.findings}


def test_what_is_not_planted_is_not_found(compile_check):
    for _, make in SITES.values():
        compile_check(make(), calls=[graph(10, 40)] * 2, train=True, diagnose="off")
