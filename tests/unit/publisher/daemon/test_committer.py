"""Where Kafka transactions end.

Delivery is recorded here, not sent: what is tested is the order of calls.
"""

import threading
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.start.fencing import FencingCheck
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_publisher.source.pages.merge import merge
from tailrace_schemas.position.change_position import POSITION_BYTES, ChangePosition, pack_position
from tailrace_schemas.position.lsn import Lsn
from tests.least_options import LEAST


@dataclass
class Recorder:
    """Keeps what a delivery is told."""

    rows: list[bytes] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    age: float = 0.0

    @property
    def age_s(self) -> float | None:
        return self.age if self.rows else None

    @property
    def rows_in_transaction(self) -> int:
        return len(self.rows)

    @property
    def bytes_in_transaction(self) -> int:
        return POSITION_BYTES * len(self.rows)  # the values are the positions

    def send(self, encoded: EncodedRows) -> None:
        self.rows += encoded.positions

    def commit(self, **fields: Any) -> None:
        self.commits.append(fields | {"positions": self.rows})
        self.rows = []


def lsn(number: int) -> Lsn:
    return Lsn(0, number, 0)


def table(number: int, commits: list[int]) -> list[bytes]:
    """One event for each entry, of the commit with that number."""
    return [
        pack_position(lsn(commit).to_bytes(), 1, Lsn(0, place, number).to_bytes(), 2)
        for place, commit in enumerate(sorted(commits))
    ]


class SmallTransactions(PublisherConfig):
    """The option is in megabytes; a byte less or more is what is looked at here."""

    bytes_max: int

    @property
    def bytes_per_transaction(self) -> int:
        return self.bytes_max


def runtime(rows_max: int, metrics: Metrics, bytes_max: int = 1_000_000) -> Runtime:
    config = SmallTransactions.load(
        {
            **LEAST,
            "rows_per_transaction": rows_max,
            "linger_ms": 60_000,
            "bytes_max": bytes_max,
        }
    )
    return Runtime(config, production_ports(), metrics, threading.Event(), lambda _: None)


def publish(
    tables: list[list[bytes]],
    *,
    rows_max: int,
    page_rows: int,
    up_to: int = 99,
    bytes_max: int = 1_000_000,
) -> tuple[Recorder, PublisherState]:
    recorder = Recorder()
    state = PublisherState.first_start("server", "db", DatabaseIdentity(None, None), Lsn.ZERO)
    committer = Committer(
        runtime(rows_max, Metrics(), bytes_max),
        cast(KafkaDelivery, recorder),
        state,
        FencingCheck("db"),
    )
    pages = [
        iter(
            [
                EncodedRows(f"t{number}", 0, part, [None] * len(part), list(part))
                for start in range(0, len(rows), page_rows)
                if (part := rows[start : start + page_rows])
            ]
        )
        for number, rows in enumerate(tables)
    ]
    committer.add_times({lsn(number).to_bytes(): number for number in range(100)})
    for block in merge(pages):
        committer.add(block)
    committer.pass_to(lsn(up_to), is_last=True)
    return recorder, state


def commits_of(recorder: Recorder) -> list[tuple[list[int], bool, int]]:
    return [
        (
            [Lsn.from_bytes(position[:10]).block for position in commit["positions"]],
            commit["closed"],
            commit["closed_lsn"].block,
        )
        for commit in recorder.commits
    ]


def test_whole_transactions_until_there_are_rows_enough():
    recorder, state = publish([table(0, [1, 1, 2, 2, 3, 3])], rows_max=3, page_rows=100)

    assert commits_of(recorder) == [([1, 1, 2, 2], True, 2), ([3, 3], True, 99)]
    assert state.position == ChangePosition.end_of(lsn(99))


def test_a_transaction_larger_than_that_spans_several_and_closes_with_the_last():
    recorder, _ = publish([table(0, [1] * 5 + [2])], rows_max=2, page_rows=2)

    assert commits_of(recorder) == [
        ([1, 1], False, 0),
        ([1, 1], False, 0),
        ([1, 2], True, 2),
    ]


@pytest.mark.parametrize("page_rows", [2, 100])
@pytest.mark.parametrize("rows", [[1, 1, 2, 2, 3, 3], [1] * 5 + [2], [1] * 9])
def test_bytes_close_a_transaction_as_rows_do(rows: list[int], page_rows: int):
    by_rows, _ = publish([table(0, rows)], rows_max=3, page_rows=page_rows)
    by_bytes, _ = publish(
        [table(0, rows)],
        rows_max=1000,
        # A byte less than three rows have: the third one fills it.
        bytes_max=3 * POSITION_BYTES - 1,
        page_rows=page_rows,
    )

    assert commits_of(by_bytes) == commits_of(by_rows)


def test_with_one_row_each_the_last_row_of_a_transaction_closes_it():
    recorder, _ = publish([table(0, [1, 1, 1])], rows_max=1, page_rows=1, up_to=1)

    assert commits_of(recorder) == [([1], False, 0), ([1], False, 0), ([1], True, 1)]


def test_a_position_inside_a_transaction_is_that_of_the_last_row_out():
    recorder, _ = publish([table(0, [1, 1]), table(1, [1, 1])], rows_max=1, page_rows=1)

    for commit in recorder.commits[:-1]:
        record = next(iter(commit["checkpoints"].values()))
        assert record.position.commit_lsn == lsn(1)
        assert record.position.seqval.to_bytes() == max(commit["positions"])[14:24]


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=25), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 12 * POSITION_BYTES),
)
def test_every_commit_holds_everything_up_to_what_it_says(
    numbers: list[list[int]], rows_max: int, page_rows: int, bytes_max: int
):
    tables = [table(number, commits) for number, commits in enumerate(numbers)]
    everything = sorted(position for rows in tables for position in rows)

    recorder, _ = publish(tables, rows_max=rows_max, page_rows=page_rows, bytes_max=bytes_max)

    out: list[bytes] = []
    through = Lsn.ZERO
    for commit in recorder.commits:
        out += commit["positions"]
        assert commit["after_lsn"] == through
        assert commit["closed"] or commit["closed_lsn"] == through
        through = commit["closed_lsn"]
        if commit["closed"]:
            assert sorted(out) == [p for p in everything if p[:10] <= through.to_bytes()]
    assert sorted(out) == everything


@dataclass
class Hand:
    """A clock that is put forward by hand."""

    time_s: float = 0.0

    def monotonic(self) -> float:
        return self.time_s

    def now_ms(self) -> int:
        return 0

    def wait(self, *_: object) -> None:
        raise AssertionError("nothing waits here")


@pytest.mark.parametrize(
    ("linger_ms", "is_last", "oldest_s"),
    [(150, True, 0.15), (150, False, 1.0), (2000, False, 2.0), (2000, True, 2.0), (0, False, 0.0)],
)
def test_a_transaction_gets_older_where_more_is_known_to_come(
    linger_ms: int, is_last: bool, oldest_s: float
):
    clock, recorder = Hand(), Recorder()
    given = runtime(1000, Metrics())
    config = given.config.model_copy(update={"linger_ms": linger_ms})
    committer = Committer(
        replace(given, config=config, ports=replace(given.ports, clock=clock)),
        cast(KafkaDelivery, recorder),
        PublisherState.first_start("server", "db", DatabaseIdentity(None, None), Lsn.ZERO),
        FencingCheck("db"),
    )
    committer.add_times({lsn(number).to_bytes(): 0 for number in range(9)}, is_last=is_last)
    pages = [EncodedRows("t", 0, table(0, [n]), [None], table(0, [n])) for n in range(1, 9)]
    blocks = merge([iter(pages)])
    for time_s in (0.0, oldest_s - 0.001, oldest_s):
        clock.time_s = max(0.0, time_s)
        committer.add(next(blocks))
        assert bool(recorder.commits) == (clock.time_s >= oldest_s)


def test_age_ends_a_transaction_anywhere():
    recorder = Recorder()
    committer = Committer(
        runtime(1000, Metrics()),
        cast(KafkaDelivery, recorder),
        PublisherState.first_start("server", "db", DatabaseIdentity(None, None), Lsn.ZERO),
        FencingCheck("db"),
    )
    third_s = runtime(1, Metrics()).config.kafka.transaction_timeout_s / 3
    committer.add_times({lsn(number).to_bytes(): 0 for number in range(9)}, is_last=True)
    positions = table(0, [1, 2, 2, 2, 2])
    pages = [EncodedRows("t", 0, [place], [None], [place]) for place in positions]
    blocks = merge([iter(pages)])

    committer.add(next(blocks))
    recorder.age = third_s - 0.01
    committer.add(next(blocks))
    committer.commit_if_old()
    assert commits_of(recorder) == []
    committer.commit_if_old(0.02)  # what follows takes longer than there is time
    recorder.age = third_s
    committer.add(next(blocks))  # inside a source transaction
    recorder.age = 0.0
    committer.add(next(blocks))
    recorder.age = third_s
    committer.commit_if_old()  # while the next page is awaited
    committer.commit_if_old()  # nothing is open any more
    assert commits_of(recorder) == [([1, 2], False, 0), ([2], False, 0), ([2], False, 0)]
    assert committer.state.position == ChangePosition.from_bytes(positions[3])


def test_a_commit_before_the_first_block_of_a_window_knows_the_commit_at_its_position():
    recorder = Recorder()
    committer = Committer(
        runtime(1000, Metrics()),
        cast(KafkaDelivery, recorder),
        PublisherState.first_start("server", "db", DatabaseIdentity(None, None), Lsn.ZERO),
        FencingCheck("db"),
    )
    rows = table(0, [1])
    for first, last in ((1, 3), (4, 6)):
        numbers = range(first, last + 1)
        times = {lsn(number).to_bytes(): 0 for number in numbers}
        committer.add_times(
            times, Commits.of_rows((raw, None, None, None) for raw in times), is_last=False
        )
        if first == 1:
            for block in merge([iter([EncodedRows("t", 0, rows, [None], rows)])]):
                committer.add(block)
            committer.pass_to(lsn(3), is_last=False)
    recorder.age = 3600.0
    committer.commit_if_old()

    (record,) = recorder.commits[-1]["checkpoints"].values()
    assert record.position == ChangePosition.end_of(lsn(3))
    assert committer.state.commit is not None
    assert committer.state.commit.commit_lsn == lsn(3)


class Refused(Exception):
    """Says in these tests that a commit failed."""


@dataclass
class Refuser(Recorder):
    """A delivery whose first commits fail."""

    failures: int = 1

    def commit(self, **fields: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise Refused
        super().commit(**fields)


def test_rows_are_counted_when_they_are_committed():
    metrics = Metrics()
    refuser = Refuser()

    def committer() -> Committer:
        return Committer(
            runtime(100, metrics),
            cast(KafkaDelivery, refuser),
            PublisherState.first_start("server", "db", DatabaseIdentity(None, None), Lsn.ZERO),
            FencingCheck("db"),
        )

    rows = table(0, [1, 1, 1])
    counted = metrics.rows.labels(topic="t0")

    for expected in (0, 3):
        life = committer()
        refuser.rows = []
        for block in merge([iter([EncodedRows("t0", 0, rows, [None] * 3, list(rows))])]):
            life.add(block)
        assert counted._value.get() == 0, "sent only"
        if expected:
            life.pass_to(lsn(1), is_last=True)
        else:
            with pytest.raises(Refused):
                life.pass_to(lsn(1), is_last=True)
        assert counted._value.get() == expected
