"""A disk that takes no file is waited for, outside of the counted attempts."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tailrace_sink.errors import ApplyFailed, DiskUnwritable
from tailrace_sink.fold.patience import Patience
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.watch.local_disk import require_room
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.retries import Retries
from tests.least_options import LEAST_OF_SINK
from tests.small_disk import fill, small_disk

ERROR = ApplyFailed("table shop.dbo.orders", "a stage failed")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "lake", "1m") as folder:
        yield folder


def retries(lake: Path) -> tuple[Retries, threading.Event]:
    config = SinkConfig.load({**LEAST_OF_SINK, "lake": str(lake), "retry_backoff_max_s": 0.01})
    return Retries(config, SinkMetrics()), threading.Event()


def test_a_full_disk_is_waited_for_until_it_has_room(disk: Path):
    filler = fill(disk)
    loop, stop = retries(disk)

    def fail_often() -> None:
        for _ in range(50):
            loop.wait_after(ERROR, 1, stop)

    with capture_logs() as told:
        fail_often()
    assert {event["error"] for event in told} == {"DiskUnwritable"}
    assert "No space left on device" in told[0]["reason"]
    assert "free some space" in told[0]["reason"]
    filler.unlink()
    with capture_logs() as told, pytest.raises(ApplyFailed):
        fail_often()
    assert {event["error"] for event in told} == {"ApplyFailed"}


def test_a_disk_that_became_read_only_is_named(disk: Path):
    require_room(str(disk))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(DiskUnwritable, match="Read-only file system"):
        require_room(f"file:{disk}")


def test_no_table_is_blamed_for_a_full_disk(disk: Path):
    fill(disk)
    failed: Future[dict[str, int]] = Future()
    failed.set_exception(ERROR)
    with pytest.raises(DiskUnwritable):
        Patience(1, str(disk)).over(1, [], [failed], lambda _: None)


def test_an_object_store_and_a_lake_that_is_not_there_yet_are_not_asked(tmp_path: Path):
    require_room("s3a://lake/shop")
    require_room(str(tmp_path / "new"))
