"""What a poll costs with many capture instances, and how statements stay prepared."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.errors import CaptureInstanceGone, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Step
from tailrace_publisher.source.catalog.catalog_state import News, catalog_state
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog, read_catalog
from tailrace_publisher.source.connection.connection import LONG_TEXT, OdbcConnection
from tailrace_publisher.source.log.probe import PROBE_INSTANCES, Probe, probe_of
from tailrace_publisher.source.log.queries import INVALID_OBJECT
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.conftest import Pipe
from tests.pipeline.proxy import Proxy
from tests.pipeline.running import Running
from tests.pipeline.source_database import SourceDatabase, source_options

TABLES = PROBE_INSTANCES + 20


@pytest.fixture
def source(source_server: SourceServer) -> SourceDatabase:
    return SourceDatabase(source_server, f"many_{uuid.uuid4().hex[:8]}")


@pytest.fixture
def proxy(source: SourceDatabase) -> Iterator[Proxy]:
    proxy = Proxy(source.server.host, source.server.port)
    proxy.open()
    yield proxy
    proxy.close()


def behind(proxy: Proxy, source: SourceDatabase) -> OdbcConnection:
    """A connection whose bytes are counted."""
    return OdbcConnection(source_options(source, host="127.0.0.1", port=proxy.port, encrypt="no"))


def test_the_probe_of_many_instances_costs_a_few_hundred_bytes(
    source: SourceDatabase, proxy: Proxy
):
    for number in range(TABLES):
        source.execute(
            f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY)",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
            f" @source_name = N't{number}', @role_name = NULL",
        )
    source.scan()
    with behind(proxy, source) as connection:
        instances = read_catalog(connection, source.name, {}).instances
        assert len(instances) == TABLES
        probe = Probe.of(instances)
        by_function = Probe.of(replace(instance, by_function=True) for instance in instances)
        costs = []
        last = Lsn.ZERO
        for number in range(3):
            source.execute(f"INSERT dbo.t7 VALUES ({number})", f"INSERT dbo.t110 VALUES ({number})")
            source.scan()
            asked, queries = proxy.asked, connection.queries
            first, last = last.increment(), source.max_lsn()
            found = probe.ask(connection, first, last)
            assert sorted(found) == ["dbo_t110", "dbo_t7"]
            costs.append(proxy.asked - asked)
            assert connection.queries - queries == (3 if number == 0 else 1)
            assert sorted(by_function.ask(connection, first, last)) == sorted(found)

        assert probe.ask(connection, last.increment(), Lsn.MAX) == []
        source.execute(
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't110',"
            " @capture_instance = N'dbo_t110'"
        )
        with pytest.raises(CaptureInstanceGone):
            probe.ask(connection, Lsn.ZERO.increment(), last)
        with pytest.raises(CaptureInstanceGone):
            by_function.ask(connection, Lsn.ZERO.increment(), last)

    # The long text is kept by the first; then it is called with two parameters.
    assert costs[0] > 30_000
    assert max(costs[1:]) < 600, costs


def test_a_new_instance_changes_the_text_of_the_last_probe_only():
    names = [f"dbo_t{number}" for number in range(250)]
    groups = [names[start : start + 100] for start in range(0, 250, 100)]

    assert probe_of(groups[0]).count("?") == 2
    assert probe_of([*groups[2], "dbo_new"]).startswith(probe_of(groups[2]))


def test_statements_that_go_together_declare_the_same(source: SourceDatabase, proxy: Proxy):
    head = "DECLARE @a int = ?; "
    padding = f" /* {'x' * LONG_TEXT} */"
    statements = [
        f"{head}SELECT @a{padding}",
        f"{head}SELECT @a + 1",
        f"{head}SELECT 1 WHERE 0 = 1",
    ]
    with behind(proxy, source) as connection:
        for number in range(3):
            sets = connection.query_together(statements, number)
            assert [[row[0] for row in rows] for rows in sets] == [[number], [number + 1], []]
        assert connection.queries == 4  # the long text is kept by one more
        with pytest.raises(ValueError, match="declare the same"):
            connection.query_together([*statements, "DECLARE @b int = ?; SELECT @b"], 1)
        with pytest.raises(ValueError, match="declare the same"):
            connection.query_together(["SELECT ?", "SELECT ?"], 1)


def test_what_a_poll_brings_of_the_catalog_does_not_grow_with_it(source: SourceDatabase):
    def capture(number: int) -> None:
        source.execute(
            f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY)",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
            f" @source_name = N't{number}', @role_name = NULL",
        )

    def disable(number: int) -> None:
        source.execute(
            f"EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't{number}',"
            f" @capture_instance = N'dbo_t{number}'"
        )

    def inserted(number: int) -> Lsn:
        source.execute(f"INSERT dbo.t0 VALUES ({number})")
        source.scan()
        return source.max_lsn()

    for number in range(30):
        capture(number)
    with OdbcConnection(source_options(source)) as connection:
        unseen = catalog_state(connection)
        out = inserted(0)
        known = catalog_state(connection, out)
        assert known != unseen  # the capture process has come to them
        assert known == catalog_state(connection)
        assert known.raised == {}
        counting = Counting(connection)
        assert catalog_state(cast(Connection, counting), out) == known
        assert sum(counting.rows.values()) == 2

        ids = dict(source.query("SELECT capture_instance, object_id FROM cdc.change_tables"))
        source.execute("ALTER TABLE dbo.t5 ADD note int NULL")
        later_known = catalog_state(connection, out, News([ids["dbo_t0"]], known))
        assert later_known == known  # the DDL is of a table without news, and not captured yet
        out = inserted(2)
        assert catalog_state(connection, out, News([ids["dbo_t0"]], known)) == known
        assert catalog_state(connection, out, News([], known)) == known
        altered = catalog_state(connection, out)
        assert catalog_state(connection, out, News([ids["dbo_t5"]], known)) == altered != known
        assert catalog_state(connection, out, News([ids["dbo_t5"]], altered)) == altered
        assert catalog_state(connection, out, News(ids.values(), known)) == altered

        capture(30)
        made = catalog_state(connection, out)
        assert made != altered
        later = inserted(1)
        recognised = catalog_state(connection, out)
        assert recognised != made
        assert [name for name, _ in recognised.raised] == ["dbo_t30"]
        source.execute(
            "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t7',"
            f" @low_water_mark = 0x{later.to_bytes().hex()}, @threshold = 100"
        )
        cleaned = catalog_state(connection, out)
        assert cleaned == recognised
        assert sorted(name for name, _ in cleaned.raised) == ["dbo_t30", "dbo_t7"]
        assert cleaned.raised[next(key for key in cleaned.raised if key[0] == "dbo_t7")] == later

        disable(3)
        gone = catalog_state(connection, out)
        assert gone != cleaned
        source.enable("t3")
        source.scan()
        assert catalog_state(connection, out) not in (gone, cleaned)  # it is another one


@pytest.mark.kafka
def test_a_poll_sends_three_statements_however_many_tables_there_are(pipe: Pipe):
    for number in range(TABLES):
        pipe.source.execute(f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY)")
        pipe.source.enable(f"t{number}")
    pipe.source.scan()
    with Running(pipe.config(snapshot={"mode": "no_data"}, heartbeat_s=60)) as publisher:
        publisher.until(lambda: bool(publisher.steps), "it has begun")
        for number in range(4):
            pipe.source.execute(f"INSERT dbo.t7 VALUES ({number})")
            publisher.until(pipe.is_caught_up, "the row is out")

    def counted(name: str) -> float:
        return publisher.metrics.registry.get_sample_value(f"tailrace_queries_per_poll_{name}") or 0

    windows, pages = publisher.steps.count(Step.WINDOW), publisher.steps.count(Step.PAGE)
    assert windows >= pages >= 4
    kept = 2 + 1  # texts of the probe, the first time; settings of the connection for blocks
    # The commits; where there are some, what has news of them, and the catalog; and each page.
    assert counted("sum") == counted("count") + 2 * windows + pages + kept
    pipe.assert_exactly_once("t7")


def test_a_prepared_statement_sees_what_ddl_made_of_its_table(source: SourceDatabase, proxy: Proxy):
    source.execute("CREATE TABLE dbo.t (id int, note varchar(10))", "INSERT dbo.t VALUES (1, 'a')")
    sql = "SELECT id, note FROM dbo.t WHERE id >= ?"
    with behind(proxy, source) as connection:
        assert [tuple(row) for row in connection.query(sql, 1)] == [(1, "a")]
        source.execute("ALTER TABLE dbo.t ALTER COLUMN note nvarchar(200)")
        source.execute("UPDATE dbo.t SET note = REPLICATE(NCHAR(8364), 150)")
        assert [tuple(row) for row in connection.query(sql, 1)] == [(1, "\u20ac" * 150)]
        source.execute("DROP TABLE dbo.t", "CREATE TABLE dbo.t (note datetime2, id bigint)")
        source.execute("INSERT dbo.t VALUES ('2026-01-02', 5000000000)")
        (row,) = connection.query(sql, 1)
        assert row.id == 5_000_000_000
        assert row.note.year == 2026


def test_a_text_that_cannot_be_kept_is_sent_as_it_is(source: SourceDatabase, proxy: Proxy):
    head = "DECLARE @a binary(10) = ?, @b int = ?; "
    padding = f" /* {'x' * LONG_TEXT} */"
    with behind(proxy, source) as connection:
        assert connection.query(f"{head}SELECT @b{padding}", bytes(10), 5)[0][0] == 5
        # USE is not allowed in a procedure.
        sql = f"{head}USE [{source.name}]; SELECT @b + 1{padding}"
        for number in range(3):
            assert connection.query(sql, bytes(10), number)[0][0] == number + 1


def test_a_kept_text_says_that_its_table_is_gone(source: SourceDatabase, proxy: Proxy):
    source.execute("CREATE TABLE dbo.t (id int)", "INSERT dbo.t VALUES (1)")
    sql = f"DECLARE @a int = ?; SELECT COUNT(*) FROM dbo.t WHERE id >= @a /* {'x' * LONG_TEXT} */"
    with behind(proxy, source) as connection:
        assert connection.query(sql, 1)[0][0] == 1
        source.execute("DROP TABLE dbo.t")
        with pytest.raises(SourceError) as gone:
            connection.query(sql, 1)
        assert gone.value.number == INVALID_OBJECT
        source.execute("CREATE TABLE dbo.t (id bigint)")
        assert connection.query(sql, 1)[0][0] == 0


class Counting:
    """A connection that keeps what it was asked, and how many rows it gave."""

    def __init__(self, connection: OdbcConnection) -> None:
        self._connection = connection
        self.rows: dict[str, int] = {}

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        return self.query_sets(sql, *parameters)[0]

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        sets = self._connection.query_sets(sql, *parameters)
        self.rows[sql] = sum(map(len, sets))
        return sets

    def rows_about(self, view: str) -> int:
        return sum(rows for sql, rows in self.rows.items() if view in sql)


def test_ddl_on_one_table_reads_the_columns_of_that_table(source: SourceDatabase):
    for number in range(30):
        source.execute(f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY, note varchar(10))")
        source.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
            f" @source_name = N't{number}', @role_name = NULL"
        )
    source.scan()
    known = KnownCatalog()
    with OdbcConnection(source_options(source)) as connection:

        def read() -> tuple[Catalog, Counting]:
            counting = Counting(connection)
            found = read_catalog(cast(Connection, counting), source.name, {}, known)
            assert found.instances == read_catalog(connection, source.name, {}).instances
            return found, counting

        first, asked = read()
        assert asked.rows_about("cdc.captured_columns") == 60
        again, asked = read()
        assert again.instances == first.instances
        assert (
            asked.rows_about("cdc.captured_columns")
            + asked.rows_about("sys.columns c JOIN sys.types")
            == 0
        )

        source.execute("ALTER TABLE dbo.t7 ALTER COLUMN note nvarchar(20)")
        source.scan()
        altered, asked = read()
        assert asked.rows_about("cdc.captured_columns") == 2
        (instance,) = (i for i in altered.instances if i.table.table == "t7")
        assert str(instance.columns[1].type) == "nvarchar(20)"
        assert [len(ddl) for ddl in altered.ddl.values()] == [1]

        source.execute("ALTER TABLE dbo.t7 ADD more int", "ALTER TABLE dbo.t8 DROP COLUMN note")
        source.scan()
        dropped, asked = read()
        assert asked.rows_about("cdc.captured_columns") == 4
        assert [len(ddl) for ddl in dropped.ddl.values()] == [1]
        assert [c.in_source for i in dropped.instances for c in i.columns].count(False) == 1

        source.execute(
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't9',"
            " @capture_instance = N'dbo_t9'",
            "DROP TABLE dbo.t9",
            "CREATE TABLE dbo.t9 (other int PRIMARY KEY)",
        )
        source.enable("t9")
        replaced, _ = read()
        assert [c.name for i in replaced.instances if i.name == "dbo_t9" for c in i.columns] == [
            "other"
        ]


def test_what_was_just_read_is_given_again_where_nothing_has_changed(source: SourceDatabase):
    for number in range(3):
        source.execute(f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY, note varchar(10))")
        source.enable(f"t{number}")
    source.scan()
    with OdbcConnection(source_options(source)) as connection:
        known = KnownCatalog()

        def read(before: Catalog | None, names: dict[int, TableName]) -> tuple[Catalog, int]:
            queries = connection.queries
            found = read_catalog(connection, source.name, {}, known, names, before)
            return found, connection.queries - queries

        first, statements = read(None, {})
        assert statements > 1
        names = {i.source_object_id: i.table for i in first.instances}
        assert read(first, names) == (first, 2)  # the second: what is hidden from the login

        renamed = {first.instances[0].source_object_id: TableName(source.name, "dbo", "older")}
        other, statements = read(first, renamed)
        assert statements > 1
        assert [str(i.table.table) for i in other.instances] == ["older", "t1", "t2"]
        source.execute("ALTER TABLE dbo.t1 ALTER COLUMN note nvarchar(20)")
        source.scan()
        altered, statements = read(first, names)
        assert statements > 1
        assert str(altered.instances[1].columns[1].type) == "nvarchar(20)"
        source.execute("CREATE TABLE dbo.t3 (id int PRIMARY KEY)")
        source.enable("t3")
        assert len(read(altered, names)[0].instances) == 4


@pytest.mark.kafka
def test_a_retry_asks_neither_registry_nor_catalog_again(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
):
    for number in range(6):
        pipe.source.execute(f"CREATE TABLE dbo.t{number} (id int PRIMARY KEY)")
        pipe.source.enable(f"t{number}")
    asked: list[str] = []
    ask = SchemaRegistry._ask

    def counted(self: SchemaRegistry, method: str, path: str, *rest: Any, **named: Any) -> Any:
        asked.append(path)
        return ask(self, method, path, *rest, **named)

    monkeypatch.setattr(SchemaRegistry, "_ask", counted)
    proxy = Proxy(pipe.source.server.host, pipe.source.server.port)
    proxy.open()
    behind_proxy = pipe.options()["source"] | {"host": "127.0.0.1", "port": proxy.port}
    with Running(pipe.config(source=behind_proxy)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        of_tables = [path for path in asked if f"{pipe.source.name}.dbo." in path]
        assert len(of_tables) == 6 * 3  # its versions, key and value
        asked.clear()
        proxy.close()
        publisher.until(lambda: bool(publisher.told("retrying")), "the source is gone")
        proxy.open()
        pipe.source.execute("INSERT dbo.t3 VALUES (1)")
        publisher.until(pipe.is_caught_up, "and is back")
        assert [path for path in asked if f"{pipe.source.name}.dbo." in path] == []
    asked.clear()
    statements: list[str] = []
    run = OdbcConnection._run

    def noted(self: OdbcConnection, sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return run(self, sql, *rest)

    monkeypatch.setattr(OdbcConnection, "_run", noted)
    with Running(pipe.config()) as publisher:
        publisher.until(lambda: "heartbeat" in publisher.steps, "another process begins")
        readings = sum("FROM cdc.change_tables ct JOIN" in sql for sql in statements)
        assert readings == 2  # before its columns, and once after: none was altered meanwhile
        assert sum("FROM cdc.captured_columns" in sql for sql in statements) == 1
        of_tables = [path for path in asked if f"{pipe.source.name}.dbo." in path]
        assert len(of_tables) == 6 * 2  # value and key
        assert not any("versions/" in path for path in of_tables)  # its checkpoint has them
    proxy.close()
    pipe.assert_exactly_once("t3")
