"""The canonical text of a value: one text, written by SQL Server and by Spark alike. Pure.

Both sides write the columns of a row one after another, and hash that text in UTF-16. So rows are
equal if their hashes are. Texts of other types than text have no semicolon, which ends
each of them. A text is preceded by its length in bytes, so no two rows have one text. NULL is a
minus sign alone.

What the lake holds by design of a value decides its text:

- time and datetime2 have microseconds; with ``lossless_columns`` all seven digits.
- datetime has the milliseconds that the driver shows, not the 1/300 s that are stored.
- float and real are the bits of the number: a decimal text would round.
- A masked column is its mask. Of a hashed column only NULL or not is compared, because the salt
  never leaves the publisher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tailrace_publisher.change.instance import CapturedColumn
from tailrace_publisher.snapshot.key_text import typed_parameter
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_publisher.source.pages.column_values import source_value
from tailrace_schemas.events.column_types import ColumnType, lake_type
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import TransformKind
from tailrace_sink.tables.lake_table import quote

_TEXT: Final = frozenset(
    {"char", "varchar", "text", "nchar", "nvarchar", "ntext", "sysname", "xml", "json"}
)
_BYTES: Final = frozenset(
    {"binary", "varbinary", "image", "timestamp", "hierarchyid", "geometry", "geography"}
)
_COLLATION: Final = "Latin1_General_BIN2"
_REAL_BITS: Final = 24
"""Mantissa bits up to which a float is stored as real."""
_NUMBER: Final = "CONVERT(nvarchar(41), {0})", "CAST({0} AS STRING)"
"""Integers and decimals; Spark writes decimals without an exponent (ANSI mode)."""
_MOMENT: Final = "date_format({0}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
_NANOS: Final = "CONVERT(nvarchar(34), CAST({0} AS datetimeoffset(7)), 121)"
_SECONDS: Final = "DATEDIFF(SECOND, CAST('00:00:00' AS time(7)), {0})"
_FORMS: Final = {
    "bit": ("CONVERT(nvarchar(1), {0})", "CAST(CAST({0} AS INT) AS STRING)"),
    "float": (
        "CONVERT(nvarchar(20), CAST(CAST({0} AS binary(8)) AS bigint))",
        "CASE WHEN {0} IS NOT NULL THEN reflect('java.lang.Double', 'doubleToLongBits', {0}) END",
    ),
    "real": (
        "CONVERT(nvarchar(20), CAST(CAST(CAST({0} AS real) AS binary(4)) AS int))",
        "CASE WHEN {0} IS NOT NULL THEN reflect('java.lang.Float', 'floatToIntBits', {0}) END",
    ),
    "money": ("CONVERT(nvarchar(40), {0}, 2)", "CAST({0} AS STRING)"),
    "smallmoney": ("CONVERT(nvarchar(40), {0}, 2)", "CAST({0} AS STRING)"),
    "date": ("CONVERT(nvarchar(10), {0}, 23)", "CAST({0} AS STRING)"),
    "datetime": ("CONVERT(nvarchar(23), {0}, 121) + N'000'", _MOMENT),
    "smalldatetime": ("CONVERT(nvarchar(19), {0}, 120) + N'.000000'", _MOMENT),
    "datetime2": ("LEFT(CONVERT(nvarchar(27), CAST({0} AS datetime2(7)), 121), 26)", _MOMENT),
    "time": (
        f"CONVERT(nvarchar(20), CAST({_SECONDS} AS bigint) * 1000000"
        " + DATEPART(NANOSECOND, {0}) / 1000)",
        "CAST({0} AS STRING)",
    ),
    "datetimeoffset": (f"STUFF(STUFF({_NANOS}, 28, 1, N''), 11, 1, N'T')", "{0}"),
    "uniqueidentifier": ("LOWER(CONVERT(nvarchar(36), {0}))", "{0}"),
    **dict.fromkeys(_TEXT, ("CONVERT(nvarchar(max), {0})", "{0}")),
    **dict.fromkeys(_BYTES, ("CONVERT(nvarchar(max), CAST({0} AS varbinary(max)), 2)", "hex({0})")),
}
"""By type: T-SQL and Spark SQL. Styles are those of CONVERT:
https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql"""

_ARGUMENTS_MAX: Final = 200
"""Arguments of one CONCAT; it takes 254."""

ROW_HASH_BYTES: Final = 16
"""The first bytes of a SHA-256: by chance, no two of 10^12 rows share them."""


@dataclass(frozen=True, slots=True)
class CanonicalColumn:
    """How both sides write the values of a column; NULL stays NULL.

    Attributes:
        source: T-SQL expression, an nvarchar.
        lake: Spark SQL expression, a string.
        lake_type: the lake's type of the source's values; empty if text of any type is compared.
        is_free: whether the text may have any characters.
        is_hidden: whether values are masked, cut or hashed by the options.
        is_presence: whether only NULL or not is compared.
    """

    name: str
    source: str
    lake: str
    is_free: bool = False
    is_hidden: bool = False
    is_presence: bool = False
    lake_type: str = ""


def canonical_column(column: SchemaColumn, stored: ColumnType) -> CanonicalColumn:
    """Return how the values of a published column are written.

    Args:
        stored: the type that the source table has.
    """
    name, lake = quote_name(column.name), quote(column.name)
    made = column.transform
    if made is not None:
        if made.kind is TransformKind.HASH:
            return CanonicalColumn(
                column.name,
                f"CASE WHEN {name} IS NOT NULL THEN N'1' END",
                f"CASE WHEN {lake} IS NOT NULL THEN '1' END",
                is_hidden=True,
                is_presence=True,
            )
        text = source_value(column, stored)
        if made.kind is TransformKind.TRUNCATE:
            text = _without_half_pair(text)
        return CanonicalColumn(column.name, text, lake, is_free=True, is_hidden=True)
    if column.lossless:
        text = f"CONVERT(nvarchar(27), {name}, 121)"
        return CanonicalColumn(column.name, text, lake)
    source, written = _texts(column.type, name, lake)
    is_free = column.type.name in _TEXT
    kind = lake_type(column.type)
    return CanonicalColumn(column.name, source, written, is_free=is_free, lake_type=kind)


def as_held(column: CanonicalColumn, held: str) -> CanonicalColumn:
    """Return a column whose lake type differs: it keeps the wider type that the source had once.

    A value that the source's type can hold is compared in that type. Any other one differs.

    Args:
        held: the type of the lake's column, as Spark names it.
    """
    if not column.lake_type or column.lake_type == held.upper():
        return column
    lake = quote(column.name)
    value = f"try_cast({lake} AS {column.lake_type})"
    written = column.lake.replace(lake, value)
    other = f"concat('other ', CAST({lake} AS STRING))"
    text = f"CASE WHEN {value} <=> {lake} THEN {written} ELSE {other} END"
    return replace(column, lake=text)


def _texts(declared: ColumnType, name: str, lake: str) -> tuple[str, str]:
    """Return the expressions of a type's values."""
    kind = declared.name
    if kind == "float" and 0 < declared.precision <= _REAL_BITS:
        kind = "real"
    source, written = _FORMS.get(kind, _NUMBER)
    return source.format(name), written.format(lake)


def _without_half_pair(text: str) -> str:
    """Return a cut text without half of a surrogate pair at its end, as it is published."""
    last = f"UNICODE(RIGHT({text}, 1))"
    shorter = f"LEFT({text}, DATALENGTH({text}) / 2 - 1)"
    return f"CASE WHEN {last} BETWEEN 55296 AND 56319 THEN {shorter} ELSE {text} END"


def source_row(columns: Iterable[CanonicalColumn]) -> str:
    """Return the T-SQL expression of the hash of a row's text."""
    # A sum of all would be nested as deep as there are columns (error 8631).
    # See: CONCAT (Transact-SQL), 254 arguments
    text = _joined([_source_part(column) for column in columns])
    return f"CAST(HASHBYTES('SHA2_256', {text}) AS binary({ROW_HASH_BYTES}))"


def _joined(parts: Sequence[str]) -> str:
    """Return the T-SQL expression of the texts one after another, an nvarchar(max)."""
    if len(parts) > _ARGUMENTS_MAX:
        starts = range(0, len(parts), _ARGUMENTS_MAX)
        parts = [_joined(parts[start : start + _ARGUMENTS_MAX]) for start in starts]
    # The first operand makes it nvarchar(max); others end at 4,000 characters.
    return f"CONCAT(CAST(N'' AS nvarchar(max)), {', '.join(parts)})"


def lake_row(columns: Iterable[CanonicalColumn]) -> str:
    """Return the Spark SQL expression of the hash of a row's text."""
    text = f"concat('', {', '.join(_lake_part(column) for column in columns)})"
    digits = f"sha2(encode({text}, 'UTF-16LE'), 256)"
    return f"unhex(substr({digits}, 1, {2 * ROW_HASH_BYTES}))"


def _source_part(column: CanonicalColumn) -> str:
    text = column.source
    if column.is_free:
        # Without one collation for all, columns of several collations conflict.
        value = f"CAST({text} AS nvarchar(max)) COLLATE {_COLLATION}"
        text = f"CONVERT(nvarchar(12), DATALENGTH({text})) + N':' + {value}"
    return f"ISNULL({text}, N'-') + N';'"


def _lake_part(column: CanonicalColumn) -> str:
    text = column.lake
    if column.is_free:
        length = f"octet_length(encode({text}, 'UTF-16LE'))"
        text = f"concat(CAST({length} AS STRING), ':', {text})"
    return f"coalesce({text}, '-'), ';'"


def equals_text(column: CapturedColumn, canonical: CanonicalColumn) -> str:
    """Return the T-SQL condition that a key column has the value of a canonical text.

    Its parameter is the text. It is a seek for types whose text converts back exactly; the values
    of others are written as text and compared.
    """
    declared = column.type
    match declared.name:
        case "datetime":
            value = "CONVERT(datetime, LEFT(?, 23), 121)"
        case "smalldatetime":
            value = "CONVERT(smalldatetime, LEFT(?, 19), 120)"
        case "binary" | "varbinary":
            value = f"CONVERT({declared}, ?, 2)"
        case "timestamp":
            value = "CONVERT(binary(8), ?, 2)"
        case "hierarchyid":
            value = "CAST(CONVERT(varbinary(892), ?, 2) AS hierarchyid)"
        case "datetime2" if declared.scale == 7:
            return f"{canonical.source} = ?"
        case "float" | "real" | "time" | "datetimeoffset":
            return f"{canonical.source} = ?"
        case _:
            value = typed_parameter(column)
    return f"{quote_name(column.name)} = {value}"
