"""Change tables of a server that was updated in place: rows without a command id."""

from __future__ import annotations

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed

pytestmark = pytest.mark.kafka


@pytest.mark.slow("a publisher starts again on an updated server")
def test_rows_without_a_command_id_are_published_once_behind_every_row(pipe: Pipe):
    """KB 3030352 adds the column to the change tables that are there; their rows have NULL."""
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int)")
    source.enable("t")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
    source.transaction("INSERT dbo.t VALUES (1, 0), (2, 0)", "UPDATE dbo.t SET v = 1")
    source.scan()
    source.execute("UPDATE cdc.dbo_t_CT SET [__$command_id] = NULL")
    source.transaction("INSERT dbo.t VALUES (3, 0)", "DELETE dbo.t WHERE id = 1")
    source.scan()
    options = pipe.options(page_rows=1, rows_per_transaction=1, linger_ms=0, heartbeat_s=600)

    for _ in range(4):
        live_until_killed(options, "committed")
    with Running(pipe.config(page_rows=1, rows_per_transaction=1)) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")

    pipe.assert_exactly_once("t")
    assert {position.command_id == 0 for position in source.positions("dbo_t")} == {True, False}
    state = pipe.topics.state(source.name, "t", "id")
    assert {(row["id"], row["v"]) for row in state.values()} == {(2, 1), (3, 0)}
