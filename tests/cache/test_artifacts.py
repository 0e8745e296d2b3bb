"""One process's part of ``--compile-cache=URL``: what it loads, hands over, stores and says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("fsspec")

from pytest_torch_compile._torch import cache_artifacts as cache  # noqa: E402
from pytest_torch_compile.cache.artifacts import VARIABLE, ArtifactSession, is_url  # noqa: E402

KEYS = {"inductor a", "inductor b"}


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/stored"


@pytest.fixture
def compiled(monkeypatch):
    """A stand-in for torch's caches: what was compiled, what was loaded."""
    held: dict[str, set[str]] = {"compiled": set(KEYS), "loaded": set()}

    def load(content):
        held["loaded"] |= set(content.decode().split(","))
        return set(held["loaded"])

    monkeypatch.setattr(cache, "unavailable", str)
    monkeypatch.setattr(cache, "save", lambda: (",".join(sorted(held["compiled"])).encode(), held["compiled"]))
    monkeypatch.setattr(cache, "load", load)
    return held


def session(url):
    """One whole run in this process: what it said."""
    made = ArtifactSession(url, leads=True)
    made.load()
    made.save()
    lines = made.finish()
    made.close()
    return lines


def stored_file(url):
    (file,) = Path(url.removeprefix("file://")).iterdir()
    return file


def test_urls_are_told_from_folders():
    assert [is_url(choice) for choice in ("s3://bucket", "fresh", "/tmp/cache", "cache")] == [True, False, False, False]


def test_first_run_stores_and_second_loads(url, compiled):
    assert any("starts with an empty cache" in line for line in session(url))
    assert session(url) == [f"{url}: artifacts loaded: 2"]
    assert compiled["loaded"] == KEYS


def test_run_that_compiled_more_stores_again(url, compiled):
    session(url)
    compiled["compiled"] = KEYS | {"inductor c"}
    assert any("MB stored" in line for line in session(url))
    session(url)
    assert compiled["loaded"] == KEYS | {"inductor c"}


def test_run_that_compiled_nothing_new_stores_nothing(url, compiled):
    session(url)
    before = stored_file(url).stat().st_mtime_ns
    session(url)
    assert stored_file(url).stat().st_mtime_ns == before


def test_truncated_artifacts_are_one_line_and_stay(url, compiled):
    session(url)
    damaged = stored_file(url).read_bytes()[:-1]
    stored_file(url).write_bytes(damaged)
    (line,) = session(url)
    assert "ignored, because it is truncated" in line
    assert "\n" not in line
    assert compiled["loaded"] == set()
    assert stored_file(url).read_bytes() == damaged


def test_artifacts_of_another_torch_under_our_name_are_not_used(url, compiled, monkeypatch):
    session(url)
    name, mine = stored_file(url), cache.environment()
    monkeypatch.setattr(cache, "environment", lambda: {**mine, "torch": "9.9.0"})
    name.rename(name.with_name(name.name.replace(mine["torch"].replace("+", "-"), "9.9.0")))
    (line,) = session(url)
    assert f"created with torch {mine['torch']}, but this environment has torch 9.9.0" in line
    assert compiled["loaded"] == set()


def test_artifacts_of_another_environment_are_named(url, compiled, monkeypatch):
    session(url)
    mine = cache.environment()
    monkeypatch.setattr(cache, "environment", lambda: {**mine, "device": "NVIDIA H200"})
    (cold,) = [line for line in session(url) if "starts with an empty cache" in line]
    assert "artifacts for other environments: device-cpu" in cold


def test_storage_that_cannot_be_reached_is_a_line_and_no_failure(tmp_path, compiled):
    (tmp_path / "stored").write_text("a file, not a folder")
    lines = session(f"file://{tmp_path}/stored")
    assert lines
    assert all("\n" not in line for line in lines)


def test_torch_without_artifacts_says_so(url, compiled, monkeypatch):
    monkeypatch.setattr(cache, "unavailable", lambda: "torch 2.6.0 cannot save compile cache artifacts")
    assert session(url) == [
        f"{url}: torch 2.6.0 cannot save compile cache artifacts: compilation starts with an empty cache"
    ]


def test_worker_hands_over_and_stores_nothing_itself(url, compiled):
    leading = ArtifactSession(url, leads=True)
    worker = ArtifactSession(url, leads=False)
    worker.load()
    worker.save()
    assert worker.finish() == []
    assert not Path(url.removeprefix("file://")).exists()
    assert any("MB stored" in line for line in leading.finish())
    leading.close()
    assert VARIABLE not in os.environ
