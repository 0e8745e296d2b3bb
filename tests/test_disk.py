"""Where files are written that several processes share."""

from __future__ import annotations

import os
import threading

import pytest

from pytest_torch_compile.disk import write_atomically


def test_link_is_kept_and_the_file_behind_it_replaced(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file)
    write_atomically(link, "new")
    assert link.is_symlink() and file.read_text() == "new"


def test_link_to_nothing_creates_the_file_behind_it(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "missing")
    write_atomically(link, "new")
    assert link.is_symlink() and (tmp_path / "missing").read_text() == "new"


def test_pipe_is_written_to(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, "text")
    reader.join(timeout=10)
    assert read == ["text"]
    assert pipe.is_fifo()


def test_folder_is_refused_with_its_name(tmp_path):
    with pytest.raises(IsADirectoryError, match=f"expected a file, but this is a folder: '{tmp_path}'"):
        write_atomically(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []
