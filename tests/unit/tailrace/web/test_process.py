"""tailrace web as a process, where nothing answers: the page says so, part by part."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx


def test_parts_that_do_not_answer_are_named_on_the_page(tmp_path: Path):
    options = {
        "prefix": "p",
        "kafka.bootstrap": "127.0.0.1:1",
        "registry.url": "http://127.0.0.1:1",
        "publisher.kafka.start_timeout_s": "1",
        "publisher.source.host": "127.0.0.1",
        "publisher.source.port": "1",
        "publisher.source.database": "d",
        "publisher.source.user": "u",
        "publisher.source.password": "never-told-1",
        "publisher.source.login_timeout_s": "1",
        "publisher.metrics_port": "1",
        "sink.lake": str(tmp_path / "lake"),
    }
    flags = [word for option in options.items() for word in ("--set", "=".join(option))]
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", "web", "--port", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        page = httpx.get(url, timeout=60, trust_env=False)
        process.send_signal(signal.SIGTERM)
        rest, problems = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert page.status_code == 200
    for part in ("source", "topics", "publisher"):
        assert f"{part} did not answer: " in page.text
    assert "lake did not answer" not in page.text, "it is not there yet"
    assert "never-told-1" not in page.text + rest + problems
    assert (process.returncode, rest, problems) == (0, "", "")
