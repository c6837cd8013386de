"""Who reads the rows of a page: the reference, row by row, or blocks, encoded as they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from tailrace_publisher.change.page import ChangeRow
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter

NEWEST: Final = "SELECT sys.fn_cdc_get_max_lsn(); "
LOW_WATERMARK: Final = "SELECT sys.fn_cdc_get_min_lsn(?)"

Rows = TypeVar("Rows", bound=Sequence[Any])
"""Rows of a page; of each at least the position's four fields can be had."""


@dataclass(frozen=True, slots=True)
class Fetched(Generic[Rows]):
    """What one round trip brought.

    Attributes:
        newest: the newest LSN that the connection sees; None where it was not asked for.
        sets: rows of each statement; at least one.
        low_watermark: of the capture instance, read behind the rows.
        is_cut: whether the last set, and those that are missing, were cut by the limit's bytes.
    """

    newest: Lsn | None
    sets: list[Rows]
    low_watermark: Lsn | None
    is_cut: bool


class PageReader(Protocol[Rows]):
    """Reads rows of one capture instance.

    Attributes:
        rows_min: how many rows a statement is to be asked for at least.
    """

    rows_min: int

    def read(
        self, batch: str, parameters: Sequence[object], statements: int, *, with_newest: bool
    ) -> Fetched[Rows]:
        """Rows of a batch of statements, what is newest before it, the low watermark behind it.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def together(self, parts: Sequence[Rows]) -> Rows:
        """Rows of consecutive statements, at least one."""


class EncodingReader(PageReader[Any], Protocol):
    """Reads rows and encodes them; Declined, by both, says that it cannot."""

    def encode(self, rows: Any) -> Future[EncodedRows]:
        """The events of rows that it read, which are encoded while others are read."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """Times of events.

    Attributes:
        commit_ms: commit time in milliseconds UTC by commit LSN.
        now_ms: the clock.
    """

    commit_ms: Mapping[bytes, int]
    now_ms: Callable[[], int]


@dataclass(slots=True)
class TableRows:
    """Rows of a source table, encoded.

    Attributes:
        images: encoded row images.
        keys: framed event keys.
        identities: by what the rows are told apart.
        last: values of the last row, at least those that tell rows apart; None without rows.
        is_cut: whether the statement may have had more rows, beyond the bytes.
        letters: by place those that do not fit; they have no image.
    """

    images: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    identities: list[bytes] = field(default_factory=list)
    last: Sequence[Any] | None = None
    is_cut: bool = False
    letters: dict[int, DeadLetter] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)


class TableReading(Protocol):
    """Reads rows of one source table in one schema version, and encodes them."""

    def read(self, statement: str, parameters: Sequence[object], limit: PageLimit) -> TableRows:
        """The rows of a statement, up to so many bytes.

        Raises:
            Declined: the reference is to read these rows.
            SourceError: the typed reason of the failure.
        """


class BlockReading(Protocol):
    """Knows which versions can be read in blocks."""

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""

    def reader(
        self, reference: EnvelopeEncoder, limit: PageLimit, row_size: RowSize, stamps: Stamps
    ) -> EncodingReader | None:
        """Who reads the pages of a version in a window; None where the reference does."""

    def table_reader(
        self, reference: EnvelopeEncoder, identity: Sequence[str], texts: int, row_size: RowSize
    ) -> TableReading | None:
        """Who reads rows of a source table; None where the reference does.

        Args:
            reference: encoder of the version.
            identity: names of the columns that tell rows apart.
            texts: how many texts of times the statements give behind the version's columns.
            row_size: what was learned of the table's rows.

        Raises:
            SourceError, ConfigError: the connection cannot be opened.
        """

    def commits(self, first: Lsn, limit: int, zone: str | None) -> Commits:
        """Entries of ``cdc.lsn_time_mapping``; see ``commits_from``.

        Raises:
            SourceError, ConfigError: the typed reason of the failure.
        """

    def run(self, statement: str) -> None:
        """Run a statement that gives nothing, a setting of the connection.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def text(self, statement: str) -> str:
        """The one text that a statement gives.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def cancel(self) -> None:
        """End the statement that runs now, if one does; for another thread."""

    def close(self) -> None:
        """Let the connection go."""


class RowReader:
    """The reference: a Python object of every value.

    Args:
        connection: a connection of the reading thread's own.
        instance: name of the capture instance.
        limit: of a page.
        row_size: what was learned of the instance's rows; it learns from these.
    """

    rows_min = 1

    def __init__(
        self, connection: Connection, instance: str, limit: PageLimit, row_size: RowSize
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._limit = limit
        self._row_size = row_size

    def read(
        self, batch: str, parameters: Sequence[object], statements: int, *, with_newest: bool
    ) -> Fetched[list[ChangeRow]]:
        """See :class:`PageReader`; the first parameter of a statement is how many rows it gives."""
        asked = cast(int, parameters[0])
        text = f"{NEWEST if with_newest else ''}{batch}"
        size, limit = self._row_size, self._limit
        is_measured = size.needs_measuring(limit) and size.may_exceed(asked * statements, limit)
        fetch = self._measured if is_measured else self._fetched
        sets, minimum, is_cut = fetch(text, parameters)
        newest = lsn_or_none(sets.pop(0)[0][0]) if with_newest else None
        if not is_measured:
            self._learn_of_full(sets, asked)
        return Fetched(newest, sets, minimum, is_cut)

    def together(self, parts: Sequence[list[ChangeRow]]) -> list[ChangeRow]:
        """See :class:`PageReader`."""
        return parts[0] if len(parts) == 1 else [row for part in parts for row in part]

    def _fetched(
        self, batch: str, parameters: Sequence[object]
    ) -> tuple[list[list[ChangeRow]], Lsn | None, bool]:
        """Result sets, the low watermark behind them, and whether the last set was cut short.

        There is room for as many rows as are asked for, whatever is in them.
        """
        text = f"{batch} {LOW_WATERMARK}"
        *sets, minimum = self._connection.query_sets(text, *parameters, self._instance)
        return sets, lsn_or_none(minimum[0][0]), False

    def _learn_of_full(self, sets: Sequence[Sequence[ChangeRow]], asked: int) -> None:
        """Learn what rows take where more are to come: a page may have room for more of them."""
        size = self._row_size
        if size.needs_measuring(self._limit):
            for rows in sets:
                if len(rows) >= asked:
                    size.learn(len(rows), sum(map(size.of, rows)))

    def _measured(
        self, batch: str, parameters: Sequence[object]
    ) -> tuple[list[list[ChangeRow]], Lsn | None, bool]:
        """The same, of rows that are measured one by one: it costs a third of what they do."""
        name, size = self._instance, self._row_size
        taken = rows = 0

        def size_of(row: ChangeRow) -> int:
            nonlocal taken, rows
            of_row = size.of(row)
            taken += of_row
            rows += of_row > 0
            return of_row

        sets, is_cut = self._connection.query_within(
            f"{batch} {LOW_WATERMARK}",
            *parameters,
            name,
            size_of=size_of,
            at_most=self._limit.size,
        )
        minimum = self._connection.query(LOW_WATERMARK, name) if is_cut else sets.pop()
        if rows:
            size.learn(rows, taken)
        return sets, lsn_or_none(minimum[0][0]), is_cut
