"""Events of a batch or call -> the bytes of its answer.

The rules of the DONE family are here, and only here: DONE for a statement of a batch, DONEINPROC
inside a procedure, DONEPROC at a procedure's end; MORE on all but the last of a message; the error
bit where an error ended the statement. So a DONE is held back until it is known whether it is the
last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.serving.output_values import SentParameters
from tailrace_emulator.values import results
from tailrace_emulator.values.collations import collation
from tailrace_emulator.values.results import ColumnMeta, Event
from tailrace_emulator.values.tds_types import TIMESTAMP_USER_TYPE, column_to_wire
from tailrace_emulator.wire.row_encoder import RowEncoder
from tailrace_emulator.wire.tokens import (
    ColMetadata,
    Column,
    ColumnFlags,
    Command,
    DoneStatus,
    EnvChange,
    EnvChangeType,
    ServerMessage,
    TokenType,
    collation_change,
    done_token,
    return_status_token,
    return_value_token,
    transaction_change,
)

FLUSH_BYTES: Final = 64 * 1024
"""So many bytes are sent at once; twice as many gained nothing with any driver."""

CHUNK_ROWS: Final = 1024
"""Rows encoded at a time: large enough to spread the cost, small enough for the cache."""

ENCODERS_MAX: Final = 256

IN_KILL_STATE: Final = 596

FATAL_SEVERITY: Final = 20
"""From this severity on, SQL Server closes the connection."""

_COMMANDS: Final = {
    "select": int(Command.SELECT),
    "insert": int(Command.INSERT),
    "update": int(Command.UPDATE),
    "delete": int(Command.DELETE),
    "merge": int(Command.MERGE),
    "other": int(Command.NONE),
}
# Plain ints: an enum's operators and attributes would cost more than the token itself.
_DONE: Final = int(TokenType.DONE)
_DONE_PROC: Final = int(TokenType.DONE_PROC)
_DONE_IN_PROC: Final = int(TokenType.DONE_IN_PROC)
_NONE: Final = int(Command.NONE)
_EXECUTE: Final = int(Command.EXECUTE)
_MORE: Final = int(DoneStatus.MORE)
_ERROR: Final = int(DoneStatus.ERROR)
_SERVER_ERROR: Final = int(DoneStatus.SERVER_ERROR)
_COUNT: Final = int(DoneStatus.COUNT)
_TRANSACTION_CHANGES: Final = {
    "began": EnvChangeType.BEGIN_TRANSACTION,
    "committed": EnvChangeType.COMMIT_TRANSACTION,
    "rolled_back": EnvChangeType.ROLLBACK_TRANSACTION,
}


class ConnectionClosedError(Exception):
    """Who was to read the answer is gone."""


class ColumnSets:
    """Column sets already seen by a connection: their COLMETADATA and row encoders."""

    def __init__(self) -> None:
        self._seen: dict[tuple[ColumnMeta, ...], tuple[bytes, RowEncoder]] = {}
        self._partly_encoded: dict[tuple[tuple[ColumnMeta, ...], int, int], RowEncoder] = {}

    def __getitem__(self, columns: tuple[ColumnMeta, ...]) -> tuple[bytes, RowEncoder]:
        """COLMETADATA and the row encoder of a column set."""
        found = self._seen.get(columns)
        if found is None:
            if len(self._seen) >= ENCODERS_MAX:
                self._seen.clear()
            types = [column_to_wire(c.type, nullable=c.nullable) for c in columns]
            metadata = ColMetadata(tuple(map(_column, columns))).encode()
            found = self._seen[columns] = metadata, RowEncoder(types)
        return found

    def partly_encoded(self, columns: tuple[ColumnMeta, ...], first: int, count: int) -> RowEncoder:
        """The encoder for rows of which some columns come as one value, encoded already."""
        key = (columns, first, count)
        found = self._partly_encoded.get(key)
        if found is None:
            if len(self._partly_encoded) >= ENCODERS_MAX:
                self._partly_encoded.clear()
            types = [column_to_wire(c.type, nullable=c.nullable) for c in columns]
            found = self._partly_encoded[key] = RowEncoder(
                [*types[:first], None, *types[first + count :]]
            )
        return found


def _column(meta: ColumnMeta) -> Column:
    flags = ColumnFlags.NULLABLE if meta.nullable else ColumnFlags.NONE
    if meta.identity:
        flags |= ColumnFlags.IDENTITY
    if meta.computed:
        flags |= ColumnFlags.COMPUTED
    if not (meta.identity or meta.computed):
        flags |= ColumnFlags.UPDATABLE_UNKNOWN
    user_type = TIMESTAMP_USER_TYPE if meta.type.name in {"timestamp", "rowversion"} else 0
    info = column_to_wire(meta.type, nullable=meta.nullable)
    return Column(meta.name, info, flags, user_type)


class Response:
    """One answer in the making.

    Args:
        send: takes bytes of the message as they become enough to send; raises
            ConnectionClosedError when nobody is there to take them.
        server_name: shown in texts of messages.
    """

    def __init__(
        self, send: Callable[[bytes], None], column_sets: ColumnSets, server_name: str
    ) -> None:
        self._send = send
        self._column_sets = column_sets
        self._server_name = server_name
        self._parts: list[bytes] = []
        self._size = 0
        self._pending: tuple[int, int, int, int] | None = None
        self._in_procedure = False
        self._failed = 0
        self._encoder: RowEncoder | None = None
        self._columns: tuple[ColumnMeta, ...] = ()
        self._return_status: int | None = None
        self._return_values: list[results.ReturnValue] = []
        self.descriptor: int | None = None
        """The transaction that the client was last sent; None if this answer had none."""

    def begin_call(self) -> None:
        """What follows belongs to an RPC call."""
        self._in_procedure = True
        self._failed = 0
        self._return_status = None
        self._return_values = []

    def end_call(self, sent: SentParameters) -> None:
        """The call ended: its return status, output parameters and DONEPROC."""
        values = []
        for output in self._return_values:
            try:
                values.append((sent.ordinal(output), output.name, *sent.as_sent(output)))
            except SqlError as error:
                self.error(error)
        self._flush_done()
        self._append(return_status_token(self._return_status or 0))
        for value in values:
            self._append(return_value_token(*value))
        self._hold_done(_DONE_PROC, _EXECUTE, None)
        self._in_procedure = False

    def handle(self, event: Event) -> None:
        """Append an event."""
        match event:
            case results.StatementDone(command, count):
                self._flush_done()
                kind = _DONE_IN_PROC if self._in_procedure else _DONE
                self._hold_done(kind, _COMMANDS.get(command, _NONE), count)
            case results.ReturnValue():
                self._return_values.append(event)
            case results.Rows(rows):
                self._rows(rows, self._encoder)
            case results.EncodedRows(rows, first, count):
                self._rows(rows, self._column_sets.partly_encoded(self._columns, first, count))
            case results.ResultSet(columns):
                self._flush_done()
                metadata, self._encoder = self._column_sets[columns]
                self._columns = columns
                self._append(metadata)
            case results.ReturnStatus(value) if self._in_procedure:
                self._return_status = value
            case results.ReturnStatus(value):  # EXEC inside a batch
                self._flush_done()
                self._append(return_status_token(value))
                self._hold_done(_DONE_PROC, _EXECUTE, None)
            case _:
                self._flush_done()
                self._change(event)

    def error(self, error: SqlError) -> None:
        """An error that ended the batch or call."""
        self._flush_done()
        self._message(
            error.number,
            error.message,
            max(error.severity, 11),
            error.state,
            error.procedure,
            error.line,
        )
        # What KILL ended is told as an error, else the ODBC driver keeps its text to itself.
        self._has_failed(0 if error.number == IN_KILL_STATE else error.severity)

    def transaction_changed(self, kind: str, descriptor: int) -> None:
        """A transaction began or ended: ENVCHANGE 8, 9 or 10."""
        self._flush_done()
        self._append(transaction_change(_TRANSACTION_CHANGES[kind], descriptor).encode())
        self.descriptor = descriptor if kind == "began" else 0

    def reset_acknowledged(self) -> None:
        """The session was reset before this request."""
        self._append(EnvChange(EnvChangeType.RESET_ACKNOWLEDGED).encode())

    def finish(self) -> None:
        """The last DONE, without MORE; then everything that is left is sent."""
        if self._pending is None or self._failed:
            self._flush_done()
            self._hold_done(_DONE, _NONE, None)
        self._flush_done(more=False)
        self.flush()

    def flush(self) -> None:
        """Send what has been gathered."""
        if self._parts:
            self._send(b"".join(self._parts))
            self._parts = []
            self._size = 0

    def _rows(self, rows: object, encoder: RowEncoder | None) -> None:
        if encoder is None:
            raise RuntimeError("rows came before their result set")
        chunk = rows if isinstance(rows, list) else list(rows)  # type: ignore[call-overload]
        if len(chunk) <= CHUNK_ROWS:
            if chunk:
                self._append(encoder.encode(chunk))
            return
        for start in range(0, len(chunk), CHUNK_ROWS):
            self._append(encoder.encode(chunk[start : start + CHUNK_ROWS]))

    def _change(self, event: Event) -> None:
        match event:
            case results.Message(number, text, severity, state, procedure, line):
                self._message(number, text, min(severity, 10), state, procedure, line)
            case results.ErrorMessage(number, text, severity, state, procedure, line):
                self._message(number, text, max(severity, 11), state, procedure, line)
                self._has_failed(severity)
            case results.DatabaseChanged(old, new, old_collation, new_collation):
                self._append(EnvChange(EnvChangeType.DATABASE, new, old).encode())
                if old_collation != new_collation:
                    self._append(collation_change(collation(new_collation).wire).encode())
                self._message(5701, messages.text(5701, new), 0, 2, "", 1)
            case results.LanguageChanged(old, new):
                self._append(EnvChange(EnvChangeType.LANGUAGE, new, old).encode())
            case results.TransactionChanged(kind, descriptor):
                self.transaction_changed(kind, descriptor)
            case _:
                raise TypeError(f"{type(event).__name__} is no event of a batch")

    def _has_failed(self, severity: int) -> None:
        """The next DONE says so: in its stronger form where the connection is at its end."""
        if self._failed != _SERVER_ERROR:
            self._failed = _SERVER_ERROR if severity >= FATAL_SEVERITY else _ERROR

    def _message(
        self, number: int, text: str, severity: int, state: int, procedure: str, line: int
    ) -> None:
        token = ServerMessage(number, state, severity, text, self._server_name, procedure, line)
        self._append(token.encode())

    def _append(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def _hold_done(self, kind: int, command: int, count: int | None) -> None:
        status = 0 if count is None else _COUNT
        if self._failed:
            status |= self._failed
            self._failed = 0
        self._pending = (kind, status, command, count or 0)

    def _flush_done(self, *, more: bool = True) -> None:
        if self._pending is None:
            return
        kind, status, command, count = self._pending
        self._pending = None
        self._append(done_token(kind, status | _MORE if more else status, command, count))
