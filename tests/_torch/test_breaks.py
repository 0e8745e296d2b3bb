"""The words of a graph break on each torch, read as a place, a category and a fingerprint."""

from __future__ import annotations

import linecache
from dataclasses import replace

import pytest

from pytest_torch_compile._torch.breaks import categorise, fingerprint, parse_break, parse_error
from pytest_torch_compile._torch.user_lines import function_name, is_library, is_torch, module_of, user_location
from pytest_torch_compile.findings import Location

OLD = """Graph break in user code at /repo/src/model.py:26
Reason: Unsupported: 'skip function graph_break in file /env/lib/python3.11/site-packages/torch/_dynamo/decorators.py'
User code traceback:
  File "/repo/src/model.py", line 26, in forward
    torch._dynamo.graph_break()

Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/_dynamo/symbolic_convert.py", line 659, in wrapper
    return inner_fn(self, inst)
"""
NEW = """Graph break in user code at /repo/src/model.py:26
Graph Break Reason: Call to `torch._dynamo.graph_break()`
  Explanation: User-inserted graph break. Message: None
  Hint: Remove the `torch._dynamo.graph_break()` call.

  Developer debug context: Called `torch._dynamo.graph_break()` with args `[]`, kwargs `{}`

User code traceback:
  File "/repo/src/model.py", line 26, in torch_dynamo_resume_in_forward_at_24
    torch._dynamo.graph_break()
"""


@pytest.mark.parametrize("payload", [OLD, NEW], ids=["2.6", "2.13"])
def test_break_of_any_version_is_read_alike(payload):
    found = parse_break(payload, call=2)
    expected = Location("/repo/src/model.py", 26, "forward", "torch._dynamo.graph_break()")
    assert found.location == expected
    assert (found.category, found.call) == ("explicit graph break", 2)
    assert found.fingerprint == fingerprint(expected, "explicit graph break")


def test_explanation_and_hints_are_kept():
    found = parse_break(NEW)
    assert found.explanation == "User-inserted graph break. Message: None"
    assert found.hints == ("Remove the `torch._dynamo.graph_break()` call.",)


def test_text_without_a_place_is_not_made_up():
    assert parse_break("Something else broke") is None
    assert parse_error("why", 1, []) is None


def test_place_without_a_stack_is_taken_from_the_head():
    found = parse_break("Graph break in user code at /repo/a.py:3\nReason: Unsupported: new words\n")
    assert (found.location.file, found.location.line, found.category) == ("/repo/a.py", 3, "unsupported code")


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        ("generic_jump TensorVariable()", "data-dependent branch"),
        ("Data-dependent branching", "data-dependent branch"),
        ("Tensor.item", "scalar from a tensor"),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "scalar from a tensor"),
        ("dynamic shape operator: aten.nonzero.default", "dynamic output shape"),
        ("builtin: print [<class 'ConstantVariable'>] False", "call to print or a logger"),
        ("words of a torch to come", "unsupported code"),
    ],
)
def test_reason_has_the_same_category_on_every_torch(reason, category):
    assert categorise(reason) == category


def test_fingerprint_stands_on_place_and_category_not_on_line_or_machine():
    here = Location("/home/a/repo/pkg/model.py", 26, "forward", "x.item()")
    there = Location("/ci/build/pkg/model.py", 99, "forward", "x.item()")
    assert fingerprint(here, "c") == fingerprint(there, "c") != fingerprint(here, "d")
    assert fingerprint(here, "c") != fingerprint(Location(here.file, 26, "other", "x.item()"), "c")


def test_innermost_own_frame_is_the_users():
    own = Location("/repo/a.py", 1, "f")
    library = Location("/env/lib/python3.11/site-packages/lib/b.py", 2, "g")
    inside = Location("/env/lib/python3.11/site-packages/torch/c.py", 3, "h")
    found = user_location([own, library, inside])
    assert (found.file, found.library) == (own.file, inside)
    assert user_location([library, inside]).file == library.file
    assert user_location([own]).library is None


def test_files_are_told_apart():
    assert is_torch("/env/lib/python3.11/site-packages/torch/nn/modules/linear.py")
    assert not is_torch("/env/lib/python3.11/site-packages/torchvision/models/resnet.py")
    assert is_library("/env/lib/python3.11/site-packages/transformers/x.py")
    assert not is_library("/repo/src/model.py")
    assert function_name("torch_dynamo_resume_in_forward_at_24") == "forward"


def test_fingerprint_is_the_same_wherever_the_file_is(tmp_path):
    torch = pytest.importorskip("torch")
    from pytest_torch_compile import check_compile

    found = []
    for folder, name in (("one/src", "model.py"), ("two", "model.py"), ("two", "renamed.py")):
        file = tmp_path / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n" * len(found) + "def step(x):\n    print('a')\n    return x + 1\n")
        scope = {}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        (graph_break,) = check_compile(
            scope["step"], torch.ones(2), backend="eager", fullgraph=False, max_graph_breaks=1
        ).graph_breaks
        found.append(graph_break.fingerprint)
    assert len(set(found)) == 1


def test_fingerprint_of_another_line_or_function_is_another():
    place = Location("/repo/a.py", 3, "f", "print(x)")
    others = [replace(place, source="print(y)"), replace(place, function="g")]
    assert len({fingerprint(one, "call to print or a logger") for one in (place, *others)}) == 3
    assert fingerprint(place, "a") != fingerprint(place, "b")
    assert fingerprint(place, "a") == fingerprint(replace(place, file="/elsewhere/b.py", line=9), "a")


def test_module_of_a_file_is_found(tmp_path):
    package = tmp_path / "made" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    assert module_of(str(package / "a.py")) == "made.inner.a"
    assert module_of(str(package / "__init__.py")) == "made.inner"
    assert module_of(str(tmp_path / "alone.py")) == "alone"
    assert module_of(linecache.__file__) == "linecache"


def test_branch_is_the_same_kind_whether_it_breaks_the_graph_or_is_refused():
    refused = "UserError: Dynamic control flow is not supported at the moment. Please use functorch.experimental.control_flow.cond"
    assert categorise(refused) == "data-dependent branch"
