"""Source, topics and lake are one and the same, whatever is killed on the way."""

from __future__ import annotations

import random
import threading
import time
from decimal import Decimal

import pyodbc
import pytest

from tests.end_to_end.conftest import Pipeline, wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow("all parts run, are killed and start again"),
    pytest.mark.timeout(900),
]

ACCOUNTS = 40
OPENING = Decimal("100.00")
COLUMNS = ["account_id", "owner", "balance", "opened", "reference"]


def create_bank(pipeline: Pipeline) -> None:
    """Accounts that exist before change data capture, and a journal that is empty."""
    pipeline.server.create_database(pipeline.database)
    with pipeline.server.connect(pipeline.database) as connection:
        connection.execute(
            "CREATE TABLE dbo.accounts (account_id int NOT NULL PRIMARY KEY,"
            " owner nvarchar(40) NOT NULL, balance decimal(12, 2) NOT NULL,"
            " opened datetime2(3) NULL, reference uniqueidentifier NOT NULL DEFAULT NEWID())"
        )
        connection.execute(
            "CREATE TABLE dbo.journal (entry_id int IDENTITY(1, 1) NOT NULL PRIMARY KEY,"
            " account_id int NOT NULL, amount decimal(12, 2) NOT NULL)"
        )
        cursor = connection.cursor()
        cursor.executemany(
            "INSERT INTO dbo.accounts (account_id, owner, balance, opened) VALUES (?, ?, ?, ?)",
            [(n, f"Åsa {n}", OPENING, "2013-01-01T00:00:00.123") for n in range(ACCOUNTS)],
        )
        connection.execute("EXEC sys.sp_cdc_enable_db")
        for table in ("accounts", "journal"):
            connection.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
                " @role_name = NULL",
                table,
            )
    pipeline.scan()


def transfer(connection, chance: random.Random) -> None:
    """One transaction over both tables: the sum of all balances and entries never changes."""
    payer, payee = chance.sample(range(ACCOUNTS), 2)
    amount = Decimal(chance.randint(1, 500)) / 100
    for account, signed in ((payer, -amount), (payee, amount)):
        connection.execute(
            "UPDATE dbo.accounts SET balance = balance + ? WHERE account_id = ?", signed, account
        )
        connection.execute(
            "INSERT INTO dbo.journal (account_id, amount) VALUES (?, ?)", account, signed
        )
    connection.commit()


class Traffic:
    """Transfers in a thread of their own, with the capture process run now and then."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None:
        self._pipeline = pipeline
        self._seed = seed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic")
        self.transfers = 0
        self.error: Exception | None = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)
        assert self.error is None, self.error

    def wait_for(self, transfers: int) -> None:
        target = self.transfers + transfers
        wait_until(lambda: self.transfers >= target or self.error is not None, "more transfers")

    def _run(self) -> None:
        chance = random.Random(self._seed)
        connection = self._pipeline.server.connect(self._pipeline.database, autocommit=False)
        try:
            while not self._stop.is_set():
                transfer(connection, chance)
                self.transfers += 1
                if self.transfers % 10 == 0:
                    self._pipeline.scan()
                self._stop.wait(0.05)
        except pyodbc.Error as error:
            self.error = error
        finally:
            connection.close()


@pytest.mark.guarantee(12)
def test_lake_equals_source_though_publisher_and_sink_are_killed(pipeline, monkeypatch, collector):
    pipeline.tracing = {"endpoint": collector.endpoint, "ratio": 1}
    create_bank(pipeline)
    publisher = pipeline.start("publish")
    sink = pipeline.start("sink")
    pipeline.lake_has("accounts")
    with Traffic(pipeline, seed=1) as traffic:
        traffic.wait_for(15)
        publisher.kill()
        traffic.wait_for(5)
        pipeline.start("publish")
        cuts = len(pipeline.commit_rows())
        wait_until(lambda: len(pipeline.commit_rows()) > cuts, "another cut is in the lake")
        sink.kill()
        killed_ns = time.time_ns()
        traffic.wait_for(20)
        pipeline.start("sink")
        traffic.wait_for(20)
    pipeline.lake_has("accounts", "journal")
    pipeline.lake_reaches_source()
    pipeline.stop()

    events = pipeline.events()
    for table in ("accounts", "journal"):
        comparison = pipeline.compare_topic(table, events)
        assert comparison.equal, comparison
    assert pipeline.compare_table("accounts", COLUMNS, monkeypatch).equal
    entries = ["entry_id", "account_id", "amount"]
    assert pipeline.compare_table("journal", entries, monkeypatch).equal
    # Never half a transaction: at each cut the money is all there and the journal explains it.
    paths = {table: f"{pipeline.database}/dbo/{table}" for table in ("accounts", "journal")}
    # Before both snapshots were in, a cut has one of the two.
    cuts = [row for row in pipeline.commit_rows() if len(row.tables) == len(paths)]
    assert len(cuts) > 1, cuts
    balances = pipeline.lake_rows("accounts", ["account_id", "balance"], cuts)
    entries = pipeline.lake_rows("journal", ["account_id", "amount"], cuts)
    for row in cuts:
        explained = dict.fromkeys(range(ACCOUNTS), OPENING)
        for account, amount in entries[row.tables[paths["journal"]]]:
            explained[account] += amount
        assert sorted(balances[row.tables[paths["accounts"]]]) == sorted(explained.items()), row
    # Spans of both daemons are of one trace, though nothing of it travels with the data. Those that
    # a killed daemon had not sent yet are gone; of what came after the last kill, none is.
    traces = list(collector.traces().values())
    unbroken = [
        spans for spans in traces if "publish" in spans and spans["publish"].began_ns > killed_ns
    ]
    assert unbroken, [sorted(spans) for spans in traces]
    for spans in unbroken:
        assert spans.keys() == {"publish", "capture", "read", "commit", "log", "fold"}
        parents = {span.parent_id for name, span in spans.items() if name != "publish"}
        assert parents == {spans["publish"].span_id}
        assert spans["commit"].began_ns <= spans["log"].ended_ns <= spans["fold"].ended_ns


@pytest.mark.nightly(
    "tests/pipeline/daemon/test_kill.py publishes the same update;"
    " tests/sink/fold/test_cuts.py applies changes of keys; the test above joins both"
)
def test_a_whole_table_key_update_in_pages_of_one_row_arrives_whole(pipeline, spark, monkeypatch):
    pipeline.publisher_options |= {"page_rows": 1, "rows_per_transaction": 3, "linger_ms": 0}
    create_bank(pipeline)
    publisher = pipeline.start("publish")
    with pipeline.sink_here(spark):
        pipeline.lake_has("accounts")
        with pipeline.server.connect(pipeline.database) as connection:
            connection.execute("UPDATE dbo.accounts SET account_id = account_id + 1")
            connection.execute("DELETE FROM dbo.accounts WHERE account_id % 7 = 0")
        pipeline.scan()
        publisher.kill()
        pipeline.start("publish")
        pipeline.lake_reaches_source()
    pipeline.stop()

    events = pipeline.events()
    comparison = pipeline.compare_topic("accounts", events)
    assert comparison.equal, comparison
    assert comparison.change_rows == 2 * ACCOUNTS + ACCOUNTS // 7
    assert pipeline.compare_table("accounts", COLUMNS, monkeypatch).equal
