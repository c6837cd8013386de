"""Connections: to which replica, when they break, and what their statements meet on the way."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.source import ApplicationIntent, SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tests.simulation.sqlserver import (
    catalog_statements,
    data_statements,
    hidden_statements,
    rotation_statements,
    space_statements,
    statements,
)
from tests.simulation.sqlserver.group import Group
from tests.simulation.sqlserver.select import SqlError, parse_select
from tests.simulation.sqlserver.view import Features, View
from tests.simulation.world import Finding

__all__ = [
    "Source",
    "SourceConnection",
    "catalog_statements",
    "hidden_statements",
    "rotation_statements",
    "space_statements",
]

_DECLARE: Final = re.compile(r"DECLARE (?P<variables>.*)", re.DOTALL)
_SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
_VARIABLE: Final = re.compile(r"(?P<name>@\w+) [\w()]+ = \?")
_OF_CHANGES: Final = re.compile(r"SELECT .* FROM cdc\.\[.*_CT\].*", re.DOTALL)
_ENABLE: Final = "sp_cdc_enable_table"
_NO_LOCK: Final = "Lock request time out period exceeded."
_LOCKED: Final = (
    "Could not update the metadata that indicates table dbo.t is enabled for Change Data Capture."
    " The failure occurred when executing the command 'ALTER TABLE'. The error returned was 1222:"
    f" '{_NO_LOCK}'. Use the action and error to determine the cause."
)
"""See: Database Engine events and errors (22000 to 22999). Which command it is, is inferred."""
DEADLOCKED: Final = "deadlocked on its change rows"
_CHANGE: Final = re.compile(r"EXEC sys\.sp_cdc_(?:enable|disable|cleanup)_")
_LOCK_TIMEOUT_S: Final = 5.0
_LOCK_PAUSE_S: Final = 2 * _LOCK_TIMEOUT_S
_PROOF: Final = "IF NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn = ?"
_FROM_TABLE: Final = re.compile(r"SELECT .* FROM \[dbo\]\.\[[^\]]*\].*", re.DOTALL)


class Parameters(list[Any]):
    """Parameters of a statement, and the variables of its batch."""

    named: dict[str, Any]


@dataclass(slots=True)
class Source:
    """What all connections of a run have in common.

    Attributes:
        group: the servers.
        features: what they and the login's rights make of statements.
        tick: called for every statement, before and behind it.
        errors: numbers of errors that the next statements meet.
        login_errors: the same of the next log-ins.
        torn_reads: how many of the next snapshot chunks are read while others commit.
        logins: number of log-ins, which choose one of several readable secondaries.
        has_blocks: whether rows may be read in blocks.
        row_refusals: how many of the next blocks the driver refuses.
        busy: numbers of errors that the next statements over change rows meet.
        hosts: other servers, of another database of that name; the group is behind all other names.
        locked: how many of the next changes of the source get no lock (error 1222).
        starts: counts the sessions of publishers; a new one does not know of earlier attempts.
        late_declines: how many of the next blocks turn out to be the reference's once encoded.
        before_change: happens before the next change of a capture instance by a publisher.
        lost_answers: how many of these changes end without an answer.
    """

    group: Group
    features: Features
    tick: Callable[[], None]
    errors: deque[int] = field(default_factory=deque)
    login_errors: deque[int] = field(default_factory=deque)
    torn_reads: int = 0
    logins: int = 0
    has_blocks: bool = False
    row_refusals: int = 0
    late_declines: int = 0
    before_change: Callable[[], None] | None = None
    lost_answers: int = 0
    busy: deque[int] = field(default_factory=deque)
    hosts: dict[str, Group] = field(default_factory=dict)
    locked: int = 0
    starts: Callable[[], int] = lambda: 0
    _refused_at: dict[tuple[str, int], float] = field(default_factory=dict)

    def refuses_row(self) -> bool:
        """Whether the driver refuses a row of the next block."""
        self.row_refusals -= (refuses := self.row_refusals > 0)
        return refuses

    def declines_block(self) -> bool:
        """Whether the next block is declined when it is encoded."""
        self.late_declines -= (declines := self.late_declines > 0)
        return declines

    def connect(self, config: SourceConfig) -> SourceConnection:
        """A log-in through the listener.

        With read-only intent it goes to a readable secondary, one after the other, where there is
        one that is up.

        https://learn.microsoft.com/sql/database-engine/availability-groups/windows/configure-read-only-routing-for-an-availability-group-sql-server
        """
        self.tick()
        group = self.hosts.get(config.host, self.group)
        replica = group.server
        if config.application_intent is ApplicationIntent.READ_ONLY:
            secondaries = [r for r in group.replicas if r is not replica and r.is_up]
            readable = [r for r in secondaries if r.suspension is None]
            if readable:
                replica = readable[self.logins % len(readable)]
        self.logins += 1
        if self.login_errors:
            raise sql_error(config, self.login_errors.popleft(), "refused", is_login=True)
        if not replica.is_up:
            raise sql_error(config, 10060, "no answer", is_login=True, sqlstate="08001")
        return SourceConnection(self, config, View(group, replica, self.features))

    def lock(self, change: str, now: float) -> bool:
        """Whether a change of the source gets no lock now.

        Raises:
            Finding: it got none just before, so writers queue for it nearly all the time.
        """
        sent = change, self.starts()
        if now - self._refused_at.get(sent, -_LOCK_PAUSE_S) < _LOCK_PAUSE_S:
            raise Finding(f"a change that got no lock is sent again at once: {change}")
        self.locked -= (is_locked := self.locked > 0)
        if is_locked:
            self._refused_at[sent] = now
        return is_locked


class SourceConnection:
    """A connection to one replica; see tailrace_publisher.ports.Connection."""

    def __init__(self, source: Source, config: SourceConfig, view: View) -> None:
        self.queries = 0
        self._source = source
        self._config = config
        self._view = view
        self._epoch = view.replica.epoch
        self._sees_one_moment = not self._view.is_primary  # a secondary's readers all do

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is kept."""

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        """Rows of the one result set."""
        return self.query_sets(sql, *parameters)[0]

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """Rows of every result set."""
        return list(self.sets(sql, *parameters))

    def sets(self, sql: str, *parameters: Any) -> Iterator[list[Any]]:
        """The result sets, one by one; between two statements of a batch anything may happen."""
        self.queries += 1
        left = list(parameters)
        named: dict[str, Any] = {}
        is_proven = False
        for text in filter(None, map(str.strip, sql.split(";"))):
            self.go_on()
            count = text.count("?")
            given = Parameters(left[:count])
            del left[:count]
            if declared := _DECLARE.fullmatch(text):
                names = [found["name"] for found in _VARIABLE.finditer(declared["variables"])]
                named.update(zip(names, given, strict=True))
                continue
            given.named = named
            is_proven = is_proven or text.startswith(_PROOF)
            if _CHANGE.match(text):
                self._check_change(text, is_proven=is_proven)
            is_change = text.startswith(("EXEC sys.sp_cdc_enable_", "EXEC sys.sp_cdc_disable_"))
            if is_change and self._source.before_change is not None:
                happens, self._source.before_change = self._source.before_change, None
                happens()
            yield self._answer(text, given)
            if is_change and self._source.lost_answers:
                self._source.lost_answers -= 1
                raise sql_error(self._config, 10054, "connection reset", sqlstate="08S01")
        self.go_on()

    def _check_change(self, text: str, *, is_proven: bool) -> None:
        """Is a change of the source to be sent now?

        Raises:
            SourceError: it gets no lock.
            Finding: it is sent without a proof, or again at once.
        """
        if not is_proven:
            raise Finding(f"a change of the source without a proof in its batch: {text}")
        world = self._view.replica.clock.world
        if self._source.lock(text, world.monotonic()):
            world.advance(_LOCK_TIMEOUT_S)
            number, reason = (22832, _LOCKED) if _ENABLE in text else (1222, _NO_LOCK)
            raise sql_error(self._config, number, reason)

    def go_on(self) -> None:
        """Something more is sent or read: the world goes on, and the connection may break."""
        self._source.tick()
        self._check_alive()

    def type_of(self, table: str, column: str) -> str:
        """The type of a column of a source table; empty where there is none."""
        columns = self._view.table_named(table).columns
        return next((c.type for c in columns if c.name == column), "")

    def query_together(self, statements: Sequence[str], *parameters: Any) -> list[list[Any]]:
        """Rows of each of some statements; they are one batch."""
        head = statements[0].partition("; ")[0]
        bodies = "; ".join(sql.partition("; ")[2] for sql in statements)
        return self.query_sets(f"{head}; {bodies}", *parameters)

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        """Rows of a batch up to so many bytes; what is behind the row that fills it is not read."""
        rest = at_most
        sets: list[list[Any]] = []
        for rows in self.query_sets(sql, *parameters):
            sets.append([])
            for row in rows:
                sets[-1].append(row)
                rest -= size_of(row)
                if rest <= 0:
                    return sets, True
        return sets, False

    def _answer(self, text: str, parameters: Parameters) -> list[Any]:
        if self._source.busy and _OF_CHANGES.match(text):
            raise sql_error(self._config, self._source.busy.popleft(), DEADLOCKED)
        try:
            if text == _SNAPSHOT:
                self._sees_one_moment = True
            if (
                self._source.torn_reads
                and not self._sees_one_moment
                and _FROM_TABLE.fullmatch(text)
            ):
                self._source.torn_reads -= 1
                return self._torn(text, parameters)
            self._source.features.check_has(text)
            return statements.answer(self._view, text, parameters)
        except SqlError as error:
            raise sql_error(self._config, error.number, str(error)) from error

    def _torn(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        """A scan under READ COMMITTED: what commits meanwhile is seen behind its place only.

        Rows whose key moves may be missed or come twice.

        https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide
        (Missing one or more updated rows, reading one updated row more than once)
        """
        select = parse_select(" ".join(text.split()))
        values = data_statements.bound(select, parameters)
        table = self._view.table_named(select.source)
        seen = [row for row in self._view.visible_rows(table) if select.where(row, values) is True]
        seen.sort(key=select.order_key)
        half = seen[: (len(seen) + 1) // 2]
        for _ in range(4):
            self._source.tick()
        self._check_alive()
        table = self._view.table_named(select.source)
        rest = self._view.visible_rows(table)
        if half and select.order:
            last = select.order_key(half[-1])
            rest = [row for row in rest if select.order_key(row) > last]
        elif half:
            # A heap: a row stays where it is, so it is seen once.
            found = {row[""] for row in half}
            rest = [row for row in rest if row[""] not in found]
        return select.run([*half, *rest], values, self._view.shown(table))

    def _check_alive(self) -> None:
        replica = self._view.replica
        if self._source.errors:
            raise sql_error(self._config, self._source.errors.popleft(), "on the way")
        if self._epoch != replica.epoch or not replica.is_up:
            raise sql_error(self._config, 10054, "connection reset", sqlstate="08S01")


def sql_error(
    config: SourceConfig, number: int, text: str, *, is_login: bool = False, sqlstate: str = "42000"
) -> SourceError:
    """What the publisher's own classification makes of an error of the driver."""
    real = OdbcConnection.__new__(OdbcConnection)
    real._config = config
    told = f"[{sqlstate}] [Microsoft][SQL Server]{text} ({number}) (SQLExecDirectW)"
    doing = "connecting" if is_login else "querying"
    return real._translate(Exception(sqlstate, told), doing)
