"""What reads the rows of a page: the reference row by row, or block readers, which encode them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.page import ChangeRow
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_publisher.source.log.queries import COMPLETE, LOW_WATERMARK, lsn_or_none
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.page_statements import Bound
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn
from tailrace_schemas.records.dead_letters import DeadLetter

StatementOf = Callable[[Set[str]], str]
"""Returns a statement, given the names of the columns whose reader takes bytes of char and varchar.
"""
_UNMASKED: Final = (
    "NOT EXISTS (SELECT * FROM cdc.change_tables ct JOIN sys.masked_columns m"
    " ON m.object_id = ct.object_id WHERE ct.capture_instance = ?)"
    " OR COALESCE(HAS_PERMS_BY_NAME(N'cdc.' + QUOTENAME(?), N'OBJECT', N'UNMASK'),"
    " HAS_PERMS_BY_NAME(NULL, N'DATABASE', N'UNMASK'), 0) = 1"
)
"""Condition that the login reads no mask in any column of the change table.

See: sys.masked_columns; Dynamic data masking, granular permissions."""
# See: cdc.lsn_time_mapping (Transact-SQL), tran_id; the page of sys.fn_cdc_get_max_lsn
NEWEST: Final = f"({COMPLETE})"
"""The LSN up to which all commits are seen; NULL without such an entry."""
FIRST_BYTES: Final = LSN_BYTES + 1
"""Of the value of :func:`first_of`, at most."""


def first_of(instance: CaptureInstance) -> Bound:
    """Return what comes before the first rows of a range: up to where all commits are seen.

    It is one value, which :func:`seen_first` reads. UNMASK may be granted after the rows were read
    and before what proves them, so it is asked before them, too.
    """
    # See: the pages of cdc.lsn_time_mapping and sys.masked_columns
    if not instance.may_be_masked:
        return f"SELECT {NEWEST};", ()
    newest = f"ISNULL({NEWEST}, CAST(0 AS binary({LSN_BYTES})))"
    text = f"SELECT {newest} + CASE WHEN {_UNMASKED} THEN 0x00 ELSE 0x01 END;"
    return text, (instance.name, f"{instance.name}_CT")


def with_first(
    first: Bound | None, batch: str, parameters: Sequence[object]
) -> tuple[str, Sequence[object]]:
    """Return a batch and its parameters, after the statement of :func:`first_of` if it is given."""
    if first is None:
        return batch, parameters
    text, names = first
    return f"{text} {batch}", [*names, *parameters]


def seen_first(value: bytes | None) -> tuple[Lsn | None, bool]:
    """Return the LSN that the value of :func:`first_of` has, and whether the login reads masks."""
    found = value or b""
    return lsn_or_none(found[:LSN_BYTES] or None), found[LSN_BYTES:] == b"\1"


def proof_of(instance: CaptureInstance) -> Bound:
    """Return what proves the rows before it: no row was cleaned up, and no value was masked."""
    # See: the pages of sys.fn_cdc_get_min_lsn and sys.masked_columns
    name = instance.name
    if not instance.may_be_masked:
        return LOW_WATERMARK, (name,)
    text = f"SELECT CASE WHEN {_UNMASKED} THEN sys.fn_cdc_get_min_lsn(?) END"
    return text, (name, f"{name}_CT", name)


Rows = TypeVar("Rows", bound=Sequence[Any])
"""Rows of a page; at least the position's four fields of each row are available."""


@dataclass(frozen=True, slots=True)
class Fetched(Generic[Rows]):
    """The result of one round trip.

    Attributes:
        newest: LSN up to which the connection sees all commits. None if it was not queried.
        low_watermark: of the capture instance, read after the rows. None if there is no instance,
            or if the rows may hold masks.
        is_cut: whether the byte limit cut the last set.
        was_masked: whether the rows may hold masks by the statement before them.
    """

    newest: Lsn | None
    sets: list[Rows]
    low_watermark: Lsn | None
    is_cut: bool
    was_masked: bool = False


class PageReader(Protocol[Rows]):
    """Reads rows of one capture instance.

    Attributes:
        rows_min: the lowest number of rows to request of a statement.
        as_bytes: names of the columns of which it takes the bytes of char and varchar.
    """

    rows_min: int

    @property
    def as_bytes(self) -> Set[str]:
        """See above; it is fixed for a reader."""

    def read(
        self,
        batch: str,
        parameters: Sequence[object],
        statements: int,
        proof: Bound,
        first: Bound | None,
    ) -> Fetched[Rows]:
        """Read the rows of a batch, what is complete before it, and the low watermark after it.

        Args:
            proof: the statement that reads the low watermark (:func:`proof_of`).
            first: the statement before the rows (:func:`first_of`), if it is wanted.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def together(self, parts: Sequence[Rows]) -> Rows:
        """Join the rows of consecutive statements, at least one."""


class EncodingReader(PageReader[Any], Protocol):
    """Reads rows and encodes them; both methods raise Declined if they cannot."""

    def encode(self, rows: Any) -> Future[EncodedRows]:
        """Return the future events of rows that it read; encoding runs while others are read."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """Times of events.

    Attributes:
        commit_ms: commit time in milliseconds UTC by commit LSN.
        now_ms: returns the present time, milliseconds UTC.
    """

    commit_ms: Mapping[bytes, int]
    now_ms: Callable[[], int]


@dataclass(slots=True)
class TableRows:
    """Rows of a source table, encoded.

    Attributes:
        last: the last row, at least its identity.
        letters: dead letters of the rows that cannot be encoded, by index. Such a row has an empty
            image.
    """

    images: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    identities: list[bytes] = field(default_factory=list)
    last: Sequence[Any] | None = None
    is_cut: bool = False
    letters: dict[int, DeadLetter] = field(default_factory=dict)

    def at(self, places: Sequence[int]) -> TableRows:
        """Return some of the rows."""
        return TableRows(
            [self.images[place] for place in places],
            [self.keys[place] for place in places],
            [self.identities[place] for place in places],
            letters={n: self.letters[p] for n, p in enumerate(places) if p in self.letters},
        )

    def __len__(self) -> int:
        return len(self.images)


class TableReading(Protocol):
    """Reads rows of one source table in one schema version, and encodes them."""

    def read(
        self, statement: StatementOf, parameters: Sequence[object], limit: PageLimit
    ) -> TableRows:
        """Read the rows of a statement, up to a number of bytes.

        Raises:
            Declined: the reference must read these rows.
            SourceError: the typed reason of the failure.
        """


class BlockReading(Protocol):
    """Reads blocks over one connection, for the versions that allow it."""

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""

    def reader(
        self, reference: EnvelopeEncoder, limit: PageLimit, row_size: RowSize, stamps: Stamps
    ) -> EncodingReader | None:
        """Return the reader of a version's pages in a window; None if the reference reads them."""

    def table_reader(
        self, reference: EnvelopeEncoder, identity: Sequence[str], texts: int, row_size: RowSize
    ) -> TableReading | None:
        """Return the reader of a source table's rows; None if the reference must read them.

        Args:
            identity: names of the columns that distinguish rows.
            texts: how many texts of times follow the version's columns.

        Raises:
            SourceError, ConfigError: the connection cannot be opened.
        """

    def commits(self, first: Lsn, limit: int, zone: str | None) -> Commits:
        """Read entries of ``cdc.lsn_time_mapping``; see ``commits_from``.

        Raises:
            SourceError, ConfigError: the typed reason of the failure.
        """

    def run(self, statement: str) -> None:
        """Run a statement without a result, such as a setting of the connection.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def text(self, statement: str) -> str:
        """Return the single text that a statement selects.

        Raises:
            SourceError: the typed reason of the failure.
        """

    def cancel(self) -> None:
        """Cancel the running statement, if any; called by another thread."""

    def close(self) -> None:
        """Close the connection."""


class RowReader:
    """The reference reader: a Python object for every value.

    Args:
        connection: used by the reading thread alone.
        row_size: learned from the instance's rows, and updated by these.
    """

    rows_min = 1
    as_bytes: Set[str] = frozenset()

    def __init__(self, connection: Connection, limit: PageLimit, row_size: RowSize) -> None:
        self._connection = connection
        self._limit = limit
        self._row_size = row_size

    def read(
        self,
        batch: str,
        parameters: Sequence[object],
        statements: int,
        proof: Bound,
        first: Bound | None,
    ) -> Fetched[list[ChangeRow]]:
        """See :class:`PageReader`; the first parameter of a statement is its row limit."""
        asked = cast(int, parameters[0])
        text, parameters = with_first(first, batch, parameters)
        size, limit = self._row_size, self._limit
        is_measured = size.needs_measuring(limit) and size.may_exceed(asked * statements, limit)
        fetch = self._measured if is_measured else self._fetched
        sets, minimum, is_cut = fetch(text, parameters, proof)
        newest, was_masked = seen_first(sets.pop(0)[0][0]) if first else (None, False)
        if not is_measured:
            self._learn_of_full(sets, asked)
        return Fetched(newest, sets, minimum, is_cut, was_masked)

    def together(self, parts: Sequence[list[ChangeRow]]) -> list[ChangeRow]:
        """See :class:`PageReader`."""
        return parts[0] if len(parts) == 1 else [row for part in parts for row in part]

    def _fetched(
        self, batch: str, parameters: Sequence[object], proof: Bound
    ) -> tuple[list[list[ChangeRow]], Lsn | None, bool]:
        """Return result sets, the low watermark after them, and whether the last set was cut.

        The page has room for all requested rows, whatever their values.
        """
        # See: sys.fn_cdc_get_min_lsn: the low endpoint, read after the rows
        text, names = proof
        *sets, minimum = self._connection.query_sets(f"{batch} {text}", *parameters, *names)
        return sets, lsn_or_none(minimum[0][0]), False

    def _learn_of_full(self, sets: Sequence[Sequence[ChangeRow]], asked: int) -> None:
        """Learn the size of rows if more will follow: a page may have room for more of them."""
        size = self._row_size
        if size.needs_measuring(self._limit):
            for rows in sets:
                if len(rows) >= asked:
                    size.learn(len(rows), sum(map(size.of, rows)))

    def _measured(
        self, batch: str, parameters: Sequence[object], proof: Bound
    ) -> tuple[list[list[ChangeRow]], Lsn | None, bool]:
        """Do the same, but measure each row, which costs a third of the time that rows take."""
        # See: sys.fn_cdc_get_min_lsn: the low endpoint, read after the rows
        (text, names), size = proof, self._row_size
        taken = rows = 0

        def size_of(row: ChangeRow) -> int:
            nonlocal taken, rows
            of_row = size.of(row)
            taken += of_row
            rows += of_row > 0
            return of_row

        sets, is_cut = self._connection.query_within(
            f"{batch} {text}",
            *parameters,
            *names,
            size_of=size_of,
            at_most=self._limit.size,
        )
        minimum = self._connection.query(text, *names) if is_cut else sets.pop()
        if rows:
            size.learn(rows, taken)
        return sets, lsn_or_none(minimum[0][0]), is_cut
