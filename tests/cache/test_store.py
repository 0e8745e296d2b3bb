"""Compile cache artifacts in storage: kept whole, told apart by environment, refused when they are not ours."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest

pytest.importorskip("fsspec")

from pytest_torch_compile.cache.store import KEPT_RUNS, MAGIC, ArtifactsRefused, Part, Staging, Store, pack, unpack

HERE = {"device": "NVIDIA H200", "torch": "2.13.0+cu130", "cuda": "13.0", "triton": "3.7.1", "python": "3.11"}
CPU = {**HERE, "device": "cpu x86_64 AVX2", "cuda": "", "triton": ""}
PARTS = [Part("monday", b"first" * 100), Part("tuesday", b"second")]


@pytest.fixture
def store(tmp_path):
    return Store(f"file://{tmp_path}/artifacts")


@pytest.fixture(scope="module")
def s3():
    # In random order this is set up several times, and fsspec would remember the server before.
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield "s3://bucket/compile-cache"
    server.stop()


@pytest.fixture
def s3_store(s3):
    made = Store(s3)
    made._files.mkdirs("bucket", exist_ok=True)
    yield made
    made._files.rm("bucket", recursive=True)


def refusal(blob, environment=HERE):
    with pytest.raises(ArtifactsRefused) as refused:
        unpack(blob, environment)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_what_was_packed_comes_back():
    assert unpack(pack(PARTS, HERE), HERE) == PARTS


def test_artifacts_of_another_torch_are_refused():
    other = {**HERE, "torch": "2.11.0+cu128"}
    assert (
        refusal(pack(PARTS, other))
        == "it was created with torch 2.11.0+cu128, but this environment has torch 2.13.0+cu130"
    )


def test_artifacts_of_another_device_are_refused():
    assert refusal(pack(PARTS, HERE), CPU) == (
        "it was created with device NVIDIA H200, cuda 13.0, triton 3.7.1, but this environment has device cpu x86_64 AVX2, cuda none, triton none"
    )


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(MAGIC) + 20], ids="{} bytes".format)
def test_beginning_alone_is_refused(length):
    assert refusal(pack(PARTS, HERE)[:length])


def test_truncated_artifacts_are_refused():
    assert refusal(pack(PARTS, HERE)[:-7]) == "it is truncated: it has 499 of 506 bytes"


def test_changed_byte_is_refused():
    blob = bytearray(pack(PARTS, HERE))
    blob[-3] ^= 1
    assert refusal(bytes(blob)) == "it is damaged: the checksum does not match"


def test_artifacts_of_another_schema_are_refused():
    header = {"schema": 99, "environment": HERE, "parts": [], "sha256": ""}
    assert "schema version 99" in refusal(MAGIC + json.dumps(header).encode() + b"\n")


def test_other_file_is_refused():
    assert "no compile cache artifacts" in refusal(b"%PDF-1.7")


def test_store_gives_back_what_it_took(store):
    assert store.read(HERE) == []
    store.write(PARTS, HERE)
    assert store.read(HERE) == PARTS


def test_environments_do_not_see_each_other(store):
    store.write(PARTS[:1], HERE)
    store.write(PARTS[1:], CPU)
    assert store.read(HERE) == PARTS[:1]
    assert store.others(HERE) == ["device-cpu-x86_64-AVX2_python-3.11_torch-2.13.0-cu130.artifacts"]


def test_second_run_adds_to_the_first(store):
    store.write(PARTS[:1], HERE)
    store.write(PARTS[1:], HERE)
    assert store.read(HERE) == PARTS


def test_oldest_runs_are_dropped(store):
    runs = [Part(f"run {number}", b"content") for number in range(KEPT_RUNS + 2)]
    for part in runs:
        store.write([part], HERE)
    assert store.read(HERE) == runs[-KEPT_RUNS:]


def test_refused_artifacts_are_kept(store, tmp_path):
    store.write(PARTS, HERE)
    (file,) = (tmp_path / "artifacts").iterdir()
    damaged = file.read_bytes()[:-1]
    file.write_bytes(damaged)
    with pytest.raises(ArtifactsRefused, match="truncated"):
        store.write(PARTS, HERE)
    assert [path.read_bytes() for path in (tmp_path / "artifacts").iterdir()] == [damaged]


@pytest.fixture
def remote():
    """A store that is no local folder."""
    made = Store(f"memory://{uuid.uuid4().hex}")
    yield made
    made._files.rm(made._root, recursive=True)


def test_what_a_killed_run_left_at_a_remote_store_is_removed_after_an_hour(remote, monkeypatch):
    for age, part in ((2, "old"), (0, "running")):
        name = f"{remote.path(HERE)}.{part}.part"
        remote._files.pipe_file(name, b"part")
        remote._files.store[name].modified -= timedelta(hours=age)
    remote.write(PARTS, HERE)
    assert remote.read(HERE) == PARTS
    assert [name.rsplit(".", 2)[1] for name in remote._files.glob(f"{remote._root}/*.part")] == ["running"]


def test_failed_upload_leaves_the_old_artifacts_and_no_rest(remote, monkeypatch):
    store = remote
    store.write(PARTS[:1], HERE)

    def fail(*_):
        raise OSError("connection lost")

    monkeypatch.setattr(store._files, "mv", fail)
    with pytest.raises(OSError, match="connection lost"):
        store.write(PARTS[1:], HERE)
    assert len(store._files.ls(store._root)) == 1
    assert store.read(HERE) == PARTS[:1]


def test_s3_keeps_them_too(s3_store, s3):
    s3_store.write(PARTS, HERE)
    s3_store.write([Part("wednesday", b"third")], CPU)
    assert Store(s3).read(HERE) == PARTS
    assert len(Store(s3).others(HERE)) == 1
    assert [name for name in s3_store._files.ls("bucket/compile-cache") if name.endswith(".part")] == []


def test_s3_object_that_lost_its_end_is_refused_and_kept(s3_store, s3):
    s3_store.write(PARTS, HERE)
    path = s3_store.path(HERE)
    damaged = s3_store._files.cat_file(path)[:-100]
    s3_store._files.pipe_file(path, damaged)
    with pytest.raises(ArtifactsRefused, match="truncated"):
        Store(s3).write(PARTS, HERE)
    assert s3_store._files.cat_file(path) == damaged


def test_unknown_protocol_is_one_clear_line():
    with pytest.raises(ArtifactsRefused, match="nowhere") as refused:
        Store("nowhere://bucket")
    assert "\n" not in str(refused.value)


def test_staging_gathers_the_parts_of_all_processes(tmp_path):
    staging = Staging(tmp_path)
    for content in (b"of one worker", b"of another"):
        staging.add(content, HERE)
    ((environment, parts),) = staging.parts(run="today")
    assert environment == HERE
    assert {part.content for part in parts} == {b"of one worker", b"of another"}
    assert {part.run for part in parts} == {"today"}


def test_staging_says_a_line_of_several_processes_once(tmp_path):
    for line in ("same", "same", "other"):
        Staging(tmp_path).say(line)
    assert Staging(tmp_path).lines() == ["other", "same"]
