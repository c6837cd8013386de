"""The columns of a page to Avro bytes, keys and images; the first value that does not fit is named.

A column is encoded as a whole. Only if that fails are its values encoded one by one, so that the
error can name the row. The error never holds a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from tailrace_publisher.encode.columns.column_encoders import VALUE_ERRORS, column_encoder
from tailrace_publisher.encode.columns.half_pairs import HalfPairs
from tailrace_publisher.encode.event_kinds import RawRow
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.errors import EncodeError
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.change_position import ChangePosition

EncodedColumns = list[list[bytes]]
"""The Avro bytes of every value, by column."""


class RowColumns:
    """Encodes the values of one schema version; for one thread at a time.

    Args:
        key_schema_id: registry id of the key's schema; None for a keyless table.

    Attributes:
        half_pairs: may be shared between threads, so that each column is logged once.

    Raises:
        UnsupportedType: a column has no Avro form.
        ValueError: the key schema id is missing though the table has a key, or the reverse.
    """

    def __init__(
        self, schema: TableSchema, key_schema_id: int | None, treatment: Treatment
    ) -> None:
        if bool(schema.key_columns) != (key_schema_id is not None):
            raise ValueError(f"{schema.table}: key columns and key schema id do not agree")
        self._schema = schema
        self.half_pairs = HalfPairs(treatment.surrogates, str(schema.table))
        self._encoders = [column_encoder(column, treatment.hashes) for column in schema.columns]
        self._key_indexes = [schema.columns.index(column) for column in schema.key_columns]
        self._key_frame = frame_header(key_schema_id) if key_schema_id is not None else b""

    def encode(
        self, columns: Sequence[Sequence[Any]], where: Sequence[RawRow] | ChangePosition
    ) -> EncodedColumns:
        """Encode the values of rows, column by column.

        Args:
            where: the change rows, or the position of all rows of a snapshot; for errors.

        Raises:
            EncodeError: a value does not fit its Avro type.
        """
        if len(columns) != len(self._encoders):
            raise self.error(
                "*",
                where if isinstance(where, ChangePosition) else where[0],
                f"rows have {len(columns)} values, version {self._schema.schema_lsn} of capture"
                f" instance {self._schema.capture_instance} has {len(self._encoders)} columns",
            )
        encoded: EncodedColumns = []
        for index, values in enumerate(columns):
            try:
                encoded.append(self._encode_column(index, values))
            except VALUE_ERRORS as error:
                row, reason = self._blame(index, values, error)
                name = self._schema.columns[index].name
                place = where if isinstance(where, ChangePosition) else where[row]
                raise self.error(name, place, reason, is_of_event=True) from error
        return encoded

    def keys(self, encoded: EncodedColumns, count: int) -> list[bytes | None]:
        """Join framed keys: the bytes of a key column are the same in the key as in the row."""
        if not self._key_indexes:
            return [None] * count
        parts = [encoded[index] for index in self._key_indexes]
        return list(map(b"".join, zip(repeat(self._key_frame), *parts, strict=False)))

    def error(
        self,
        column: str,
        where: RawRow | ChangePosition,
        reason: str,
        *,
        is_of_event: bool = False,
    ) -> EncodeError:
        """Return the error of a row, or of a position, of this table."""
        if isinstance(where, ChangePosition):
            position = str(where)
        else:
            commit, command_id, seqval, operation = where[:4]
            position = f"{commit.hex(':', -4)}/{command_id}/{seqval.hex(':', -4)}/{operation}"
        table = str(self._schema.table)
        return EncodeError(table, column, position, reason, is_of_event=is_of_event)

    def _encode_column(self, index: int, values: Sequence[Any]) -> list[bytes]:
        try:
            return self._encoders[index](values)
        except UnicodeEncodeError:
            whole = self.half_pairs.without(self._schema.columns[index], values)
            if whole is None:
                raise
            return self._encoders[index](whole)

    def _blame(self, index: int, values: Sequence[Any], error: Exception) -> tuple[int, str]:
        """Find row and reason of the first value that does not fit."""
        column = self._schema.columns[index]
        kind = type(error).__name__
        if column.transform is not None:
            return 0, f"what is read for it does not fit {column.type}: {kind}"
        for row, value in enumerate(values):
            try:
                self._encoders[index]((value,))
            except VALUE_ERRORS as single:
                why = str(single) if value is None else type(single).__name__
                return row, f"{_shape(value)} does not fit {column.type}: {why}"
        return 0, f"a value does not fit {column.type}: {kind}"


def images_of(encoded: EncodedColumns) -> list[bytes]:
    """Join the columns of each row."""
    return list(map(b"".join, zip(*encoded, strict=True)))


def _shape(value: Any) -> str:
    """Describe a value without its content."""
    if value is None:
        return "NULL"
    kind = type(value).__name__
    return f"a {kind} of length {len(value)}" if isinstance(value, str | bytes) else f"a {kind}"
