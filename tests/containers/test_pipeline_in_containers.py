"""Source, Kafka, registry, publisher and sink as containers: whatever is killed or cut on the way,
the lake equals the source and each change is in its topic once.
"""

from __future__ import annotations

import random
import threading
from contextlib import closing
from decimal import Decimal

import pyodbc
import pytest

from tailrace_compose.provision import create_login, grant_publisher
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tests.containers.stack import PARTS, ContainerStack
from tests.pipeline.running import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow("starts the whole stack in containers"),
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("says_its_images"),
]

ACCOUNTS = 20
OPENING = Decimal("100.00")
STOP_GRACE_S = {"publisher": 30, "sink": 60, "source": 30}


def create_bank(stack: ContainerStack) -> None:
    """Accounts from before change data capture, an empty journal, the publisher's own login."""
    stack.source.create_database(
        stack.database,
        "CREATE TABLE dbo.accounts (id int NOT NULL PRIMARY KEY, amount decimal(12, 2) NOT NULL)",
        "CREATE TABLE dbo.journal (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY,"
        " account int NOT NULL, amount decimal(12, 2) NOT NULL)",
        *(f"INSERT INTO dbo.accounts VALUES ({number}, {OPENING})" for number in range(ACCOUNTS)),
    )
    stack.source.enable_cdc(stack.database, "accounts", "journal")
    with closing(stack.source.connect()) as connection:
        create_login(connection, stack.login, stack.login_password)
    with closing(stack.connect()) as connection:
        grant_publisher(connection, stack.login)


@pytest.fixture(scope="module")
def stack(images, tmp_path_factory):
    """The pipeline with its first snapshot in the lake."""
    made = ContainerStack(images, tmp_path_factory.mktemp("containers"))
    try:
        made.start(create_bank)
        with closing(made.connect(autocommit=False)) as connection:
            transfer(connection, random.Random(0))
        made.caught_up()
        yield made
        # Every restart of the sink warms Spark up again, so its orderly end is looked at here.
        for name in ("sink", *(["source"] if "tailrace" in made.source.image else [])):
            assert_ends_in_order(made, name)
    finally:
        made.stop()


def transfer(connection: pyodbc.Connection, chance: random.Random) -> None:
    """One transaction over both tables: the journal explains every balance."""
    payer, payee = chance.sample(range(ACCOUNTS), 2)
    amount = Decimal(chance.randint(1, 500)) / 100
    for account, signed in ((payer, -amount), (payee, amount)):
        connection.execute(
            "UPDATE dbo.accounts SET amount = amount + ? WHERE id = ?", signed, account
        )
        connection.execute(
            "INSERT INTO dbo.journal (account, amount) VALUES (?, ?)", account, signed
        )
    connection.commit()


class Traffic:
    """Transfers in a thread; while the source is away it tries again."""

    def __init__(self, stack: ContainerStack, seed: int) -> None:
        self._stack = stack
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic")
        self.transfers = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def wait_for(self, transfers: int) -> None:
        target = self.transfers + transfers
        wait_until(lambda: self.transfers >= target, f"{transfers} more transfers", 120)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(self._stack.connect(autocommit=False)) as connection:
                    while not self._stop.wait(0.02):
                        transfer(connection, self._chance)
                        self.transfers += 1
            except pyodbc.Error:
                self._stop.wait(0.2)


def assert_equal(stack: ContainerStack) -> None:
    """Topics and lake hold what the source holds; every cut of the lake is one state of it."""
    stack.caught_up()
    for table in ("accounts", "journal"):
        with closing(stack.connect()) as connection:
            rows = connection.execute(
                "SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
                f" FROM cdc.[dbo_{table}_CT] WHERE [__$operation] <> 3"
            ).fetchall()
        captured = sorted(
            ChangePosition(Lsn.from_bytes(a), b, Lsn.from_bytes(c), Operation(d))
            for a, b, c, d in rows
        )
        assert sorted(stack.positions(table)) == captured
        cut = stack.cuts()[-1]
        lake = {key: (row["amount"],) for key, row in stack.lake_rows(table, cut).items()}
        assert lake == stack.source_rows(table)
    for cut in stack.cuts()[-10:]:
        if len(cut.tables) < 2:
            continue  # from before both snapshots were in
        explained = dict.fromkeys(range(ACCOUNTS), OPENING)
        for entry in stack.lake_rows("journal", cut).values():
            explained[entry["account"]] += entry["amount"]
        balances = {key: row["amount"] for key, row in stack.lake_rows("accounts", cut).items()}
        assert balances == explained, cut


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_killed_in_mid_stream_leaves_no_gap_and_no_duplicate(stack, name):
    part = stack.part(name)
    with Traffic(stack, seed=PARTS.index(name)) as traffic:
        traffic.wait_for(10)
        part.kill()
        if name != "source":
            traffic.wait_for(10)
        part.restart()
        traffic.wait_for(10)
    assert_equal(stack)


@pytest.mark.parametrize("name", ["source", "kafka"])
def test_a_network_that_is_cut_before_the_publisher_leaves_no_gap_and_no_duplicate(stack, name):
    proxy = stack.part(f"{name}_proxy")
    with Traffic(stack, seed=10) as traffic:
        traffic.wait_for(10)
        proxy.close()
        traffic.wait_for(20)
        proxy.open()
        traffic.wait_for(10)
    assert_equal(stack)


def test_sigterm_ends_the_publisher_in_order_and_it_goes_on_later(stack):
    with Traffic(stack, seed=20) as traffic:
        traffic.wait_for(5)
        assert_ends_in_order(stack, "publisher")
        traffic.wait_for(5)
        stack.publisher.restart()
        traffic.wait_for(5)
    assert_equal(stack)


def assert_ends_in_order(stack: ContainerStack, name: str) -> None:
    """SIGTERM ends a part within its grace time, with status 0."""
    wrapped = stack.part(name).get_wrapped_container()
    wrapped.stop(timeout=STOP_GRACE_S[name])
    wrapped.reload()
    assert wrapped.attrs["State"]["ExitCode"] == 0, wrapped.logs(tail=20).decode()
