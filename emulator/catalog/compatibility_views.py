"""Views of SQL Server 2000 that old scripts ask: sysdatabases, syscolumns, syscomments.

https://learn.microsoft.com/sql/relational-databases/system-compatibility-views/system-compatibility-views-transact-sql

What the documents call internal is 0 or NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from emulator.catalog.registry import VIEWS, Row, view
from emulator.catalog.visibility import visible_rows

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database

TEXT_CHARACTERS: Final = 4000
"""A longer definition has several rows in syscomments."""
_NULLABLE, _IDENTITY = 0x08, 0x80
"""Bits of syscolumns.status."""


def _rows(context: SessionContext, database: Database, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a catalog view that the session may see, by column name."""
    base = VIEWS["sys", name]
    names = [column.name for column in base.columns]
    for row in visible_rows(context, database, base):
        yield dict(zip(names, row, strict=True))


@view(
    "sys.sysdatabases",
    """name sysname, dbid smallint, sid varbinary(85), mode smallint, status int, status2 int,
 crdate datetime!, reserved datetime, category int, cmptlevel tinyint!, filename nvarchar(260),
 version smallint""",
)
def _sysdatabases(context: SessionContext, database: Database) -> Iterator[Row]:
    for row in _rows(context, database, "databases"):
        yield (
            *(row["name"], row["database_id"], row["owner_sid"], 0, 0, 0, row["create_date"]),
            *(None, 0, row["compatibility_level"], None, None),
        )


@view(
    "sys.syscolumns",
    """name sysname, id int!, xtype tinyint!, typestat tinyint, xusertype smallint,
 length smallint!, xprec tinyint!, xscale tinyint!, colid smallint, xoffset smallint,
 bitpos tinyint, reserved tinyint, colstat smallint, cdefault int!, domain int!, number smallint,
 colorder smallint, autoval varbinary(8000), offset smallint, collationid int, language int,
 status tinyint, type tinyint!, usertype smallint, printfmt varchar(255), prec smallint,
 scale int, iscomputed int, isoutparam int, isnullable int, collation sysname,
 tdscollation binary(5)""",
)
def _syscolumns(context: SessionContext, database: Database) -> Iterator[Row]:
    for row in _rows(context, database, "columns"):
        number, length = row["column_id"], row["max_length"]
        wide = row["system_type_id"] in {231, 239}  # nvarchar, nchar
        characters = length // 2 if wide and length > 0 else length
        identity, nullable = int(row["is_identity"]), int(row["is_nullable"])
        status = _NULLABLE * nullable + _IDENTITY * identity
        yield (
            *(row["name"], row["object_id"], row["system_type_id"], 0, row["user_type_id"], length),
            *(row["precision"], row["scale"], number, 0, 0, 0, identity),
            *(row["default_object_id"], 0, 0, number, None, 0, 0, 0, status),
            *(0, 0, None, row["precision"] or characters),
            *(row["scale"] if row["precision"] else None, int(row["is_computed"]), 0, nullable),
            *(row["collation_name"], None),
        )


@view(
    "sys.syscomments",
    """id int!, number smallint, colid smallint!, status smallint!, ctext varbinary(8000),
 texttype smallint, language smallint, encrypted bit!, compressed bit!, text nvarchar(4000)""",
)
def _syscomments(context: SessionContext, database: Database) -> Iterator[Row]:
    kinds = ("sql_modules", "check_constraints", "default_constraints")
    for row in (row for kind in kinds for row in _rows(context, database, kind)):
        text = row["definition"]
        if text is None or row["object_id"] < 0:
            continue
        pieces = range(0, max(len(text), 1), TEXT_CHARACTERS)
        for colid, start in enumerate(pieces, 1):
            piece = text[start : start + TEXT_CHARACTERS]
            in_bytes = piece.encode("utf-16-le")
            yield row["object_id"], 1, colid, 0, in_bytes, 2, 0, 0, 0, piece
