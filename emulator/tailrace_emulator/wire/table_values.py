"""Table-valued parameters: a type's name, its columns, then rows. MS-TDS 2.2.5.5.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_emulator.wire.errors import RemoteProtocolError, WrongLengthError
from tailrace_emulator.wire.reader import Reader, b_varchar
from tailrace_emulator.wire.types import TypeInfo, Value, encode_type_info, encoder
from tailrace_emulator.wire.types.base import DataType
from tailrace_emulator.wire.types.registry import typed_decoder
from tailrace_emulator.wire.wrong_lengths import take_anyway

TABLE_TYPE: Final = TypeInfo(DataType.TVP)

_NO_COLUMNS: Final = 0xFFFF
_END: Final = 0x00
_ROW: Final = 0x01
_ORDER_UNIQUE: Final = 0x10
_COLUMN_ORDERING: Final = 0x11
_FLAG_DEFAULT: Final = 0x0200
_COLUMNS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: ``is_default`` where the rows leave it to its default."""

    type: TypeInfo
    is_default: bool = False
    flags: int = 0
    user_type: int = 0


@dataclass(frozen=True, slots=True)
class TableValue:
    """A value of a table type.

    Attributes:
        type_name: database, schema and name of the type; each may be empty.
        columns: None for no value at all: the parameter's default, an empty table.
        rows: values of all columns; None in those that are left to their defaults.
        wrong_length: row and column, counted from 1, of the first value whose length its type
            cannot have, which is None in ``rows``.
    """

    type_name: tuple[str, str, str]
    columns: tuple[TableColumn, ...] | None = None
    rows: tuple[tuple[Value, ...], ...] = ()
    wrong_length: tuple[int, int] | None = None

    def encode(self) -> bytes:
        """TYPE_INFO and value, as in a parameter after its status."""
        parts = [bytes((DataType.TVP,)), *map(b_varchar, self.type_name)]
        if self.columns is None:
            parts += [_NO_COLUMNS.to_bytes(2, "little"), bytes((_END, _END))]
            return b"".join(parts)
        parts.append(len(self.columns).to_bytes(2, "little"))
        for column in self.columns:
            flags = column.flags | (_FLAG_DEFAULT if column.is_default else 0)
            parts.append(column.user_type.to_bytes(4, "little") + flags.to_bytes(2, "little"))
            parts += [encode_type_info(column.type), b_varchar("")]
        parts.append(bytes((_END,)))
        for row in self.rows:
            parts.append(bytes((_ROW,)))
            for column, value in zip(self.columns, row, strict=True):
                if not column.is_default:
                    parts.append(encoder(column.type)(value))
        parts.append(bytes((_END,)))
        return b"".join(parts)

    @classmethod
    def decode(cls, reader: Reader) -> TableValue:
        """Parse TYPE_INFO, after its token, and the value.

        Raises:
            RemoteProtocolError: it is no such stream.
            UnsupportedTypeError: a column is of a type that is not spoken here.
        """
        name = (reader.b_varchar(), reader.b_varchar(), reader.b_varchar())
        count = reader.u16()
        if count == _NO_COLUMNS:
            _skip_ordering(reader, 0)
            if reader.u8() != _END:
                raise RemoteProtocolError("rows in a table-valued parameter without columns")
            return cls(name)
        if not 0 < count <= _COLUMNS_MAX:
            raise RemoteProtocolError(f"table-valued parameter of {count} columns")
        columns: list[TableColumn] = []
        decoders = []
        for _ in range(count):
            user_type, flags = reader.u32(), reader.u16()
            info, decode = typed_decoder(reader)
            if info.token is DataType.TVP:
                raise RemoteProtocolError("a table-valued parameter inside of another")
            reader.b_varchar()
            is_default = bool(flags & _FLAG_DEFAULT)
            columns.append(TableColumn(info, is_default, flags & ~_FLAG_DEFAULT, user_type))
            decoders.append(None if is_default else decode)
        _skip_ordering(reader, count)
        rows: list[tuple[Value, ...]] = []
        wrong = None
        while (token := reader.u8()) == _ROW:
            start = reader.position
            try:
                rows.append(tuple([None if d is None else d(reader) for d in decoders]))
            except WrongLengthError:
                reader.position = start
                row, place = take_anyway(reader, decoders)
                rows.append(row)
                wrong = wrong or (len(rows), place)
        if token != _END:
            raise RemoteProtocolError(f"token 0x{token:02x} in a table-valued parameter")
        return cls(name, tuple(columns), tuple(rows), wrong)


def _skip_ordering(reader: Reader, columns: int) -> None:
    """What a client says of order and uniqueness, which the table's keys decide; then the end."""
    while (token := reader.u8()) != _END:
        if token not in {_ORDER_UNIQUE, _COLUMN_ORDERING}:
            raise RemoteProtocolError(f"token 0x{token:02x} in a table-valued parameter")
        count = reader.u16()
        if count > columns:
            raise RemoteProtocolError(f"order of {count} of {columns} columns")
        reader.take(count * (3 if token == _ORDER_UNIQUE else 2))
