"""The oracle of the battery over libraries, and how its word is held against the product's."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from libraries import oracle, planted, summary, verdicts
from libraries.targets import INFERENCE, MODES, TRAINING, Target

SIZES = (3, 4)


def linear() -> Target:
    return Target(nn.Linear(2, 3), [(torch.randn(size, 2),) for size in SIZES])


def said_of(factory, mode=INFERENCE):
    return oracle.truth(factory, mode, "eager")


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_has_one_recompile_and_nothing_else(mode):
    said = said_of(linear, mode)
    assert (said["breaks"], said["recompiles"], said["wrong"], said["graphs"]) == ([], 1, [], 2)


@pytest.mark.parametrize("name", sorted(planted.DEFECTS))
def test_each_planted_defect_is_seen(name):
    defect = planted.DEFECTS[name]
    said = said_of(planted.planted(defect, linear), TRAINING if defect.train else INFERENCE)
    seen = {
        "graph-break": bool(said["breaks"]),
        "recompile": said["recompiles"] > 1,
        "eager-fallback": bool(said["fallbacks"]),
        "nothing-compiled": not said["graphs"],
    }
    assert any(seen.get(kind, bool(said["wrong"])) for kind in defect.kinds), said


@pytest.mark.usefixtures("new_interpreters")
def test_it_does_not_import_the_plugin():
    code = "import sys, libraries.oracle; sys.exit(any('pytest_torch_compile' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CLEAN = {
    "breaks": [], "recompiles": 0, "fallbacks": 0, "graphs": 1, "wrong": [], "eager_raises": "", "compiled_raises": "",
}  # fmt: skip
QUIET = {"kinds": [], "breaks": [], "recompiles": 0, "fallbacks": 0, "left": ""}


@pytest.mark.parametrize(
    ("product", "oracle_says", "differ"),
    [
        ({}, {}, {}),
        ({"crash": "ValueError"}, {}, {"check_compile": "crash"}),
        ({}, {"breaks": ["a.py:3"]}, {"graph breaks": "miss"}),
        ({"breaks": ["a.py:3"]}, {}, {"graph breaks": "false alarm"}),
        ({"breaks": ["a.py:3"]}, {"breaks": ["a.py:3", "a.py:4"]}, {"places of breaks": "miss"}),
        ({"kinds": ["numerics"]}, {}, {"values": "false alarm"}),
        ({}, {"wrong": ["output"]}, {"values": "miss"}),
        ({}, {"recompiles": 2}, {"recompiles": "miss"}),
        ({"expect": ["gradient"]}, {}, {"planted defect": "miss"}),
        ({"left": "changed"}, {}, {"left as it was": "false alarm"}),
        ({}, {"compiled_raises": "call 1: TorchRuntimeError: fake tensors", "graphs": 0}, {"compile error": "miss"}),
        ({"kinds": ["compile-error"]}, {"compiled_raises": "call 2: TorchRuntimeError: x", "wrong": ["output"]}, {}),
        ({}, {"compiled_raises": "call 1: ValueError: TorchRuntimeError", "wrong": ["output"]}, {"values": "miss"}),
        ({"crash": "CompileUsageError"}, {"eager_raises": "ValueError"}, {"eager": "unusable"}),
    ],
)
def test_who_says_more(product, oracle_says, differ):
    assert verdicts.compared({**QUIET, **product}, {**CLEAN, **oracle_says}) == differ


def test_the_page_counts_checks_and_lists_findings():
    checks = {
        "a inference": {"product": QUIET, "oracle": CLEAN},
        "b inference": {"product": {**QUIET, "breaks": ["/x/site-packages/lib/b.py:3"]}, "oracle": {**CLEAN, "breaks": ["/x/site-packages/lib/b.py:3"]}},
        "b training": {"product": QUIET, "oracle": {**CLEAN, "wrong": ["output: other"]}},
    }  # fmt: skip
    document = {"environment": {"torch": "2.13.0"}, "packages": {"lib": {"version": "1.0", "checks": checks}}}
    page = summary.page([summary.kept(document)])
    assert "| lib 1.0 | 2 | 3 | 2 | 2 | 0 | 0 | 1 |" in page
    assert "- lib: graph break at lib/b.py:3 (`b`)" in page
