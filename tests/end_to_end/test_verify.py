"""tailrace verify: nothing but what differs is reported, while source and lake move."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import httpx
import pyodbc
import pytest
from pyspark.sql import SparkSession

from tailrace.audit.audit import audit
from tailrace.lake.log import DeltaLog
from tailrace.lake.store import LakeStore
from tailrace.settings.load import load
from tailrace.signals.request import send
from tailrace.verify import continuous, repair
from tailrace.verify.compare import Limits
from tailrace.verify.metrics import VerifyMetrics
from tailrace.verify.pace import Pace
from tailrace.verify.ranges import KeyRange
from tailrace.verify.report import difference_text, exit_code, verification_json, verification_lines
from tailrace.verify.row_differences import HIDDEN
from tailrace.verify.verified import VerifiedTable, of_json, verified_path
from tailrace.verify.verify import Verification, VerifyOptions, verify
from tailrace_emulator.testing.process import free_port
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_service.registry.client import SchemaRegistry
from tests.end_to_end.commands import Command, run_all, running
from tests.end_to_end.conftest import Pipeline, wait_until
from tests.hidden_damage import run_as_the_sink
from tests.verify_values import COLUMNS, WITHHELD, rows_of_values

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow("publisher and sink run beside a writer while tables are compared"),
]

BUSY, QUIET = 400, 600
"""Accounts that the writer changes, and those after them, where the differences are planted."""
CREATED = (
    f"CREATE TABLE dbo.kinds (id int PRIMARY KEY, {', '.join(COLUMNS)})",
    "CREATE TABLE dbo.accounts (branch smallint, id int, owner nvarchar(40) NOT NULL,"
    " balance decimal(12, 2), twice AS balance * 2, photo varbinary(max),"
    " PRIMARY KEY (branch, id))",
    "CREATE TABLE dbo.people (code varchar(10) COLLATE Latin1_General_CI_AS PRIMARY KEY,"
    " name nvarchar(60), salary nvarchar(30), mail varchar(50), remarks nvarchar(200),"
    " born date)",
    "CREATE TABLE dbo.clicks (page varchar(20), ms float)",
)
OPTIONS: Final[dict[str, Any]] = WITHHELD | {"lossless_columns": {"dbo.kinds": ["lossless"]}}


def create(pipeline: Pipeline) -> None:
    pipeline.server.create_database(pipeline.database)
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        for statement in CREATED:
            connection.execute(statement)
        for number, row in enumerate(rows_of_values()):
            connection.execute(f"INSERT dbo.kinds VALUES ({number}, {', '.join(row)})")
        cursor = connection.cursor()
        cursor.executemany(
            "INSERT dbo.accounts (branch, id, owner, balance, photo) VALUES (?, ?, ?, ?, ?)",
            [(n % 7, n, f"owner {n}", n, b"x" * (n % 5)) for n in range(BUSY + QUIET)],
        )
        cursor.executemany(
            "INSERT dbo.people VALUES (?, ?, ?, ?, ?, '2000-01-01')",
            [
                ("abc", "Åsa", "4000", "a@x", "abcd\U0001f600e"),
                ("DEF ", "trailing ", None, None, "  "),
                ("ghi", None, "2", "", None),
            ],
        )
        cursor.executemany(
            "INSERT dbo.clicks VALUES (?, ?)", [("a", 0.1), ("a", 0.1), ("A", 0.1), ("a ", None)]
        )
        connection.execute("EXEC sys.sp_cdc_enable_db")
        for table in ("kinds", "accounts", "people", "clicks"):
            connection.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
                " @role_name = NULL",
                table,
            )
    pipeline.scan()


@contextmanager
def repeating(step: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Repeat something in a thread while the block runs."""
    stop, errors = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            while not stop.is_set():
                step()
                stop.wait(pause_s)
        except pyodbc.Error as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="repeating")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not errors, errors


@contextmanager
def writing(pipeline: Pipeline, pause: threading.Lock | None = None) -> Iterator[list[int]]:
    """Change values and keys, delete and insert in a thread; yields a growing list.

    Args:
        pause: nothing is changed while another thread holds it.
    """
    chance, done = random.Random(33), list[int]()
    pause = pause or threading.Lock()
    with closing(pipeline.server.connect(pipeline.database)) as connection:

        def step() -> None:
            with pause:
                change(connection, chance, len(done))
            done.append(1)

        with repeating(step, 0.3):
            yield done


def change(connection: pyodbc.Connection, chance: random.Random, number: int) -> None:
    key = chance.randrange(BUSY)
    match number % 5:
        case 0:
            connection.execute("DELETE dbo.accounts WHERE id = ?", key)
        case 1:
            connection.execute(
                "UPDATE dbo.accounts SET branch = 7 - branch WHERE id = ? AND branch <= 7", key
            )
        case 2:
            connection.execute(
                "IF NOT EXISTS (SELECT * FROM dbo.accounts WHERE id = ?)"
                " INSERT dbo.accounts (branch, id, owner, balance) VALUES (3, ?, N'new', 0.5)",
                key,
                key,
            )
        case _:
            connection.execute("UPDATE dbo.accounts SET balance += 0.01 WHERE id = ?", key)
    if number % 20 == 0:  # the same key by the server's rules, and another one in the topics
        code = "ABC" if number % 40 else "abc  "
        connection.execute("UPDATE dbo.people SET code = ? WHERE code = 'abc'", code)
    if number < 40:
        connection.execute("INSERT dbo.clicks VALUES ('b', ?)", number)


@pytest.fixture
def compared(pipeline: Pipeline, spark: SparkSession):
    """Compare all tables, or some."""

    def compare(*tables: str, wait_s: float = 120, repairs: bool = False) -> Verification:
        settings = load(pipeline.config(), {})
        options = VerifyOptions(tables, repairs=repairs, limits=Limits(wait_s))
        with repeating(pipeline.scan, 0.5):
            return verify(settings.publisher(), settings.sink(), spark, options)

    return compare


def plant(spark: SparkSession, pipeline: Pipeline, pause: threading.Lock) -> None:
    """Change one row, delete one and double one under another key, in the lake alone.

    The lake also loses an update: of a row that changes now. Returns when a cut has all of it.
    """
    late = BUSY + 50
    with pause:  # A merge of the sink would conflict with these writes.
        with closing(pipeline.server.connect(pipeline.database)) as connection:
            connection.execute("UPDATE dbo.accounts SET balance = 0.07 WHERE id = ?", late)
        pipeline.scan()
        pipeline.lake_reaches_source()

        def damages(table: str) -> Iterator[str]:
            yield f"UPDATE {table} SET balance = {late} WHERE id = {late} AND balance = 0.07"
            yield f"UPDATE {table} SET balance = balance + 0.01 WHERE id = {BUSY + 7}"
            yield f"DELETE FROM {table} WHERE id = {BUSY + 300}"
            names = ", ".join(name for name in spark.table(table).columns if name != "id")
            yield (
                f"INSERT INTO {table} (id, {names}) SELECT id + 100000, {names} FROM {table}"
                f" WHERE id = {BUSY + 599}"
            )

        damage(spark, pipeline, damages)


def damage(
    spark: SparkSession, pipeline: Pipeline, damages: Callable[[str], Iterable[str]]
) -> None:
    """Change accounts in the lake alone; returns when a cut has it."""
    name = f"delta.`{pipeline.folder}/lake/{pipeline.database}/dbo/accounts`"
    for statement in damages(name):
        run_as_the_sink(spark, pipeline.prefix, statement)
    version = int(spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"])
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        connection.execute("UPDATE dbo.accounts SET balance += 0.01 WHERE id = ?", BUSY + 100)
    pipeline.scan()
    table = f"{pipeline.database}/dbo/accounts"
    wait_until(
        lambda: pipeline.commit_rows()[-1].tables[table] > version, "a cut has what was damaged"
    )


@contextmanager
def once_rows_are_read(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]):
    """Do something as soon as the first rows of the source are read, before the fence."""
    steps = [step]
    took = Pace.took

    def took_and_done(pace: Pace, rows: int) -> None:
        took(pace, rows)
        if steps:
            steps.pop()()

    with monkeypatch.context() as patched:
        patched.setattr(Pace, "took", took_and_done)
        yield
    assert not steps


@contextmanager
def carried(pipeline: Pipeline, spark: SparkSession) -> Iterator[None]:
    """Publisher and sink run while the block does, and have carried all tables into the lake."""
    pipeline.publisher_options |= deepcopy(OPTIONS)
    kinds = {r"dbo\.accounts": ["mirror", "changelog"]}
    pipeline.sink_options |= {"delete_mode": "soft", "kinds": kinds}
    create(pipeline)
    pipeline.start("publish")
    with pipeline.sink_here(spark):
        pipeline.lake_has("kinds", "accounts", "people", "clicks")
        yield


def test_rows_that_only_move_are_not_reported(pipeline, spark, compared):
    with carried(pipeline, spark):
        with writing(pipeline) as done:
            wait_until(lambda: len(done) > 30, "some changes")
            with rotated(pipeline):
                found = compared()
        assert not found.differs, verification_lines(found)
        assert {t.table: t.problem for t in found.tables if t.problem} == {}
        found = compared()
        assert (exit_code(found), found.is_proven) == (0, True), verification_lines(found)
        assert [table.source_rows == table.lake_rows > 0 for table in found.tables] == [True] * 4
        assert [table.ranges > 0 for table in found.tables] == [False, False, True, False]
        companions = f"rows not compared: {pipeline.database}/dbo/accounts.changes"
        assert [companions in table.notes for table in found.tables] == [True, *[False] * 3]


def test_only_what_differs_is_reported(pipeline, spark, compared, monkeypatch):
    pause = threading.Lock()
    with carried(pipeline, spark):
        with (
            writing(pipeline, pause) as done,
            once_rows_are_read(monkeypatch, lambda: plant(spark, pipeline, pause)),
        ):
            wait_until(lambda: len(done) > 30, "some changes")
            found = compared("dbo.Accounts")
        planted_rows_are_found(found)
        parts_are_compared_one_after_another(pipeline, spark, monkeypatch, differing=4)
        with writing(pipeline, pause), killed_once_asked(monkeypatch, pipeline):
            found = compared("dbo.accounts", repairs=True)
        planted_rows_are_repaired(found)
        found = compared("dbo.accounts")
        assert exit_code(found) == 0, verification_lines(found)
        a_row_whose_events_the_sink_drops_is_not_repaired(pipeline, spark, compared)


def test_what_is_not_compared_is_named(pipeline, spark, compared, monkeypatch):
    with carried(pipeline, spark):
        parts_are_compared_one_after_another(pipeline, spark, monkeypatch, differing=0)
        what_cannot_be_shown_is_not(pipeline, compared)
    the_log_is_audited(pipeline)
    with the_next_part_is_compared_by_another_process(pipeline):
        what_fails_in_one_table_is_its_problem(pipeline, spark)


@contextmanager
def rotated(pipeline: Pipeline) -> Iterator[None]:
    """Accounts have two capture instances meanwhile, afterwards the newer one alone."""
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        connection.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'accounts',"
            " @role_name = NULL, @capture_instance = N'newer'"
        )
        yield
        pipeline.lake_reaches_source()
        connection.execute(
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'accounts',"
            " @capture_instance = N'dbo_accounts'"
        )


def planted_rows_are_found(found: Verification) -> None:
    assert exit_code(found) == 3
    (accounts,) = found.tables
    assert accounts.differing == {"value": 2, "missing": 1, "surplus": 1}
    assert {difference_text(row) for row in accounts.examples} == {
        f"branch = {(BUSY + 7) % 7}, id = {BUSY + 7}: balance is {BUSY + 7}.00, in the lake"
        f" {BUSY + 7}.01",
        f"branch = {(BUSY + 50) % 7}, id = {BUSY + 50}: balance is 0.07, in the lake"
        f" {BUSY + 50}.00",
        f"branch = {(BUSY + 300) % 7}, id = {BUSY + 300}: missing in the lake",
        f"branch = {(BUSY + 599) % 7}, id = {BUSY + 599 + 100000}: surplus in the lake",
    }


def parts_are_compared_one_after_another(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, differing: int
) -> None:
    """tailrace verify --continuous: a part of five rows and a whole table, then it is stopped."""
    stop = threading.Event()

    class Metrics(VerifyMetrics):
        steps = 0

        def compared(self, table: str, rows: int) -> None:
            super().compared(table, rows)
            self.steps += 1
            if self.steps == 2:
                stop.set()

    monkeypatch.setattr(continuous, "_STEP_S", 0.005)
    settings, metrics = load(pipeline.config(), {}), Metrics()
    options = VerifyOptions(("dbo.kinds", "dbo.accounts"), rows_per_s=1000)
    with repeating(pipeline.scan, 0.5):
        continuous.Steps(settings.publisher(), settings.sink(), spark, options).run(metrics, stop)
    kinds, accounts = (verified_of(pipeline)[f"dbo.{name}"] for name in ("kinds", "accounts"))
    assert (accounts.differing, len(accounts.ranges)) == (differing, 1)
    assert (accounts.lsn is None) == bool(differing)
    assert [(part.keys, part.lsn is None) for part in kinds.ranges] == [
        (KeyRange(None, 4), False),
        (KeyRange(4, None), True),
    ]
    told = metrics.registry.get_sample_value
    assert told("tailrace_verified_differing_rows", {"table": "dbo.accounts"}) == differing
    assert told("tailrace_verified_rows_total", {"table": "dbo.kinds"}) == 5
    assert told("tailrace_verified_lsn", {"table": "dbo.kinds"}) == 0
    assert (told("tailrace_verified_age_seconds", {"table": "dbo.kinds"}) or 0) > 0


@contextmanager
def the_next_part_is_compared_by_another_process(pipeline: Pipeline) -> Iterator[None]:
    """It continues where the first one was stopped, and serves what was verified."""
    before, port = verified_of(pipeline), free_port()
    arguments = ("dbo.kinds", "--continuous", "--wait", "5", "--metrics-port", str(port))
    command = Command("verify", arguments)
    url = f"http://127.0.0.1:{port}/metrics"
    with running(pipeline.config(), command, "continuous"), repeating(pipeline.scan, 0.5):
        yield
        wait_until(lambda: verified_of(pipeline)["dbo.kinds"].lsn is not None, "all is verified")
        served = httpx.get(url, trust_env=False).text
    after = verified_of(pipeline)
    assert after["dbo.kinds"].ranges[0] == before["dbo.kinds"].ranges[0]
    assert after["dbo.accounts"] == before["dbo.accounts"]
    assert 'tailrace_verified_rows_total{table="dbo.kinds"} 3.0' in served
    assert 'tailrace_verified_differing_rows{table="dbo.kinds"} 0.0' in served


def verified_of(pipeline: Pipeline) -> dict[str, VerifiedTable]:
    path = Path(verified_path(str(pipeline.folder / "lake")))
    return of_json(path.read_text("utf-8"), str(path))


@contextmanager
def killed_once_asked(monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline):
    """Kill the publisher as soon as it is asked to repair rows, and start it again."""
    asked = list[int]()

    def sent(config: PublisherConfig, signal: bytes) -> int:
        asked.append(send(config, signal))
        pipeline.children["publish"].kill()
        pipeline.start("publish")
        return asked[-1]

    with monkeypatch.context() as patched:
        patched.setattr(repair, "send", sent)
        yield
    assert len(asked) == 1


def planted_rows_are_repaired(found: Verification) -> None:
    lines = verification_lines(found)
    (accounts,) = found.tables
    assert accounts.differing == {"value": 2, "missing": 1, "surplus": 1}
    assert (accounts.repaired, accounts.repair_problem) == (4, None), lines
    assert exit_code(found) == 0, lines
    assert any("4 rows repaired" in line for line in lines)


def a_row_whose_events_the_sink_drops_is_not_repaired(
    pipeline: Pipeline, spark: SparkSession, compared: Callable[..., Verification]
) -> None:
    """Its position in the lake is later than any event's, as the log's tail does not show."""
    late = ChangePosition.end_of(Lsn.MAX).to_bytes().hex()
    raised = f"SET balance = 7, _cdc_position = X'{late}' WHERE id = {BUSY + 9}"
    damage(spark, pipeline, lambda table: [f"UPDATE {table} {raised}"])

    found = compared("dbo.accounts", repairs=True)

    (accounts,) = found.tables
    assert (accounts.differing, accounts.repaired) == ({"value": 1}, 0), verification_lines(found)
    reason = accounts.repair_problem or ""
    assert "1 rows have a later _cdc_position in the lake" in reason
    assert reason.endswith("Fix: tailrace snapshot dbo.accounts")
    assert exit_code(found) == 3


def what_cannot_be_shown_is_not(pipeline: Pipeline, compared: Callable[..., Verification]) -> None:
    """Values that the lake has from before a mask; rows without a key after an update."""
    pipeline.publisher_options["columns"]["mask"] |= {"dbo.people.name": "somebody"}
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        connection.execute("UPDATE dbo.clicks SET ms = 0 WHERE page = 'A'")

    found = compared("dbo.people", "dbo.clicks")

    clicks, people = found.tables
    assert "updates of it are in the lake without their old rows" in (clicks.problem or "")
    assert people.differing == {"value": 2}
    assert [row.columns for row in people.examples] == [{"name": (HIDDEN, HIDDEN)}] * 2
    assert "Åsa" not in verification_json(found)


def the_log_is_audited(pipeline: Pipeline) -> None:
    """tailrace audit --lake; tests/unit/tailrace/verify/test_log_audit.py has its faults."""
    log = DeltaLog.of(LakeStore.of(pipeline.sink_config.lake, {}))
    with SchemaRegistry(pipeline.registry_url) as registry:
        found = audit(pipeline.bootstrap, pipeline.names, registry, log=log)
    assert found.problems.texts == []
    assert found.lake is not None
    assert found.lake.events == sum(topic.events for topic in found.topics.values()) > BUSY
    assert (found.lake.earlier, found.lake.left_out) == (0, {})


def what_fails_in_one_table_is_its_problem(pipeline: Pipeline, spark: SparkSession) -> None:
    """Of the command as a process; the sink has stopped, so no cut has a change that comes now."""
    page = pipeline.folder / "verify.html"
    for file in (pipeline.folder / "lake" / pipeline.database / "dbo" / "clicks").glob("*.parquet"):
        file.unlink()
    spark.sql(f"DELETE FROM delta.`{pipeline.folder}/lake/{pipeline.database}/dbo/accounts`")
    tables = ("dbo.kinds", "dbo.people", "dbo.clicks", "dbo.accounts")
    arguments = (*tables, "--wait", "5", "--html", str(page), "--json")
    with closing(pipeline.server.connect(pipeline.database)) as connection:
        connection.execute("UPDATE dbo.kinds SET [int] = 5 WHERE id = 1")
    with closing(pipeline.server.connect(pipeline.database)) as locking:
        locking.autocommit = False
        locking.execute("UPDATE dbo.people SET mail = 'b@x'")
        with repeating(pipeline.scan, 0.5):
            (answer,) = run_all(
                pipeline.config(), {"verify": Command("verify", arguments)}
            ).values()
        locking.rollback()
    assert answer.status == 4, answer
    accounts, clicks, kinds, people = answer.object["tables"]
    assert "accounts were changed by somebody else: version " in accounts["problem"]
    assert ": DELETE" in accounts["problem"]
    assert "take a new snapshot" in accounts["problem"]
    assert (kinds["unsettled"], kinds["problem"]) == (1, None)
    assert set(kinds["differing"].values()) == {0}
    assert "reading lake table" in clicks["problem"]
    assert clicks["problem"].endswith("damaged or gone, tailrace snapshot dbo.clicks")
    assert "lock" in people["problem"].lower()
    assert "No row differs, but some could not be compared." in page.read_text()
