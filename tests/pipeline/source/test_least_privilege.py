"""The publisher with the login that docs/real-sqlserver.md describes, and with less than that."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import pytest

from tailrace_publisher.errors import PreflightError
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.server_kind import server_kind
from tailrace_publisher.source.log.space import read_space
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

DOCUMENT = Path(__file__).parents[3] / "docs" / "real-sqlserver.md"
LOGIN = "tailrace"
PASSWORD = "Least-privilege-1"
ON_THE_SERVER = "GRANT VIEW SERVER PERFORMANCE STATE TO"
IN_THE_DATABASE = "GRANT VIEW DATABASE STATE TO"
BACKLOG = "tailrace_log_backlog_bytes"


def documented_statements(pipe: Pipe) -> dict[str, str]:
    """The statements of the page for this pipe's database, by what each begins with."""
    (block,) = re.findall(
        r"### 3. A login for the publisher.*?```sql\n(.*?)```",
        DOCUMENT.read_text("utf-8"),
        re.DOTALL,
    )
    text = re.sub(r"--[^\n]*", "", block)
    login = f"{LOGIN}_{pipe.source.name}"
    text = text.replace("<password>", PASSWORD).replace("<database>", pipe.source.name)
    text = text.replace("<gating role>", "gate")
    text = re.sub(rf"\b{LOGIN}\b", login, text)
    statements = [statement.strip() for statement in text.split(";") if statement.strip()]
    return {statement.split(f" {login}")[0]: statement for statement in statements}


def pipe_options(pipe: Pipe) -> dict[str, object]:
    source = pipe.options()["source"]
    return {"source": source | {"user": f"{LOGIN}_{pipe.source.name}", "password": PASSWORD}}


@pytest.fixture
def orders(pipe: Pipe) -> Pipe:
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(50))",
        "INSERT dbo.orders VALUES (1, N'before')",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = N'gate'",
    )
    pipe.source.scan()
    return pipe


def test_the_documented_login_is_enough(orders: Pipe):
    orders.source.execute(*documented_statements(orders).values())

    with Running(orders.config(**pipe_options(orders))) as publisher:
        publisher.until(orders.is_caught_up, "the snapshot is out")
        orders.source.execute("UPDATE dbo.orders SET note = N'after'", "DELETE dbo.orders")
        publisher.until(orders.is_caught_up, "the changes are out")

    orders.assert_exactly_once("orders")
    assert orders.topics.state(orders.source.name, "orders", "id") == {}
    assert not [e for e in publisher.events if str(e["event"]).endswith("_not_visible")]


def test_each_missing_grant_is_named(orders: Pipe):
    statements = documented_statements(orders)
    grants = {k: text for k, text in statements.items() if k.startswith(("GRANT", "ALTER"))}
    orders.source.execute(*(text for key, text in statements.items() if key not in grants))
    user = f"{LOGIN}_{orders.source.name}"
    config = orders.config(**pipe_options(orders))

    with Running(config) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    assert f"GRANT SELECT ON SCHEMA::cdc TO [{user}]" in str(error)

    orders.source.execute(grants.pop("GRANT SELECT ON SCHEMA::cdc TO"))
    with Running(config) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    assert "capture instances dbo_orders: GRANT SELECT" in str(error)

    orders.source.execute(grants.pop("GRANT SELECT ON dbo.orders TO"))
    with Running(config) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    assert f"dbo_orders: ALTER ROLE [gate] ADD MEMBER [{user}]" in str(error)

    orders.source.execute(grants.pop("ALTER ROLE [gate] ADD MEMBER"))
    with Running(config) as publisher:
        publisher.until(
            lambda: bool(publisher.told("capture_job_not_visible")), "it says what it cannot see"
        )
    (warning,) = publisher.told("capture_job_not_visible")
    assert warning["fix"] == "GRANT VIEW DATABASE STATE to the login"
    assert list(grants) == [ON_THE_SERVER, IN_THE_DATABASE]


@pytest.mark.parametrize("missing", [ON_THE_SERVER, IN_THE_DATABASE, None])
def test_what_goes_without_a_right_to_see_states(orders: Pipe, missing: str | None):
    """All rows are published; what is not seen is named once, with the statement that shows it."""
    statements = documented_statements(orders)
    orders.source.execute(*(text for key, text in statements.items() if key != missing))
    if missing == IN_THE_DATABASE:  # which the right on the server covers
        orders.source.execute(f"DENY VIEW DATABASE STATE TO {LOGIN}_{orders.source.name}")

    with Running(orders.config(**pipe_options(orders), heartbeat_s=0.5)) as publisher:
        publisher.until(orders.is_caught_up, "the snapshot is out")
        orders.source.execute("UPDATE dbo.orders SET note = N'after'")
        publisher.until(orders.is_caught_up, "the changes are out")
        backlog = partial(publisher.metrics.registry.get_sample_value, BACKLOG)
        if missing is None:
            publisher.until(lambda: (backlog() or 0.0) >= 0.0, "the log's end is known")
        else:
            publisher.until(lambda: math.isnan(backlog() or 0.0), "it is not known")
        hidden = {str(e["event"]): e for e in publisher.events}
    orders.assert_exactly_once("orders")
    seen = {name for name in hidden if name.endswith("_not_visible")} - {"space_not_visible"}
    if missing is None:
        assert not seen
    elif missing == ON_THE_SERVER:
        assert seen == {"log_end_not_visible"}
        fix = hidden["log_end_not_visible"]["fix"]
        assert fix.startswith("USE master; GRANT VIEW SERVER PERFORMANCE STATE TO")
    else:
        assert seen == {"capture_job_not_visible", "scan_sessions_not_visible"}


@pytest.mark.parametrize("missing", [ON_THE_SERVER, None])
def test_the_use_of_the_log_is_seen_with_the_right_on_the_server(orders: Pipe, missing: str | None):
    statements = documented_statements(orders)
    orders.source.execute(*(text for key, text in statements.items() if key != missing))
    orders.source.execute("UPDATE dbo.orders SET note = N'waits for the capture job'")
    refused: dict[str, str] = {}
    with OdbcConnection(orders.config(**pipe_options(orders)).source) as connection:
        space = read_space(connection, lambda view, error: refused.update({view: str(error)}))
        kind = server_kind(connection)
    assert kind.log_right == "VIEW SERVER PERFORMANCE STATE"
    if missing is None:
        assert space is not None
        assert space.log_limit is None, "its file has no limit, and no volume is shown"
        assert space.log_used > 0
        assert set(refused) <= {"sys.dm_os_volume_stats"}
    else:
        assert space is None
        assert "VIEW SERVER PERFORMANCE STATE" in refused["sys.dm_db_log_space_usage"]


def until_orders_go_on(orders: Pipe, publisher: Running) -> None:
    publisher.until(
        lambda: orders.topics.state(orders.source.name, "orders", "id").keys() == {1, 2},
        "the change of the other table is out",
    )


def test_a_table_behind_another_gate_does_not_keep_a_later_start_from_the_others(orders: Pipe):
    source = orders.source
    source.execute(*documented_statements(orders).values())
    config = orders.config(**pipe_options(orders))
    with Running(config) as publisher:
        publisher.until(orders.is_caught_up, "the snapshot is out")
    source.execute(
        "CREATE TABLE dbo.salaries (id int PRIMARY KEY)",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'salaries', @role_name = N'personnel'",
        f"GRANT SELECT ON dbo.salaries TO [{LOGIN}_{source.name}]",
        "INSERT dbo.salaries VALUES (1)",
        "INSERT dbo.orders VALUES (2, N'after')",
    )
    source.scan()

    with Running(config) as publisher:
        until_orders_go_on(orders, publisher)
        (told,) = publisher.told("table_stopped")
    assert told["table"].endswith("dbo.salaries")
    assert "ALTER ROLE [personnel] ADD MEMBER" in told["reason"]
    assert not orders.topics.events(source.name, "salaries")
    orders.assert_exactly_once("orders")


def test_a_table_whose_changes_may_not_be_read_any_more_stops_alone(orders: Pipe):
    source = orders.source
    source.execute(*documented_statements(orders).values())
    source.execute("CREATE TABLE dbo.closed (id int PRIMARY KEY)")
    source.enable("closed")
    user = f"{LOGIN}_{source.name}"
    source.execute(f"GRANT SELECT ON dbo.closed TO [{user}]")

    with Running(orders.config(**pipe_options(orders))) as publisher:
        publisher.until(orders.is_caught_up, "the snapshots are out")
        source.execute(
            f"DENY SELECT ON cdc.dbo_closed_CT TO [{user}]",
            "INSERT dbo.closed VALUES (1)",
            "INSERT dbo.orders VALUES (2, N'after')",
        )
        source.scan()
        until_orders_go_on(orders, publisher)
        (told,) = publisher.told("table_stopped")
    assert told["error"] == "PermissionMissing"
    assert told["table"].endswith("dbo.closed")
    orders.assert_exactly_once("orders")


def test_a_table_that_may_not_be_read_any_more_stops_alone_in_its_snapshot(orders: Pipe):
    source = orders.source
    source.execute(*documented_statements(orders).values())
    source.execute(
        "CREATE TABLE dbo.closed (id int PRIMARY KEY)",
        "INSERT dbo.closed SELECT value FROM GENERATE_SERIES(1, 20000)",
    )
    source.enable("closed")
    user = f"{LOGIN}_{source.name}"
    source.execute(f"GRANT SELECT ON dbo.closed TO [{user}]")
    config = orders.config(**pipe_options(orders), snapshot={"chunk_rows": 10})

    with Running(config) as publisher:

        def is_begun() -> bool:
            source.scan()
            return len(orders.topics.snapshot(source.name, "closed")) >= 10

        publisher.until(is_begun, "the first chunk is out")
        source.execute(
            f"DENY SELECT ON dbo.closed TO [{user}]", "INSERT dbo.orders VALUES (2, N'')"
        )

        def is_told() -> bool:
            source.scan()
            return bool(publisher.told("table_stopped"))

        publisher.until(is_told, "it is told")
        until_orders_go_on(orders, publisher)
    assert publisher.told("table_stopped")[0]["table"].endswith("dbo.closed")
    assert len(orders.topics.snapshot(source.name, "closed")) < 20000
    orders.assert_exactly_once("orders")


def test_a_database_that_was_published_may_be_closed_to_the_login_for_a_while(orders: Pipe):
    """As in a failover or a restore: at a first start the same error (4060) ends it at once."""
    source = orders.source
    statements = documented_statements(orders)
    source.execute(*statements.values())
    config = orders.config(**pipe_options(orders))
    with Running(config) as publisher:
        publisher.until(orders.is_caught_up, "the snapshot is out")
    source.execute(f"DROP USER {LOGIN}_{source.name}", "UPDATE dbo.orders SET note = N'after'")

    with Running(config) as publisher:
        publisher.until(
            lambda: any(e["error"] == "DatabaseUnknown" for e in publisher.told("retrying")),
            "it waits",
        )
        assert publisher.metrics.registry.get_sample_value(
            "tailrace_retries_total", {"error": "DatabaseUnknown"}
        )
        source.execute(
            *(text for key, text in statements.items() if not key.startswith("CREATE LOGIN"))
        )
        publisher.until(orders.is_caught_up, "it goes on")

    orders.assert_exactly_once("orders")
