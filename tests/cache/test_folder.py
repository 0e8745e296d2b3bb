"""Where Inductor keeps compiled code: a folder for a test, a run, or for good; and the environment as before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_torch_compile.cache.folder import INDUCTOR, TRITON, CacheFolder, empty_cache


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    monkeypatch.delenv(INDUCTOR, raising=False)


def folder_of(cache):
    cache.enter_test()
    return Path(os.environ[INDUCTOR])


def test_session_keeps_one_folder_and_removes_it():
    cache = CacheFolder("session", Path())
    first, second = folder_of(cache), folder_of(cache)
    assert first == second
    assert first.is_dir()
    cache.close()
    assert not first.exists()
    assert INDUCTOR not in os.environ


def test_fresh_has_a_new_folder_for_each_test():
    cache = CacheFolder("fresh", Path())
    first, second = folder_of(cache), folder_of(cache)
    assert first != second
    assert (first.exists(), second.exists()) == (False, True)
    cache.close()
    assert not second.exists()


def test_path_is_kept(tmp_path):
    cache = CacheFolder(str(tmp_path / "kept"), Path())
    assert folder_of(cache) == tmp_path / "kept"
    cache.close()
    assert (tmp_path / "kept").is_dir()


def test_relative_path_is_below_the_root(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    cache = CacheFolder("kept/here", tmp_path)
    assert folder_of(cache) == tmp_path / "kept" / "here"
    cache.close()


def test_home_is_understood(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = CacheFolder("~/cache", Path())
    assert folder_of(cache) == tmp_path / "cache"
    cache.close()


def test_environment_is_put_back(monkeypatch):
    monkeypatch.setenv(INDUCTOR, "/of/the/user")
    cache = CacheFolder("session", Path())
    folder_of(cache)
    cache.close()
    assert os.environ[INDUCTOR] == "/of/the/user"


def test_unused_cache_touches_nothing(monkeypatch):
    monkeypatch.setenv(INDUCTOR, "/of/the/user")
    CacheFolder("session", Path()).close()
    assert os.environ[INDUCTOR] == "/of/the/user"


def test_nothing_of_a_folder_that_is_gone_is_used(pytester):
    pytester.makepyfile(
        """
        import os
        from pathlib import Path

        import pytest
        import torch


        @pytest.mark.parametrize("again", [False, True])
        def test_compiles_anew(compile_check, again):
            compile_check(torch.nn.Softplus(), torch.randn(16), backend="inductor")
            code = [path for path in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*") if path.suffix == ".so"]
            assert code, "taken from memory"
        """
    )
    result = pytester.runpytest_subprocess("--compile-cache=fresh")
    result.assert_outcomes(passed=2)


def test_body_compiles_in_an_empty_folder_and_what_was_there_comes_back(tmp_path, monkeypatch):
    monkeypatch.setenv(INDUCTOR, str(tmp_path))
    monkeypatch.delenv(TRITON, raising=False)
    with pytest.raises(ValueError, match="in the body"), empty_cache():
        folder = Path(os.environ[INDUCTOR])
        assert Path(os.environ[TRITON]).parent == folder
        assert folder != tmp_path and not list(folder.iterdir())
        (folder / "code.py").touch()
        raise ValueError("in the body")
    assert os.environ[INDUCTOR] == str(tmp_path) and TRITON not in os.environ and not folder.exists()


@pytest.mark.parametrize("choice", ["fresh", "session"])
def test_kernels_of_triton_are_kept_where_the_code_is_also_after_inductor_chose_a_folder(tmp_path, monkeypatch, choice):
    monkeypatch.setenv(TRITON, "/of/the/user")
    cache = CacheFolder(choice, tmp_path)
    for _ in range(2):
        cache.enter_test()
        assert os.environ[TRITON] == f"{os.environ[INDUCTOR]}/triton"
        os.environ.setdefault(TRITON, "what Inductor does")
    cache.close()
    assert os.environ[TRITON] == "/of/the/user"
