"""How system views declare themselves: columns as text, rows as a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emulator.results import ColumnMeta
from emulator.types import (
    BIGINT,
    BIT,
    DATETIME,
    INT,
    MAX,
    SMALLINT,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    StorageValue,
    nvarchar,
    varbinary,
    varchar,
)

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database

Row = tuple[StorageValue, ...]
RowProducer = Callable[["SessionContext", "Database"], Iterable[Row]]

_PLAIN: Final[dict[str, SqlType]] = {
    "sysname": SYSNAME,
    "int": INT,
    "bigint": BIGINT,
    "smallint": SMALLINT,
    "tinyint": TINYINT,
    "bit": BIT,
    "datetime": DATETIME,
    "uniqueidentifier": UNIQUEIDENTIFIER,
    "float": SqlType("float", precision=53),
    "real": SqlType("real", precision=24),
    "xml": SqlType("xml"),
    "sql_variant": SqlType("sql_variant"),
}
_SIZED: Final = re.compile(r"(\w+)\((\d+|max)\)")


def parse_type(text: str) -> SqlType:
    """A type as the declarations here write it, such as ``nvarchar(60)``."""
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain
    match = _SIZED.fullmatch(text)
    if match is None:
        raise ValueError(f"unknown type {text!r} in a system view's declaration")
    name = match[1]
    size = MAX if match[2] == "max" else int(match[2])
    if name == "nvarchar":
        return nvarchar(size)
    if name == "varchar":
        return varchar(size)
    if name == "varbinary":
        return varbinary(size)
    if name in {"datetimeoffset", "datetime2"}:
        return SqlType(name, scale=size)
    if name in {"char", "nchar"}:
        return SqlType(name, length=size, collation=SYSNAME.collation)
    return SqlType(name, length=size)


def parse_columns(text: str) -> tuple[ColumnMeta, ...]:
    """Column declarations separated by commas: ``name type``, with ``!`` after it for NOT NULL."""
    columns = []
    for item in text.replace("\n", " ").split(","):
        name, _, declared = item.strip().partition(" ")
        columns.append(
            ColumnMeta(name, parse_type(declared.rstrip("!")), not declared.endswith("!"))
        )
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class SystemView:
    """A view of the catalog: its columns, and what yields its rows for a database.

    ``permission`` is what reading it needs in the database; empty for none.
    """

    schema: str
    name: str
    columns: tuple[ColumnMeta, ...]
    produce: RowProducer
    permission: str = ""

    def rows(self, context: SessionContext, database: Database) -> list[Row]:
        """All rows; emulator.catalog.visibility has those that the session may see."""
        return list(self.produce(context, database))


class SystemViews:
    """Views that were declared together: the system's own, or those of an extension."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], SystemView] = {}
        """By (schema, name), casefolded."""

    def view(
        self, name: str, columns: str, permission: str = ""
    ) -> Callable[[RowProducer], RowProducer]:
        """Registers a function as the system view ``schema.name``."""
        schema, _, plain = name.partition(".")

        def register(produce: RowProducer) -> RowProducer:
            self.by_name[schema.casefold(), plain.casefold()] = SystemView(
                schema, plain, parse_columns(columns), produce, permission
            )
            return produce

        return register


SYSTEM_VIEWS: Final = SystemViews()
"""The system's own."""
VIEWS: Final = SYSTEM_VIEWS.by_name
view = SYSTEM_VIEWS.view
