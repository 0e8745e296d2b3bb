"""Compiled code has an identity: the same in every process that runs it, and another for other graphs or tuning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_torch_compile._torch import code

PROGRAM = """
import sys, torch
from pytest_torch_compile._torch import code
def double(x): return (x.sin() * 2).cos()
def triple(x): return (x.sin() * 3).tanh()
for function in (double, triple):
    since = code.loaded()
    compiled = torch.compile(function)
    compiled(torch.ones(4, requires_grad=True)).sum().backward()
    print(code.identity(since))
print(repr(code.identity(code.loaded())))
"""


def source_of(identity: str) -> str:
    """The part of an identity that leaves out tuning."""
    return identity.partition("/")[0]


def identities(cache: Path) -> list[str]:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_identity_is_that_of_the_code_whatever_cache_it_came_from(tmp_path: Path) -> None:
    cold, warm, elsewhere = (identities(tmp_path / name) for name in ("one", "one", "other"))
    assert cold == warm == elsewhere
    first, second, nothing = cold
    assert source_of(first) != source_of(second)
    assert nothing == "''"


def made(monkeypatch: pytest.MonkeyPatch, path: Path, text: str, **kernels: Any) -> str:
    """The identity of one graph with this source and these kernels."""
    path.write_text(text)
    monkeypatch.setattr(code, "_modules", lambda: [SimpleNamespace(__file__=str(path), call=print, **kernels)])
    return code.identity(0)


def kernel(*configs: str) -> SimpleNamespace:
    return SimpleNamespace(launchers=[SimpleNamespace(config=config) for config in configs])


def test_other_tuning_is_the_same_source_with_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def call(args): ..."
    first = made(monkeypatch, tmp_path / "a.py", text, k0=kernel("XBLOCK: 64"))
    assert first == made(monkeypatch, tmp_path / "a.py", text, k0=kernel("XBLOCK: 64"))
    other = made(monkeypatch, tmp_path / "a.py", text, k0=kernel("XBLOCK: 128"))
    assert first != other and source_of(first) == source_of(other)


def test_paths_in_comments_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (f"# kernel path: /tmp/{n}/k.py\ndef call(args): ..." for n in (1, 2))
    assert made(monkeypatch, tmp_path / "a.py", one) == made(monkeypatch, tmp_path / "b.py", other)
    assert made(monkeypatch, tmp_path / "a.py", one) != made(monkeypatch, tmp_path / "b.py", one + "\n    return 1")


def test_kernel_that_never_ran_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def call(args): ..."
    untuned = made(monkeypatch, tmp_path / "a.py", text, k0=kernel("a", "b"))
    assert untuned == made(monkeypatch, tmp_path / "a.py", text)
