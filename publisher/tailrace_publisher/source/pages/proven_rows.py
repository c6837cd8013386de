"""Rows of a capture instance's range, with the proof that they are complete.

After the rows of a page, in the same round trip, comes the instance's low watermark. It proves
that no row of the page was cleaned up before it was read. It is NULL if the login reads a mask in
the change table, so masks are noticed on the connection that read them.

Before the first page, in its round trip, comes the LSN up to which the connection sees all commits,
and whether the login reads masks. On a replica that lags the one where the range was planned, a
short page is not the last one. The newest LSN does not show that: an entry that only marks time may
be above a missing commit. A connection stays at its server, and what that server shows only grows,
so this proof holds for the following pages.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.ranges import LsnRange, first_lsn_after
from tailrace_publisher.errors import (
    CaptureInstanceGone,
    SourceBehind,
    SourceBusy,
    SourceError,
)
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.hidden_data import check_changes_visible, hidden_data
from tailrace_publisher.source.log.loss import check_not_expired
from tailrace_publisher.source.log.queries import (
    INVALID_COLUMN,
    INVALID_OBJECT,
    LOW_WATERMARK,
    OUT_OF_INTERVAL,
    has_command_id,
    lsn_or_none,
    max_lsn,
)
from tailrace_publisher.source.pages.page_readers import (
    PageReader,
    Rows,
    first_of,
    proof_of,
)
from tailrace_publisher.source.pages.page_statements import Bound
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn


class ProvenRows:
    """Fetches the rows of one capture instance in a range.

    Args:
        connection: used by the reading thread alone.
        columns: names of those that are read.
        covers_from: LSN from which the instance holds the table's changes.
    """

    def __init__(
        self,
        connection: Connection,
        instance: CaptureInstance,
        columns: Sequence[str],
        span: LsnRange,
        covers_from: Lsn,
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._columns = columns
        self._up_to = span.up_to
        self._needs = span.needs or span.up_to
        self._covers_from = covers_from
        self._sees_range = False

    def change_server(self) -> None:
        """Prove again that the range is seen: the next rows may come from another server."""
        self._sees_range = False

    def fetch(
        self,
        reader: PageReader[Rows],
        statements: Sequence[Bound],
        asked: int,
        after: ChangePosition,
    ) -> tuple[Rows, bool]:
        """Return the rows of consecutive statements, and whether no row follows them.

        The values read before and after the rows prove that they are complete.

        Args:
            asked: limit of the rows of each statement.
            after: the position after which they read.
        """
        name, proof = self._instance.name, proof_of(self._instance)
        batch = " ".join(statement for statement, _ in statements)
        parameters = [value for _, values in statements for value in values]
        first = None if self._sees_range else first_of(self._instance)
        try:
            fetched = reader.read(batch, parameters, len(statements), proof, first)
        except SourceError as error:
            self._check_cause(error, after)
            # The cause is gone: the replica has caught up since the statement.
            fetched = reader.read(batch, parameters, len(statements), proof, first)
        low_watermark = fetched.low_watermark
        if self._instance.may_be_masked and (low_watermark is None or fetched.was_masked):
            low_watermark = self._if_visible()
        if first is not None:
            if (fetched.newest or Lsn.ZERO) < self._needs:
                raise SourceBehind(name, fetched.newest, self._needs)
            self._sees_range = True
        self._check_held(low_watermark, after)
        for number, part in enumerate(fetched.sets, 1):
            if len(part) >= asked:
                return reader.together(fetched.sets[:number]), False
        return reader.together(fetched.sets), not fetched.is_cut

    def _if_visible(self) -> Lsn | None:
        """Return the low watermark, unless rows that were just read may hold masks.

        Raises:
            ValuesHidden: the login reads masks of published columns.
            SourceBusy: the server that was read shows masks, and this one does not any more.
        """
        connection, instance = self._connection, self._instance
        check_changes_visible(hidden_data(connection, only=instance), instance, self._columns)
        text, names = proof_of(instance)
        if lsn_or_none(connection.query(text, *names)[0][0]) is not None:
            raise SourceBusy(
                f"capture instance {instance.name}: its masks changed while rows were read"
            )
        return lsn_or_none(connection.query(LOW_WATERMARK, instance.name)[0][0])

    def _check_cause(self, error: SourceError, after: ChangePosition) -> None:
        """Explain why the server refused a statement, unless a replica's lag may have been it.

        Raises:
            SourceBehind, PositionExpired, CaptureInstanceGone: the cause, which is still there.
            SourceError: the error, if it has nothing to do with what the server sees.
        """
        instance = self._instance
        if error.number == INVALID_OBJECT:
            raise CaptureInstanceGone(instance.name) from error
        if error.number == OUT_OF_INTERVAL and instance.by_function:
            self._check_interval(after)
        elif error.number == INVALID_COLUMN and instance.ordered_by_command_id:
            if not has_command_id(self._connection, instance.name):
                # The server was updated, and this replica has not redone it yet.
                raise SourceBehind(instance.name, max_lsn(self._connection), self._up_to) from error
        else:
            raise error

    def _check_interval(self, after: ChangePosition) -> None:
        """Explain why a query function refused a range that is outside the validity interval.

        Raises:
            SourceBehind, PositionExpired: the range is outside.
        """
        newest = max_lsn(self._connection)
        if newest is None or newest < self._up_to:
            raise SourceBehind(self._instance.name, newest, self._up_to)
        minimum = lsn_or_none(self._connection.query(LOW_WATERMARK, self._instance.name)[0][0])
        self._check_held(minimum, after)

    def _check_held(self, low_watermark: Lsn | None, after: ChangePosition) -> None:
        needed = max(first_lsn_after(after), self._covers_from)
        check_not_expired(self._instance.name, needed, low_watermark)
