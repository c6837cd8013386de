"""Source, topics and lake are one and the same, whatever is killed on the way."""

from __future__ import annotations

import random
import re
import threading
import time
from decimal import Decimal

import httpx
import pyodbc
import pytest

from tests.end_to_end.commands import Command, page, run_all
from tests.end_to_end.conftest import Pipeline, wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow("all parts run, are killed and start again"),
    pytest.mark.timeout(900),
]

ACCOUNTS = 40
OPENING = Decimal("100.00")
ROW = ("dbo.accounts", "1", "--json")
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
def test_lake_equals_source_though_publisher_and_sink_are_killed(
    stored_pipeline, monkeypatch, collector
):
    pipeline = stored_pipeline
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
    commands_read_the_lake(pipeline)
    wrong_options_are_named(pipeline)

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
    a_dropped_table_leaves_the_cuts(pipeline)
    pipeline.stop()
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


def a_dropped_table_leaves_the_cuts(pipeline):
    """Its lake table stays with the last rows, and the other table is followed."""
    path = f"{pipeline.database}/dbo/journal"
    last = pipeline.commit_rows()[-1].tables[path]
    with pipeline.server.connect(pipeline.database) as connection:
        connection.execute("DROP TABLE dbo.journal")
        connection.execute("UPDATE dbo.accounts SET balance = 0")
    pipeline.scan()
    pipeline.lake_reaches_source()
    wait_until(lambda: path not in pipeline.commit_rows()[-1].tables, "the cuts lack the table")
    count = "SELECT count(entry_id) AS entries FROM t"
    assert pipeline.query(path, count) == pipeline.query(path, count, last)
    assert pipeline.query(path, count) != [{"entries": 0}]
    (accounts,) = pipeline.lake_rows("accounts", ["balance"], pipeline.commit_rows()[-1:]).values()
    assert set(accounts) == {(Decimal(0),)}


def commands_read_the_lake(pipeline):
    """Each as a process, which has the store's options from the configuration alone."""
    found = run_all(
        pipeline.config(),
        {
            "status": Command("status", ("--json",)),
            "lag": Command("lag", ("--json",)),
            "explain": Command("explain", ROW),
            "doctor": Command("doctor", ("--json",)),
            "audit": Command("audit", ("--lake", "--json")),
            "plan": Command("plan", ("--json",)),
        },
    )
    tables = {"dbo.accounts", "dbo.journal"}
    told = {name: answer.object for name, answer in found.items()}
    assert {name for name, answer in found.items() if answer.status} <= {"doctor"}, found
    assert {(t["table"], t["in_cut"], t["lake_lag_s"]) for t in told["status"]["tables"]} == {
        (table, True, 0.0) for table in tables
    }
    assert told["lag"]["problems"] == {}
    assert {(t["table"], t["log_s"], t["lake_s"]) for t in told["lag"]["tables"]} == {
        (table, 0.0, 0.0) for table in tables
    }
    assert told["explain"]["lake_problem"] is None
    now, in_lake = told["explain"]["now"], told["explain"]["lake"]
    assert [in_lake[name] for name in COLUMNS[:3]] == [now[name] for name in COLUMNS[:3]]
    (of_lake,) = (f for f in told["doctor"]["findings"] if f["part"] == "lake")
    assert of_lake["level"] == "ok", of_lake
    assert told["audit"]["problems"]["count"] == 0
    assert told["audit"]["lake"]["events"] == sum(
        topic["events"] for topic in told["audit"]["topics"].values()
    )
    assert {table["table"] for table in told["plan"]["tables"]} == tables
    with page(pipeline.config()) as url, httpx.Client(base_url=url, trust_env=False) as client:
        seen = client.get("/model.json", timeout=60).json()
        assert {(r["table"], r["state"], r["lake_s"]) for r in seen["rows"]} == {
            (table, "followed", 0.0) for table in tables
        }
        of_row = client.get("/table", params={"name": ROW[0], "key": ROW[1]}, timeout=60).text
        assert re.search(r"lake now:.*account_id=1\b", of_row), of_row


def wrong_options_are_named(pipeline):
    """By each command in one sentence, with the option and what to do; audit reads no lake."""
    away = {"endpoint": "http://127.0.0.1:1"}
    role = {"role": "arn:aws:iam::1:role/lake"}
    found = run_all(
        pipeline.config(),
        {
            "endpoint": Command("status", s3=away),
            "key": Command("lag", ("--json",), s3={"access_key": "nobody"}),
            "bucket": Command("explain", ROW, lake="s3://nowhere/lake"),
            "secret": Command("doctor", ("--json",), s3={"secret_key_file": "/not/there"}),
            "role": Command("sink", ("--once",), s3=role),
            "audit": Command("audit", s3=away),
        },
    )
    ended = {name: answer.status for name, answer in found.items()}
    assert ended == {"endpoint": 1, "key": 0, "bucket": 0, "secret": 1, "role": 2, "audit": 0}
    problems = found["key"].object["problems"]
    (of_lake,) = (f for f in found["secret"].object["findings"] if f["part"] == "lake")
    told = {
        "does not answer (Connection refused). Fix: check sink.s3.endpoint": found["endpoint"].err,
        "Fix: check sink.s3.access_key and sink.s3.secret_key": problems.pop("lake"),
        "refused the request (InvalidAccessKeyId": problems.pop("log"),
        "has no bucket nowhere. Fix: create the bucket, or correct sink.lake": found[
            "bucket"
        ].object["lake_problem"],
        "s3.secret_key_file /not/there: No such file": of_lake["text"],
        "give keys or role, not both": found["role"].err,
    }
    for words, sentence in told.items():
        assert words in sentence
        assert len(sentence.splitlines()) == 1, sentence
    assert problems == {}


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
