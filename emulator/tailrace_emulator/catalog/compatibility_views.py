"""Views of SQL Server 2000 that old scripts ask: sysdatabases, syscolumns, syscomments.

https://learn.microsoft.com/sql/relational-databases/system-compatibility-views/system-compatibility-views-transact-sql

What the documents call internal is 0 or NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator.catalog.registry import VIEWS, Columns, Row, view
from tailrace_emulator.catalog.visibility import visible_rows

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

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


_SYSDATABASES: Final = Columns(
    """name sysname, dbid smallint, sid varbinary(85), mode smallint = 0, status int = 0,
 status2 int = 0, crdate datetime!, reserved datetime, category int = 0, cmptlevel tinyint!,
 filename nvarchar(260), version smallint"""
)


@view("sys.sysdatabases", _SYSDATABASES)
def _sysdatabases(context: SessionContext, database: Database) -> Iterator[Row]:
    for row in _rows(context, database, "databases"):
        yield _SYSDATABASES.row(
            name=row["name"],
            dbid=row["database_id"],
            sid=row["owner_sid"],
            crdate=row["create_date"],
            cmptlevel=row["compatibility_level"],
        )


_SYSCOLUMNS: Final = Columns(
    """name sysname, id int!, xtype tinyint!, typestat tinyint = 0, xusertype smallint,
 length smallint!, xprec tinyint!, xscale tinyint!, colid smallint, xoffset smallint = 0,
 bitpos tinyint = 0, reserved tinyint = 0, colstat smallint, cdefault int!, domain int! = 0,
 number smallint = 0, colorder smallint, autoval varbinary(8000), offset smallint = 0,
 collationid int = 0, language int = 0, status tinyint, type tinyint! = 0,
 usertype smallint = 0, printfmt varchar(255), prec smallint, scale int, iscomputed int,
 isoutparam int = 0, isnullable int, collation sysname, tdscollation binary(5)"""
)


@view("sys.syscolumns", _SYSCOLUMNS)
def _syscolumns(context: SessionContext, database: Database) -> Iterator[Row]:
    for row in _rows(context, database, "columns"):
        number, length = row["column_id"], row["max_length"]
        wide = row["system_type_id"] in {231, 239}  # nvarchar, nchar
        characters = length // 2 if wide and length > 0 else length
        identity, nullable = int(row["is_identity"]), int(row["is_nullable"])
        status = _NULLABLE * nullable + _IDENTITY * identity
        yield _SYSCOLUMNS.row(
            name=row["name"],
            id=row["object_id"],
            xtype=row["system_type_id"],
            xusertype=row["user_type_id"],
            length=length,
            xprec=row["precision"],
            xscale=row["scale"],
            colid=number,
            colstat=identity,
            cdefault=row["default_object_id"],
            colorder=number,
            status=status,
            prec=row["precision"] or characters,
            scale=row["scale"] if row["precision"] else None,
            iscomputed=int(row["is_computed"]),
            isnullable=nullable,
            collation=row["collation_name"],
        )


_SYSCOMMENTS: Final = Columns(
    """id int!, number smallint = 1, colid smallint!, status smallint! = 0, ctext varbinary(8000),
 texttype smallint = 2, language smallint = 0, encrypted bit! = 0, compressed bit! = 0,
 text nvarchar(4000)"""
)


@view("sys.syscomments", _SYSCOMMENTS)
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
            yield _SYSCOMMENTS.row(id=row["object_id"], colid=colid, ctext=in_bytes, text=piece)
