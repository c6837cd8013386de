"""Commit times as the server gives them, with the offset that each had."""

from __future__ import annotations

import pytest

from tailrace_publisher.source.blocks.block_paths import BlockPaths
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.commit_times import commits_from, time_zone, utc_offset_minutes
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.conftest import Pipe

pytestmark = pytest.mark.kafka


def test_the_server_tells_the_offset_of_each_commit_in_its_time_zone(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")
    source.execute("INSERT dbo.t VALUES (1)")
    source.scan()

    with OdbcConnection(pipe.config().source) as connection:
        plain = commits_from(connection, Lsn.ZERO, 10)
        zoned = commits_from(connection, Lsn.ZERO, 10, "India Standard Time")
        with BlockPaths(pipe.config().source) as blocks:
            in_blocks = blocks.commits(Lsn.ZERO, 10, None)
            zoned_in_blocks = blocks.commits(Lsn.ZERO, 10, "India Standard Time")
            no_more = blocks.commits(Lsn.MAX, 10, None)
        assert time_zone(connection) is None, "UTC"
        assert utc_offset_minutes(connection) == 0

    assert plain
    assert list(in_blocks) == list(plain)
    assert list(zoned_in_blocks) == list(zoned)
    assert [commit.offset_minutes for commit in zoned_in_blocks] == [330] * len(zoned)
    assert in_blocks.milliseconds(60) == plain.milliseconds(60)
    assert zoned_in_blocks.milliseconds(60) == zoned.milliseconds(60)
    assert not no_more
    assert [commit.offset_minutes for commit in plain] == [None] * len(plain)
    assert [commit.offset_minutes for commit in zoned] == [330] * len(zoned)
    assert [c.local_time for c in zoned] == [c.local_time for c in plain]
