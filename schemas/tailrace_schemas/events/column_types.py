"""One row per SQL Server type: its Avro type and the lake's type.

Values use Avro's standard logical types. Exactness first: what an Avro type cannot hold has a
``lossless`` form (text), chosen for each column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

AvroSchema = dict[str, Any] | list[Any] | str
"""A schema, in the form of fastavro and JSON."""

MAX: Final = -1
"""``length`` of a (max) type."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A SQL Server column type as ``sys.columns`` and ``cdc.captured_columns`` describe it.

    Attributes:
        name: base type name in lower case (alias types resolved to their base).
        length: characters of n(var)char, bytes of (var)char and (var)binary; ``MAX``; else 0.
        precision: digits of decimal and numeric, mantissa bits of float; else 0.
        scale: digits after the point of decimal; fractional digits of time types; else 0.
    """

    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """The declaration, as DDL would write it; parsed back by :meth:`parse`."""
        if self.name in {"decimal", "numeric"}:
            return f"{self.name}({self.precision},{self.scale})"
        if self.name in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}:
            return f"{self.name}({'max' if self.length == MAX else self.length})"
        if self.name in {"time", "datetime2", "datetimeoffset"}:
            return f"{self.name}({self.scale})"
        if self.name == "float":
            return f"float({self.precision or 53})"
        return self.name

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """Read what :meth:`__str__` wrote.

        Raises:
            ValueError: the text has another form.
        """
        name, _, rest = text.partition("(")
        if not rest:
            return cls(name)
        if not rest.endswith(")"):
            raise ValueError(f"not a SQL Server type: {text!r}")
        numbers = [MAX if part == "max" else int(part) for part in rest[:-1].split(",")]
        if name in {"decimal", "numeric"}:
            return cls(name, precision=numbers[0], scale=numbers[1])
        if name in {"time", "datetime2", "datetimeoffset"}:
            return cls(name, scale=numbers[0])
        if name == "float":
            return cls(name, precision=numbers[0])
        return cls(name, length=numbers[0])

    @property
    def is_large(self) -> bool:
        """Whether a change table may hold NULL where the source does not (LOB rules of CDC).

        Values of CLR types may be as large as those of varbinary(max), and are kept like them.
        """
        return self.length == MAX or self.name in _LARGE


_LARGE: Final = frozenset(
    {"text", "ntext", "image", "xml", "json", "hierarchyid", "geometry", "geography"}
)


class UnsupportedType(ValueError):
    """A type that change events cannot carry; capture the table without the column."""

    retryable = False


def _logical(avro_type: str, logical_type: str) -> dict[str, Any]:
    return {"type": avro_type, "logicalType": logical_type}


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


_PLAIN: Final[dict[str, tuple[AvroSchema, str]]] = {
    "bit": ("boolean", "BOOLEAN"),
    "tinyint": ("int", "SMALLINT"),  # unsigned at the source, so one size up
    "smallint": ("int", "SMALLINT"),
    "int": ("int", "INT"),
    "bigint": ("long", "BIGINT"),
    "real": ("float", "FLOAT"),
    "money": (_decimal(19, 4), "DECIMAL(19,4)"),
    "smallmoney": (_decimal(10, 4), "DECIMAL(10,4)"),
    "char": ("string", "STRING"),
    "varchar": ("string", "STRING"),
    "text": ("string", "STRING"),
    "nchar": ("string", "STRING"),
    "nvarchar": ("string", "STRING"),
    "ntext": ("string", "STRING"),
    "sysname": ("string", "STRING"),
    "xml": ("string", "STRING"),
    "json": ("string", "STRING"),
    "binary": ("bytes", "BINARY"),
    "varbinary": ("bytes", "BINARY"),
    "image": ("bytes", "BINARY"),
    "timestamp": ("bytes", "BINARY"),
    "hierarchyid": ("bytes", "BINARY"),
    "geometry": ("bytes", "BINARY"),
    "geography": ("bytes", "BINARY"),
    "date": (_logical("int", "date"), "DATE"),
    "smalldatetime": (_logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ"),
    "datetime": (_logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ"),
    "datetime2": (_logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ"),
    "time": (_logical("long", "time-micros"), "BIGINT"),  # microseconds since midnight
    "datetimeoffset": ("string", "STRING"),  # ISO 8601 with 7 digits and the offset: exact
    "uniqueidentifier": (_logical("string", "uuid"), "STRING"),
}

SCALARS: Final = tuple(_PLAIN)
"""Names of the types whose Avro form does not depend on precision: all but decimal and float."""


def avro_type(column_type: ColumnType, *, lossless: bool = False) -> AvroSchema:
    """Return the Avro type of a column's values.

    Args:
        lossless: whether time and datetime2 of scale 7 are text with all seven digits. If not, they
            are microseconds, the 100 ns digit is cut, and the field's ``sqlType`` shows it.

    Raises:
        UnsupportedType: Avro has no such type.
    """
    if lossless and column_type.name in {"time", "datetime2"} and column_type.scale == 7:
        return "string"
    if column_type.name in {"decimal", "numeric"}:
        return _decimal(column_type.precision, column_type.scale)
    if column_type.name == "float":
        return "float" if 0 < column_type.precision <= 24 else "double"
    if column_type.name in _PLAIN:
        return _PLAIN[column_type.name][0]
    raise UnsupportedType(f"SQL Server type {column_type} has no Avro form")


def lake_type(column_type: ColumnType, *, lossless: bool = False) -> str:
    """The Spark SQL type of a column in the lake.

    Raises:
        UnsupportedType: the lake has no such type.
    """
    if lossless and column_type.name in {"time", "datetime2"} and column_type.scale == 7:
        return "STRING"
    if column_type.name in {"decimal", "numeric"}:
        return f"DECIMAL({column_type.precision},{column_type.scale})"
    if column_type.name == "float":
        return "FLOAT" if 0 < column_type.precision <= 24 else "DOUBLE"
    if column_type.name in _PLAIN:
        return _PLAIN[column_type.name][1]
    raise UnsupportedType(f"SQL Server type {column_type} has no lake form")
