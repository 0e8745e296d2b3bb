"""PyTorch Geometric under torch.compile: results and gradients equal to eager, one graph, graphs of changing size."""

import pytest
import torch
from torch import nn
from torch_geometric import nn as geometric

from pytest_torch_compile import CompileCheckFailed

CONVOLUTIONS = {
    "GCNConv": lambda: geometric.GCNConv(8, 8),
    "SAGEConv": lambda: geometric.SAGEConv(8, 8),
    "GATConv": lambda: geometric.GATConv(8, 4, heads=2),
    "GINConv": lambda: geometric.GINConv(nn.Linear(8, 8)),
}


def graph(nodes, edges):
    generator = torch.Generator().manual_seed(nodes)
    return torch.randn(nodes, 8, generator=generator), torch.randint(nodes, (2, edges), generator=generator)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = geometric.SAGEConv(8, 16), geometric.SAGEConv(16, 4)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_and_its_gradients(compile_check, name):
    compile_check(CONVOLUTIONS[name](), *graph(10, 40), train=True)


def test_graphs_of_changing_size_compile_once(compile_check):
    dims = {"x": 0, "edge_index": 1}
    compile_check(Network(), calls=[graph(10, 40), graph(13, 51), graph(7, 19)], dynamic_dims=dims)


def test_readout_over_a_batch(compile_check):
    batch = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    compile_check(geometric.global_mean_pool, graph(10, 40)[0], batch, 3)


def broken(x, edge_index, conv):
    if x.sum() > 0:
        x = x * 2
    return conv(x, edge_index)


def wrong(x, edge_index, conv):
    return conv(x, edge_index) * (1.001 if torch.compiler.is_compiling() else 1.0)


def sized(x, edge_index, conv):
    return conv(x, edge_index) * (x.shape[0] % 3)


@pytest.mark.parametrize(
    ("planted", "kind"),
    [(broken, "graph-break"), (wrong, "numerics"), (sized, "recompile")],
    ids=["break", "wrong number", "recompile"],
)
def test_what_is_planted_is_found(compile_check, planted, kind):
    conv = geometric.SAGEConv(8, 8)
    calls = [(*graph(nodes, 30), conv) for nodes in ((10, 11, 12) if kind == "recompile" else (10,))]
    with pytest.raises(CompileCheckFailed) as failed:
        compile_check(planted, calls=calls)
    assert {finding.kind for finding in failed.value.findings} == {kind}
