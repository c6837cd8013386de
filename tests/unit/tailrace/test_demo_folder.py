"""The demo's folder: emptied though a killed demo still writes there; another's is left alone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tailrace.demo.folder import FolderInUse, make_empty

WRITES_S = 0.3
FILES = 300


def write_files(folder: Path) -> None:
    """As Derby does in its folder: until that is gone, or for a while."""
    deadline, number = time.monotonic() + WRITES_S, 0
    while time.monotonic() < deadline:
        number += 1
        try:
            (folder / f"new {number}").touch()
        except FileNotFoundError:
            return


def test_a_folder_is_emptied_though_a_killed_demo_still_writes(tmp_path: Path):
    demo = tmp_path / "demo"
    metastore = demo / "metastore" / "seg0"
    metastore.mkdir(parents=True)
    (demo / "stack.json").write_text("{}")
    for number in range(FILES):
        (metastore / f"old {number}").touch()
    writing = threading.Thread(target=write_files, args=(metastore,))
    writing.start()
    make_empty(demo)
    writing.join()
    assert demo.is_dir()
    assert list(demo.iterdir()) == []


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FolderInUse, match="holds something that is not a demo"):
        make_empty(tmp_path)
    assert (tmp_path / "mine").read_text() == "precious"
