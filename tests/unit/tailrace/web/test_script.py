"""The page's script: it never stops renewing in silence. Run by Node, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("page_in_node.js")


def test_the_page_never_freezes_in_silence():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed here")
    script = resources.files("tailrace.web") / "static" / "page.js"
    done = subprocess.run(
        [node, str(HARNESS), str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    away = "The page cannot be renewed: "
    assert json.loads(done.stdout) == {
        "every_ms": [1000, 5000],
        # What is shown: age, its class, notice, whether green is taken back.
        "loaded": ["seen 2 s ago", "quiet", "", False],
        "late": ["seen 16 s ago", "warn", "", False],
        "stale": ["seen 61 s ago", "bad", "", True],
        "with_focus_on_find": ["seen 1 s ago", "quiet", "", False],
        "with_focus_on_button": ["seen 1 s ago", "quiet", "", False],
        "refused": ["seen 21 s ago", "warn", f"{away}401 give the token", False],
        "unready": ["seen 21 s ago", "warn", f"{away}503 try again", False],
        "away": ["seen 21 s ago", "warn", f"{away}Failed to fetch", False],
        "back": ["seen 1 s ago", "quiet", "", False],
        "asked_while_one_hangs": 0,
        "snapshot_lost": ["new snapshot: dbo.a: not requested: Failed to fetch", False],
        "snapshot_rejected": ["new snapshot: dbo.a: not requested: 400 no such table", False],
        "snapshot_taken": [
            "new snapshot: dbo.a: requested; the outcome is listed under Requests.",
            False,
        ],
    }
