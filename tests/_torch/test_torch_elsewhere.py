"""torch and Triton imported from a folder that is not called site-packages: a build from source, or a container's
folder.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pytest_torch_compile._torch import user_lines
from pytest_torch_compile._torch.user_lines import is_library, is_own, is_torch

SCRIPT = """
import sys
import torch
from pytest_torch_compile import CompileCheckFailed, check_compile

assert torch.__file__.startswith(sys.argv[1])

class Likelihood(torch.nn.Module):
    def forward(self, x):
        return torch.distributions.Normal(x, torch.ones(2)).log_prob(x)

report = check_compile(Likelihood(), torch.ones(2), backend="aot_eager")
assert torch.distributions.Distribution._validate_args is False, "torch turns validation off when it compiles"

class Breaks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), Prints())

    def forward(self, x):
        return self.layers(x) + 1

class Prints(torch.nn.Module):
    def forward(self, x):
        print(float(x.sum()))
        return x

try:
    check_compile(Breaks(), torch.ones(2), backend="aot_eager")
except CompileCheckFailed as failed:
    found = failed.report.graph_breaks
    print("BREAKS", {one.location.source for one in found}, [c.file for one in found for c in one.callers])
"""


@pytest.mark.parametrize("folder", ["pytorch", pytest.param("lib/python3/dist-packages", marks=pytest.mark.slow)])
def test_code_of_torch_is_not_user_code_wherever_torch_is(tmp_path, folder):
    path = tmp_path / folder
    path.mkdir(parents=True)
    for name in ("torch", "torchgen", "functorch"):
        if (found := Path(torch.__file__).parents[1] / name).exists():
            (path / name).symlink_to(found)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.insert(0, {str(path)!r}); sys.argv[1:] = [{str(path)!r}]; exec(compile(open('script.py').read(), 'script.py', 'exec'))"]  # fmt: skip
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    line = next(line for line in ran.stdout.splitlines() if line.startswith("BREAKS"))
    assert "print(float(x.sum()))" in line
    assert str(path) not in line


@pytest.mark.parametrize(
    ("file", "is_torchs", "is_librarys"),
    [
        ("/usr/local/lib/python3.12/dist-packages/torch/nn/modules/linear.py", True, True),
        ("/usr/local/lib/python3.12/dist-packages/torchvision/ops/misc.py", False, True),
        (f"{Path(torch.__file__).parent}/nn/modules/linear.py", True, True),
        ("/home/me/project/torch/layers.py", False, False),
        ("/src/pytorch/torch/nn/modules/linear.py", True, True),
        ("/src/pytorch/torch_extras/layers.py", False, False),
        ("/usr/lib/python3/site-packages/triton/runtime/jit.py", True, True),
        ("/src/triton/python/triton/runtime/jit.py", True, True),
        ("/usr/lib/python3/site-packages/triton_kernels/matmul.py", False, True),
    ],
)
def test_owner_of_a_file(monkeypatch, file, is_torchs, is_librarys):
    if file.startswith("/src"):
        monkeypatch.setattr(user_lines, "_torch_folders", lambda: ("/src/pytorch/torch/", "/src/triton/python/triton/"))
    assert (is_torch(file), is_library(file), is_own(file)) == (is_torchs, is_librarys, not is_librarys)
