"""Reading through the query functions: with a login that may read no change table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from tailrace.enable.tsql import Captured, least_grants
from tailrace_publisher.errors import ConfigError, PreflightError
from tailrace_publisher.options.source import ReadMode
from tailrace_schemas.position.change_position import ChangePosition
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed

pytestmark = pytest.mark.kafka

PASSWORD = "Least-privilege-1"


def without_command_ids(positions: Counter[ChangePosition]) -> Counter[ChangePosition]:
    return Counter({replace(position, command_id=0): n for position, n in positions.items()})


def assert_exactly_once(pipe: Pipe, table: str) -> None:
    published = pipe.topics.positions(pipe.source.name, table)
    assert published == without_command_ids(pipe.source.positions(f"dbo_{table}"))


def by_function(pipe: Pipe, **further: Any) -> dict[str, Any]:
    return pipe.options(**further) | {
        "source": pipe.options(**further)["source"] | {"read_mode": "function"}
    }


def gated_login(pipe: Pipe) -> tuple[str, dict[str, Any]]:
    """A login with what ``tailrace grants`` says, and the options that use it."""
    source, user = pipe.source, f"reader_{pipe.source.name}"
    source.execute(
        f"CREATE LOGIN {user} WITH PASSWORD = N'{PASSWORD}'",
        f"CREATE USER {user} FOR LOGIN {user}",
    )
    options = by_function(pipe)
    login = {"user": user, "password": PASSWORD}
    return user, options | {"source": options["source"] | login}


def test_a_login_that_may_read_no_change_table_is_enough(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(50))",
        "INSERT dbo.orders VALUES (1, N'before')",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = N'gate'",
        "CREATE TABLE dbo.texts (id int PRIMARY KEY, note nvarchar(max), n int)",
    )
    source.enable("texts")
    source.scan()
    user, options = gated_login(pipe)
    config = pipe.config(**options)
    with Running(config) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    assert "GRANT VIEW DEFINITION ON SCHEMA::cdc" in str(error)
    tables = [("dbo", "orders"), ("dbo", "texts")]
    grants = [sql for sql, _ in least_grants(user, Captured(tables), ReadMode.FUNCTION)]
    source.execute(*grants)
    with Running(config) as publisher:
        publisher.until(lambda: bool(publisher.told("table_stopped")), "the gate is told")
        publisher.until(lambda: pipe.is_caught_up(gone=["orders"]), "the other table is out")
    (stopped,) = publisher.told("table_stopped")
    assert f"dbo_orders: ALTER ROLE [gate] ADD MEMBER [{user}]" in stopped["reason"]
    source.execute(f"ALTER ROLE [gate] ADD MEMBER [{user}]")

    with Running(config) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        source.execute(
            "UPDATE dbo.orders SET note = N'after'",
            "UPDATE dbo.orders SET id = 7",
            "INSERT dbo.orders SELECT value, N'' FROM GENERATE_SERIES(100, 399)",
            "DELETE dbo.orders WHERE id = 100",
            "INSERT dbo.texts VALUES (1, N'large', 1)",
            "UPDATE dbo.texts SET n = 2",
        )
        publisher.until(pipe.is_caught_up, "the changes are out")
        source.transaction("DELETE dbo.orders WHERE id = 7", "INSERT dbo.orders VALUES (7, N'x')")
        publisher.until(pipe.is_caught_up, "a key that is gone and comes again is in order")

    with (
        source.server.connect(source.name, UID=user, PWD=PASSWORD) as connection,
        pytest.raises(pyodbc.Error, match="229"),
    ):
        connection.execute("SELECT * FROM cdc.dbo_orders_CT")
    assert_exactly_once(pipe, "orders")
    assert_exactly_once(pipe, "texts")
    state = pipe.topics.state(source.name, "orders", "id")
    assert {(k, row["note"]) for k, row in state.items()} == set(
        source.query("SELECT id, note FROM dbo.orders")
    )
    assert pipe.topics.state(source.name, "texts", "id") == {1: {"id": 1, "note": "large", "n": 2}}
    looked = invoke(pipe, tmp_path, "doctor", **options)
    assert "reads the catalog of capture instances" in looked.output, looked.output


@pytest.mark.slow("two publishers are killed, and four started")
def test_killed_inside_a_transaction_it_goes_on_behind_the_last_row(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, v int)",
        "INSERT dbo.t VALUES (1, 0), (2, 0), (3, 0)",
    )
    source.enable("t")
    options = by_function(
        pipe,
        page_rows=1,
        rows_per_transaction=1,
        linger_ms=0,
        heartbeat_s=600,
        snapshot={"mode": "no_data"},
    )
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
    source.transaction(
        "INSERT dbo.t VALUES (4, 0), (5, 0)",
        "UPDATE dbo.t SET v = 1 WHERE id < 3",
        "DELETE dbo.t WHERE id = 3",
    )
    source.scan()

    live_until_killed(options, "sent", 2)
    live_until_killed(options, "committed", 2)
    inside = len(pipe.topics.positions(source.name, "t"))
    assert 0 < inside < 5
    with Running(pipe.config(**options | {"source": pipe.options()["source"]})) as publisher:
        error = publisher.ended()
    assert isinstance(error, ConfigError)
    assert "inside a transaction" in str(error)
    assert "source.read_mode: function" in str(error)
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "it goes on")
    assert_exactly_once(pipe, "t")
    with Running(pipe.config()) as publisher:
        source.execute("UPDATE dbo.t SET v = 2")
        publisher.until(pipe.is_caught_up, "behind a transaction the mode may change")
    assert sum(pipe.topics.positions(source.name, "t").values()) == 9


def test_keys_that_move_from_row_to_row_stop_their_table(pipe: Pipe):
    """Ordered by seqval the delete of a key would come behind its create."""
    source = pipe.source
    for table in ("keeps", "moves"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note int)")
        source.execute(f"INSERT dbo.{table} VALUES (1, 1), (2, 2)")
        source.enable(table)
    with Running(pipe.config(**by_function(pipe))) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        source.execute("UPDATE dbo.moves SET id = 9 WHERE id = 2")
        publisher.until(pipe.is_caught_up, "a key that moves to a new place is no problem")
        source.execute("INSERT dbo.moves VALUES (2, 2)", "UPDATE dbo.moves SET id = id + 1")
        source.execute("UPDATE dbo.keeps SET note = 10")
        publisher.until(lambda: pipe.is_caught_up(gone=["moves"]), "the other table goes on")
        (told,) = publisher.told("table_stopped")

    assert told["error"] == "OrderUnknown"
    assert told["table"].endswith("dbo.moves")
    assert_exactly_once(pipe, "keeps")
